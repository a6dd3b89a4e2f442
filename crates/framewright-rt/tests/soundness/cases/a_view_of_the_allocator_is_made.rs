//! Only an arena has such a view, and its parts are private.
use framewright_rt::{Arena, ArenaState};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let ArenaState(_allocator) = arena.source();
}
