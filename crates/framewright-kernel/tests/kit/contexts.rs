//! Contexts: which records they use, what is refused, and that every guard ends.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use framewright::machine::Machine;
use framewright::request::{GFP_ATOMIC, GFP_KERNEL, GFP_USER};
use framewright::{AllocError, CpuId, MigrateType, NodeId, Order, Pfn, Request, Why, ZoneIdx, ZoneKind};
use framewright_kernel::{Context, Contexts, Kernel};

use crate::board::{ALL, Board, here, of_one_thread, run_on, small};

const PAGE: Request = Request::page(GFP_ATOMIC);
const EVERY: [Context; 4] = [Context::Task, Context::Softirq, Context::Interrupt, Context::Other];

/// Whether a plain call of each context is served, and with how many sets of lists.
fn table<const CONTEXTS: usize>() -> (usize, [bool; 4]) {
    let pages = small(&Board::<CONTEXTS>, 3);
    let served = EVERY.map(|context| {
        run_on(1, context);
        let before = here().calls;
        let block = pages.alloc(&PAGE);
        // A call in any context is served.
        let other = pages.alloc_nolock(&PAGE).unwrap();
        pages.free_nolock(other, Order(0)).unwrap();
        match block {
            Ok(pfn) => pages.free(pfn, Order(0)).unwrap(),
            Err(error) => assert_eq!(error, AllocError::no_memory(Why::NoCpu), "{context:?}"),
        }
        assert_eq!((here().pins, here().irqs_off), (0, 0));
        let [pins, irqs] = [0, 1].map(|i| here().calls[i] - before[i]);
        assert!(if CONTEXTS == 1 { pins == 0 && irqs != 0 } else { pins != 0 }, "{pins} pins, {irqs} of interrupts");
        block.is_ok()
    });
    run_on(0, Context::Task);
    pages.validate().unwrap();
    (pages.cpus(), served)
}

#[test]
fn contexts_without_lists_are_refused() {
    assert_eq!(table::<0>(), (3, [true, false, false, false]));
    assert_eq!(table::<1>(), (3, [true, true, true, false]));
    assert_eq!(table::<2>(), (6, [true, false, true, false]));
    assert_eq!(table::<3>(), (9, [true, true, true, false]));
}

/// Each pair of CPU and context has a record of its own; a CPU that the configuration does not have has none.
#[test]
fn records_are_numbered_by_set_and_cpu() {
    let numbers = |cpu, context| {
        run_on(cpu, context);
        (Board::<2>.record(4), Board::<3>.record(4))
    };
    assert_eq!(numbers(1, Context::Task), (Some(1), Some(1)));
    assert_eq!(numbers(1, Context::Interrupt), (Some(5), Some(9)));
    assert_eq!(numbers(1, Context::Softirq), (None, Some(5)));
    assert_eq!(numbers(4, Context::Interrupt), (None, None));
    assert_eq!(numbers(0, Context::Other), (None, None));
    for contexts in ALL {
        let sets: HashSet<usize> = EVERY.into_iter().filter_map(|context| contexts.set_of(context)).collect();
        assert_eq!(sets, (0..contexts.sets()).collect(), "{contexts:?}");
    }
}

/// A kernel that is pinned calls no function of its own; a pin of another allocator serves nobody.
#[test]
fn a_pin_may_be_the_callers() {
    run_on(1, Context::Softirq);
    let (pages, other) = (small(&Board::<3>, 3), small(&Board::<3>, 4));
    let warm = [0; 4].map(|_| pages.alloc(&PAGE).unwrap());
    warm.into_iter().for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Dma32);
    let before = here().calls;
    // SAFETY: the thread is CPU 1 of 3, in a soft interrupt.
    let pin = unsafe { pages.machine().pinned_at(CpuId(4)) };
    let take = |pin| pages.alloc_listed(pin, zone, Order(0), MigrateType::Unmovable);
    let pfn = take(&pin).expect("a page of the list");
    assert!(pages.free_listed(&pin, pfn, Order(0)));
    // SAFETY: of 4 CPUs, it has this number.
    let foreign = unsafe { other.machine().pinned_at(CpuId(5)) };
    assert_eq!((take(&foreign), pages.free_listed(&foreign, pfn, Order(0))), (None, false));
    // SAFETY: a context without lists has no number.
    let none = unsafe { pages.machine().pinned_at(CpuId::NONE) };
    assert_eq!(take(&none), None);
    assert_eq!((here().calls, here().pins), (before, 0));
    run_on(0, Context::Task);
    pages.validate().unwrap();
}

