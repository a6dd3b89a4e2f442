//! An access to a page after its free, for AddressSanitizer.
//!
//! Usage: `freed [ACCESS]`. Without an access, only owners look at their pages, and the addresses of an arena that is
//! gone serve another. Each access of the list must be reported.
//!
//! Built by `ci/sanitizers.sh` with the feature `asan`; without it, no access is.
#![allow(unsafe_code, reason = "pages are used after their free, the subject")]

use std::process::ExitCode;
use std::sync::Arc;

use framewright::mechanisms::Mechanisms;
use framewright::request::{__GFP_ZERO, GFP_NOWAIT, GFP_USER};
use framewright_rt::{Arena, NodeId, Order, Request};

fn arena() -> Arena {
    let mechanisms = Mechanisms::parse("default,hardened=poison").expect("known mechanisms");
    let builder = Arena::builder().size(8 << 20).mechanisms(mechanisms).without_background();
    builder.build().expect("memory for the arena")
}

/// What owners do.
fn right() {
    for round in 0..4 {
        let arena = Arc::new(arena());
        let mut held = Vec::new();
        for number in 0..2_000_u64 {
            let gfp = if number % 3 == 0 { GFP_USER | __GFP_ZERO } else { GFP_NOWAIT };
            if let Ok(mut block) = arena.alloc_owned(&Request::new(gfp, (number % 4) as u8)) {
                block.fill(round);
                held.push(block);
            }
            if number % 2 == 1 {
                let block = held.swap_remove(number as usize * 7 % held.len());
                assert!(block.iter().all(|&byte| byte == round));
            }
        }
        let movable: Vec<_> = (0..64)
            .map_while(|key| arena.alloc_movable(&Request::page(GFP_USER), key, |page| page.fill(3)).ok())
            .collect();
        held.clear();
        arena.compact(NodeId(0));
        arena.drain();
        assert!(movable.iter().all(|page| page.read().is_none_or(|bytes| bytes.iter().all(|&byte| byte == 3))));
        arena.trim(Order(0)).expect("private memory is given back");
    }
}

fn main() -> ExitCode {
    let arena_of_fault = || {
        let arena = arena();
        let start = arena.alloc(&Request::new(GFP_USER, 2)).expect("memory").address().as_ptr();
        (arena, start)
    };
    match std::env::args().nth(1).as_deref() {
        None => right(),
        Some("read") => {
            let (_arena, start) = arena_of_fault();
            // SAFETY: none, it is the planted fault. The page is mapped.
            println!("{}", unsafe { start.add(4096).read_volatile() });
        }
        Some("write") => {
            let (_arena, start) = arena_of_fault();
            // SAFETY: as above.
            unsafe { start.write_volatile(1) };
        }
        Some(other) => {
            eprintln!("freed: there is no access {other:?}");
            return ExitCode::from(2);
        }
    }
    println!("freed: nothing was reported");
    ExitCode::SUCCESS
}
