//! Only one thread calls by a pinned CPU.
use std::thread;

use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let local = arena.local().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| local.alloc(&Request::page(GFP_USER)).is_ok());
    });
}
