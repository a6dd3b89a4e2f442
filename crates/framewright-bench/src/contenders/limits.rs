//! The limits: the least that handing out a frame number through a call can cost.
//!
//! | contender | what it does |
//! |---|---|
//! | `stack-call` | an array stack of block numbers for each thread: a bound check, a load, a store of the length |
//! | `stack-state` | `stack-call` with one byte of state for each block, which is checked and set, plainly |
//!
//! Neither is an allocator: a thread whose stack is empty gets nothing, however much the others have. An allocator that
//! checks what is freed cannot be below `stack-state`; where threads free each other's blocks the byte's cache line was
//! last written by another core, so there it is the fair limit. Cheaper still would be a stack inlined into its caller,
//! which no program that calls an allocator in another crate has.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cell::Cells;
use crate::contender::{Contender, Handle, Setup, Work};
use crate::entry::{Entry, Role};
use crate::workload::Shape;

/// A stack belongs to one thread: only that thread can allocate the blocks that it frees.
fn suits(shape: Shape) -> bool {
    !matches!(shape, Shape::ProducerConsumer)
}

/// The limits that are stacks.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry {
        name: "stack-call",
        about: "limit: an array stack for each thread, behind a call",
        make: |setup| Ok(Box::new(Stacks::new(setup)) as Box<dyn Cells>),
        ..LIMIT
    },
    Entry {
        name: "stack-state",
        about: "limit: the same, with a checked byte of state for each block",
        make: |setup| Ok(Box::new(CheckedStacks::new(setup)) as Box<dyn Cells>),
        ..LIMIT
    },
];

/// The common part of the rows.
const LIMIT: Entry = Entry { role: Role::Limit, suits, ..Entry::peer("", "", |_| Err(String::new())) };

/// An array stack of block numbers, on cache lines of its own (two, because processors fetch them in pairs): one
/// thread's length beside another's would cost five times the stack.
#[repr(align(128))]
struct Stack {
    blocks: Box<[u32]>,
    used: usize,
}

impl Stack {
    /// Thread `thread`'s part of all blocks, with room for all.
    fn new(setup: &Setup, thread: usize) -> Stack {
        let count = setup.frames >> setup.order;
        let part = count / setup.threads.max(1);
        let mut blocks = vec![0; count].into_boxed_slice();
        let first = part * thread;
        for (slot, block) in blocks.iter_mut().zip((first..first + part).rev()) {
            *slot = (block << setup.order) as u32;
        }
        Stack { blocks, used: part }
    }

    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let top = self.used.wrapping_sub(1);
        let block = *self.blocks.get(top)?;
        self.used = top;
        Some(block)
    }

    #[inline]
    fn push(&mut self, block: u32) -> bool {
        let Some(slot) = self.blocks.get_mut(self.used) else { return false };
        *slot = block;
        self.used += 1;
        true
    }
}

impl Handle for Stack {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        self.pop().map(u64::from)
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        self.push(block as u32)
    }
}

/// The limit without checks.
struct Stacks(Vec<Mutex<Stack>>);

impl Stacks {
    fn new(setup: &Setup) -> Stacks {
        Stacks((0..setup.threads).map(|thread| Mutex::new(Stack::new(setup, thread))).collect())
    }

    /// The stack of a thread, also after a panic of another user.
    fn lock(&self, thread: usize) -> MutexGuard<'_, Stack> {
        self.0[thread].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contender for Stacks {
    fn attach<W: Work>(&self, thread: usize, work: W) -> W::Out {
        work.run(&mut *self.lock(thread))
    }
}

const FREE: u8 = 0;
const ALLOCATED: u8 = 1;

/// The limit with a byte of state for each block, shared by all threads.
struct CheckedStacks {
    stacks: Stacks,
    states: Vec<AtomicU8>,
}

impl CheckedStacks {
    fn new(setup: &Setup) -> CheckedStacks {
        let states = (0..setup.frames).map(|_| AtomicU8::new(FREE)).collect();
        CheckedStacks { stacks: Stacks::new(setup), states }
    }
}

/// A thread's stack, and everybody's states.
struct CheckedStack<'a> {
    stack: &'a mut Stack,
    states: &'a [AtomicU8],
}

impl CheckedStack<'_> {
    /// Sets a block's state, if it was the other one.
    #[inline]
    fn turn(&self, block: u32, from: u8, to: u8) -> Option<()> {
        let state = self.states.get(block as usize)?;
        if state.load(Ordering::Relaxed) != from {
            return None;
        }
        state.store(to, Ordering::Relaxed);
        Some(())
    }
}

impl Handle for CheckedStack<'_> {
    #[inline(never)]
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64> {
        let block = self.stack.pop()?;
        self.turn(block, FREE, ALLOCATED)?;
        Some(u64::from(block))
    }

    #[inline(never)]
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool {
        let block = block as u32;
        self.turn(block, ALLOCATED, FREE).is_some() && self.stack.push(block)
    }
}

impl Contender for CheckedStacks {
    fn attach<W: Work>(&self, thread: usize, work: W) -> W::Out {
        let mut stack = self.stacks.lock(thread);
        work.run(&mut CheckedStack { stack: &mut stack, states: &self.states })
    }
}
