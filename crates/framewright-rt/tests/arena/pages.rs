//! Blocks that own themselves.

use std::sync::Arc;

use framewright::request::GFP_USER;
use framewright::{FreeError, Order, PfnRange, Request};
use framewright_rt::{Arena, ArenaError, Backing, OwnedPages, Pages};
use proptest::prelude::*;

fn arena() -> Arena {
    Arena::builder().without_background().size(16 << 20).build().unwrap()
}

fn allocated(arena: &Arena) -> u64 {
    arena.validate().unwrap().allocated
}

#[test]
fn a_block_is_a_slice_until_it_is_dropped() {
    let arena = arena();
    let mut block = arena.alloc(&Request::new(GFP_USER, 3)).unwrap();
    assert_eq!((block.len(), block.order(), block.frames().frames()), (32_768, Order(3), 8));
    assert!(block.iter().all(|&byte| byte == 0), "new memory is zero");
    block.fill(9);
    assert_eq!(allocated(&arena), 8);
    let again = block.pfn();
    drop(block);
    assert_eq!(allocated(&arena), 0);
    let block = arena.alloc(&Request::new(GFP_USER, 3)).unwrap();
    assert_eq!((block.pfn(), block[0]), (again, 9), "the block freed last comes first, as it was left");
}

#[test]
fn a_block_let_go_is_taken_over_once() {
    let arena = arena();
    let (pfn, order) = arena.alloc(&Request::new(GFP_USER, 2)).unwrap().into_raw();
    assert_eq!(allocated(&arena), 4);
    // SAFETY: the block was let go above, and of the wrong takers none gets a block.
    let take = |pfn, order| unsafe { Pages::from_raw(&arena, pfn, order) };
    assert!(matches!(take(pfn, Order(1)), Err(FreeError::WrongOrder { .. })));
    assert!(matches!(take(pfn.add(1), Order(0)), Err(FreeError::NotHead { .. })));
    assert!(matches!(take(arena.frames().end, Order(0)), Err(FreeError::Foreign(_))));
    let first = take(pfn, order).unwrap();
    // Against the contract: two owners. The second free is refused, counted, and changes nothing.
    let second = take(pfn, order).unwrap();
    drop(first);
    drop(second);
    assert_eq!((allocated(&arena), arena.refused_frees()), (0, 1));
    assert!(matches!(take(pfn, order), Err(FreeError::AlreadyFree(_))));
}

#[test]
fn a_block_is_split_into_its_parts() {
    let arena = arena();
    let block = arena.alloc(&Request::new(GFP_USER, 4)).unwrap();
    let frames = block.frames();
    let (block, error) = block.split(Order(5)).unwrap_err();
    assert!(matches!(error, FreeError::BadOrder { .. }));
    let mut parts = block.split(Order(1)).unwrap();
    assert_eq!(parts.len(), 8);
    let kept: Vec<_> = parts.by_ref().take(3).collect();
    for (i, part) in kept.iter().enumerate() {
        assert_eq!((part.pfn(), part.len()), (frames.start.add(2 * i as u64), 8192));
    }
    drop(parts);
    assert_eq!(allocated(&arena), 6, "what was not taken is freed");
    drop(kept);
    assert_eq!((allocated(&arena), arena.refused_frees()), (0, 0));
}

#[test]
fn owned_blocks_keep_their_arena() {
    let arena = Arc::new(arena());
    let mut block = arena.alloc_owned(&Request::page(GFP_USER)).unwrap();
    let weak = Arc::downgrade(&arena);
    drop(arena);
    block.fill(3);
    let block = std::thread::spawn(move || {
        assert!(block.iter().all(|&byte| byte == 3));
        block
    });
    let block: OwnedPages = block.join().unwrap();
    assert_eq!(allocated(block.arena()), 1);
    let parts: Vec<_> = block.split(Order(0)).unwrap().collect();
    drop(parts);
    assert!(weak.upgrade().is_none());
}

#[test]
fn blocks_cross_threads_and_bulk_is_served_as_far_as_it_goes() {
    let arena = arena();
    let mut blocks = Vec::new();
    assert_eq!(arena.alloc_bulk(&Request::page(GFP_USER), 1_000, &mut blocks), Ok(1_000));
    std::thread::scope(|scope| {
        for chunk in blocks.chunks_mut(250) {
            scope.spawn(move || chunk.iter_mut().for_each(|page| page.fill(1)));
        }
    });
    assert!(blocks.iter().all(|page| page.iter().all(|&byte| byte == 1)));
    assert_eq!(arena.alloc_bulk(&Request::page(GFP_USER), 10_000, &mut blocks), Ok(3_096));
    assert!(arena.alloc_bulk(&Request::page(GFP_USER), 1, &mut blocks).is_err());
    assert_eq!(arena.alloc_bulk(&Request::page(GFP_USER), 0, &mut blocks), Ok(0));
    assert_eq!(blocks.len(), 4_096);
    std::thread::scope(|scope| {
        let half = blocks.split_off(2_000);
        scope.spawn(move || drop(half));
        scope.spawn(move || drop(blocks));
    });
    assert_eq!(allocated(&arena), 0);
}

