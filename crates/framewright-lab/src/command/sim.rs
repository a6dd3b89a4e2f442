//! `framewright sim`: the allocator on a machine that one does not have.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};
use clap::Args;
use framewright_bench::command::Bar;
use framewright_lab::html::RunsPage;
use framewright_lab::sim::sweep::{Job, RunSweep, SweepFindings};
use framewright_lab::sim::{CurveText, RunText, pool, timeline};
use framewright_sim::machine::{self, Parameter, Spec};
use framewright_sim::mlc;
use framewright_sim::report::{LockSpan, Report, SCHEMA};
use framewright_sim::workload::{self, Workload};
use serde::Serialize;

use super::output::{Format, print, print_as, quoted};
use super::runs::RunArgs;
use super::{file, folder};
use framewright_lab::mechanisms;

/// Run a workload on a simulated machine with shared caches: how it scales, which locks and lines it fights for.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright sim --machine skylake-2x28 --workload page-fault1 --cpus 112
      one run, and where its time goes
  framewright sim --workload page-fault1 --cpus 1,8,28,56,112 -m baseline -m default --report out
      two curves as a page with plots, in out/index.html
  framewright sim --machine generic:8x64x2 --cpus 1024 --workload page-fault1 --format json
      a machine that nobody has, for programs
  framewright sim --cpus 28 --sensitivity
      how far the result moves with each number of the machine model
  framewright sim --cpus 8 --trace-out locks.json
      every wait for a lock, for ui.perfetto.dev

The same command prints the same bytes. docs/simulator.md says what is modelled, docs/lab/fidelity.md when not to believe it.")]
pub(crate) struct Sim {
    /// List the machines and the workloads with their options, and do nothing.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    runs: RunArgs,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the first million takings of locks as a Chrome trace; for one run.
    #[arg(long, value_name = "FILE")]
    trace_out: Option<PathBuf>,
    /// Write a page with plots and tables, and the JSON, into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Run all again with each number of the machine 10 % smaller and larger.
    #[arg(long)]
    sensitivity: bool,
}

/// The report's JSON.
const RUNS: &str = "runs.json";
/// The workload that is a latency checker, which has no allocator.
pub(super) const CHECKER: &str = "mlc";

/// The JSON of several runs.
#[derive(Serialize)]
struct SimDocument<'a> {
    /// Version of this format.
    schema: &'static str,
    /// The command that prints it.
    command: &'a str,
    #[serde(flatten)]
    findings: &'a SweepFindings,
}

/// The result of one run.
struct Ran {
    report: Report,
    spans: Vec<LockSpan>,
}

