//! The parts of a block own it.
use framewright_rt::{Arena, Order, Request, request::GFP_USER};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let mut pages = arena.alloc(&Request::new(GFP_USER, 1)).unwrap();
    let _parts = pages.split(Order(0)).unwrap();
    pages[0] = 1;
}
