//! Signal handlers that the allocator does not know. One that meets a section under a lock does not wait for its own
//! thread, and the blocks that it frees are not lost.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::SeqCst};

use framewright::machine::{LockEvent, LockKind, LockName, Machine};
use framewright::request::{GFP_ATOMIC, GFP_KERNEL, GFP_USER};
use framewright::{
    AllocError, Allocator, Config, FreeError, Layout, Mechanisms, NodeId, Order, Pfn, PfnRange, Region, Request,
};
use framewright_rt::{Arena, Native, Pages, Storage, interrupts};

use crate::threads::runs_on_threads;

const NODES: [NodeId; 2] = [NodeId(0); 2];
const FRAMES: u64 = 4096;
const FIRST: u64 = 0x100000;

/// [`Native`], in which a signal comes when a zone's lock is wanted, or has been taken, once each time it is armed.
struct Interrupted {
    native: Native,
    armed: AtomicBool,
    on: LockEvent,
}

impl Machine for Interrupted {
    runs_on_threads!(native);

    fn is_in_section(&self) -> bool {
        self.native.is_in_section()
    }

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn lock(&self, name: LockName, event: LockEvent) {
        // Claims of lists are no sections: a waiter for one gives up.
        if name.kind == LockKind::Zone && event == self.on && self.armed.swap(false, SeqCst) {
            // SAFETY: the signal's handler is `handler`.
            unsafe { libc::raise(libc::SIGVTALRM) };
        }
    }
}

static PAGES: AtomicPtr<Allocator<'static, Interrupted>> = AtomicPtr::new(std::ptr::null_mut());
static CAME: AtomicU32 = AtomicU32::new(0);
static OWN: AtomicPtr<Pfn> = AtomicPtr::new(std::ptr::null_mut());

/// Tries everything that would wait for its own thread, and frees a page of its own.
extern "C" fn handler(_: i32) {
    // SAFETY: the test sets both before it arms the signal, and they live as long as the process.
    let (pages, own) = unsafe { (&*PAGES.load(SeqCst), *OWN.load(SeqCst)) };
    let range = PfnRange::new(FIRST + 1024, FIRST + 1536);
    let refused = [
        // No per-CPU list has blocks of this order, nor Unmovable ones, for which no request was made.
        pages.alloc(&Request::new(GFP_ATOMIC, 10)).map(drop),
        pages.alloc(&Request::new(GFP_KERNEL, 10)).map(drop),
        pages.alloc_at(range.start, Order(9), GFP_ATOMIC).map(drop),
        pages.alloc_range(range, GFP_KERNEL),
        pages.alloc_contig(1 << 12, Order(0), &Request::page(GFP_ATOMIC)).map(drop),
        pages.alloc_contig(3, Order(0), &Request::page(GFP_ATOMIC)).map(drop),
        pages.take_offline(range),
    ];
    let frees = [pages.free(own, Order(10)), pages.free_range(PfnRange::block(own, Order(10)))];
    let deferred = pages.free_nolock(own, Order(10));
    let wrong = [
        !refused.iter().all(|refused| *refused == Err(AllocError::InInterrupt)),
        !frees.iter().all(|freed| *freed == Err(FreeError::NoCpu)),
        deferred.is_err(),
        pages.drain_all() != 0,
    ];
    // A digit for each.
    CAME.fetch_add(wrong.into_iter().fold(0, |sum, wrong| sum * 10 + u32::from(wrong)) * 1_000 + 1, SeqCst);
}

fn with_handler(test: impl FnOnce()) {
    // SAFETY: an action of zeros is one without flags and with an empty mask.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32) as usize;
        assert_eq!(libc::sigaction(libc::SIGVTALRM, &raw const action, std::ptr::null_mut()), 0);
    }
    test();
}

