//! Once the lock is given up, the page may move.
use std::sync::Arc;

use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arc::new(Arena::builder().size(16 << 20).build().unwrap());
    let page = arena.alloc_movable(&Request::page(GFP_USER), 0, |_| ()).unwrap();
    let contents = page.write().unwrap();
    let bytes = &contents[..];
    drop(contents);
    let _ = bytes[0];
}
