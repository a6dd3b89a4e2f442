//! What a ledger costs: arenas without and with one, side by side.
//!
//! ```sh
//! cargo run --release -p framewright-rt --example recovery_cost
//! ```
//!
//! Each round measures every arena once, in turn, so that a slow moment of the machine hits all of them. The table has
//! the medians of all rounds, and each as a multiple of private memory's. `recovery_cost once KIND` makes one pair of
//! calls 1,000 times, for a program that counts instructions.

use std::hint::black_box;
use std::time::Instant;

use framewright_rt::request::GFP_USER;
use framewright_rt::{Arena, ArenaError, Backing, Request};

const ROUNDS: usize = 101;
/// Calls of a round.
const CALLS: u32 = 20_000;
/// Blocks that are held at once by the second pattern.
const HELD: usize = 64;

fn arena(kind: &str) -> Result<Arena, ArenaError> {
    let builder = Arena::builder().size(64 << 20).without_background();
    match kind {
        "private" => builder.build(),
        "memfd" => builder.backing(Backing::Memfd).build(),
        _ => builder.backing(Backing::Memfd).recoverable(true).build(),
    }
}

/// One page, allocated and freed again and again.
#[inline(never)]
fn pairs(arena: &Arena, calls: u32) {
    for _ in 0..calls {
        drop(black_box(arena.alloc(&Request::page(GFP_USER))));
    }
}

/// Pages that are allocated in a row and freed in the reverse order.
#[inline(never)]
fn rows(arena: &Arena, calls: u32) {
    let mut held = Vec::with_capacity(HELD);
    for _ in 0..calls as usize / HELD {
        held.extend((0..HELD).filter_map(|_| arena.alloc(&Request::page(GFP_USER)).ok()));
        while held.pop().is_some() {}
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [once, kind] = arguments.as_slice()
        && once == "once"
    {
        pairs(&arena(kind)?, 1_000);
        return Ok(());
    }
    let kinds = ["private", "memfd", "memfd with a ledger"];
    let arenas = kinds.map(arena);
    for (name, pattern) in [("pairs", pairs as fn(&Arena, u32)), ("rows of 64", rows)] {
        let mut times = [const { Vec::new() }; 3];
        for round in 0..=ROUNDS {
            for (arena, times) in arenas.iter().zip(&mut times) {
                let arena = arena.as_ref().map_err(|error| *error)?;
                let start = Instant::now();
                pattern(arena, CALLS);
                // The first round touches memory for the first time.
                if round != 0 {
                    times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
                }
            }
        }
        let medians = times.map(|mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        });
        println!("{name}, ns for an allocation and its free, medians of {ROUNDS} rounds:");
        for (kind, median) in kinds.iter().zip(medians) {
            println!("  {kind:20} {median:7.1}  {:5.2}", median / medians[0]);
        }
    }
    recovery()
}

/// Recovers an arena that is full of pages.
fn recovery() -> Result<(), Box<dyn std::error::Error>> {
    let arena = arena("ledger")?;
    let mut held = Vec::new();
    let count = arena.alloc_bulk(&Request::page(GFP_USER), usize::MAX, &mut held)?;
    held.into_iter().for_each(std::mem::forget);
    // SAFETY: nothing is written through it.
    let file = unsafe { arena.memfd() }.ok_or("no file")?.try_clone_to_owned()?.into();
    drop(arena);
    let start = Instant::now();
    let recovered = Arena::builder().without_background().recover(&file)?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    println!("recovery of an arena with {count} pages: {ms:.1} ms, {} found", recovered.held.len());
    Ok(())
}
