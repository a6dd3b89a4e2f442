//! Movable pages of an arena: they stay while in use, are evicted in order of use, and may be dropped during that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use framewright::request::{GFP_KERNEL, GFP_NOWAIT, GFP_USER};
use framewright::{Mechanisms, NodeId, Request};
use framewright_rt::{Arena, ArenaBuilder, Leaving, MovablePage, Scan, Shrink};

use crate::forked::in_child;

const PAGE: Request = Request::page(GFP_USER);
const NODE: NodeId = NodeId(0);

fn builder() -> ArenaBuilder {
    let mechanisms = Mechanisms::parse("default,compaction=emptiest").unwrap();
    Arena::builder().size(16 << 20).max_order(9).mechanisms(mechanisms).without_background()
}

fn page(arena: &Arc<Arena>, key: u64) -> MovablePage {
    arena.alloc_movable(&PAGE, key, |bytes| bytes.fill(key as u8)).unwrap()
}

/// Every page of the arena, then all but every fourth dropped: an eighth of each pageblock stays, in eights of it.
fn scattered(arena: &Arc<Arena>) -> Vec<MovablePage> {
    let mut pages: Vec<_> = (0..4096).map(|key| page(arena, key)).collect();
    pages.retain(|page| page.key() % 4 == 0);
    arena.drain();
    pages
}

fn is_intact(page: &MovablePage) -> bool {
    page.read().is_some_and(|bytes| bytes.iter().all(|&byte| byte == page.key() as u8))
}

#[test]
fn pages_move_for_who_wants_a_huge_block() {
    let arena = Arc::new(builder().build().unwrap());
    let pages = scattered(&arena);
    let huge: Vec<_> = (0..4).map(|_| arena.alloc(&Request::new(GFP_KERNEL, 9)).unwrap()).collect();
    assert!(arena.movable_pages().moved >= 4 * 128, "{:?}", arena.movable_pages());
    assert!(pages.iter().all(is_intact));
    drop((huge, pages));
    assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
}

#[test]
fn a_page_that_is_looked_at_stays() {
    let arena = Arc::new(builder().build().unwrap());
    let pages = scattered(&arena);
    let looked_at: Vec<_> = pages.iter().map(|page| page.read().unwrap()).collect();
    let before: Vec<_> = looked_at.iter().map(|bytes| bytes.as_ptr()).collect();
    arena.alloc(&Request::new(GFP_KERNEL, 9)).unwrap_err();
    assert!(arena.movable_pages().stayed != 0);
    assert_eq!(looked_at.iter().map(|bytes| bytes.as_ptr()).collect::<Vec<_>>(), before);
    drop(looked_at);
    assert_eq!(arena.movable_pages().moved, 0);
    // The next few are put off, because the last was in vain.
    let served = (0..64).find_map(|_| arena.alloc(&Request::new(GFP_KERNEL, 9)).ok());
    assert!(served.is_some() && arena.movable_pages().moved != 0, "{}", arena.buddyinfo());
    assert!(pages.iter().all(is_intact));
}

#[test]
fn who_was_used_is_the_last_to_leave() {
    let arena = Arc::new(builder().movable_pages(|_: &Leaving<'_>| true).build().unwrap());
    let pages: Vec<_> = (0..4096).map(|key| page(&arena, key)).collect();
    assert!(pages[..1000].iter().all(is_intact));
    let more: Vec<_> = (0..1000).map(|_| arena.alloc(&PAGE).unwrap()).collect();
    assert!(pages[..1000].iter().all(is_intact), "they were used");
    let gone = pages[1000..3000].iter().filter(|page| page.read().is_none()).count() as u64;
    assert!((1000..1200).contains(&gone) && arena.movable_pages().left == gone, "{gone}");
    drop((more, pages));
    assert_eq!(arena.validate().unwrap().allocated, 0);
}

#[test]
fn a_handle_may_be_dropped_while_its_page_leaves() {
    let cache: Arc<Mutex<HashMap<u64, MovablePage>>> = Arc::default();
    let known = Arc::clone(&cache);
    // Whatever it says: the page goes with its handle.
    let forget = move |page: &Leaving<'_>| {
        assert!(page.contents.iter().all(|&byte| byte == page.key as u8));
        known.lock().unwrap().remove(&page.key);
        page.key.is_multiple_of(2)
    };
    let arena = Arc::new(builder().movable_pages(forget).build().unwrap());
    for key in 0..20_000 {
        let page = page(&arena, key);
        cache.lock().unwrap().insert(key, page);
    }
    let kept = std::mem::take(&mut *cache.lock().unwrap());
    assert_eq!(arena.movable_pages().frames, kept.len() as u64);
    assert!(kept.values().all(is_intact));
    drop(kept);
    assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
}

/// Frees nothing, and counts the requests.
#[derive(Default)]
struct Asked(AtomicU64);

impl Shrink for Asked {
    fn count(&self, _: NodeId) -> u64 {
        100
    }

    fn scan(&self, scan: &Scan) -> u64 {
        assert_eq!(scan.node, NODE);
        self.0.fetch_add(1, SeqCst);
        0
    }
}

#[test]
fn background_reclaim_works_ahead() {
    let asked = Arc::new(Asked::default());
    let forget = |_: &Leaving<'_>| true;
    let builder = builder().min_free(1 << 20).movable_pages(forget).shrinker(asked.clone()).background_reclaim();
    let mut built = builder.build().unwrap();
    assert!(built.background_reclaim().unwrap().is_running());
    let arena = Arc::new(built);
    let mut pages = Vec::new();
    // A request that does not reclaim: a background thread must.
    let request = Request::page(GFP_NOWAIT);
    while arena.movable_pages().left == 0 {
        match arena.alloc_movable(&request, pages.len() as u64, |_| ()) {
            Ok(page) => pages.push(page),
            Err(_) => std::thread::yield_now(),
        }
    }
    let gone = || pages.iter().filter(|page| page.read().is_none()).count();
    assert!(gone() != 0);
    arena.validate().unwrap();
    drop(pages);
    let mut arena = Arc::into_inner(arena).unwrap();
    assert!(in_child(|| {
        let reclaim = arena.background_reclaim().unwrap();
        assert!(!reclaim.is_running());
        reclaim.restart().unwrap();
        assert!(reclaim.is_running());
        arena.validate().unwrap();
        drop(arena.alloc(&PAGE).unwrap());
    }));
    assert!(arena.background_reclaim().unwrap().is_running());
}
