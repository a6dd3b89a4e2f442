//! Arenas that grow and shrink: sizes, hooks, refusals, and what requests see meanwhile.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use framewright::report::Source;
use framewright::request::{__GFP_THISNODE, GFP_ATOMIC, GFP_USER};
use framewright::{AllocError, Mechanisms, NodeId, Order, Request, Why, ZoneIdx, ZoneKind};
use framewright_rt::os::{Call, Faults};
use framewright_rt::{Arena, ArenaBuilder, ArenaError, Backing, Cause, Change, Commit, HugePage, Pages, Placement};
use framewright_rt::{Outcome, Scan, Shrink};

const MIB: u64 = 1 << 20;
const HUGE: Request = Request::new(GFP_USER, 9);

/// 4 MiB that may become 16.
fn builder() -> ArenaBuilder {
    Arena::builder().without_background().size(4 * MIB).limit(16 * MIB)
}

/// Access to the byte at an address, as in the process' map.
fn access(address: *const u8) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let found = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        (start..end).contains(&address.addr()).then(|| rest[..3].to_string())
    });
    found.unwrap()
}

fn access_at(arena: &Arena, mib: u64) -> String {
    access(arena.address(arena.frames().start.add(mib * MIB / 4096)).unwrap().as_ptr())
}

/// Takes all memory in blocks of 2 MiB, and writes to it.
fn fill(arena: &Arena) -> Vec<Pages<'_>> {
    let blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(&HUGE).ok()).collect();
    blocks
        .into_iter()
        .map(|mut block| {
            block.fill(1);
            block
        })
        .collect()
}

#[test]
fn it_grows_to_its_limit_and_shrinks_to_a_section() {
    for backing in [Backing::Private, Backing::Memfd] {
        for mechanisms in ["default", "baseline", "default,hardened=poison", "owned-pageblocks"] {
            let mechanisms = Mechanisms::parse(mechanisms).unwrap();
            let arena = builder().backing(backing).mechanisms(mechanisms).build().unwrap();
            assert_eq!((arena.present(), arena.report().bytes, arena.report().limit), (4 * MIB, 4 * MIB, 16 * MIB));
            assert_eq!((access_at(&arena, 0), access_at(&arena, 4)), ("rw-".into(), "---".into()));
            assert_eq!(arena.grow(1), Ok(2 * MIB));
            assert_eq!((access_at(&arena, 4), access_at(&arena, 6)), ("rw-".into(), "---".into()));
            assert_eq!(arena.grow(100 * MIB), Ok(10 * MIB));
            assert_eq!(arena.grow(1), Err(ArenaError::AtLimit { limit: 16 * MIB }));
            let blocks = fill(&arena);
            assert_eq!(blocks.len(), 8);
            assert_eq!(arena.shrink(16 * MIB), Ok(0), "all is in use");
            drop(blocks);
            assert_eq!(arena.shrink(3 * MIB), Ok(4 * MIB));
            assert_eq!((access_at(&arena, 11), access_at(&arena, 12)), ("rw-".into(), "---".into()));
            assert_eq!(arena.shrink(100 * MIB), Ok(10 * MIB));
            assert_eq!((arena.present(), arena.shrink(1), arena.grow(0)), (2 * MIB, Ok(0), Ok(0)));
            let counts = arena.validate().unwrap();
            assert_eq!((counts.allocated, counts.offline, counts.free), (0, 7 * 512, 512));
            assert_eq!(arena.grow(16 * MIB), Ok(14 * MIB));
            let blocks = fill(&arena);
            assert_eq!((blocks.len(), arena.validate().unwrap().offline), (8, 0));
        }
    }
}

#[test]
fn memory_that_came_back_is_zero() {
    let arena = builder().build().unwrap();
    arena.grow(12 * MIB).unwrap();
    drop(fill(&arena));
    assert_eq!(arena.shrink(16 * MIB), Ok(14 * MIB));
    let first = arena.alloc(&HUGE).unwrap();
    arena.grow(12 * MIB).unwrap();
    let blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(&HUGE).ok()).collect();
    assert_eq!(blocks.len(), 7);
    assert!(blocks.iter().all(|block| block.iter().all(|&byte| byte == 0)));
    drop((first, blocks));
}

