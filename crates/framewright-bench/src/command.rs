//! Options of the benchmark, for every program that runs it.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use framewright::Mechanisms;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::crew::{allowed_cpus, can_pin};
use crate::entry::{Entry, Role};
use crate::foreign::Foreign;
use crate::formats;
use crate::goals::judge;
use crate::machine::MachineFacts;
use crate::measure::{Plan, measure};
use crate::report::{Report, SCHEMA};
use crate::storm::{self, StormPlan};
use crate::table::Table;
use crate::workload::Shape;

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// Lines of the kernel's page_bench modules.
    #[value(name = "page_bench")]
    PageBench,
    /// A comparison table of mmtests.
    Mmtests,
    /// Go's benchmark lines, one for each round, for benchstat.
    Benchstat,
}

impl Format {
    /// The form of another tool, if it is one.
    pub fn foreign(self) -> Option<Foreign> {
        match self {
            Format::Text | Format::Json => None,
            Format::PageBench => Some(Foreign::PageBench),
            Format::Mmtests => Some(Foreign::Mmtests),
            Format::Benchstat => Some(Foreign::Benchstat),
        }
    }
}

/// How long a run goes on in silence.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads a list of mechanisms, or the file that it names.
pub type Parse = fn(&str) -> anyhow::Result<Mechanisms>;

