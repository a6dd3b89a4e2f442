//! The bytes of a block are borrowed from it.
use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let mut pages = arena.alloc(&Request::page(GFP_USER)).unwrap();
    let one = &mut pages[..];
    let other = &mut pages[..];
    one[0] = other[0];
}
