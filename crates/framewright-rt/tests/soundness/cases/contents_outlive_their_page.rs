//! A page that moves is locked while its contents are read.
use std::sync::Arc;

use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arc::new(Arena::builder().size(16 << 20).build().unwrap());
    let page = arena.alloc_movable(&Request::page(GFP_USER), 0, |_| ()).unwrap();
    let contents = page.read().unwrap();
    drop(page);
    let _ = contents[0];
}
