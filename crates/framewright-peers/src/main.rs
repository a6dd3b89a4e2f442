//! `framewright bench` with mimalloc and jemalloc, allocators that programs use in place of the system's.
//!
//! This is a program of its own because both are built from C. The rest of the workspace needs only a Rust toolchain,
//! and so do the tests. It has the same options and workloads, and the same report with more rows.
//!
//! Both return addresses of memory that need not be present yet, as `glibc` does. They allocate blocks of `1 << order`
//! frames, aligned to their own size. jemalloc is called through its fastest functions, which take the size at the
//! free.
//!
//! Neither replaces this program's own allocator. Nothing touches the allocated memory, which spares them the page
//! faults of a real program.

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

/// All contenders of the benchmark, followed by this program's own.
fn all() -> Vec<Entry> {
    [contenders().as_slice(), native::ENTRIES].concat()
}

fn main() -> ExitCode {
    let mut note = |text: &str| eprintln!("{text}");
    let Err(error) = Cli::parse().options.run(mechanisms::parse, &all(), &mut io::stdout().lock(), &mut note) else {
        return ExitCode::SUCCESS;
    };
    // The reader of the output has closed it, and needs no message.
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
