//! Memory that was written to after it was freed is not handed out again, and what was in freed memory is gone.

use framewright::mechanisms::{Hardened, Mechanisms};
use framewright::request::GFP_USER;
use framewright::{FrameState, Pfn, Request};
use framewright_rt::{Arena, Pages};

const FRAMES: u64 = 1024;

fn arena(hardened: Hardened) -> Arena {
    let mechanisms = Mechanisms { hardened, ..Mechanisms::DEFAULT };
    Arena::builder().without_background().size(FRAMES * 4096).mechanisms(mechanisms).build().unwrap()
}

/// Everything that the arena gives, page by page.
fn all(arena: &Arena) -> Vec<Pages<'_>> {
    std::iter::from_fn(|| arena.alloc(&Request::page(GFP_USER)).ok()).collect()
}

/// A page with something in it, freed; where it was.
fn freed(arena: &Arena) -> (Pfn, *mut u8) {
    let mut page = arena.alloc(&Request::page(GFP_USER)).unwrap();
    page.fill(7);
    (page.pfn(), page.as_mut_ptr())
}

#[test]
fn who_writes_after_a_free_loses_the_block_to_quarantine() {
    for hardened in [Hardened::Poison, Hardened::Zero] {
        let arena = arena(hardened);
        let (pfn, address) = freed(&arena);
        // SAFETY: the page is mapped as long as the arena, and nobody has it: that somebody writes to it all the same is the test.
        unsafe { address.add(1000).write_volatile(1) };
        let pages = all(&arena);
        assert_eq!(pages.len() as u64, FRAMES - 1);
        assert!(pages.iter().all(|page| page.pfn() != pfn));
        // SAFETY: nothing is freed through it.
        let allocator = unsafe { arena.allocator() };
        assert_eq!(allocator.counters().written_after_free, 1);
        assert!(matches!(allocator.state_of(pfn), FrameState::Quarantined(..)));
        assert_eq!(arena.validate().unwrap().quarantined, 1);
        drop(pages);
        assert_eq!(arena.validate().unwrap().allocated, 0);
    }
}

#[test]
fn nothing_is_left_of_what_was_freed() {
    let arena = arena(Hardened::Zero);
    freed(&arena);
    assert!(all(&arena).iter().all(|page| page.iter().all(|&byte| byte == 0)));
}

#[test]
fn freed_pages_wait_before_they_are_used_again() {
    let arena = arena(Hardened::Poison);
    let (pfn, _) = freed(&arena);
    for _ in 0..32 {
        assert_ne!(freed(&arena).0, pfn);
    }
    assert_eq!(arena.validate().unwrap().allocated, 0);
}
