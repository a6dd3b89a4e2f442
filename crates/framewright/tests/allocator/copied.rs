//! A machine whose memory can be copied: its words are indices into one array.
//!
//! After each store of a CPU a watcher may be called. It copies the array, makes the calls of another CPU, and puts the
//! array back. The CPU that stored goes on and does not notice.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::resume_unwind;

use framewright::machine::{Busy, Machine, NoPerCpu, Ordering, Patience, Pinned, Word};
use framewright::{CpuId, NodeId};

type Watcher = Box<dyn FnMut()>;

thread_local! {
    static WORDS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
    /// Whether each word was read since this was set; empty if nobody asks.
    static READ: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
    /// Loads until the calls count as endless.
    static LOADS_LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static CPU: Cell<CpuId> = const { Cell::new(CpuId(0)) };
}

/// The payload with which a wait for a turn unwinds: no other thread runs that could end it.
pub(crate) struct Waits;

/// The values of all words.
pub(crate) fn copy() -> Vec<u64> {
    WORDS.with_borrow(Clone::clone)
}

/// Sets all words.
pub(crate) fn put_back(words: &[u64]) {
    WORDS.with_borrow_mut(|all| all.clone_from_slice(words));
}

/// Returns for each word whether `calls` reads it.
pub(crate) fn read_by(calls: impl FnOnce()) -> Vec<bool> {
    READ.set(vec![false; WORDS.with_borrow(Vec::len)]);
    calls();
    READ.take()
}

/// From now on, more loads than these are a panic, once.
pub(crate) fn allow_loads(loads: u64) {
    LOADS_LEFT.set(loads);
}

/// Calls come from this CPU from now on.
pub(crate) fn run_on(cpu: CpuId) {
    CPU.set(cpu);
}

/// The CPU that calls come from.
pub(crate) fn running_cpu() -> CpuId {
    CPU.get()
}

/// Sets a watcher, which is called after each store from now on but its own.
pub(crate) fn watch(watcher: impl FnMut() + 'static) {
    WATCHER.set(Some(Box::new(watcher)));
}

/// Removes the watcher.
pub(crate) fn unwatch() {
    WATCHER.set(None);
}

fn changed() {
    if let Some(mut watcher) = WATCHER.take() {
        watcher();
        WATCHER.set(Some(watcher));
    }
}

fn loaded(word: usize) {
    READ.with_borrow_mut(|read| read.get_mut(word).map(|read| *read = true));
    let left = LOADS_LEFT.get().checked_sub(1);
    LOADS_LEFT.set(left.unwrap_or(u64::MAX));
    assert!(left.is_some(), "a call without an end");
}

/// The other methods of a word whose thread is alone, by its `load` and `store`.
macro_rules! by_load_and_store {
    ($int:ty) => {
        fn swap(&self, value: $int, order: Ordering) -> $int {
            let before = self.load(order);
            self.store(value, order);
            before
        }

        fn cas(&self, current: $int, new: $int, order: Ordering) -> Result<$int, $int> {
            match self.load(order) {
                now if now == current => Ok(self.swap(new, order)),
                now => Err(now),
            }
        }

        fn add(&self, value: $int, order: Ordering) -> $int {
            self.swap(self.load(order).wrapping_add(value), order)
        }

        fn wait_while(&self, patience: Patience, mut waiting: impl FnMut($int) -> bool) -> Result<$int, Busy> {
            let value = self.load(Ordering::Acquire);
            match patience {
                _ if !waiting(value) => Ok(value),
                Patience::Turn => resume_unwind(Box::new(Waits)),
                Patience::Tries(_) => Err(Busy),
            }
        }
    };
}
pub(crate) use by_load_and_store;

/// A word by its place.
pub(crate) struct Place<T>(usize, PhantomData<T>);

macro_rules! places {
    ($($int:ty),+) => { $(
        impl Word<$int> for Place<$int> {
            fn new(value: $int) -> Self {
                WORDS.with_borrow_mut(|all| {
                    all.push(value as u64);
                    Place(all.len() - 1, PhantomData)
                })
            }

            fn load(&self, _: Ordering) -> $int {
                loaded(self.0);
                WORDS.with_borrow(|all| all[self.0]) as $int
            }

            fn store(&self, value: $int, _: Ordering) {
                WORDS.with_borrow_mut(|all| all[self.0] = value as u64);
                changed();
            }

            by_load_and_store!($int);
        }
    )+ };
}

places!(u8, u16, u32, u64, usize);

/// The CPU that calls come from.
pub(crate) struct Here;

impl Pinned for Here {
    fn cpu(&self) -> CpuId {
        CPU.get()
    }

    fn node(&self) -> NodeId {
        NodeId(0)
    }
}

/// See the module's description.
pub(crate) struct Copied;

impl Machine for Copied {
    type U8 = Place<u8>;
    type U16 = Place<u16>;
    type U32 = Place<u32>;
    type U64 = Place<u64>;
    type Usize = Place<usize>;
    type Pin<'a> = Here;
    type Irq<'a> = ();
    type PerCpu<T> = NoPerCpu;

    fn pin(&self) -> Here {
        Here
    }

    fn irq_save(&self) {}

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn fence(&self) {}
}
