//! `framewright stress`: the allocator under a random scheduler, until something is wrong.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use clap::builder::BoolishValueParser;
use framewright_bench::command::Bar;
use framewright_sim::chance::Plant;
use framewright_sim::machine::MOST_CPUS;
use framewright_sim::stress::{self, Case, Failure, Settings, StressError, Summary};

use super::ended::Violated;
use super::file;
use super::output::print;
use framewright_lab::mechanisms;

/// How large a file with a case may be, in bytes.
const CASE_LIMIT: u64 = 1 << 28;

/// Let many simulated CPUs do everything at once, by lot, and check that nothing is lost.
///
/// Unlike `framewright sim --schedule random`, which runs a workload by lot, this plays random operations and checks
/// every invariant whenever all CPUs rest. Ends with status 1 if something is wrong.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright stress
      a few seconds of it
  framewright stress --operations 100M --quiescent 1000
      minutes; each of 250 machines has another seed, other memory and other mechanisms
  framewright stress --cpus 120 --mechanisms default,hardened=poison --delay-stores on
      more CPUs, mechanisms of one's own, and stores that become visible late
  framewright stress --plant no-heavy-fence
      a bug on purpose: it is found, made small, and found again by the command that is printed
  framewright stress --replay stress-7.ops
      the small case of a failure

docs/stress.md says what is done and what is checked.")]
pub(crate) struct Stress {
    /// Operations of all CPUs together.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    operations: u64,
    /// Points at which all CPUs rest and everything is checked; every fourth ends with all memory freed.
    #[arg(long, value_name = "N", default_value = "40", value_parser = count)]
    quiescent: u64,
    /// CPUs, on two nodes.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=MOST_CPUS as i64))]
    cpus: u16,
    /// Seed of the first machine; the next has the next.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Preset and switches, as `baseline,hardened=poison`, or a TOML file [default: by the seed].
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Option<String>,
    /// Whether interrupts allocate and free too [default: by the seed].
    #[arg(long, value_name = "on|off", value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    interrupts: Option<bool>,
    /// Whether NMIs do, at any step, by the calls for any context [default: by the seed].
    #[arg(long, value_name = "on|off", value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    nmis: Option<bool>,
    /// Whether CPUs keep stores back for a while, as x86 does [default: by the seed].
    #[arg(long, value_name = "on|off", value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    delay_stores: Option<bool>,
    /// Memory is a pool that CPUs keep full: single pages alone, and no request may fail while a frame is free.
    #[arg(long)]
    pool: bool,
    /// Run the case in this file instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["operations", "quiescent", "cpus", "seed", "mechanisms", "interrupts", "nmis", "delay_stores", "pool", "plant"])]
    replay: Option<PathBuf>,
    /// Where the small case of a failure goes [default: stress-SEED.ops].
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    out: Option<PathBuf>,
    /// Operations that the attempts to make a failure small may take in all.
    #[arg(long, value_name = "N", default_value = "3M", value_parser = count, conflicts_with = "replay")]
    effort: u64,
    /// Do wrong: lost-store:FIELD:N loses the N-th store to words of that name (as in reports of `sim`),
    /// torn-rmw:FIELD:N tears their read-modify-writes from the N-th on, blind-cas:FIELD:N lets their compare-and-swaps
    /// succeed whatever the words hold, no-heavy-fence is what it says; so are shared-interrupts and waiting-nmi.
    #[arg(long, value_name = "BUG", help_heading = "Trying the check itself")]
    plant: Option<Plant>,
}