#[test]
fn an_exhausted_arena_grows_by_itself() {
    let arena = builder().build().unwrap();
    let blocks = fill(&arena);
    assert_eq!((blocks.len(), arena.present()), (8, 16 * MIB));
    let refused = arena.alloc(&HUGE).map(drop);
    assert!(matches!(refused, Err(AllocError::NoMemory { .. })), "{refused:?}");
    drop(blocks);
    let arena = builder().build().unwrap();
    let held: Vec<_> = (0..2).map(|_| arena.alloc(&HUGE).unwrap()).collect();
    let refused = arena.alloc(&Request::new(GFP_ATOMIC, 9)).map(drop);
    assert!(matches!(refused, Err(AllocError::NoMemory { why: Why::WouldWait, .. })), "{refused:?}");
    assert_eq!(arena.present(), 4 * MIB, "a request that must not wait grows nothing");
    let pages: Vec<_> = (0..513).map(|_| arena.alloc(&Request::page(GFP_USER)).unwrap()).collect();
    assert_eq!(arena.present(), 8 * MIB, "section by section");
    drop((held, pages));
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

#[test]
fn hooks_veto() {
    let (grows, shrinks) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (seen, also) = (grows.clone(), shrinks.clone());
    let grow = move |change: &Change| {
        seen.lock().unwrap().push(*change);
        change.cause == Cause::Asked && change.present < 8 * MIB
    };
    let shrink = move |change: &Change| {
        also.lock().unwrap().push(*change);
        change.bytes <= 2 * MIB
    };
    let arena = builder().on_grow(grow).on_shrink(shrink).build().unwrap();
    let blocks = fill(&arena);
    assert_eq!((blocks.len(), arena.present()), (2, 4 * MIB), "no growth by itself");
    drop(blocks);
    assert!(grows.lock().unwrap().iter().all(|change| change.cause == Cause::Exhausted));
    grows.lock().unwrap().clear();
    assert_eq!(arena.grow(3 * MIB), Ok(4 * MIB));
    let vetoed = arena.grow(64 * MIB).unwrap_err();
    assert_eq!(vetoed, ArenaError::Vetoed { what: "growing", bytes: 8 * MIB });
    assert_eq!(vetoed.to_string(), "the program's hook vetoed growing by 8 MiB");
    let asked = |bytes, present| Change { bytes, present, limit: 16 * MIB, cause: Cause::Asked };
    assert_eq!(*grows.lock().unwrap(), [asked(4 * MIB, 4 * MIB), asked(8 * MIB, 8 * MIB)]);
    assert_eq!(arena.shrink(4 * MIB), Err(ArenaError::Vetoed { what: "shrinking", bytes: 4 * MIB }));
    assert_eq!(arena.shrink(2 * MIB), Ok(2 * MIB));
    assert_eq!(*shrinks.lock().unwrap(), [asked(4 * MIB, 8 * MIB), asked(2 * MIB, 8 * MIB)]);
    arena.validate().unwrap();
}

/// Records the ranges and fails the `nth` call.
#[derive(Default)]
struct Ranges {
    calls: AtomicU64,
    nth: u64,
    committed: Mutex<Vec<(usize, usize)>>,
}

impl Ranges {
    fn failing(nth: u64) -> Arc<Ranges> {
        Arc::new(Ranges { nth, ..Ranges::default() })
    }

    fn call(&self) -> io::Result<()> {
        let call = self.calls.fetch_add(1, SeqCst) + 1;
        if call == self.nth { Err(io::Error::from_raw_os_error(libc::EDQUOT)) } else { Ok(()) }
    }

    fn bytes(&self) -> u64 {
        self.committed.lock().unwrap().iter().map(|&(_, len)| len as u64).sum()
    }
}

impl Commit for Ranges {
    fn commit(&self, memory: NonNull<[u8]>) -> io::Result<()> {
        self.call()?;
        let start = memory.cast::<u8>().as_ptr();
        assert_eq!(access(start), "rw-", "it is accessible");
        // SAFETY: it is the hook's until it returns.
        unsafe { start.write(0) };
        self.committed
            .lock()
            .unwrap()
            .extend((0..memory.len()).step_by(2 << 20).map(|at| (start.addr() + at, 2 << 20)));
        Ok(())
    }

    fn decommit(&self, memory: NonNull<[u8]>) -> io::Result<()> {
        self.call()?;
        let mut committed = self.committed.lock().unwrap();
        let gone = (memory.cast::<u8>().as_ptr().addr(), memory.len());
        assert_eq!(access(memory.cast::<u8>().as_ptr()), "rw-", "it is still accessible");
        let at = committed.iter().position(|range| *range == gone).expect("it was committed");
        committed.swap_remove(at);
        Ok(())
    }
}

/// A life of growing and shrinking; ends with all sections that can be had.
fn live(arena: &Arena) -> Vec<ArenaError> {
    let mut errors = Vec::new();
    let mut note = |result: Result<u64, ArenaError>| errors.extend(result.err());
    note(arena.grow(4 * MIB));
    arena.validate().unwrap();
    note(arena.grow(4 * MIB));
    note(arena.shrink(6 * MIB));
    let counts = arena.validate().unwrap();
    assert_eq!((counts.free + counts.allocated) * 4096, arena.present());
    let blocks = fill(arena);
    note(arena.shrink(2 * MIB));
    drop(blocks);
    note(arena.shrink(16 * MIB));
    arena.validate().unwrap();
    errors
}

#[test]
fn a_hook_that_fails_at_any_call_loses_nothing() {
    let (mut failures, mut nth) = (0, 1);
    loop {
        let hook = Ranges::failing(nth);
        let arena = match builder().commit(hook.clone()).build() {
            Ok(arena) => arena,
            Err(error) => {
                assert_eq!(
                    (nth, error.to_string().split(':').next()),
                    (1, Some("the program's hook refused to commit 4 MiB"))
                );
                failures += 1;
                nth += 1;
                continue;
            }
        };
        let errors = live(&arena);
        for error in &errors {
            assert!(matches!(error, ArenaError::Hook { errno: Some(libc::EDQUOT), .. } | ArenaError::AtLimit { .. }));
        }
        failures += errors.iter().filter(|error| matches!(error, ArenaError::Hook { .. })).count();
        assert_eq!(hook.bytes(), arena.present(), "call {nth}");
        // The call to fail may be one of these.
        let _ = (arena.grow(16 * MIB), arena.grow(16 * MIB));
        assert_eq!((arena.present(), hook.bytes(), fill(&arena).len()), (16 * MIB, 16 * MIB, 8));
        if hook.calls.load(SeqCst) < nth {
            break;
        }
        nth += 1;
    }
    assert!(nth > 10 && failures > 3, "{nth} calls, {failures} failures");
}

#[test]
fn a_system_call_that_fails_at_any_time_loses_nothing() {
    for (call, errno) in [(Call::Mprotect, libc::ENOMEM), (Call::Madvise, libc::EINVAL)] {
        for backing in [Backing::Private, Backing::Memfd] {
            let mut failures = 0;
            for nth in 1.. {
                let hook = Ranges::failing(0);
                let arena = builder().backing(backing).populate(true).commit(hook.clone()).build().unwrap();
                let faults = Faults::nth_of(call, nth, errno);
                failures += live(&arena).iter().filter(|error| matches!(error, ArenaError::Os(_))).count();
                let calls = faults.calls();
                drop(faults);
                assert_eq!(hook.bytes(), arena.present(), "call {nth} of {call:?}");
                let _ = arena.grow(16 * MIB);
                assert_eq!(fill(&arena).len(), 8, "call {nth} of {call:?}");
                arena.validate().unwrap();
                if calls < nth {
                    break;
                }
            }
            assert!(failures > 1, "{failures} failures of {call:?}");
        }
    }
}

/// Linux before 5.14 makes no pages. An arena that could be built without them grows without them.
#[test]
fn it_grows_where_pages_cannot_be_made() {
    let faults = Faults::always(Call::Madvise, libc::EINVAL);
    let arena = builder().populate(true).build().unwrap();
    assert!(matches!(arena.report().populated, Outcome::Refused(_)));
    assert_eq!(arena.grow(4 * MIB), Ok(4 * MIB));
    assert_eq!(arena.alloc(&HUGE).map(|block| block.len()), Ok(2 << 20));
    drop(faults);
    arena.validate().unwrap();
}

#[test]
fn hooks_that_panic_refuse() {
    struct Panics;
    impl Commit for Panics {
        fn commit(&self, memory: NonNull<[u8]>) -> io::Result<()> {
            if memory.len() == 2 << 20 { panic!("commit") } else { Ok(()) }
        }
        fn decommit(&self, _: NonNull<[u8]>) -> io::Result<()> {
            panic!("decommit")
        }
    }
    let may = |change: &Change| if change.bytes == 4 * MIB { panic!("may not") } else { true };
    let arena = builder().commit(Arc::new(Panics)).on_grow(may).build().unwrap();
    assert_eq!(arena.grow(4 * MIB), Err(ArenaError::Vetoed { what: "growing", bytes: 4 * MIB }));
    assert_eq!(arena.grow(2 * MIB), Err(ArenaError::Hook { what: "commit", bytes: 2 * MIB, errno: None }));
    let refused = arena.shrink(2 * MIB).unwrap_err();
    assert_eq!(refused.to_string(), "the program's hook refused to decommit 2 MiB");
    assert_eq!((arena.callback_panics(), arena.present()), (3, 4 * MIB));
    assert_eq!(arena.grow(6 * MIB), Ok(6 * MIB));
    arena.validate().unwrap();
}

#[test]
fn a_hook_cannot_change_its_own_arena() {
    let told: Arc<Mutex<Vec<Result<u64, ArenaError>>>> = Arc::default();
    let slot: Arc<std::sync::OnceLock<std::sync::Weak<Arena>>> = Arc::default();
    let (also, tell) = (slot.clone(), told.clone());
    let hook = move |_: &Change| {
        let arena = also.get().unwrap().upgrade().unwrap();
        tell.lock().unwrap().extend([arena.grow(1), arena.shrink(1)]);
        // It finds no memory, and cannot wait for its own growth.
        assert!(arena.alloc(&HUGE).is_err());
        true
    };
    let arena = Arc::new(builder().on_grow(hook).build().unwrap());
    slot.set(Arc::downgrade(&arena)).unwrap();
    let held: Vec<_> = (0..2).map(|_| arena.alloc(&HUGE).unwrap()).collect();
    let more = arena.alloc(&HUGE).unwrap();
    assert_eq!(*told.lock().unwrap(), [Err(ArenaError::InHook); 2]);
    drop((held, more));
}

#[test]
fn nodes_grow_near_their_thread_and_keep_a_section_each() {
    let nodes =
        Arena::builder().without_background().node(4 * MIB, Placement::Anywhere).node(2 * MIB, Placement::Anywhere);
    let arena = nodes.limit(8 * MIB).movable(2 * MIB).build();
    assert_eq!(arena.map(|arena| arena.grow(6 * MIB)).unwrap(), Ok(6 * MIB));
    let nodes =
        Arena::builder().without_background().node(4 * MIB, Placement::Anywhere).node(2 * MIB, Placement::Anywhere);
    let arena = nodes.limit(8 * MIB).build().unwrap();
    assert_eq!(arena.report().nodes[1].range.frames() * 4096, 8 * MIB);
    assert_eq!(
        arena.report().to_string().lines().next().unwrap().split(',').next(),
        Some("private: 6 MiB of at most 16 MiB")
    );
    let there = HUGE.on(NodeId(1));
    let held: Vec<_> = (0..8).map(|_| arena.alloc(&there).unwrap()).collect();
    assert_eq!(arena.present(), 16 * MIB);
    drop(held);
    assert_eq!((arena.shrink(16 * MIB), arena.present()), (Ok(12 * MIB), 4 * MIB));
    assert_eq!(arena.validate().unwrap().free, 1024);
}

/// Counts how often it is asked, and frees nothing.
struct Asked(Arc<AtomicU64>);

impl Shrink for Asked {
    fn count(&self, _: NodeId) -> u64 {
        1
    }

    fn scan(&self, _: &Scan) -> u64 {
        self.0.fetch_add(1, SeqCst);
        0
    }
}

#[test]
fn a_request_of_one_node_grows_no_other() {
    let asked = Arc::new(AtomicU64::new(0));
    let nodes = Arena::builder().without_background().node(2 * MIB, Placement::Anywhere);
    let nodes = nodes.node(2 * MIB, Placement::Anywhere).shrinker(Arc::new(Asked(asked.clone())));
    let arena = nodes.limit(4 * MIB).build().unwrap();
    let there = Request::new(GFP_USER | __GFP_THISNODE, 9).on(NodeId(1));
    let held: Vec<_> = (0..2).map(|_| arena.alloc(&there).unwrap()).collect();
    assert_eq!((arena.present(), asked.load(SeqCst)), (6 * MIB, 0), "its node has grown");
    assert!(matches!(arena.alloc(&there).map(drop), Err(AllocError::NoMemory { .. })));
    assert_eq!(arena.present(), 6 * MIB, "node 0 is as before");
    assert!(asked.load(SeqCst) > 0, "holders of memory are asked instead");
    drop(held);
}

#[test]
fn a_zone_keeps_its_low_mark() {
    let arena = Arena::builder().without_background().size(64 * MIB).limit(64 * MIB).min_free(4 * MIB).build().unwrap();
    let held: Vec<_> = (0..26).map(|_| arena.alloc(&HUGE).unwrap()).collect();
    let gone = arena.shrink(64 * MIB).unwrap();
    let zone = arena.source().zone(ZoneIdx::of(NodeId(0), ZoneKind::Normal)).unwrap();
    assert!(gone > 0 && zone.low > 512, "{gone} bytes went, {zone:?}");
    assert!((zone.low..zone.low + 512).contains(&zone.free), "{zone:?}");
    drop(held);
}

#[test]
fn memory_handed_in_is_committed_by_the_hook_alone() {
    let outer = Arena::builder().without_background().size(16 * MIB).build().unwrap();
    let memory = outer.alloc(&Request::new(GFP_USER, 12)).unwrap();
    let slice = NonNull::slice_from_raw_parts(memory.address(), memory.len());
    let hook = Ranges::failing(3);
    // SAFETY: the block outlives the arena, and nothing else uses it.
    let arena = unsafe { builder().commit(hook.clone()).build_in(slice) }.unwrap();
    assert_eq!((arena.grow(4 * MIB), hook.bytes()), (Ok(4 * MIB), 8 * MIB));
    assert_eq!(
        arena.grow(2 * MIB),
        Err(ArenaError::Hook { what: "commit", bytes: 2 * MIB, errno: Some(libc::EDQUOT) })
    );
    assert_eq!((arena.shrink(6 * MIB), hook.bytes()), (Ok(6 * MIB), 2 * MIB));
    arena.validate().unwrap();
}

#[test]
fn threads_that_run_short_together_grow_it_once() {
    const THREADS: u64 = 8;
    let (grows, started) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, seen) = (grows.clone(), started.clone());
    let builder = builder().limit(64 * MIB).on_grow(move |change| {
        assert_eq!(change.cause, Cause::Exhausted);
        counted.fetch_add(1, SeqCst);
        while seen.load(SeqCst) < THREADS {
            std::thread::yield_now();
        }
        // Time for all of them to find no memory, and to wait for this growth.
        std::thread::sleep(Duration::from_millis(50));
        true
    });
    let arena = builder.build().unwrap();
    let held: Vec<_> = (0..2).map(|_| arena.alloc(&HUGE).unwrap()).collect();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                started.fetch_add(1, SeqCst);
                drop(arena.alloc(&Request::page(GFP_USER)).unwrap());
            });
        }
    });
    drop(held);
    // A thread that is stopped before it waits may grow the arena once more.
    let grows = grows.load(SeqCst);
    assert!((1..=THREADS / 2).contains(&grows), "{grows} growths to {} MiB", arena.present() / MIB);
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

