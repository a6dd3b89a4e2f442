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
//! Variants `kernel` are of a machine as a kernel's is, with a preemption counter and a CPU number in `%gs`. They are
//! compiled in the crate, because `framewright bench --kernel` counts them too.
//!
//! The other variants' threads lease their CPUs. Those that follow the processors can be counted in neither way: an
//! emulated kernel has no restartable sequences, and the real one restarts a sequence whenever a step stops it in the
//! middle.

#[cfg(target_os = "linux")]
use std::process::Command;
use std::process::ExitCode;

use framewright::NodeId;
#[cfg(target_os = "linux")]
use framewright_bench::instructions::stepping;
use framewright_bench::instructions::{BATCHES, Counting, KERNEL_VARIANTS, VARIANTS, kernel_steps, kernel_work, work};
use framewright_rt::Native;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["run", variant] if VARIANTS.contains(variant) => run(variant),
        ["run", variant] if KERNEL_VARIANTS.contains(variant) => kernel_work(variant, BATCHES),
        ["steps", variant] if VARIANTS.contains(variant) => steps(variant),
        ["steps", variant] if KERNEL_VARIANTS.contains(variant) => kernel_steps(variant),
        ["step"] => step(),
        _ => Err(format!(
            "usage: instructions step | run VARIANT | steps VARIANT, of {}, {}",
            VARIANTS.join(", "),
            KERNEL_VARIANTS.join(", ")
        )),
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
    let program = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    for variant in VARIANTS.into_iter().chain(KERNEL_VARIANTS) {
        let counts = stepping::count(Command::new(&program).args(["run", variant]), BATCHES)
            .map_err(|error| format!("{variant}: {error}"))?;
        for (what, count) in [("alloc", counts.alloc), ("free", counts.free), ("repeat", counts.repeat)] {
            println!("count {variant} {what} {count:.2}");
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
    work((variant, BATCHES), machine, &nodes, |machine| {
        format!("mode {:?}, asymmetric fence {}", machine.mode(), machine.has_light_fence())
    })
}

/// Does this work on a machine that counts steps, and prints the counts.
fn steps(variant: &str) -> Result<(), String> {
    let machine = machine();
    let nodes = machine.nodes().to_vec();
    work((variant, BATCHES), Counting::new(machine), &nodes, |machine| format!("steps{machine}"))
}

/// A CPU for this thread, an unused one, and the shared one.
fn machine() -> Native {
    Native::new(&[NodeId(0); 3])
}
