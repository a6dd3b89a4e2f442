//! Tables of blocks and lists are read from the arena.
use framewright_rt::Arena;

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let (table, owners) = (arena.buddyinfo(), arena.owners());
    drop(arena);
    println!("{table}{owners}");
}