#[test]
fn shortages_are_told() {
    let (sender, told) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let builder = Arena::builder().without_background().size(64 * MIB).min_free(4 * MIB);
    let arena = builder.on_low_memory(move |low| sender.lock().unwrap().send(*low).unwrap()).build().unwrap();
    let mut held: Vec<_> = (0..20).map(|_| arena.alloc(&HUGE).unwrap()).collect();
    assert!(told.try_recv().is_err(), "there is enough");
    held.extend(std::iter::from_fn(|| arena.alloc(&HUGE).ok()));
    let low = told.recv().unwrap();
    assert!(low.node == NodeId(0) && low.low >= 4 * MIB && low.free < low.low + 2 * MIB, "{low:?}");
    drop(held);
}

#[test]
fn misuse_is_refused_with_its_reason() {
    let fixed = Arena::builder().without_background().size(4 * MIB).build().unwrap();
    assert_eq!((fixed.grow(1), fixed.shrink(1)), (Err(ArenaError::FixedSize), Err(ArenaError::FixedSize)));
    assert_eq!(fixed.present(), 4 * MIB);
    let build = |builder: ArenaBuilder| builder.without_background().build().map(drop).unwrap_err();
    let size = |bytes| Arena::builder().size(bytes);
    assert_eq!(build(size(4 * MIB).limit(2 * MIB)), ArenaError::AboveLimit { bytes: 4 * MIB, limit: 2 * MIB });
    assert_eq!(build(size(3 * MIB).limit(4 * MIB)), ArenaError::BadSize { bytes: 3 * MIB, multiple: 2 * MIB });
    assert_eq!(build(size(2 * MIB).limit(5 * MIB)), ArenaError::BadSize { bytes: 5 * MIB, multiple: 2 * MIB });
    let sections = size(4 * MIB).limit(8 * MIB).max_order(11);
    assert_eq!(build(sections), ArenaError::BadSize { bytes: 4 * MIB, multiple: 8 * MIB });
    assert!(matches!(build(size(4 * MIB).limit(!(2 * MIB - 1))), ArenaError::TooLarge { .. }));
    let huge = size(4 * MIB).limit(8 * MIB).backing(Backing::Hugetlb(HugePage::Size2MiB));
    assert_eq!(build(huge), ArenaError::Unsupported { what: "growing", memory: "hugetlb" });
}

#[test]
fn a_local_handle_stays_usable() {
    let arena = builder().build().unwrap();
    let local = arena.local().unwrap();
    let page = local.alloc(&Request::page(GFP_USER)).unwrap();
    arena.grow(12 * MIB).unwrap();
    local.free(page);
    let gone = arena.shrink(16 * MIB).unwrap();
    assert!(gone >= 12 * MIB, "{gone}");
    let pages: Vec<_> = (0..1024).map(|_| local.alloc(&Request::page(GFP_USER)).unwrap()).collect();
    pages.into_iter().for_each(|page| local.free(page));
    drop(local);
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

#[test]
fn large_rooms_cost_little() {
    let arena = Arena::builder().without_background().size(64 * MIB).limit(1 << 40).max_order(13).build().unwrap();
    assert_eq!(arena.grow(1 << 30), Ok(1 << 30));
    let block = arena.alloc(&Request::new(GFP_USER, 13)).unwrap();
    assert_eq!(block.order(), Order(13));
    drop(block);
    assert_eq!(arena.shrink(1 << 40), Ok(1056 * MIB));
}
