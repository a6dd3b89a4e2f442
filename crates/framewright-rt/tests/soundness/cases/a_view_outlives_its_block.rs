//! A freed block has no views.
use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let pages = arena.alloc(&Request::page(GFP_USER)).unwrap();
    let bytes = &pages[..];
    drop(pages);
    let _ = bytes[0];
}
