//! Arenas in a fork's child: a private one goes on with its own copy, a shared one is the parent's.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use framewright::request::GFP_USER;
use framewright::{AllocError, Order, Request, Why};
use framewright_rt::{Arena, ArenaError, Backing, Change, CpuMode, Pages};

use crate::forked::in_child;

const MIB: u64 = 1 << 20;
const PAGE: Request = Request::page(GFP_USER);

/// Marks pages, lets some go and checks the others.
fn come_and_go(arena: &Arena, turns: usize) {
    let mut held: Vec<(Pages<'_>, u8)> = Vec::new();
    for turn in 0..turns {
        if held.len() > 40 || (turn % 3 == 2 && !held.is_empty()) {
            let (pages, mark) = held.swap_remove(turn * 31 % held.len());
            assert!(pages.iter().all(|&byte| byte == mark));
        } else {
            let order = [0, 0, 1, 3, 9][turn % 5];
            if let Ok(mut pages) = arena.alloc(&Request::new(GFP_USER, order)) {
                pages.fill(turn as u8);
                held.push((pages, turn as u8));
            }
        }
    }
}

/// Ends the other threads when it is dropped, after a failure too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_private_arena_goes_on_in_both() {
    for mode in [CpuMode::Lease, CpuMode::PerCpu] {
        let arena = Arena::builder().without_background().size(64 * MIB).cpu_mode(mode).build().unwrap();
        let mut mine = arena.alloc(&Request::new(GFP_USER, 3)).unwrap();
        mine.fill(1);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(SeqCst) {
                        come_and_go(&arena, 100);
                    }
                });
            }
            let _ends = Ends(&over);
            for _ in 0..15 {
                let went_well = in_child(|| {
                    assert!(arena.validate().unwrap().allocated >= 8);
                    std::thread::scope(|scope| {
                        let threads = [0; 2].map(|_| scope.spawn(|| come_and_go(&arena, 200)));
                        threads.into_iter().for_each(|thread| thread.join().unwrap());
                    });
                    // A copy: the parent's stays as it is.
                    assert!(mine.iter().all(|&byte| byte == 1));
                    mine.fill(2);
                    arena.trim(Order(9)).unwrap();
                    assert!(mine.iter().all(|&byte| byte == 2));
                    let (pfn, order) = (mine.pfn(), mine.order());
                    // SAFETY: the child's only owner; its `mine` is not dropped.
                    drop(unsafe { Pages::from_raw(&arena, pfn, order) }.unwrap());
                    arena.validate().unwrap();
                    assert_eq!(arena.refused_frees(), 0);
                });
                assert!(went_well);
                assert!(mine.iter().all(|&byte| byte == 1));
            }
        });
        drop(mine);
        assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
    }
}

#[test]
fn an_arena_that_changes_its_size_goes_on_in_both() {
    let arena = Arena::builder().without_background().size(16 * MIB).limit(64 * MIB).build().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                come_and_go(&arena, 100);
            }
        });
        scope.spawn(|| {
            while !over.load(SeqCst) {
                let _ = arena.grow(16 * MIB);
                arena.shrink(32 * MIB).unwrap();
            }
        });
        let _ends = Ends(&over);
        for _ in 0..6 {
            assert!(in_child(|| {
                arena.validate().unwrap();
                come_and_go(&arena, 200);
                // Blocks of threads that the child does not have stay allocated.
                let before = arena.present();
                let gone = arena.shrink(64 * MIB).unwrap();
                assert_eq!(arena.present(), before - gone);
                arena.grow(64 * MIB).unwrap();
                assert_eq!(arena.present(), 64 * MIB);
                come_and_go(&arena, 200);
                let counts = arena.validate().unwrap();
                assert_eq!((counts.offline, arena.refused_frees()), (0, 0));
            }));
        }
    });
    arena.shrink(64 * MIB).unwrap();
    assert_eq!((arena.validate().unwrap().allocated, arena.present(), arena.refused_frees()), (0, 2 * MIB, 0));
}

#[test]
fn a_hook_may_fork() {
    let slot: Arc<OnceLock<Weak<Arena>>> = Arc::default();
    let also = slot.clone();
    let fork = move |_: &Change| {
        let arena = also.get().unwrap().upgrade().unwrap();
        in_child(|| {
            assert_eq!(arena.alloc(&PAGE).unwrap_err(), AllocError::no_memory(Why::NoCpu));
            assert!(matches!(arena.grow(1), Err(ArenaError::Refused(_))));
        })
    };
    let arena =
        Arc::new(Arena::builder().without_background().size(4 * MIB).limit(8 * MIB).on_grow(fork).build().unwrap());
    slot.set(Arc::downgrade(&arena)).unwrap();
    assert_eq!(arena.grow(2 * MIB), Ok(2 * MIB), "the child refuses, because the change is not over");
}

/// Checks an arena that is the parent's, in the child.
fn is_the_parents(arena: &Arena, held: Vec<Pages<'_>>) {
    assert_eq!(arena.alloc(&PAGE).unwrap_err(), AllocError::no_memory(Why::NoCpu));
    assert!(arena.alloc_bulk(&PAGE, 3, &mut Vec::new()).is_err());
    let count = held.len() as u64;
    drop(held);
    assert_eq!(arena.refused_frees(), count, "a drop frees nothing");
    assert_eq!(arena.drain(), 0);
    let trimmed = arena.trim(Order(9));
    assert!(trimmed.is_err() || trimmed.unwrap().blocks == 0, "what is free is the parent's");
}

#[test]
fn a_shared_arena_is_the_parents() {
    let mut memory = vec![0_u64; 1 << 18];
    let address = memory.as_mut_ptr().cast::<u8>();
    let start = NonNull::new(address.wrapping_add(address.align_offset(4096))).unwrap();
    let handed_in = NonNull::slice_from_raw_parts(start, MIB as usize);
    let arenas = [
        Arena::builder().without_background().size(8 * MIB).backing(Backing::Memfd).build().unwrap(),
        // SAFETY: within the vector, which outlives the arena and is used in no other way.
        unsafe { Arena::builder().without_background().build_in(handed_in) }.unwrap(),
    ];
    for arena in &arenas {
        let mut held: Vec<_> = (0..10).map(|_| arena.alloc(&PAGE).unwrap()).collect();
        held.iter_mut().for_each(|pages| pages.fill(3));
        // SAFETY: the child's owner; the parent's pages are dropped by the parent, in its own memory.
        let copy = |pages: &Pages<'_>| unsafe { Pages::from_raw(arena, pages.pfn(), pages.order()) }.unwrap();
        assert!(in_child(|| is_the_parents(arena, held.iter().map(copy).collect())));
        assert!(held.iter().all(|pages| pages.iter().all(|&byte| byte == 3)));
        drop(held);
        assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
    }
}

#[test]
fn background_work_begins_again_when_it_is_told_to() {
    let mut arena =
        Arena::builder().without_background().size(8 * MIB).background(Duration::from_millis(1)).build().unwrap();
    assert!(in_child(|| {
        let background = arena.background().unwrap();
        assert!(!background.is_running());
        background.restart().unwrap();
        assert!(background.is_running());
        come_and_go(&arena, 200);
        drop(arena);
    }));
}