/// What to measure, and how thoroughly.
#[derive(Args)]
pub struct Options {
    /// Workloads, by commas; batch, fifo and order: all sizes [default: all but storm, of signals].
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    workload: Vec<String>,
    /// Allocators, separated by commas; a workload's limit always takes part [default: all].
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    allocator: Vec<String>,
    /// Numbers of threads, separated by commas [default: 1 and the number of CPUs].
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Rounds that each number is the median of [default: 15, with --quick 5].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: Option<u16>,
    /// A third of the rounds, of a third of the length.
    #[arg(long)]
    quick: bool,
    /// Seed of the shuffles.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Preset and switches of the project's allocator, as `baseline,fallback=claim-steal`, or a TOML file.
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Option<String>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Options {
    /// Form of the output.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The number of rounds; without `--rounds` it is `rounds`, or a third of that with `--quick`.
    pub fn rounds_or(&self, rounds: usize) -> usize {
        self.rounds.map_or(if self.quick { rounds.div_ceil(3) } else { rounds }, usize::from)
    }

    /// Measures as the options say, with `entries` to choose from, and writes the report to `out`. `parse` reads what
    /// `--mechanisms` names. `note` hears remarks that have no place in the report.
    ///
    /// # Errors
    /// A name that does not exist; output that cannot be written; and, after the report, a contender that failed. A
    /// slow allocator is no error.
    pub fn run(
        &self,
        parse: Parse,
        entries: &[Entry],
        out: &mut impl Write,
        note: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let mechanisms = self.mechanisms.as_deref().map_or(Ok(Mechanisms::DEFAULT), parse)?;
        let has_storm = self.workload.iter().any(|name| is_storm(name));
        if has_storm && self.workload.iter().all(|name| is_storm(name)) {
            return self.storm(mechanisms, out);
        }
        if has_storm && self.format != Format::Text {
            bail!("{} beside other workloads is printed as text: leave --format out, or name it alone", storm::NAME);
        }
        if has_storm {
            self.storm_threads()?;
        }
        let mut plan = self.plan(mechanisms, entries)?;
        let absent = leave_out_absent(&mut plan);
        let report = report(&plan, absent)?;
        let text = match (self.format, self.format.foreign()) {
            (_, Some(foreign)) => formats::print(foreign, &report),
            (Format::Json, _) => serde_json::to_string_pretty(&report)? + "\n",
            _ => Table { report: &report, bold: bold() }.to_string(),
        };
        out.write_all(text.as_bytes())?;
        out.flush()?;
        if self.format.foreign().is_some() {
            // These forms have no place for notes.
            report.notes.iter().for_each(|text| note(&format!("note: {text}")));
        }
        if let Some(failure) = report.failures.first() {
            bail!("{failure}");
        }
        if has_storm {
            writeln!(out)?;
            self.storm(mechanisms, out)?;
        }
        Ok(())
    }

    /// The storm of signals, which has a report of its own.
    fn storm(&self, mechanisms: Mechanisms, out: &mut impl Write) -> anyhow::Result<()> {
        let threads = self.storm_threads()?;
        if self.format.foreign().is_some() {
            bail!("{} is printed as text or json", storm::NAME);
        }
        let cell = Duration::from_millis(if self.quick { 70 } else { 200 });
        let bar = Bar::new()?;
        let plan = StormPlan { mechanisms, threads, rounds: self.rounds_or(15), cell };
        let report = storm::measure(&plan, |share| bar.show(storm::NAME, share))?;
        drop(bar);
        match self.format {
            Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
            _ => write!(out, "{report}")?,
        }
        out.flush().map_err(Into::into)
    }

    /// Threads of the storm.
    fn storm_threads(&self) -> anyhow::Result<usize> {
        match self.threads[..] {
            [] => Ok(1),
            [threads] => Ok(usize::from(threads)),
            _ => bail!("{} is measured with one number of threads", storm::NAME),
        }
    }

    fn plan(&self, mechanisms: Mechanisms, entries: &[Entry]) -> anyhow::Result<Plan> {
        let shapes = self.shapes()?;
        let mut threads: Vec<usize> = self.threads.iter().map(|&threads| usize::from(threads)).collect();
        if threads.is_empty() {
            threads = vec![1, allowed_cpus().len().max(1)];
            // Two threads exist on every machine, and producer and consumer are two.
            if threads[1] == 1 && shapes.contains(&Shape::ProducerConsumer) {
                threads[1] = 2;
            }
        }
        threads.sort_unstable();
        threads.dedup();
        if shapes.iter().all(|shape| shape.threads(&threads).is_empty()) {
            bail!("producer-consumer needs --threads 2");
        }
        Ok(Plan {
            entries: self.entries(entries, &shapes)?,
            shapes,
            threads,
            rounds: self.rounds_or(15),
            cell_ns: if self.quick { 3e6 } else { 10e6 },
            seed: self.seed,
            mechanisms,
            frames: 0,
        })
    }

    fn shapes(&self) -> anyhow::Result<Vec<Shape>> {
        let all = Shape::all();
        let refusal = |shape: Shape| self.format.foreign().and_then(|foreign| foreign.refusal(shape));
        if self.workload.is_empty() {
            return Ok(all.into_iter().filter(|&shape| refusal(shape).is_none()).collect());
        }
        let mut wanted = Vec::new();
        for name in self.workload.iter().filter(|name| !is_storm(name)) {
            let found = Shape::named(name.trim());
            if found.is_empty() {
                bail!(
                    "{name}: there is no such workload; there are {}; batch, fifo and order stand for all sizes",
                    list(&all)
                );
            }
            if let Some(reason) = found.iter().find_map(|&shape| refusal(shape)) {
                bail!("{name} cannot be shown in this format: {reason}");
            }
            wanted.extend(found);
        }
        Ok(all.into_iter().filter(|shape| wanted.contains(shape)).collect())
    }

    /// The chosen contenders, and the limits of the workloads.
    fn entries(&self, entries: &[Entry], shapes: &[Shape]) -> anyhow::Result<Vec<Entry>> {
        if let Some(name) = self.allocator.iter().find(|name| !entries.iter().any(|entry| entry.name == name.trim())) {
            let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
            bail!("{name}: there is no such allocator here; there are {}", list(&names));
        }
        let chosen = |entry: &Entry| {
            self.allocator.is_empty()
                || self.allocator.iter().any(|name| entry.name == name.trim())
                || entry.role == Role::Limit && shapes.iter().any(|shape| shape.limit() == entry.name)
        };
        Ok(entries.iter().copied().filter(chosen).collect())
    }
}

fn is_storm(name: &str) -> bool {
    name.trim() == storm::NAME
}

/// Whether own rows are printed in bold.
#[allow(clippy::disallowed_methods, reason = "asks whether it is a terminal")]
fn bold() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn list(names: &[impl Display]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Takes out contenders that this machine does not have; says which and why.
fn leave_out_absent(plan: &mut Plan) -> Vec<String> {
    let mut notes = Vec::new();
    plan.entries.retain(|entry| match (entry.available)() {
        Ok(()) => true,
        Err(reason) => {
            notes.push(format!("{} is not to be had here: {reason}", entry.name));
            false
        }
    });
    notes
}

fn report(plan: &Plan, absent: Vec<String>) -> anyhow::Result<Report> {
    let machine = MachineFacts::gather();
    let mut notes = [notes(plan, &machine), absent].concat();
    let bar = Bar::new()?;
    let mut results = measure(plan, &mut |progress| bar.show(&progress.shape.to_string(), progress.done));
    drop(bar);
    notes.append(&mut results.notes);
    Ok(Report {
        schema: SCHEMA.to_owned(),
        machine,
        mechanisms: plan.mechanisms.to_string(),
        seed: plan.seed,
        rounds: plan.rounds,
        cell_ms: (plan.cell_ns / 1e6) as u64,
        frames: plan.pool(),
        goals: judge(&results.rows),
        rows: results.rows,
        failures: results.failures,
        notes,
    })
}

fn notes(plan: &Plan, machine: &MachineFacts) -> Vec<String> {
    let mut notes = Vec::new();
    if cfg!(debug_assertions) {
        notes.push("this is a debug build, whose numbers mean nothing: run it with --release".to_owned());
    }
    if let Some(threads) = plan.threads.iter().find(|threads| **threads > machine.cpus) {
        notes.push(format!(
            "{threads} threads share {} CPUs: their numbers include waiting for each other",
            machine.cpus
        ));
    }
    if !can_pin() {
        notes.push("threads may not be pinned to CPUs here, so they may have moved between them".to_owned());
    }
    if let Some(load) = machine.load.filter(|load| *load >= 0.5) {
        notes.push(format!("the machine was busy before (load {load:.1}): trust ratios, not nanoseconds"));
    }
    notes
}

/// How far a run is. Shown on a terminal only, once the run has lasted a while; gone when it is dropped.
pub struct Bar {
    bar: ProgressBar,
    start: Instant,
}

impl Bar {
    /// A bar that is not shown yet.
    ///
    /// # Errors
    /// None that a user could cause.
    pub fn new() -> anyhow::Result<Bar> {
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::hidden());
        let style = "{wide_bar} {percent:>3} % {msg:18} {elapsed} of about {duration}";
        bar.set_style(ProgressStyle::with_template(style).context("progress bar")?);
        Ok(Bar { bar, start: Instant::now() })
    }

    /// Shows the current work, and the share of all work that is done.
    pub fn show(&self, what: &str, share: f64) {
        if self.bar.is_hidden() && self.start.elapsed() >= PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(what.to_owned());
        self.bar.set_position((share * 1000.0) as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
