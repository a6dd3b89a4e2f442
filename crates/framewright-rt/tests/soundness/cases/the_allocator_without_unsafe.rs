//! Frees by number are the allocator's, which is unsafe to get.
use framewright_rt::Arena;

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let _allocator = arena.allocator();
}
