//! Runs many generated scenarios and shows the smallest case of each kind of failure.
//!
//! `cargo run --example hunt --profile test -- 0 10000` runs the seeds from 0 up to, not including, 10000.

use std::collections::BTreeMap;

use framewright_ops::shrink::shrink;
use framewright_ops::{Failure, generate, run};

/// What failures of one kind have in common: the beginning of their text, numbers aside.
fn kind(failure: &Failure) -> String {
    let words = failure.wrong.split_whitespace().take_while(|word| !word.starts_with("0x")).take(6);
    let words = words.map(|word| if word.starts_with(|first: char| first.is_ascii_digit()) { "n" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Some(Ok(from)), Some(Ok(to))) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: hunt FIRST_SEED LAST_SEED");
        std::process::exit(2);
    };
    // A panic of the allocator is a failure like any other, and is shown as one.
    std::panic::set_hook(Box::new(|_| {}));
    let mut kinds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seed in from..to {
        if let Err(failure) = run(&generate::scenario(seed)) {
            kinds.entry(kind(&failure)).or_default().push(seed);
        }
    }
    println!("{} scenarios, {} kinds of failure", to.saturating_sub(from), kinds.len());
    for (name, seeds) in &kinds {
        println!("{:6} failures, first with seed {}: {name}", seeds.len(), seeds[0]);
    }
    for (name, seeds) in &kinds {
        let same = |failure: &Failure| kind(failure) == *name;
        let small = shrink(generate::scenario(seeds[0]), 4_000, |case| run(case).as_ref().is_err_and(same));
        if let Err(failure) = run(&small) {
            println!("\nseed {}: {failure}", seeds[0]);
        }
    }
}
