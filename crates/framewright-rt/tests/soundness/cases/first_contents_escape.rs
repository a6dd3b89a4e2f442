//! A new page is locked while it is filled.
use std::sync::Arc;

use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arc::new(Arena::builder().size(16 << 20).build().unwrap());
    let mut kept: Option<&mut [u8]> = None;
    let page = arena.alloc_movable(&Request::page(GFP_USER), 0, |bytes| kept = Some(bytes));
    kept.unwrap()[0] = 1;
    drop(page);
}
