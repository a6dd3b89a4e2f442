//! Whoever has the file can write to all blocks.
use framewright_rt::{Arena, Backing};

fn main() {
    let arena = Arena::builder().size(16 << 20).backing(Backing::Memfd).build().unwrap();
    let _file = arena.memfd();
}
