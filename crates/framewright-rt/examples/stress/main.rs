//! Everything at once, for a given time: threads that come and go, blocks that change hands, children, drains, memory
//! taken offline and changes of affinity. Each frame has a shadow owner, and each block is stamped with its mark. Now
//! and then all threads rest, and no frame may be lost. Ends with status 1 if anything is wrong. The run is a child
//! process, and its parent ends it if it stands still (`watchdog.rs`).
//!
//! `cargo run --release -p framewright-rt --example stress -- --cpus rseq --seconds 60`

mod children;
mod disturb;
mod gate;
mod rest;
mod run;
mod shadow;
mod stage;
mod turns;
mod watchdog;
mod worker;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use framewright::Mechanisms;
use framewright_rt::{Backing, CpuMode};

use stage::{Did, Plan};

/// Operations between two checks at rest: some seconds' worth.
const REST: u64 = 100_000;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cpus {
    Lease,
    Rseq,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Memory {
    Private,
    Memfd,
}

/// Stresses an arena, with shadow owners and stamped blocks.
#[derive(Debug, Parser)]
struct Options {
    /// How long.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Workers at a time.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// How threads come to the allocator's CPUs.
    #[arg(long, value_enum, default_value = "lease")]
    cpus: Cpus,
    /// Presets and switches, as `baseline,depot=all`.
    #[arg(long, default_value = "default")]
    mechanisms: String,
    /// Where randomness begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the memory is.
    #[arg(long, value_enum, default_value = "private")]
    backing: Memory,
    /// Size of the arena in MiB.
    #[arg(long, default_value_t = 256)]
    memory: u64,
    /// Seconds without a turn of any thread after which the run is ended, with a description.
    #[arg(long, default_value_t = 60)]
    stall_after: u64,
    /// Fork no children.
    #[arg(long)]
    no_forks: bool,
}

impl Options {
    fn plan(&self) -> Result<Plan, String> {
        let mechanisms = Mechanisms::parse(&self.mechanisms).map_err(|(part, error)| format!("{part}: {error:?}"))?;
        Ok(Plan {
            time: Duration::from_secs(self.seconds),
            operations: u64::MAX,
            rest: REST,
            threads: self.threads.max(1),
            cpus: match self.cpus {
                Cpus::Lease => CpuMode::Lease,
                Cpus::Rseq => CpuMode::PerCpu,
            },
            mechanisms,
            seed: self.seed,
            backing: match self.backing {
                Memory::Private => Backing::Private,
                Memory::Memfd => Backing::Memfd,
            },
            memory: self.memory << 20,
            forks: !self.no_forks,
            patience: Some(Duration::from_secs(120)),
        })
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if !watchdog::is_watched() {
        let watched = watchdog::again(None).map_err(|error| error.to_string());
        let limit = Duration::from_secs(options.stall_after);
        return match watched.and_then(|program| watchdog::watch(program, limit)) {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(status) => {
                eprintln!("wrong: the run ended with {status}");
                ExitCode::FAILURE
            }
            Err(told) => {
                eprintln!("wrong: {told}");
                ExitCode::FAILURE
            }
        };
    }
    let begin = Instant::now();
    println!("{options:?}");
    match options.plan().and_then(|plan| run::run(plan, &mut std::io::stdout())) {
        Ok(total) => {
            let seconds = begin.elapsed().as_secs_f64();
            print!("{total}");
            println!("{:.0} operations a second; nothing lost", total.get(Did::Operations) as f64 / seconds);
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("wrong: {wrong}");
            ExitCode::FAILURE
        }
    }
}
