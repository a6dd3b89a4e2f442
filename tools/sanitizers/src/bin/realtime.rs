//! The calls that a thread with deadlines may make, for RealtimeSanitizer: none asks the C library for memory, a lock or
//! anything else that may wait.
//!
//! | call | through |
//! |---|---|
//! | allocate and free a cached page, and one that a refill brings | the arena, a `LocalArena`, an owner of the arena |
//! | `GFP_NOWAIT` and `GFP_ATOMIC` of orders 0 to 9 | the arena |
//! | a request that must fail, without waiting | the arena, when it is full |
//! | frees that give a list back to the zone | the arena |
//!
//! The sanitizer sees calls of the C library. It does not see a system call that `rustix` makes, which is an
//! instruction. Those are known by single steps (`ci/instructions.sh`).
//!
//! Usage: `realtime [planted]`. With `planted`, a function that may not wait makes a vector, which must be reported.
//!
//! Built by `ci/sanitizers.sh` with `--cfg framewright_rtsan`, for the attribute needs a nightly compiler.
#![cfg_attr(framewright_rtsan, feature(sanitize))]

use std::hint::black_box;
use std::sync::Arc;

use framewright::request::{GFP_ATOMIC, GFP_NOWAIT};
use framewright_rt::{Arena, LocalArena, OwnedPages, Pages, Request};

const PAGES: usize = 512;

/// Allocates into room that is there, then frees.
#[cfg_attr(framewright_rtsan, sanitize(realtime = "nonblocking"))]
fn plain<'a>(arena: &'a Arena, request: &Request, pages: &mut Vec<Pages<'a>>) {
    while pages.len() < pages.capacity()
        && let Ok(block) = arena.alloc(request)
    {
        pages.push(block);
    }
    pages.clear();
}

#[cfg_attr(framewright_rtsan, sanitize(realtime = "nonblocking"))]
fn local<'a>(local: &LocalArena<'a>, request: &Request, pages: &mut Vec<Pages<'a>>) {
    while pages.len() < pages.capacity()
        && let Ok(block) = local.alloc(request)
    {
        pages.push(block);
    }
    while let Some(block) = pages.pop() {
        local.free(block);
    }
}

#[cfg_attr(framewright_rtsan, sanitize(realtime = "nonblocking"))]
fn owned(arena: &Arc<Arena>, request: &Request, pages: &mut Vec<OwnedPages>) {
    while pages.len() < pages.capacity()
        && let Ok(block) = arena.alloc_owned(request)
    {
        pages.push(block);
    }
    pages.clear();
}

/// Returns how many requests failed.
#[cfg_attr(framewright_rtsan, sanitize(realtime = "nonblocking"))]
fn fails(arena: &Arena) -> usize {
    (0..64).filter(|_| arena.alloc(&Request::new(GFP_NOWAIT, 9)).is_err()).count()
}

/// The planted violation.
#[cfg_attr(framewright_rtsan, sanitize(realtime = "nonblocking"))]
fn planted(length: usize) -> Vec<u64> {
    vec![black_box(7); length]
}

fn main() {
    if std::env::args().nth(1).is_some_and(|argument| argument == "planted") {
        println!("{}", black_box(planted(black_box(100))).len());
        return;
    }
    let arena = Arc::new(Arena::builder().size(16 << 20).without_background().build().expect("memory for the arena"));
    // A thread's first call registers its exit with the C library, and leases a CPU.
    drop(arena.alloc(&Request::page(GFP_NOWAIT)));
    let (mut pages, mut kept) = (Vec::with_capacity(PAGES), Vec::with_capacity(PAGES));
    let mut calls = 0;
    for order in 0..10 {
        for gfp in [GFP_NOWAIT, GFP_ATOMIC] {
            for _ in 0..8 {
                plain(&arena, &Request::new(gfp, order), &mut pages);
                owned(&arena, &Request::new(gfp, order), &mut kept);
                calls += 2;
            }
        }
    }
    let handle = arena.local().expect("a CPU");
    for _ in 0..64 {
        local(&handle, &Request::page(GFP_NOWAIT), &mut pages);
        calls += 1;
    }
    drop(handle);
    let all: Vec<_> = std::iter::from_fn(|| arena.alloc(&Request::page(GFP_NOWAIT)).ok()).collect();
    assert_eq!(fails(&arena), 64);
    println!("realtime: {calls} turns, {} pages held, none waited", all.len());
}
