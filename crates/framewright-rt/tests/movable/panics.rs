//! Code of the embedder's that panics in the middle of the allocator's work: it has refused, and nothing is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use framewright::machine::{Busy, Need};
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_USER};
use framewright::{AllocError, Allocator, Config, Layout, Mechanisms, NodeId, Order, Pfn, PfnRange, Region, Request};
use framewright_rt::{
    Arena, ArenaBuilder, Callbacks, Leaving, MovablePage, Moving, Native, PageOwner, Scan, Shrink, Solo, Storage,
};

const FRAMES: u64 = 2048;
const MOVABLE: Request = Request::page(GFP_HIGHUSER_MOVABLE);

fn builder() -> ArenaBuilder {
    let mechanisms = Mechanisms::parse("default,compaction=emptiest").unwrap();
    Arena::builder().size(FRAMES << 12).max_order(10).mechanisms(mechanisms).without_background()
}

/// All that there is, every second page free again.
fn scattered(arena: &Arc<Arena>) -> Vec<MovablePage> {
    let mut pages: Vec<_> = (0..FRAMES).map_while(|key| arena.alloc_movable(&MOVABLE, key, |_| ()).ok()).collect();
    pages.retain(|page| page.key() % 2 == 0);
    arena.drain();
    pages
}

/// Everything is free again, and in as large blocks as there were.
fn assert_nothing_is_lost(arena: &Arena, what: &str) {
    arena.drain();
    let census = arena.validate().unwrap_or_else(|violation| panic!("{what}: {violation}"));
    assert_eq!((census.free, census.isolated, census.allocated), (FRAMES, 0, 0), "{what}");
    assert_eq!(arena.refused_frees(), 0, "{what}");
    let whole: Vec<_> = (0..2).map(|_| arena.alloc(&Request::new(GFP_KERNEL, 10)).unwrap()).collect();
    drop(whole);
}

/// Panics at whatever it is asked.
struct Angry;

impl PageOwner for Angry {
    fn leaves(&self, _: &Leaving<'_>) -> bool {
        panic!("leaves")
    }

    fn moves(&self, _: &Moving) -> bool {
        panic!("moves")
    }
}

impl Shrink for Angry {
    fn count(&self, _: NodeId) -> u64 {
        panic!("count")
    }

    fn scan(&self, _: &Scan) -> u64 {
        panic!("scan")
    }
}

impl Callbacks for Angry {
    fn reclaim(&self, _: &Need) -> u64 {
        panic!("reclaim")
    }

    fn migrates(&self) -> bool {
        true
    }

    fn migrate(&self, _: Pfn, _: Pfn, _: Order) -> Result<(), Busy> {
        panic!("migrate")
    }
}

/// A payload that panics when it is dropped.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("dropped")
    }
}

#[test]
fn an_owner_that_panics_keeps_its_pages_where_they_are() {
    let arena = Arc::new(builder().movable_pages(Angry).build().unwrap());
    let pages = scattered(&arena);
    // SAFETY: it frees nothing that anybody has.
    let allocator = unsafe { arena.allocator() };
    for start in (0..FRAMES).step_by(512) {
        let taken = allocator.take_offline(PfnRange::new(start, start + 512));
        assert!(matches!(taken, Err(AllocError::Busy { .. })), "{taken:?}");
    }
    arena.validate().unwrap();
    arena.alloc(&Request::new(GFP_KERNEL, 9)).unwrap_err();
    arena.compact(NodeId(0));
    assert!(arena.callback_panics() > 4);
    assert_eq!((arena.movable_pages().moved, arena.movable_pages().left), (0, 0));
    assert!(pages.iter().all(|page| page.read().is_some()));
    drop(pages);
    assert_nothing_is_lost(&arena, "owner");
}

/// Blocks that are no movable pages are the callbacks' to move.
#[test]
fn callbacks_that_panic_move_and_free_nothing() {
    let arena = Arc::new(builder().callbacks(Arc::new(Angry)).shrinker(Arc::new(Angry)).build().unwrap());
    let mut held: Vec<_> = (0..FRAMES).map(|_| arena.alloc(&MOVABLE).ok()).collect();
    held.iter_mut().step_by(2).for_each(|page| *page = None);
    arena.drain();
    // SAFETY: as above.
    let taken = unsafe { arena.allocator() }.take_offline(PfnRange::new(0, 512));
    assert!(matches!(taken, Err(AllocError::Busy { .. })), "{taken:?}");
    arena.alloc(&Request::new(GFP_KERNEL, 9)).unwrap_err();
    assert!(arena.callback_panics() > 2);
    drop(held);
    assert_nothing_is_lost(&arena, "callbacks");
}