/// Events of the lists alone, which a hit has none of, leave the fast path on.
#[test]
fn a_kernel_that_reports_calls_itself_keeps_the_fast_path() {
    struct Listening;
    of_one_thread! {
        Listening:
        const CONTEXTS: Contexts = Contexts::Tasks;
        fn traces(&self) -> bool {
            true
        }
        fn traces_calls(&self) -> bool {
            false
        }
    }
    let pages = small(&Listening, 1);
    let held = [0; 4].map(|_| pages.alloc(&PAGE).unwrap());
    let pin = pages.machine().pin();
    let at_once = held.into_iter().filter(|&pfn| {
        let at_once = pages.free_listed(&pin, pfn, Order(0));
        if !at_once {
            pages.free(pfn, Order(0)).unwrap();
        }
        at_once
    });
    assert_eq!(at_once.count(), 3);
}

/// Threads are CPUs. Each changes its context from call to call, as an interrupt that hit between two calls.
fn crowd<const CONTEXTS: usize>() {
    let (pages, passed) = (small(&Board::<CONTEXTS>, 4), Mutex::new(Vec::<Pfn>::new()));
    let held = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for cpu in 0..4 {
            let (passed, held) = (&passed, &held);
            scope.spawn(move || {
                for turn in 0..4_000_usize {
                    let contexts = EVERY.into_iter().filter(|&context| ALL[CONTEXTS].set_of(context).is_some());
                    let contexts: Vec<Context> = contexts.collect();
                    run_on(cpu, contexts[turn % contexts.len()]);
                    let gfp = if here().context == Context::Task { GFP_USER } else { GFP_ATOMIC };
                    if let Ok(pfn) = pages.alloc(&Request::page(gfp)) {
                        held.fetch_add(1, Ordering::Relaxed);
                        passed.lock().unwrap().push(pfn);
                    }
                    let taken = if turn % 3 == 0 { None } else { passed.lock().unwrap().pop() };
                    if let Some(pfn) = taken {
                        pages.free(pfn, Order(0)).unwrap();
                        held.fetch_sub(1, Ordering::Relaxed);
                    }
                    if turn % 256 == 0 && here().context == Context::Task {
                        pages.drain_all();
                    }
                }
                assert_eq!((here().pins, here().irqs_off), (0, 0));
            });
        }
    });
    let passed = passed.into_inner().unwrap();
    assert_eq!(passed.iter().collect::<HashSet<_>>().len(), held.into_inner(), "a page was handed out twice");
    for pfn in passed {
        pages.free(pfn, Order(0)).unwrap();
    }
    pages.validate().unwrap();
    assert!(pages.alloc(&Request::new(GFP_KERNEL, 9)).is_ok());
}

#[test]
fn threads_as_cpus_lose_nothing() {
    crowd::<0>();
    crowd::<1>();
    crowd::<2>();
    crowd::<3>();
}

/// A run of frames that fits into a block needs no search, so an interrupt may ask for it.
#[test]
fn an_interrupt_gets_contiguous_frames() {
    let pages = small(&Board::<2>, 2);
    let before = pages.validate().unwrap().free;
    for context in [Context::Interrupt, Context::Task] {
        run_on(1, context);
        let interrupt = pages.interrupt().unwrap();
        for (frames, align) in [(1, 0), (3, 4), (300, 0), (1024, 10), (5, 9)] {
            let run = interrupt.alloc_contig(frames, Order(align), &Request::page(GFP_KERNEL)).unwrap();
            assert!(run.frames() == frames && run.start.is_aligned(Order(align)), "{run:?}");
            interrupt.free_range(run).unwrap();
        }
        let large = pages.alloc_contig(1025, Order(0), &Request::page(GFP_KERNEL));
        assert_eq!(
            large.map(|run| pages.free_range(run)),
            if context == Context::Task { Ok(Ok(())) } else { Err(AllocError::InInterrupt) }
        );
    }
    run_on(0, Context::Task);
    pages.drain_all();
    assert_eq!(pages.validate().unwrap().free, before);
}