impl Sim {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if self.list {
            return print(&list()?);
        }
        if self.runs.workload_name() == CHECKER {
            return self.check_latencies();
        }
        let machine = self.runs.machine()?;
        let workload = self.runs.workload(&[CHECKER])?;
        let sets = self.runs.mechanisms()?;
        let cpus = self.runs.cpus(&machine)?;
        self.check_outputs(sets.len() * cpus.len())?;
        let sweep = RunSweep { machine: &machine, mechanisms: &sets, cpus: &cpus, sensitivity: self.sensitivity };
        let (findings, spans) = self.sweep(&sweep, &workload)?;
        let command = self.runs.command(&sets, &cpus) + &self.outputs();
        let json = json(&command, &findings)?;
        if let Some(path) = &self.trace_out {
            write_trace(path, &spans)?;
        }
        if let Some(folder) = &self.report {
            folder::write(folder, &[(folder::PAGE, &page(&command, &findings, &machine)?), (RUNS, &json)])?;
        }
        let written = self.report.iter().map(|folder| folder::told(folder));
        match self.format {
            Format::Text => print(&(text(&findings) + &written.collect::<String>())),
            Format::Json => print(&json),
        }
    }

    /// All runs, with a progress bar, and the takings of locks of the last.
    fn sweep(&self, sweep: &RunSweep<'_>, workload: &Workload) -> anyhow::Result<(SweepFindings, Vec<LockSpan>)> {
        let bar = Bar::new()?;
        let (thousandths, spans) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        let simulate = |job: &Job<'_>| {
            let advance = |by| {
                thousandths.fetch_add(by, Ordering::Relaxed);
            };
            let Ran { report, spans: taken } = self.simulate(job, workload, &advance)?;
            *spans.lock().unwrap_or_else(PoisonError::into_inner) = taken;
            Ok(report)
        };
        let repeat = |job: &Job<'_>| self.runs.command(&[*job.mechanisms], &[job.cpus]);
        let findings = sweep.run(simulate, repeat, &mut |done, total| {
            let share = thousandths.load(Ordering::Relaxed) as f64 / 1000.0 / total as f64;
            bar.show(&format!("{done} of {total} runs"), share);
        })?;
        Ok((findings, spans.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The latency checker, on one machine or on all that come with the program.
    fn check_latencies(&self) -> anyhow::Result<()> {
        let others = !self.runs.mechanisms.is_empty() || !self.runs.cpus.is_empty() || self.sensitivity;
        if others || self.trace_out.is_some() || self.report.is_some() {
            bail!("{CHECKER} looks at the machine alone: it has no mechanisms, CPUs, trace, report or sensitivity");
        }
        let machines = match &self.runs.machine {
            Some(name) => vec![machine::load(name)?],
            None => machine::names().map(machine::named).collect::<Result<_, _>>()?,
        };
        let bar = Bar::new()?;
        let check = |number: usize| mlc::check(&machines[number]);
        let total = machines.len();
        let tables = pool::run(total, check, &mut |done| bar.show("latencies", done as f64 / total as f64))?;
        drop(bar);
        let text: Vec<String> = tables.iter().map(|table| format!("{table}\n")).collect();
        match tables.as_slice() {
            [table] => print_as(self.format, &text.concat(), table),
            tables => print_as(self.format, &text.join("\n"), &tables),
        }
    }

    /// One run. `advance` is told by how many thousandths it got on.
    fn simulate(&self, job: &Job<'_>, workload: &Workload, advance: &dyn Fn(u64)) -> anyhow::Result<Ran> {
        let trace = self.trace_out.is_some();
        let run = workload::Job { trace, ..self.runs.job(workload, *job.mechanisms, job.cpus) };
        let mut told = 0;
        let mut tell = |now: u64| {
            advance(now - told);
            told = now;
        };
        let outcome = workload::run(&job.machine.model(), &run, &mut |progress| {
            tell((u128::from(progress.done) * 1000 / u128::from(progress.total.max(1))).min(1000) as u64);
        })?;
        tell(1000);
        let mechanisms = mechanisms::label(job.mechanisms);
        Ok(Ran { report: Report { mechanisms, ..outcome.report }, spans: outcome.spans })
    }

    /// The notes of the command.
    fn outputs(&self) -> String {
        let sensitivity = if self.sensitivity { " --sensitivity" } else { "" };
        let json = if self.format == Format::Json { " --format json" } else { "" };
        let files = [("--trace-out", &self.trace_out), ("--report", &self.report)];
        let files = files.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?)));
        let file = |(option, path): (&str, &PathBuf)| format!(" {option} {}", quoted(&path.display().to_string()));
        format!("{sensitivity}{json}{}", files.map(file).collect::<String>())
    }

    /// Checks before the runs what would fail only after them.
    fn check_outputs(&self, runs: usize) -> anyhow::Result<()> {
        if let Some(path) = &self.trace_out {
            if runs != 1 || self.sensitivity {
                bail!("--trace-out is for one run: one number of CPUs, one set of mechanisms, no --sensitivity");
            }
            file::check(path, file::Over::Ours(timeline::MARK))?;
        }
        self.report.as_deref().map_or(Ok(()), |report| folder::prepare(report, &[folder::PAGE, RUNS]))
    }
}

fn text(findings: &SweepFindings) -> String {
    let mut parts: Vec<String> = findings.runs.iter().map(|run| RunText(run).to_string()).collect();
    if findings.runs.len() > 1 {
        parts.push(CurveText(&findings.runs).to_string());
    }
    parts.extend(findings.sensitivities.iter().map(ToString::to_string));
    parts.join("\n\n")
}

/// A report, or an object of several.
fn json(command: &str, findings: &SweepFindings) -> anyhow::Result<String> {
    let text = match (findings.runs.as_slice(), findings.sensitivities.is_empty()) {
        ([run], true) => serde_json::to_string_pretty(run),
        _ => serde_json::to_string_pretty(&SimDocument { schema: SCHEMA, command, findings }),
    };
    Ok(text? + "\n")
}

fn page(command: &str, findings: &SweepFindings, machine: &Spec) -> anyhow::Result<String> {
    let parameters: Vec<&Parameter> = machine.parameters().collect();
    let SweepFindings { runs, sensitivities } = findings;
    RunsPage { command, runs, parameters: &parameters, sensitivities }.render().context("the page")
}

fn write_trace(path: &Path, spans: &[LockSpan]) -> anyhow::Result<()> {
    file::write(path, |mut out| timeline::write(spans, &mut out))
}

/// Machines and workloads.
fn list() -> anyhow::Result<String> {
    let mut text = "Machines\n".to_owned();
    for name in machine::names() {
        let machine = machine::named(name)?;
        text += &format!("  {name:<19}{:>4} CPUs  {}\n", machine.model().topology.cpus(), machine.title);
    }
    text += "\nWorkloads, with the values that their options have unless said otherwise (NAME:OPTION=VALUE,…)\n\n";
    for name in Workload::names() {
        text += &Workload::about(name).unwrap_or_default();
        text.push('\n');
    }
    Ok(text + CHECKER + ": a latency checker, whose table is set beside the published one of the machine\n")
}
