//! An arena whose embedder panics at its k-th call, for every k: nothing is isolated, lost or held afterwards.
//!
//! The embedder has every kind of callback. A workload calls all of them. It runs once undisturbed, which tells how
//! often. Then it runs once for each of these calls, which panics.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use framewright::machine::{Busy, Need};
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_USER};
use framewright::{Mechanisms, NodeId, Order, Pfn, PfnRange, Request};
use framewright_rt::{
    Arena, ArenaError, Callbacks, Commit, Leaving, MovablePage, Moving, OwnedPages, PageOwner, Scan, Shrink,
};

const PAGE: u64 = 64 << 10;
const SIZE: u64 = 8 << 20;
const LIMIT: u64 = 12 << 20;
const MOVABLE: Request = Request::page(GFP_HIGHUSER_MOVABLE);

/// The kinds of callbacks, in the order of [`Embedder::calls`].
const KINDS: [&str; 12] = [
    "reclaim",
    "migrates",
    "migrate",
    "leaves",
    "moves",
    "count",
    "scan",
    "on_grow",
    "on_shrink",
    "commit",
    "decommit",
    "report_leaks",
];

/// Every callback there is.
#[derive(Default)]
struct Embedder {
    calls: [AtomicU64; KINDS.len()],
    /// The number of the call that panics, counted over all kinds; 0 for none.
    panics_at: u64,
    cache: Mutex<Vec<OwnedPages>>,
}

impl Embedder {
    fn called(&self, kind: &str) {
        let kind = KINDS.iter().position(|known| *known == kind).unwrap();
        self.calls[kind].fetch_add(1, SeqCst);
        if self.count() == self.panics_at {
            // Unlike `panic!`, prints nothing.
            resume_unwind(Box::new("the embedder's"));
        }
    }

    fn count(&self) -> u64 {
        self.calls.iter().map(|calls| calls.load(SeqCst)).sum()
    }
}

impl PageOwner for Embedder {
    fn leaves(&self, page: &Leaving<'_>) -> bool {
        self.called("leaves");
        page.key != 2
    }

    fn moves(&self, page: &Moving) -> bool {
        self.called("moves");
        !page.key.is_multiple_of(5)
    }
}

impl Shrink for Embedder {
    fn count(&self, _: NodeId) -> u64 {
        self.called("count");
        self.cache.lock().unwrap().len() as u64
    }

    fn scan(&self, scan: &Scan) -> u64 {
        self.called("scan");
        let mut cache = self.cache.lock().unwrap();
        let rest = cache.len().saturating_sub(scan.wanted.min(2) as usize);
        let freed = cache.split_off(rest);
        drop(cache);
        freed.len() as u64
    }
}

impl Callbacks for Embedder {
    fn reclaim(&self, _: &Need) -> u64 {
        self.called("reclaim");
        0
    }

    fn migrates(&self) -> bool {
        self.called("migrates");
        true
    }

    fn migrate(&self, _: Pfn, _: Pfn, _: Order) -> Result<(), Busy> {
        self.called("migrate");
        Err(Busy)
    }
}

impl Commit for Embedder {
    fn commit(&self, _: NonNull<[u8]>) -> io::Result<()> {
        self.called("commit");
        Ok(())
    }

    fn decommit(&self, _: NonNull<[u8]>) -> io::Result<()> {
        self.called("decommit");
        Ok(())
    }
}

/// What the arena keeps of its embedder.
struct Shared(Arc<Embedder>);

impl PageOwner for Shared {
    fn leaves(&self, page: &Leaving<'_>) -> bool {
        self.0.leaves(page)
    }

    fn moves(&self, page: &Moving) -> bool {
        self.0.moves(page)
    }
}

fn build(embedder: &Arc<Embedder>) -> Result<Arc<Arena>, ArenaError> {
    let [grow, shrink, leaks] = [0; 3].map(|_| Arc::clone(embedder));
    let builder = Arena::builder().size(SIZE).limit(LIMIT).page(PAGE).max_order(6).without_background();
    let builder = builder.mechanisms(Mechanisms::parse("default,compaction=emptiest").unwrap());
    let builder = builder.movable_pages(Shared(Arc::clone(embedder))).callbacks(embedder.clone());
    let builder = builder.shrinker(embedder.clone()).commit(embedder.clone());
    let builder = builder.on_grow(move |_| {
        grow.called("on_grow");
        true
    });
    let builder = builder.on_shrink(move |_| {
        shrink.called("on_shrink");
        true
    });
    builder.report_leaks(move |_| leaks.called("report_leaks")).build().map(Arc::new)
}

