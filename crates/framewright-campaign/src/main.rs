//! The command `framewright-campaign`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, Parser, Subcommand};
use framewright_campaign::campaign::{self, Report, Settings};
use framewright_campaign::{COUNT, Case, Coverage, EFFORT, Kind, Plant, Played, Schedule, play, shrink};

/// Lines of a log that are printed before a failure.
const LOGGED: usize = 40;

/// Run the page allocator under faults and schedules drawn from seeds, and check that nothing is lost.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:
  framewright-campaign run --operations 10000000
      some seconds
  framewright-campaign run --folder night --minutes 600 --threads 2
      a night; the same command goes on where the last one stopped
  framewright-campaign replay seed=77
      one seed
  framewright-campaign replay seed=77 plant=lost-free:50 --shrink
      a bug on purpose, made small

docs/campaign.md says what is done and what is checked."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Run),
    Replay(Replay),
    /// List the kinds of fault.
    Kinds,
}

/// Run seed after seed. Ends with status 1 if a seed failed.
#[derive(Args)]
struct Run {
    /// The first seed; a campaign that goes on has its own.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Operations after which the campaign ends, those of earlier runs in its folder included.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    operations: u64,
    /// Minutes after which it ends.
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Threads; what is printed does not depend on them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Folder of its state, its corpus and its failures; made if need be.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Failures after which it ends.
    #[arg(long, value_name = "N", default_value_t = 20)]
    failures: u64,
    /// Plant a bug: docs/campaign.md lists them.
    #[arg(long, value_name = "BUG")]
    plant: Option<Plant>,
}

/// Run one case, as a failure names it. Ends with status 1 if it fails.
#[derive(Args)]
struct Replay {
    /// The case: words such as seed=77, or a file of which the first line is one.
    #[arg(required = true)]
    case: Vec<String>,
    /// Make it small.
    #[arg(long)]
    shrink: bool,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(run) => run.run(),
        Command::Replay(replay) => replay.run(),
        Command::Kinds => {
            Kind::ALL.iter().for_each(|kind| println!("{:<22} {}", kind.name(), kind.what().trim()));
            Ok(true)
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("framewright-campaign: {error:#}");
            ExitCode::from(2)
        }
    }
}

impl Run {
    fn run(self) -> anyhow::Result<bool> {
        let settings = Settings {
            template: Case { plant: self.plant, ..Case::of(0) },
            seed: self.seed,
            operations: self.operations,
            time: self.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
            threads: usize::from(self.threads),
            folder: self.folder,
            failures: self.failures,
            effort: EFFORT,
        };
        let coverage = campaign::run(&settings, &mut |report| match report {
            Report::Minute(coverage, speed) => println!("{}, {speed:.0} operations/s", summary(coverage)),
            Report::Failure(failure) => {
                println!("seed {} fails: {}\n  {}", failure.seed, failure.failed.wrong, failure.case);
            }
        })?;
        println!("{}", coverage.table());
        println!("{}", summary(&coverage));
        print_sums(&coverage.played);
        Ok(coverage.failures == 0)
    }
}

/// Returns a line on where a campaign stands.
fn summary(coverage: &Coverage) -> String {
    let kinds = COUNT - coverage.rare(100).iter().count();
    format!(
        "{} seeds, {} operations, {} accesses, kinds hit 100 times {kinds}/{COUNT}, pairs in 10 seeds {}/{}, failures {}",
        coverage.seeds,
        coverage.played.operations,
        coverage.played.accesses,
        coverage.pairs_with(10),
        Coverage::PAIRS,
        coverage.failures
    )
}

fn print_sums(played: &Played) {
    for (name, accesses) in Schedule::NAMES.iter().zip(played.by_schedule) {
        println!("accesses under {name:<7} {accesses}");
    }
    println!("switches in the middle of a call {}", played.switches);
    println!("checks of the sums {}, of every invariant {}", played.checks[0], played.checks[1]);
    let share = |at: usize| played.longest[at] as f64 / 100.0;
    println!(
        "longest call, of its limit: frees {:.1} %, requests that may not wait {:.1} %, others {:.1} %",
        share(0),
        share(1),
        share(2)
    );
    println!("digest {:016x}", played.digest);
}

impl Replay {
    fn run(self) -> anyhow::Result<bool> {
        let mut text = self.case.join(" ");
        if !text.contains('=') {
            let file = std::fs::read_to_string(&text).with_context(|| text.clone())?;
            text = file.lines().next().unwrap_or_default().to_owned();
        }
        let case: Case = text.parse().map_err(|error: String| anyhow!(error))?;
        let failed = match play(&case, true) {
            Ok(played) => {
                println!("{case}\n{} operations, {} accesses, nothing is wrong", played.operations, played.accesses);
                print_sums(&played);
                return Ok(true);
            }
            Err(failed) => failed,
        };
        let (case, failed) = if self.shrink { shrink(&case, failed, EFFORT) } else { (case, failed) };
        let failed = play(&case, true).err().unwrap_or(failed);
        let skipped = failed.log.len().saturating_sub(LOGGED);
        failed.log.iter().skip(skipped).for_each(|line| println!("{line}"));
        println!("{}{}\n{case}", case.described(), failed.wrong);
        Ok(false)
    }
}
