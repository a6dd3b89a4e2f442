//! Whoever takes a block's number out of it owns the block.
use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let pages = arena.alloc(&Request::page(GFP_USER)).unwrap();
    let _raw = pages.into_raw();
    let _ = pages[0];
}
