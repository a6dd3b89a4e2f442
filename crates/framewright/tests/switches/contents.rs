//! What is in a page that was freed, when it is allocated again under given mechanisms.

use framewright::request::GFP_USER;
use framewright::{Mechanisms, Request};
use framewright_rt::Arena;

/// Frames of the arena.
const FRAMES: usize = 1024;

/// Fills a page, frees it, and allocates all pages; returns what the one that was filled begins with.
pub(crate) fn play(mechanisms: Mechanisms) -> Vec<String> {
    let arena = Arena::builder().without_background().size(FRAMES as u64 * 4096).mechanisms(mechanisms);
    let arena = arena.build().unwrap();
    let request = Request::page(GFP_USER);
    let mut page = arena.alloc(&request).unwrap();
    page.fill(7);
    let pfn = page.pfn();
    drop(page);
    let all: Vec<_> = std::iter::from_fn(|| arena.alloc(&request).ok()).collect();
    all.iter().filter(|page| page.pfn() == pfn).map(|page| format!("{:?}", page.first())).collect()
}