/// A page whose handle is dropped during the owner's answer is freed, though the answer is a panic.
#[test]
fn a_handle_dropped_by_a_callback_that_panics_frees_its_page() {
    let handles: Arc<Mutex<Vec<MovablePage>>> = Arc::default();
    let dropped = Arc::clone(&handles);
    let forget = move |_: &Leaving<'_>| -> bool {
        let all = std::mem::take(&mut *dropped.lock().unwrap());
        drop(all);
        std::panic::panic_any(Payload)
    };
    let arena = Arc::new(builder().movable_pages(forget).build().unwrap());
    let pages = (0..FRAMES).map_while(|key| arena.alloc_movable(&MOVABLE, key, |_| ()).ok()).collect();
    *handles.lock().unwrap() = pages;
    let page = arena.alloc(&Request::page(GFP_USER));
    assert!(page.is_ok(), "{page:?}");
    assert_eq!(arena.movable_pages().frames, 0);
    drop(page);
    assert_nothing_is_lost(&arena, "handles");
}

#[test]
fn background_threads_survive_what_they_call() {
    let builder = builder().min_free(1 << 20).shrinker(Arc::new(Angry)).background_reclaim();
    let mut arena = builder.build().unwrap();
    let held: Vec<_> = std::iter::from_fn(|| arena.alloc(&Request::page(GFP_USER)).ok()).collect();
    drop(held);
    while arena.callback_panics() == 0 {
        std::thread::yield_now();
    }
    assert!(arena.background_reclaim().unwrap().is_running());
    arena.drain();
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

/// The caller fills a new page itself, and gets its own panic.
#[test]
fn a_page_whose_first_contents_panic_is_freed() {
    let arena = Arc::new(builder().build().unwrap());
    let fill = |_: &mut [u8]| panic!("fill");
    assert!(catch_unwind(AssertUnwindSafe(|| arena.alloc_movable(&MOVABLE, 0, fill))).is_err());
    assert_eq!(arena.callback_panics(), 0);
    assert_nothing_is_lost(&arena, "fill");
}

/// The machine itself catches, for allocators that are no arena's.
#[test]
fn a_machine_takes_a_panic_for_a_refusal() {
    let nodes = [NodeId(0); 2];
    let map = [Region::usable(0x100000, 0x100800, 0)];
    let config = Config { min_free_kbytes: Some(0), ..Config::new(&map, &nodes) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let machine = Native::new(&nodes).with_callbacks(Arc::new(Angry));
    let pages = Allocator::boot(machine, &config, storage.parts()).unwrap();
    let mut held: Vec<_> = std::iter::from_fn(|| pages.alloc(&MOVABLE).ok()).collect();
    held.sort();
    assert_eq!(held.len() as u64, FRAMES);
    let reclaimed = pages.machine().callback_panics();
    assert!(reclaimed > 0);
    // A place to move to, outside of the range.
    let last = held.pop().filter(|pfn| pfn.0 >= 0x100200).unwrap();
    pages.free(last, Order(0)).unwrap();
    assert!(pages.take_offline(PfnRange::new(0x100000, 0x100200)).is_err());
    assert_eq!(pages.machine().callback_panics(), reclaimed + 1);
    held.into_iter().for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
    pages.drain_all();
    assert_eq!(pages.validate().unwrap().free, FRAMES);
}

/// While a callback moves a block, `validate` reports the isolated pageblock; once its panic has unwound, none is left.
#[test]
fn what_is_isolated_is_found_until_the_panic_has_unwound() {
    let (nodes, found) = ([NodeId(0)], Arc::new(Mutex::new(None)));
    let map = [Region::usable(0x100000, 0x100800, 0)];
    let config = Config { min_free_kbytes: Some(0), ..Config::new(&map, &nodes) };
    // A hook that calls the allocator lives as long as the process.
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    let pages = &*Box::leak(Box::new(Allocator::boot(Solo::new(&nodes), &config, storage.parts()).unwrap()));
    let held: Vec<_> = (0..1000).map(|_| pages.alloc(&MOVABLE).unwrap()).collect();
    let seen = Arc::clone(&found);
    pages.machine().on_migrate(move |_, _, _| {
        *seen.lock().unwrap() = pages.validate().err();
        panic!("a hook's")
    });
    let range = PfnRange::block(held[0].align_down(Order(9)), Order(9));
    assert!(catch_unwind(AssertUnwindSafe(|| pages.take_offline(range))).is_err());
    let violation = found.lock().unwrap().take().unwrap();
    assert_eq!((violation.invariant, violation.pfn), ("I1", Some(range.start)), "{violation}");
    assert_eq!(pages.validate().unwrap().allocated, 1000);
}
