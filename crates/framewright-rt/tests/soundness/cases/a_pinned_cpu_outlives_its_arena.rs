//! A local arena borrows its arena.
use framewright_rt::Arena;

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let local = arena.local();
    drop(arena);
    drop(local);
}
