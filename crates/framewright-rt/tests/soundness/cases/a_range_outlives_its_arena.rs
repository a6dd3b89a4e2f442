//! A range borrows its arena.
use std::alloc::Layout;

use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let range = arena.alloc_range(&Request::page(GFP_USER), Layout::new::<[u8; 12_288]>()).unwrap();
    drop(arena);
    let _ = range[0];
}