/// In the middle of an allocation's, a free's and a drain's section, and of the wait before it; with each kind of lock.
#[test]
fn a_handler_that_meets_a_section_is_refused() {
    with_handler(|| {
        let kinds = ["default", "default,zone-lock=ticket", "baseline", "patch7", "patch8"];
        let mut expected = 0;
        for (kind, on) in kinds.into_iter().flat_map(|kind| [(kind, LockEvent::Wanted), (kind, LockEvent::Taken)]) {
            let map = [Region::usable(FIRST, FIRST + FRAMES, 0)];
            let mechanisms =
                Mechanisms { pcp_protection: Mechanisms::DEFAULT.pcp_protection, ..Mechanisms::parse(kind).unwrap() };
            let config = Config { mechanisms, min_free_kbytes: Some(0), ..Config::new(&map, &NODES) };
            let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
            let machine = Interrupted { native: Native::new(&NODES), armed: AtomicBool::new(false), on };
            let pages = &*Box::leak(Box::new(Allocator::boot(machine, &config, storage.parts()).unwrap()));
            PAGES.store(std::ptr::from_ref(pages).cast_mut(), SeqCst);
            let works: [fn(&Allocator<'static, Interrupted>); 3] = [
                |pages| {
                    let block = pages.alloc(&Request::new(GFP_KERNEL, 8)).unwrap();
                    pages.free(block, Order(8)).unwrap();
                },
                |pages| {
                    let block = pages.alloc(&Request::new(GFP_KERNEL, 8)).unwrap();
                    pages.machine().armed.store(true, SeqCst);
                    pages.free(block, Order(8)).unwrap();
                },
                |pages| assert_ne!(pages.drain_all(), 0),
            ];
            for (number, work) in works.into_iter().enumerate() {
                let own = Box::leak(Box::new(pages.alloc(&Request::new(GFP_USER, 10)).unwrap()));
                let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
                pages.free(page, Order(0)).unwrap();
                OWN.store(own, SeqCst);
                pages.machine().armed.store(number != 1, SeqCst);
                work(pages);
                assert!(!pages.machine().armed.load(SeqCst), "{kind}, {on:?}, {number}");
                expected += 1;
                assert_eq!(CAME.load(SeqCst), expected, "{kind}, {on:?}, {number}");
                pages.drain_all();
                pages.validate().unwrap_or_else(|violation| panic!("{kind}, {on:?}, {number}: {violation}"));
            }
        }
    });
}

static DROPPED: AtomicPtr<Option<Pages<'static>>> = AtomicPtr::new(std::ptr::null_mut());

/// A handler that is refused because its arena has no interrupts drops a block all the same.
#[test]
fn a_block_dropped_where_no_cpu_is_had_is_freed() {
    let arena: &'static Arena =
        Box::leak(Box::new(Arena::builder().size(16 << 20).without_background().build().unwrap()));
    for order in [0, 3, 10] {
        let mut block = arena.alloc(&Request::new(GFP_USER, order)).ok();
        DROPPED.store(&raw mut block, SeqCst);
        let drop_it = |_: &interrupts::Signal| {
            // SAFETY: the test waits for this handler, which runs on its thread, and touches the block afterwards only.
            let block = unsafe { &mut *DROPPED.load(SeqCst) };
            assert!(block.take().is_some());
        };
        // SAFETY: the handler frees a block, in one way that needs no CPU.
        assert_eq!(unsafe { interrupts::raise(drop_it, 0) }, Ok(interrupts::Raised::Ran));
        assert!(block.is_none());
        assert_eq!((arena.refused_frees(), arena.validate().unwrap().allocated), (0, 0), "order {order}");
    }
}

/// A thread that holds interrupts off itself may call, as in a kernel.
#[test]
fn holding_interrupts_off_is_no_section() {
    let arena = Arena::builder().size(16 << 20).without_background().build().unwrap();
    let outer = interrupts::hold();
    let held: Vec<_> = (0..=10).map(|order| arena.alloc(&Request::new(GFP_USER, order)).unwrap()).collect();
    {
        let _inner = interrupts::hold();
        drop(held);
    }
    arena.drain();
    drop(outer);
    assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
}
