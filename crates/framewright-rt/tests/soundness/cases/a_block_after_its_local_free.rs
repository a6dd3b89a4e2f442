//! A free takes the block.
use framewright_rt::{Arena, Request, request::GFP_USER};

fn main() {
    let arena = Arena::builder().size(16 << 20).build().unwrap();
    let local = arena.local().unwrap();
    let pages = local.alloc(&Request::page(GFP_USER)).unwrap();
    local.free(pages);
    let _ = pages[0];
}
