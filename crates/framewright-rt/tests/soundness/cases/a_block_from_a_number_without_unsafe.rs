//! A number proves no ownership.
use framewright_rt::{Arena, Order, Pages};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let _pages = Pages::from_raw(&arena, arena.frames().start, Order(0));
    let _pages = Pages::from_raw_unchecked(&arena, arena.frames().start, Order(0));
}
