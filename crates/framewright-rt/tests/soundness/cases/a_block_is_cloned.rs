//! A block has one owner.
use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let pages = arena.alloc(&Request::page(GFP_USER)).unwrap();
    let _twice = pages.clone();
}