impl Stress {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.replay {
            let case: Case = read(path)?.parse().with_context(|| path.display().to_string())?;
            return match stress::replay(&case) {
                Err(StressError::Failed(failure)) => {
                    print(&format!("{failure}again: framewright stress --replay {}\n", path.display()))?;
                    Err(Violated.into())
                }
                other => print(&passed(&other?)),
            };
        }
        let settings = self.settings()?;
        if let Some(out) = &self.out {
            file::check(out, file::Over::Any)?;
        }
        let bar = Bar::new()?;
        let result = stress::run(&settings, |behind| bar.show("stress", behind as f64 / settings.operations as f64));
        drop(bar);
        match result {
            Err(StressError::Failed(failure)) => self.failed(&failure),
            other => print(&passed(&other?)),
        }
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        if self.operations < self.quiescent {
            bail!(
                "{} operations are fewer than {} points of rest; give more --operations or fewer --quiescent",
                self.operations,
                self.quiescent
            );
        }
        Ok(Settings {
            cpus: usize::from(self.cpus),
            seed: self.seed,
            operations: self.operations,
            quiescent: self.quiescent,
            mechanisms: self.mechanisms.as_deref().map(mechanisms::parse).transpose()?,
            interrupts: self.interrupts,
            nmis: self.nmis,
            delays: self.delay_stores,
            pool: self.pool,
            plant: self.plant.clone(),
        })
    }

    /// Says what is wrong and how to see it again, and makes it small.
    fn failed(&self, failure: &Failure) -> anyhow::Result<()> {
        let settings = failure.settings.as_ref().ok_or_else(|| anyhow!("a failure of a run has settings"))?;
        print(&format!("{failure}again: {}\n", command(settings)))?;
        let bar = Bar::new()?;
        let large = failure.case.operations().max(1) as f64;
        let small =
            stress::shrink(failure, self.effort, |left| bar.show("making it small", 1.0 - left as f64 / large))?;
        drop(bar);
        let path = self.out.clone().unwrap_or_else(|| PathBuf::from(format!("stress-{}.ops", settings.seed)));
        let head = format!("# {}\n", small.wrong.to_string().replace('\n', " "));
        file::replace(&path, &(head + &small.case.to_string()))?;
        let (operations, cpus) = (small.case.operations(), small.case.busy_cpus());
        let replay = format!("framewright stress --replay {}", path.display());
        print(&format!("small: {operations} operations on {cpus} CPUs: {}\n       {replay}\n", small.wrong))?;
        Err(Violated.into())
    }
}

/// The command that finds it again.
fn command(settings: &Settings) -> String {
    let Settings { cpus, seed, operations, quiescent, mechanisms, interrupts, nmis, delays, pool, plant } = settings;
    let mut words =
        format!("framewright stress --seed {seed} --cpus {cpus} --operations {operations} --quiescent {quiescent}");
    let switch = |name: &str, on: bool| format!(" --{name} {}", if on { "on" } else { "off" });
    words.extend(mechanisms.iter().map(|mechanisms| format!(" --mechanisms {}", mechanisms::label(mechanisms))));
    words.extend(interrupts.map(|on| switch("interrupts", on)));
    words.extend(nmis.map(|on| switch("nmis", on)));
    words.extend(delays.map(|on| switch("delay-stores", on)));
    words.push_str(if *pool { " --pool" } else { "" });
    words.extend(plant.iter().map(|plant| format!(" --plant {plant}")));
    words
}

fn passed(summary: &Summary) -> String {
    let Summary { episodes, quiescent, accesses, switches, counts } = summary;
    format!(
        "nothing lost: {} operations on {episodes} machines, checked at {quiescent} points of rest\n\
         {accesses} accesses, {switches} switches, {} interrupts, {} NMIs\n\
         {} frees by other CPUs, {} requests not served, {} ranges, {} drains, {} wrong frees refused\n",
        counts.done,
        counts.interrupts,
        counts.nmis,
        counts.remote_frees,
        counts.unserved,
        counts.ranges,
        counts.drains,
        counts.refused
    )
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(CASE_LIMIT + 1).read_to_string(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() as u64 > CASE_LIMIT {
        bail!("{} is larger than {CASE_LIMIT} bytes; a case is a file that framewright stress wrote", path.display());
    }
    Ok(text)
}

/// Reads a number; k or M after it stand for thousands or millions.
fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'M']) {
        Some(digits) => (digits, if text.ends_with('k') { 1_000 } else { 1_000_000 }),
        None => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.filter(|&number| number != 0).ok_or_else(|| "is no number of at least 1, as 5000, 20k or 100M".to_owned())
}