/// Makes the arena call its embedder in all ways; gives back what it got.
fn work(arena: &Arc<Arena>, embedder: &Embedder) {
    let owned = |order| arena.alloc_owned(&Request::new(GFP_USER, order));
    // All there is, and all that can come; half of the movable pages go.
    let blocks: Vec<OwnedPages> = (0..20).map_while(|_| arena.alloc_owned(&MOVABLE).ok()).collect();
    let mut pages: Vec<MovablePage> =
        (0..120).map_while(|key| arena.alloc_movable(&MOVABLE, key, |_| ()).ok()).collect();
    // Its lock must not be held while something is allocated.
    let cache: Vec<OwnedPages> = (0..20).map_while(|_| owned(0).ok()).collect();
    embedder.cache.lock().unwrap().extend(cache);
    pages.retain(|page| page.key().is_multiple_of(2));
    arena.drain();
    // Contents move and leave, and the cache is freed.
    let large: Vec<_> = (0..3).map_while(|_| arena.alloc(&Request::new(GFP_KERNEL, 5)).ok()).collect();
    drop(large);
    arena.compact(NodeId(0));
    let start = arena.frames().start;
    // SAFETY: it frees nothing that anybody has.
    let allocator = unsafe { arena.allocator() };
    for range in [(0, 32), (32, 64), (5, 77)].map(|(from, to)| PfnRange { start: start.add(from), end: start.add(to) })
    {
        if allocator.take_offline(range).is_ok() {
            assert_eq!(allocator.bring_online(range), range.frames());
        }
    }
    pages.truncate(20);
    let all: Vec<_> = std::iter::from_fn(|| arena.alloc(&Request::page(GFP_KERNEL)).ok()).collect();
    drop((all, blocks, pages));
    embedder.cache.lock().unwrap().clear();
    let _ = arena.shrink(LIMIT);
    let _ = arena.grow(PAGE << 6);
}

fn assert_nothing_is_lost(arena: &Arena, what: &str) {
    arena.drain();
    let census = arena.validate().unwrap_or_else(|violation| panic!("{what}: {violation}"));
    let frames = arena.present() / PAGE;
    assert_eq!((census.free, census.isolated, census.allocated, census.quarantined), (frames, 0, 0, 0), "{what}");
    assert_eq!(arena.refused_frees(), 0, "{what}");
    let whole: Vec<_> = std::iter::from_fn(|| arena.alloc(&Request::new(GFP_KERNEL, 6)).ok()).collect();
    assert!(whole.len() as u64 >= frames / 64, "{what}: {} of {frames} frames", whole.len() * 64);
}

/// Runs the workload; returns the embedder.
fn run(panics_at: u64) -> Arc<Embedder> {
    let embedder = Arc::new(Embedder { panics_at, ..Embedder::default() });
    let what = format!("call {panics_at} of the embedder panics");
    // A hook that panics while the arena is built is a refusal, and the next build is as the first.
    let arena = build(&embedder).or_else(|_| build(&embedder)).unwrap();
    work(&arena, &embedder);
    assert_nothing_is_lost(&arena, &what);
    // Again, undisturbed.
    work(&arena, &embedder);
    assert_nothing_is_lost(&arena, &what);
    let leaked = arena.alloc(&MOVABLE).unwrap().into_raw();
    assert_eq!(leaked.1, Order(0));
    // The program's own thread drops the arena, so the panic of a report of leaks is its own.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(arena)));
    embedder
}

#[test]
fn every_call_of_an_arena_s_embedder_may_panic() {
    let undisturbed = run(0);
    for (kind, calls) in KINDS.iter().zip(&undisturbed.calls) {
        assert!(calls.load(SeqCst) != 0, "{kind} was not called");
    }
    let mut k = 1;
    while run(k).count() >= k {
        k += 1;
    }
    assert!(k > 100, "{k} calls");
}
