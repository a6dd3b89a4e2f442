//! A CPU that its holder keeps for long, or has forgotten. A caller that must not wait does not, and no CPU is lost for
//! good.

use std::mem::forget;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Duration;

use framewright::request::{GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::{AllocError, Order, Request, Why};
use framewright_rt::{Arena, CpuMode, Pages};

/// Long enough that only a wait without an end lasts longer.
const FOR_EVER: Duration = Duration::from_secs(60);
const FRAMES: u64 = 4096;

/// One CPU, which all threads share.
fn shared() -> Arc<Arena> {
    Arc::new(Arena::builder().size(FRAMES << 12).cpus(1).without_background().build().unwrap())
}

/// A thread that has a [`framewright_rt::LocalArena`], and forgets it when it is told to end.
struct Holder {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Holder {
    fn start(arena: &Arc<Arena>, locals: usize) -> Holder {
        let (arena, (end, ended), (has, had)) = (Arc::clone(arena), channel(), channel());
        let thread = std::thread::spawn(move || {
            (0..locals).for_each(|_| forget(arena.local().unwrap()));
            has.send(()).unwrap();
            let _: Result<(), _> = ended.recv();
        });
        had.recv().unwrap();
        Holder { end, thread }
    }

    fn end(self) {
        drop(self.end);
        self.thread.join().unwrap();
    }
}

/// The result of `work` on another thread, which is started before any holder.
///
/// A thread that is started after a holder's end may get its mark.
fn later<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (Sender<()>, Receiver<T>) {
    let ((go, gone), (tell, told)) = (channel::<()>(), channel());
    std::thread::spawn(move || {
        gone.recv().unwrap();
        let _ = tell.send(work());
    });
    (go, told)
}

fn finish<T>((go, told): (Sender<()>, Receiver<T>), what: &str) -> T {
    go.send(()).unwrap();
    told.recv_timeout(FOR_EVER).unwrap_or_else(|_| panic!("{what}: waits for ever"))
}

/// Blocks of many orders, one by one and in bulk, with `gfp`, and freed in all ways.
fn allocate_without_waiting(arena: &Arena, gfp: framewright::Gfp) -> usize {
    let mut held: Vec<Pages<'_>> = (0..=9).map(|order| arena.alloc(&Request::new(gfp, order)).unwrap()).collect();
    arena.alloc_bulk(&Request::page(gfp), 100, &mut held).unwrap();
    held.iter_mut().for_each(|block| block[0] = 1);
    let served = held.len();
    // SAFETY: the frames are this function's: taken out of their blocks.
    let allocator = unsafe { arena.allocator() };
    let (pages, blocks): (Vec<_>, Vec<_>) = held.into_iter().partition(|block| block.order() == Order(0));
    let pages: Vec<_> = pages.into_iter().map(|page| page.into_raw().0).collect();
    assert_eq!(allocator.free_bulk(&pages, Order(0)).refused, 0);
    drop(blocks);
    served
}

#[test]
fn who_must_not_wait_is_served_while_a_holder_sleeps() {
    for gfp in [GFP_NOWAIT, GFP_ATOMIC] {
        let arena = shared();
        let theirs = Arc::clone(&arena);
        let others = later(move || allocate_without_waiting(&theirs, gfp));
        let holder = Holder::start(&arena, 1);
        assert_eq!(finish(others, "a request that must not wait"), 110);
        holder.end();
        assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
    }
}

/// A range, and a block at a place, need a CPU for many steps: without one they say so.
#[test]
fn calls_that_need_a_cpu_say_so() {
    let arena = shared();
    let theirs = Arc::clone(&arena);
    let others = later(move || {
        // SAFETY: nothing is freed through it.
        let allocator = unsafe { theirs.allocator() };
        let range = framewright::PfnRange::new(0, 600);
        let at = allocator.alloc_at(framewright::Pfn(0), Order(9), GFP_NOWAIT).map(drop);
        let contig = allocator.alloc_contig(1 << 13, Order(0), &Request::page(GFP_NOWAIT)).map(drop);
        [at, allocator.alloc_range(range, GFP_ATOMIC), contig]
    });
    let holder = Holder::start(&arena, 1);
    let would_wait = Err(AllocError::no_memory(Why::WouldWait));
    assert_eq!(finish(others, "a range"), [would_wait; 3]);
    holder.end();
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

/// Memory runs out as ever, without a CPU too.
#[test]
fn without_a_cpu_all_memory_can_be_had_and_freed() {
    let arena = shared();
    let theirs = Arc::clone(&arena);
    let others = later(move || {
        let held: Vec<_> = std::iter::from_fn(|| theirs.alloc(&Request::page(GFP_NOWAIT)).ok()).collect();
        held.len() as u64
    });
    let holder = Holder::start(&arena, 1);
    assert_eq!(finish(others, "all memory"), FRAMES);
    holder.end();
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

/// All free memory is single pages in movable pageblocks.
///
/// They are of another mobility, and too little for mechanisms that keep mobilities apart.
#[test]
fn without_a_cpu_mobilities_are_mixed_before_a_request_fails() {
    for gfp in [GFP_NOWAIT, GFP_ATOMIC] {
        let arena = shared();
        let mut held: Vec<Pages<'static>> = Vec::new();
        let theirs: &'static Arena = Box::leak(Box::new(Arc::clone(&arena)));
        while let Ok(page) = theirs.alloc(&Request::page(GFP_HIGHUSER_MOVABLE)) {
            held.push(page);
        }
        held.sort_by_key(|page| page.frames().start);
        let mut parity = 0;
        held.retain(|_| {
            parity += 1;
            parity % 2 == 0
        });
        let others =
            later(move || (0..FRAMES / 2).filter(|_| theirs.alloc(&Request::page(gfp)).map(forget).is_ok()).count());
        let holder = Holder::start(&arena, 1);
        assert_eq!(finish(others, "single pages") as u64, FRAMES / 2);
        holder.end();
        drop(held);
    }
}

/// A thread that has ended holds nothing, whatever it forgot, and how often.
#[test]
fn a_thread_that_ends_leaves_what_it_forgot() {
    for mode in [CpuMode::Lease, CpuMode::PerCpu] {
        let builder = Arena::builder().size(FRAMES << 12).cpus(2).cpu_mode(mode).without_background();
        let arena = Arc::new(builder.build().unwrap());
        let theirs = Arc::clone(&arena);
        let others = later(move || {
            let page = theirs.alloc(&Request::page(GFP_KERNEL)).unwrap();
            drop(page);
            (theirs.drain(), theirs.validate().unwrap().free)
        });
        // More than there are CPUs, spares included.
        let holders: Vec<_> = (0..24)
            .map(|_| {
                let holder = Holder::start(&arena, 3);
                // In turn where they would wait for one another.
                if mode == CpuMode::Lease {
                    holder.end();
                    None
                } else {
                    Some(holder)
                }
            })
            .take(if mode == CpuMode::PerCpu { 2 } else { 24 })
            .collect();
        holders.into_iter().flatten().for_each(Holder::end);
        let (_, free) = finish(others, "a request that may wait");
        assert_eq!(free, FRAMES, "{mode:?}");
    }
}

/// More threads than CPUs open a handle and keep it. All threads allocate meanwhile, with a handle or without.
#[test]
fn handles_that_stay_open_leave_a_cpu_to_all_calls() {
    const THREADS: usize = 12;
    for mode in [CpuMode::Lease, CpuMode::PerCpu] {
        let builder = Arena::builder().size(FRAMES << 12).cpus(4).cpu_mode(mode).without_background();
        let arena = Arc::new(builder.build().unwrap());
        let (all, (tell, told)) = (Arc::new(Barrier::new(THREADS)), channel());
        for _ in 0..THREADS {
            let (arena, all, tell) = (Arc::clone(&arena), Arc::clone(&all), tell.clone());
            std::thread::spawn(move || {
                let (local, request) = (arena.local(), Request::page(GFP_KERNEL));
                all.wait();
                let served = local.as_ref().map_or_else(|| arena.alloc(&request), |local| local.alloc(&request));
                tell.send((local.is_some(), served.is_ok())).unwrap();
                all.wait();
            });
        }
        let next = |_| told.recv_timeout(FOR_EVER).expect("a thread waits for ever");
        let answers: Vec<(bool, bool)> = (0..THREADS).map(next).collect();
        let open = answers.iter().filter(|(is_open, _)| *is_open).count();
        assert!(answers.iter().all(|(_, is_served)| *is_served), "{mode:?}: {answers:?}");
        match arena.report().cpu_mode {
            CpuMode::Lease => assert_eq!(open, 3, "all but one of the CPUs"),
            CpuMode::PerCpu => assert!((1..arena.report().cpus).contains(&open), "{open}"),
        }
    }
}