#[test]
fn a_thread_stays_on_a_cpu_for_many_calls() {
    // Each of the threads keeps a CPU, also where the machine has few processors; one is for all others.
    let arena = || Arena::builder().without_background().size(16 << 20).cpus(7).build().unwrap();
    let (arena, other) = (arena(), arena());
    std::thread::scope(|scope| {
        for order in [0, 1, 3, 5, 9] {
            let (arena, other) = (&arena, &other);
            scope.spawn(move || {
                let (local, foreign) = (arena.local().unwrap(), other.local().unwrap());
                let request = Request::new(GFP_USER, order);
                for _ in 0..500 {
                    let mut held: Vec<_> = (0..3).filter_map(|_| local.alloc(&request).ok()).collect();
                    held.iter_mut().for_each(|pages| pages[0] = order);
                    held.extend(foreign.alloc(&request));
                    assert!(held.iter().take(3).all(|pages| pages.len() == 4096 << order));
                    // Some of this arena, one of another, and one that is dropped as any other.
                    held.drain(1..).for_each(|pages| local.free(pages));
                    let served = local.alloc_bulk(&request, 2, &mut held);
                    assert_eq!(held.len(), 1 + served.unwrap_or(0));
                    assert!(std::ptr::eq(local.arena(), arena));
                }
            });
        }
    });
    for arena in [arena, other] {
        assert_eq!((allocated(&arena), arena.refused_frees()), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Blocks of many arenas at once share no byte: each is filled with its own pattern, and keeps it.
    #[test]
    fn blocks_of_many_arenas_share_nothing(
        sizes in prop::collection::vec(1_u64..2_000, 1..6),
        requests in prop::collection::vec((0_usize..6, 0_u8..6, any::<bool>()), 1..200),
    ) {
        let arenas: Vec<Arena> =
            sizes.iter().map(|pages| Arena::builder().without_background().size(pages * 4096).build().unwrap()).collect();
        let mut held: Vec<(Pages<'_>, u8)> = Vec::new();
        for (i, (arena, order, keep)) in requests.into_iter().enumerate() {
            if !keep && !held.is_empty() {
                let (block, mark) = held.swap_remove(i % held.len());
                prop_assert!(block.iter().all(|&byte| byte == mark));
            }
            let arena = &arenas[arena % arenas.len()];
            if let Ok(mut block) = arena.alloc(&Request::new(GFP_USER, order)) {
                let mark = i as u8 | 1;
                block.fill(mark);
                held.push((block, mark));
            }
        }
        let mut ranges: Vec<(usize, usize)> =
            held.iter().map(|(block, _)| (block.address().as_ptr().addr(), block.len())).collect();
        ranges.sort_unstable();
        prop_assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        for (block, mark) in &held {
            prop_assert!(block.iter().all(|byte| byte == mark));
        }
        drop(held);
        prop_assert!(arenas.iter().all(|arena| allocated(arena) == 0 && arena.refused_frees() == 0));
    }
}

#[test]
fn frames_are_discarded_by_their_owner() {
    for backing in [Backing::Private, Backing::Memfd] {
        let arena = Arena::builder().without_background().size(16 << 20).backing(backing).build().unwrap();
        let mut block = arena.alloc(&Request::new(GFP_USER, 3)).unwrap();
        block.fill(7);
        let part = PfnRange { start: block.pfn().add(2), end: block.pfn().add(5) };
        // SAFETY: the block is borrowed by no other code.
        unsafe { arena.discard(part) }.unwrap();
        let zeros = |page: &[u8]| page.iter().all(|&byte| byte == 0);
        let are_zero: Vec<bool> = block.chunks(arena.page_size()).map(zeros).collect();
        assert_eq!(are_zero, [false, false, true, true, true, false, false, false], "{backing}");
        let frames = arena.frames();
        for outside in
            [PfnRange::new(frames.end.0, frames.end.0 + 1), PfnRange::new(8, frames.end.0 + 1), PfnRange::new(5, 4)]
        {
            // SAFETY: the call is refused.
            let refused = unsafe { arena.discard(outside) };
            assert!(matches!(refused, Err(ArenaError::NotItsFrames { .. })), "{outside}");
        }
    }
}
