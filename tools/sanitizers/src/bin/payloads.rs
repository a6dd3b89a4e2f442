//! Threads that write to their pages without atomics, for ThreadSanitizer: a page comes to its next owner with all that
//! the last one did to it, or that is a race.
//!
//! The core has atomics alone, in which the sanitizer finds no race. It sees an ordering that is missing by the pages:
//! each owner writes plain words to its block, and reads them back before it frees. Blocks also go from thread to
//! thread, by slots whose swap orders them.
//!
//! | way of a block | what takes it |
//! |---|---|
//! | a CPU's lists | blocks of orders 0 to 3, freed where they were allocated |
//! | remote frees | blocks from the slots |
//! | leases | threads end and others take their CPUs, with the lists; two of the eight find none and share the last |
//! | a handle of a thread | every fourth thread has a `LocalArena` |
//! | drains, deferred frees | the main thread drains all CPUs, as does a request that may wait; memory is short |
//!
//! Usage: `payloads OPERATIONS [relaxed]`, or `payloads late`. With `relaxed`, slots are swapped without an order; with
//! `late`, a thread writes to a page that it freed, when the next owner has written there. The sanitizer must report both.
//!
//! Built by `ci/sanitizers.sh` with `--cfg framewright_tsan`, because the sanitizer does not know fences.
#![allow(unsafe_code, reason = "blocks are owned by their numbers, and written to as C programs would")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use framewright::request::{__GFP_ZERO, GFP_KERNEL, GFP_NOWAIT, Gfp};
use framewright::{Order, Pfn, Request};
use framewright_rt::{Arena, CpuMode, LocalArena, Pages};

const THREADS: usize = 8;
/// Six to lease besides that of the main thread, and one that the others share.
const CPUS: usize = 8;
/// Generations of threads.
const ROUNDS: usize = 16;
const BYTES: u64 = 16 << 20;
/// Blocks that a thread holds at most: all threads together want more than there is.
const HELD: usize = 240;
const SLOTS: usize = 64;

/// Blocks between threads, each as its mark, or 0.
struct Stage {
    slots: [AtomicU64; SLOTS],
    order: Ordering,
    operations: AtomicUsize,
}

/// A thread's numbers by chance.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % below
    }
}

/// The first and the last word of a block.
fn words(pages: &Pages<'_>) -> [*mut u64; 2] {
    let start = pages.address().as_ptr().cast::<u64>();
    [start, start.wrapping_add(pages.len() / 8 - 1)]
}

/// What the owner of a block writes there. Not 0.
fn mark(pages: &Pages<'_>) -> u64 {
    (pages.pfn().0 + 1) << 8 | u64::from(pages.order().0)
}

/// The block of a mark that was taken out of a slot.
fn marked(arena: &Arena, mark: u64) -> Pages<'_> {
    // SAFETY: the thread that put the mark there gave the block up, and the swap has one receiver.
    let pages = unsafe { Pages::from_raw(arena, Pfn((mark >> 8) - 1), Order(mark as u8)) };
    pages.expect("the block is allocated")
}

fn write(pages: &Pages<'_>) {
    for word in words(pages) {
        // SAFETY: the block is the caller's.
        unsafe { word.write(mark(pages)) };
    }
}

fn check(pages: &Pages<'_>) {
    for word in words(pages) {
        // SAFETY: as above.
        assert_eq!(unsafe { word.read() }, mark(pages), "the contents of {pages:?}");
    }
}

/// A thread, and the blocks that it owns.
struct Worker<'a> {
    arena: &'a Arena,
    local: Option<LocalArena<'a>>,
    stage: &'a Stage,
    held: Vec<Pages<'a>>,
    chance: Chance,
}

impl<'a> Worker<'a> {
    fn alloc(&mut self) {
        const FLAGS: [Gfp; 2] = [GFP_NOWAIT, GFP_KERNEL];
        let order = [0, 0, 0, 0, 1, 2, 3, 0][self.chance.next(8)];
        // Where memory is short, a request that may wait drains the CPUs.
        let gfp = FLAGS[usize::from(self.chance.next(64) == 0)];
        let gfp = if self.chance.next(16) == 0 { gfp | __GFP_ZERO } else { gfp };
        let request = Request::new(gfp, order);
        let pages = match &self.local {
            Some(local) => local.alloc(&request),
            None => self.arena.alloc(&request),
        };
        if let Ok(pages) = pages {
            write(&pages);
            self.held.push(pages);
        }
    }

