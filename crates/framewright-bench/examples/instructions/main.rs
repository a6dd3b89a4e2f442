//! Instructions of an allocation and of a free: a program to be counted, and one that counts it.
//!
//! Instructions do not depend on the machine's clock, its load or its neighbours, so they can be held against a number
//! in a check (`ci/instructions.sh`), and against those of Linux, which were counted in this way too (442 for an
//! allocation and 259 for a free, of order 0, 64 at a time).
//!
//! Variants `-above` run on a machine as a PC is: memory below 3 GiB, a hole, and from 4 GiB on the memory that is
//! used. Their numbers must be those without the hole.
//!
//! `run VARIANT` does the work: it boots an allocator as a program does that embeds it, warms it up, and then, eight
//! times, allocates 64 pages and frees them, the last first, and allocates and frees one page 64 times. Each page is
//! one call that is not inlined, and the loop around the calls counts too, as it does in Linux's numbers. Only
//! `counted_alloc`, `counted_free` and `counted_repeat` are counted; no other code of the benchmark is in them.
//!
//! Two ways to count, which must agree:
//!
//! - `step` runs this program under `ptrace`, and has the processor stop after each instruction of a counted function.
//!   It is the processor that runs here, and the kernel that a program has, so this is the path that programs go.
//! - Callgrind, with `--toggle-collect=*counted_alloc*`, counts `run`. It emulates the processor and passes system
//!   calls on; where it lacked one, another path might be taken. So `run` prints how threads come to CPUs, whether the
//!   asymmetric fence is there, and what the allocator counted itself; and `steps` how often each step of the core was
//!   made, by the same work on a machine that counts them. The two ways must agree.
//!
//! Every variant's threads lease their CPUs. Those that follow the processors can be counted in neither way: an
//! emulated kernel has no restartable sequences, and the real one restarts a sequence whenever a step stops it in the
//! middle.

mod counted;
#[cfg(target_os = "linux")]
mod stepping;
mod steps;

use std::process::ExitCode;

use counted::{Bulk, Pages, Through};
use framewright::report::Source;
use framewright::{Allocator, Config, Layout, Machine, Mechanisms, NodeId, Region, ZoneIdx};
use framewright_rt::{Native, Storage};
use steps::Counting;

/// Ways to call the allocator: plain calls, calls through `Allocator::local`, and 64 pages in one call. Each also with
/// memory above a hole.
const VARIANTS: [&str; 6] = ["plain", "local", "bulk", "plain-above", "local-above", "bulk-above"];
/// Frames of the allocator: 1 GiB, where zone Normal begins.
const FIRST: u64 = 0x10_0000;
const FRAMES: u64 = 1 << 18;
/// And where the hole below them begins, above some memory: that of a PC.
const HOLE: (u64, u64) = (0x1000, 0xc_0000);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["run", variant] if VARIANTS.contains(variant) => run(variant),
        ["steps", variant] if VARIANTS.contains(variant) => steps(variant),
        ["step"] => step(),
        _ => Err(format!("usage: instructions step | run VARIANT | steps VARIANT, of {}", VARIANTS.join(", "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("instructions: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Counts every variant by single steps, and prints a line for each number.
#[cfg(target_os = "linux")]
fn step() -> Result<(), String> {
    for variant in VARIANTS {
        let counts = stepping::count(variant)?;
        let pages = (counted::BATCHES * counted::PAGES) as f64;
        // Less what it takes to say where a region begins and ends, and to call nothing.
        let [nothing, alloc, free, repeat] = counts;
        for (what, count) in [("alloc", alloc), ("free", free), ("repeat", repeat)] {
            println!("count {variant} {what} {:.2}", (count as f64 - nothing as f64) / pages);
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn step() -> Result<(), String> {
    Err("single steps are made through Linux's ptrace".to_owned())
}

/// Does the work, and says how the machine is.
fn run(variant: &str) -> Result<(), String> {
    let machine = machine();
    let nodes = machine.nodes().to_vec();
    work(variant, machine, &nodes, |machine| {
        format!("mode {:?}, asymmetric fence {}", machine.mode(), machine.has_light_fence())
    })
}

/// Does this work on a machine that counts steps, and prints the counts.
fn steps(variant: &str) -> Result<(), String> {
    let machine = machine();
    let nodes = machine.nodes().to_vec();
    work(variant, Counting::new(machine), &nodes, |machine| format!("steps{machine}"))
}

/// A CPU for this thread, an unused one, and the shared one.
fn machine() -> Native {
    Native::new(&[NodeId(0); 3])
}

/// Boots an allocator, has it do the work, and prints what `tell` and its statistics say afterwards.
fn work<M: Machine>(variant: &str, machine: M, cpus: &[NodeId], tell: impl FnOnce(&M) -> String) -> Result<(), String> {
    let regions = [Region::usable(HOLE.0, HOLE.1, 0), Region::usable(FIRST, FIRST + FRAMES, 0)];
    let (way, above) = variant.strip_suffix("-above").map_or((variant, false), |way| (way, true));
    let map = if above { &regions[..] } else { &regions[1..] };
    let config = Config { mechanisms: Mechanisms::DEFAULT, ..Config::new(map, cpus) };
    let layout = Layout::of(&config).map_err(|error| error.to_string())?;
    let mut storage = Storage::new(&layout);
    let allocator = Allocator::boot(machine, &config, storage.parts()).map_err(|error| error.to_string())?;
    match way {
        "local" => counted::all(&Through(allocator.local().ok_or("there is no CPU")?)),
        "bulk" => counted::all(&Bulk(&allocator)),
        _ => counted::all(&Pages(&allocator)),
    }
    let zones = (0..4).filter_map(|kind| allocator.zone(ZoneIdx(kind)));
    let hits: u64 = zones.map(|zone| zone.numa.hit).sum();
    println!("fingerprint {variant}: {}, {hits} allocations counted", tell(allocator.machine()));
    Ok(())
}
