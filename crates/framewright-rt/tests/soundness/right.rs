//! What the cases do wrong, done right.

use std::sync::Arc;
use std::thread;

use framewright_rt::{Arena, MovablePage, Order, Request, request::GFP_USER};

fn main() {
    let arena = Arc::new(Arena::builder().size(16 << 20).without_background().build().unwrap());
    let mut pages = arena.alloc(&Request::new(GFP_USER, 1)).unwrap();
    pages[0] = 1;
    thread::scope(|scope| scope.spawn(|| pages[1] = 2).join()).unwrap();
    for mut part in pages.split(Order(0)).unwrap() {
        part[0] = 3;
    }
    let owned = arena.alloc_owned(&Request::page(GFP_USER)).unwrap();
    thread::spawn(move || drop(owned)).join().unwrap();
    {
        let local = arena.local().unwrap();
        local.free(local.alloc(&Request::page(GFP_USER)).unwrap());
    }
    let page: MovablePage = arena.alloc_movable(&Request::page(GFP_USER), 0, |_| ()).unwrap();
    assert_eq!(page.read().unwrap()[0], 0);
    page.write().unwrap()[0] = 1;
}
