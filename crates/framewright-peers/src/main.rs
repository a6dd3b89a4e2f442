//! `framewright bench` with the allocators that programs put in place of the system's: mimalloc and jemalloc.
//!
//! A program of its own, because they are built from C: everything else in this workspace needs a Rust toolchain
//! alone, and the tests must not need this. Same options, same workloads, the same report with more rows.
//!
//! Both hand out addresses of memory that need not be there yet, as `glibc` does. They are asked for blocks of `1 << order`
//! frames that are aligned to their own size, jemalloc through the calls that tell it the size of what is freed, which are its
//! fastest. Neither replaces this program's own allocator. Nothing reads or writes what was allocated, which spares them
//! the page faults that a program would pay for.

mod native;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use framewright_bench::command::Options;
use framewright_bench::{Entry, contenders};
use framewright_lab::mechanisms;

/// Measure the allocator on this machine, beside mimalloc, jemalloc, others, and the limit of what a call can cost.
#[derive(Parser)]
#[command(name = "framewright-peers", version)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// All contenders of the benchmark, with this program's behind them.
fn all() -> Vec<Entry> {
    [contenders().as_slice(), native::ENTRIES].concat()
}

fn main() -> ExitCode {
    let Err(error) = Cli::parse().options.run(mechanisms::parse, &all(), &mut io::stdout().lock()) else {
        return ExitCode::SUCCESS;
    };
    // Whoever read our output has seen enough.
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {error:#}");
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use framewright_bench::smoke;

    #[test]
    fn they_do_every_workload_and_hand_out_no_frame_twice() {
        assert_eq!(smoke(super::native::ENTRIES, 2), Vec::<String>::new());
    }
}
