//! The CPU of a local arena is its thread's.
use std::thread;

use framewright_rt::Arena;

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let local = arena.local().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || drop(local));
    });
}
