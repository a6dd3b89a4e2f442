//! `framewright sweep run`: cells of a plan, as many as are this process' own.

use std::collections::HashSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, process, thread};

use anyhow::Context;
use clap::Args;
use framewright_bench::command::Bar;
use framewright_lab::sweep::digest::Digest;
use framewright_lab::sweep::part::{ALL, Part};
use framewright_lab::sweep::plan::SweepPlan;
use framewright_lab::sweep::results::{Outcome, ResultLine, ResultsContent, Store};
use framewright_lab::sweep::run;
use framewright_table::figures::counted;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::super::ended::Violated;
use super::super::output::{note, print, quoted};

/// Run cells of a plan that have no result yet, and append a line for each.
///
/// Without --index and --shard, the process' part of the plan is what its scheduler says, and all of it where there is
/// none: SLURM_ARRAY_TASK_ID and SLURM_PROCID; with --of, JOB_COMPLETION_INDEX (Kubernetes) and PARALLEL_SEQ (GNU
/// parallel). A process that is killed loses the cells that were running; the same command again runs those and what is
/// left. Ends with status 1 if a cell failed.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright sweep run plan.jsonl
      all of it, on all CPUs of this host; appends to plan.results.jsonl
  framewright sweep run plan.jsonl --shard 2/8
      every eighth cell; appends to plan.results-2-of-8.jsonl
  framewright sweep run plan.jsonl --of 8
      as a task of sbatch --array=0-7, or of an indexed Job of Kubernetes with 8 completions
  framewright sweep run plan.jsonl --index 7 -o -
      one cell, its line on the standard output")]
pub(super) struct Running {
    /// What `framewright sweep plan` wrote.
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// File to append to, this process' own; - is the standard output [default: PLAN.results.jsonl, with the shard].
    #[arg(long, short, value_name = "RESULTS")]
    out: Option<PathBuf>,
    /// Run this cell only, counted from 0.
    #[arg(long, value_name = "I", conflicts_with_all = ["shard", "of"])]
    index: Option<usize>,
    /// Run the K-th of N parts of the plan, counted from 1; 1/1 is all, whatever the scheduler says.
    #[arg(long, value_name = "K/N", value_parser = shard, conflicts_with = "of")]
    shard: Option<Part>,
    /// Number of parts, where the scheduler says only which this is.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    of: Option<u32>,
    /// Cells that run at once [default: the number of CPUs].
    #[arg(long, short, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

/// Where lines go.
enum Sink {
    File(Store),
    Output,
}

impl Running {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, stopped.clone()).context("cannot watch for signals")?;
        }
        let plan = SweepPlan::read(&self.plan)?;
        let (part, told) = self.part()?;
        let own = part.cells(&plan)?;
        let path = self.out.clone().unwrap_or_else(|| results(&self.plan, part));
        let (sink, content) = if path == Path::new("-") {
            (Sink::Output, ResultsContent::default())
        } else {
            let (store, content) = Store::open(&path)?;
            (Sink::File(store), content)
        };
        let results = content.lines.iter().filter(|(_, line)| line.found().is_some());
        let known: HashSet<&Digest> = results.map(|(_, line)| &line.hash).collect();
        let (done, left): (Vec<usize>, Vec<usize>) =
            own.iter().partition(|index| known.contains(&plan.cells[**index].0));
        if let Some(told) = told {
            note(&format!("{part}, by {told}: {} of the plan's {}", own.len(), counted(plan.cells.len(), "cell")));
        }
        if content.torn > 0 {
            note(&format!(
                "{}: dropped {} of a line that was not written to its end",
                path.display(),
                counted(content.torn, "byte")
            ));
        }
        let failed = self.cells(&plan, &left, (sink, &stopped))?;
        if path != Path::new("-") {
            print(&summary((left.len(), done.len(), failed), &path))?;
        }
        if failed == 0 { Ok(()) } else { Err(Violated.into()) }
    }

    /// The process' part, and by which words of its environment.
    fn part(&self) -> anyhow::Result<(Part, Option<String>)> {
        if let Some(index) = self.index {
            return Ok((Part::Cell(index), None));
        }
        if let Some(shard) = self.shard {
            return Ok((shard, None));
        }
        let variable = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let told = Part::told(&variable, self.of.map(|of| of as usize))?;
        Ok(told.map_or((ALL, None), |(part, words)| (part, Some(words))))
    }

    /// Runs cells, and says how many failed.
    fn cells(&self, plan: &SweepPlan, left: &[usize], (sink, stopped): (Sink, &AtomicBool)) -> anyhow::Result<usize> {
        let usual = || thread::available_parallelism().map_or(1, NonZero::get);
        let threads = self.jobs.map_or_else(usual, usize::from);
        let (sink, failed) = (Mutex::new(sink), AtomicUsize::new(0));
        let plan_name = quoted(&self.plan.display().to_string());
        let again = |index: usize| format!("framewright sweep run {plan_name} --index {index} -o -");
        let record = |line: &ResultLine| {
            if let Outcome::Failure(failure) = &line.outcome {
                failed.fetch_add(1, Ordering::Relaxed);
                note(&format!("cell {} failed: {}\n  again: {}", line.index, failure.error, failure.again));
            }
            match &mut *sink.lock().unwrap_or_else(PoisonError::into_inner) {
                Sink::File(store) => store.append(line),
                Sink::Output => print(&line.json()?),
            }
        };
        let bar = Bar::new()?;
        run::run(plan, (left, threads), again, record, &mut |done, share| {
            bar.show(&format!("{done} of {}", counted(left.len(), "cell")), share);
            if stopped.load(Ordering::Relaxed) {
                // The lock keeps other processes from writing to the file.
                let _held = sink.lock().unwrap_or_else(PoisonError::into_inner);
                note(&format!(
                    "stopped with {done} of {} done; the same command again goes on from there",
                    counted(left.len(), "cell")
                ));
                process::exit(130);
            }
        })?;
        Ok(failed.into_inner())
    }
}

/// The default file for a part's results.
fn results(plan: &Path, part: Part) -> PathBuf {
    let suffix = match part {
        Part::Cell(index) => format!("results-cell-{index}.jsonl"),
        Part::Shard { of: 1, .. } => "results.jsonl".to_owned(),
        Part::Shard { shard, of } => format!("results-{shard}-of-{of}.jsonl"),
    };
    plan.with_extension(suffix)
}

fn summary((run, before, failed): (usize, usize, usize), path: &Path) -> String {
    let before = if before > 0 { format!(", {before} were done before") } else { String::new() };
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    format!("{} run{before}{failed}: {}\n", counted(run, "cell"), path.display())
}

fn shard(text: &str) -> Result<Part, String> {
    let numbers = text.split_once('/').and_then(|(shard, of)| Some((shard.parse().ok()?, of.parse().ok()?)));
    let (shard, of) = numbers.ok_or("is no shard, as 2/8 for the second of eight")?;
    Part::shard(shard, of).map_err(|error| error.to_string())
}
