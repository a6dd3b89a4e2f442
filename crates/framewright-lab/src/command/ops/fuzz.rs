//! `framewright ops fuzz`: generated lists, judged by the oracle.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use framewright_bench::command::Bar;
use framewright_ops::fuzz::{CPU_ROWS, Found, Plan, Tally, fuzz};
use framewright_ops::generate::Limits;
use framewright_ops::symptom::Effort;
use framewright_ops::{Checks, variety};
use framewright_table::figures::grouped;
use framewright_table::{Table, cells, range};

use super::shrink::{MARK, small, told, write};
use crate::command::ended::Violated;
use crate::command::file;
use crate::command::output::print;

/// Smaller lists that are tried for a failure.
const TRIES: usize = 20_000;

/// Run generated lists until something is wrong: any machine, any mechanisms, each list of a seed.
///
/// With --scenarios, what is printed depends on the arguments alone. A list that fails is made small and written to a
/// file that is named after its seed; the command ends with status 1 then.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright ops fuzz --seconds 60
      for a minute, on all CPUs of this machine
  framewright ops fuzz --scenarios 140000 --check-every 10
      some ten million operations, the same ones every time
  framewright ops fuzz --cpus 16-64 --ops 400 --seed 7
      larger machines, longer lists, others than those of seed 0")]
pub(super) struct Fuzz {
    /// How long.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How many lists, however long that takes.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    scenarios: Option<u64>,
    /// Seed of the first list; the next has the next.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Operations of each list [default: 50 to 100, by the seed].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ops: Option<u32>,
    /// CPUs of each machine, as 4 or 16-64.
    #[arg(long, value_name = "A-B", default_value = "1-64", value_parser = cpus)]
    cpus: RangeInclusive<u16>,
    /// Check invariants and the census after every N operations; 0 at the end only. The oracle judges each.
    #[arg(long, value_name = "N", default_value_t = 1)]
    check_every: usize,
    /// Threads [default: one for each CPU of this machine].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where the small list of a failure goes [default: ops-SEED.ops].
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Fuzz {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        if let Some(out) = &self.out {
            file::check(out, file::Over::Ours(MARK))?;
        }
        let plan = Plan {
            seed: self.seed,
            scenarios: self.scenarios,
            limits: Limits { cpus: self.cpus.clone(), ops: self.ops.map(|ops| ops as usize) },
            every: self.check_every,
            threads: self.threads.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from),
        };
        let start = Instant::now();
        match self.watched(&plan, start)? {
            Ok(tally) => print(&self.passed(&tally, start.elapsed())),
            Err(found) => self.failed(&found),
        }
    }

    /// Runs the plan beside a bar.
    fn watched(&self, plan: &Plan, start: Instant) -> anyhow::Result<Result<Tally, Box<Found>>> {
        let bar = Bar::new()?;
        let limit = Duration::from_secs(self.seconds);
        // 75 operations are a list's mean.
        let all = self.scenarios.map(|scenarios| scenarios * u64::from(self.ops.unwrap_or(75)));
        Ok(fuzz(plan, &|done| {
            let share = match all {
                Some(all) => done as f64 / all as f64,
                None => start.elapsed().as_secs_f64() / limit.as_secs_f64(),
            };
            bar.show(&format!("{} done", grouped(done as f64)), share.min(1.0));
            all.is_some() || start.elapsed() < limit
        }))
    }

    fn passed(&self, tally: &Tally, took: Duration) -> String {
        let number = |number: u64| grouped(number as f64);
        let last = self.seed.wrapping_add(tally.scenarios.saturating_sub(1));
        let text = format!(
            "nothing wrong: {} operations in {} lists, seeds {} to {last}; {} lists under presets\n\n",
            number(tally.operations),
            number(tally.scenarios),
            self.seed,
            number(tally.presets),
        );
        let rows = [
            ("requests served", tally.served),
            ("requests out of memory", tally.out_of_memory),
            ("requests not served otherwise", tally.not_served),
            ("wrong frees refused", tally.refused),
            ("other operations", tally.done),
            ("of handles that hold nothing", tally.skipped),
            ("points made to fail", tally.faults),
            ("calls of reclaim", tally.reclaims),
            ("calls of migration", tally.migrations),
            ("fallbacks to another mobility", tally.fallbacks),
        ];
        let mut table = Table::new("<32>15");
        for (what, count) in rows {
            table.row(cells!["{what}", "{}" = number(count)]);
        }
        for (row, operations) in CPU_ROWS.iter().zip(tally.by_cpus) {
            let what = match (*row.start(), *row.end()) {
                (1, 1) => "operations on 1 CPU".to_owned(),
                (least, usize::MAX) => format!("operations on {least} CPUs or more"),
                (least, most) => format!("operations on {least} to {most} CPUs"),
            };
            if operations != 0 {
                table.row(cells!["{what}", "{}" = number(operations)]);
            }
        }
        if self.scenarios.is_none() {
            let rate = tally.operations as f64 / took.as_secs_f64().max(1e-9);
            table.row(cells!["operations per second", "{}" = grouped(rate.round())]);
        }
        text + &table.to_string()
    }

    fn failed(&self, found: &Found) -> anyhow::Result<()> {
        let Found { seed, scenario, failure } = found;
        print(&format!("wrong with seed {seed}: {}\nagain: {}\n", failure.summary(), self.command(*seed)))?;
        let checks = Checks { every: self.check_every, expected: true };
        let small = small(scenario, failure, &Effort { tries: TRIES, right_under: None, checks })?;
        let path = self.out.clone().unwrap_or_else(|| PathBuf::from(format!("ops-{seed}.ops")));
        write(&path, &small)?;
        print(&format!("{}\nagain: framewright ops {}\n", told(scenario, &small), path.display()))?;
        Err(Violated.into())
    }

    /// The command that finds it again.
    fn command(&self, seed: u64) -> String {
        let mut words = format!("framewright ops fuzz --seed {seed} --scenarios 1");
        words.extend(self.ops.iter().map(|ops| format!(" --ops {ops}")));
        if self.cpus != variety::CPUS {
            words.push_str(&format!(" --cpus {}-{}", self.cpus.start(), self.cpus.end()));
        }
        if self.check_every != 1 {
            words.push_str(&format!(" --check-every {}", self.check_every));
        }
        words
    }
}

/// A number of CPUs, or from one to another.
fn cpus(text: &str) -> Result<RangeInclusive<u16>, String> {
    const MOST: u16 = 1024;
    let fits = |range: &RangeInclusive<u16>| !range.is_empty() && *range.start() >= 1 && *range.end() <= MOST;
    range(text).filter(fits).ok_or_else(|| format!("is no number of CPUs from 1 to {MOST}, and no range as 16-64"))
}