    fn free(&mut self, pages: Pages<'a>) {
        check(&pages);
        match &self.local {
            Some(local) => local.free(pages),
            None => drop(pages),
        }
    }

    fn take(&mut self) -> Option<Pages<'a>> {
        (!self.held.is_empty()).then(|| self.held.swap_remove(self.chance.next(self.held.len())))
    }

    /// Puts a block of this thread into a slot, or none; frees what was there.
    fn pass(&mut self) {
        let slot = &self.stage.slots[self.chance.next(SLOTS)];
        let gone = self.take().map_or(0, |pages| {
            let mark = mark(&pages);
            let _ = pages.into_raw();
            mark
        });
        let come = slot.swap(gone, self.stage.order);
        if come != 0 {
            self.free(marked(self.arena, come));
        }
    }

    fn work(mut self, operations: usize) {
        for _ in 0..operations {
            match self.chance.next(256) {
                0..112 if self.held.len() < HELD => self.alloc(),
                0..224 => {
                    if let Some(pages) = self.take() {
                        self.free(pages);
                    }
                }
                _ => self.pass(),
            }
        }
        self.stage.operations.fetch_add(operations, Ordering::Relaxed);
        while let Some(pages) = self.take() {
            self.free(pages);
        }
    }
}

/// The planted fault: writes to a freed page after its next owner did.
///
/// The other thread's word that it wrote has no order, so nothing makes its write happen before this one. No run is
/// without the race, whatever the threads' turns.
fn late(arena: &'static Arena) {
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    let alloc = || arena.alloc(&Request::new(GFP_NOWAIT, 0)).expect("a page");
    let pages = alloc();
    write(&pages);
    let (pfn, [word, _]) = (pages.pfn(), words(&pages));
    drop(pages);
    arena.drain();
    let other = std::thread::spawn(move || {
        let mut held = vec![alloc()];
        while held.last().is_some_and(|last| last.pfn() != pfn) {
            held.push(alloc());
        }
        held.iter().for_each(write);
        WRITTEN.store(true, Ordering::Relaxed);
    });
    while !WRITTEN.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    // SAFETY: none, it is the planted fault: the block is another thread's by now, or of nobody. It is mapped.
    unsafe { word.write(0) };
    other.join().expect("a thread that panicked");
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let builder = Arena::builder().size(BYTES).cpu_mode(CpuMode::Lease).cpus(CPUS).without_background();
    // For ever, because the sanitizer takes what `std::thread::scope` does for a race: it is not instrumented.
    let arena: &Arena = Box::leak(Box::new(builder.build().expect("memory for the arena")));
    let (operations, order) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["late"] => {
            late(arena);
            return ExitCode::SUCCESS;
        }
        [operations] => (operations.parse(), Ordering::AcqRel),
        [operations, "relaxed"] => (operations.parse(), Ordering::Relaxed),
        _ => {
            eprintln!("usage: payloads OPERATIONS [relaxed] | payloads late");
            return ExitCode::from(2);
        }
    };
    let operations: usize = operations.expect("a number of operations");
    let stage = Stage { slots: [const { AtomicU64::new(0) }; SLOTS], order, operations: AtomicUsize::new(0) };
    let stage: &Stage = Box::leak(Box::new(stage));
    for round in 0..ROUNDS {
        let threads = (0..THREADS).map(|thread| {
            std::thread::spawn(move || {
                let local = if thread % 4 == 0 { arena.local() } else { None };
                let chance = Chance((round * THREADS + thread + 1) as u64 * 0x9e37_79b9_7f4a_7c15);
                let worker = Worker { arena, local, stage, held: Vec::new(), chance };
                worker.work(operations / ROUNDS / THREADS);
            })
        });
        let threads: Vec<_> = threads.collect();
        for _ in 0..8 {
            std::thread::yield_now();
            arena.drain();
        }
        threads.into_iter().for_each(|thread| thread.join().expect("a thread that panicked"));
    }
    for slot in &stage.slots {
        let left = slot.swap(0, Ordering::AcqRel);
        if left != 0 {
            drop(marked(arena, left));
        }
    }
    let counts = arena.validate().expect("every invariant holds");
    assert_eq!((counts.allocated, arena.refused_frees()), (0, 0));
    println!(
        "payloads: {} operations of {THREADS} threads, {ROUNDS} generations",
        stage.operations.load(Ordering::Relaxed)
    );
    ExitCode::SUCCESS
}
