//! What reports are read from frees nothing.
use framewright_rt::{Arena, Order};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let pfn = arena.frames().start;
    let _ = arena.source().free(pfn, Order(0));
}
