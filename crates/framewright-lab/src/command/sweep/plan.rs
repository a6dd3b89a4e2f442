//! `framewright sweep plan`: which cells there are.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use framewright_lab::sweep::plan::{MOST_CELLS, SCHEMA, SweepPlan};
use framewright_sim::machine::{self, Spec};
use framewright_sim::workload::Job;
use framewright_table::figures::counted;
use framewright_table::range;

use super::super::file::{Over, check, replace};
use super::super::output::{print, quoted};
use super::super::runs::{JobArgs, MACHINE, RunArgs};

/// Write down every cell, with all that its result depends on.
///
/// Options that name several things, by commas or by being repeated, are multiplied: two workloads, three sets of
/// mechanisms, four numbers of CPUs and five seeds are 120 cells. Machines and lists of operations are copied into the
/// plan, so hosts that run it need the plan and this program only.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright sweep plan -m baseline -m default --cpus 1,8,28,56 --seeds 1-5
      40 cells, in plan.jsonl
  framewright sweep plan --machine generic:2x4x1 --workload page-fault1 --workload bulk --cpus 8 --seconds 0.01 -o small.jsonl
      two short ones; framewright sim --list has the machines and workloads that there are")]
pub(super) struct Planning {
    /// Machine: a name, generic:SOCKETSxCORESxTHREADS, or a TOML file of your own; repeat for more [default:
    /// skylake-2x28].
    #[arg(long, value_name = "NAME|FILE.toml")]
    machine: Vec<String>,
    /// What the CPUs do, as `page-fault1` or `page-fault1:lru=smp`; repeat for more [default: page-fault1].
    #[arg(long, value_name = "NAME[:OPTIONS]")]
    workload: Vec<String>,
    /// Preset and switches, as `baseline,fallback=claim-steal`, or a TOML file; repeat for more [default: default].
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Vec<String>,
    /// Numbers of CPUs, separated by commas [default: all of each machine].
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u16).range(1..=machine::MOST_CPUS as i64))]
    cpus: Vec<u16>,
    /// Seeds, separated by commas; 1-5 is all from 1 to 5.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "1", value_parser = seeds)]
    seeds: Vec<(u64, u64)>,
    #[command(flatten)]
    job: JobArgs,
    /// Where the plan goes; - is the standard output.
    #[arg(long, short, value_name = "FILE", default_value = "plan.jsonl")]
    out: PathBuf,
    /// Replace an older plan that differs.
    #[arg(long)]
    force: bool,
}

impl Planning {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let machines = or(&self.machine, MACHINE);
        let workloads = or(&self.workload, "page-fault1");
        let seeds = self.seeds()?;
        let specs = machines.iter().map(|name| Ok(machine::load(name)?)).collect::<anyhow::Result<Vec<Spec>>>()?;
        let mut cells: Vec<(&Spec, Job)> = Vec::new();
        for (machine, spec) in machines.iter().zip(&specs) {
            for workload in &workloads {
                let runs = self.runs(machine, workload);
                let kind = runs.workload(&[])?;
                for set in runs.mechanisms()? {
                    for cpus in runs.cpus(spec)? {
                        if cells.len() + seeds.len() > MOST_CELLS {
                            bail!("these are more than {MOST_CELLS} cells, the most of a plan: make several");
                        }
                        let job = runs.job(&kind, set, cpus);
                        cells.extend(seeds.iter().map(|seed| (spec, Job { seed: *seed, ..job.clone() })));
                    }
                }
            }
        }
        let plan = SweepPlan::new(&self.command(&machines, &workloads), &cells)?;
        let text = plan.jsonl()?;
        if self.out == Path::new("-") {
            return print(&text);
        }
        let mark = SCHEMA.split_once('/').map_or(SCHEMA, |(kind, _)| kind);
        // A script may plan again what it planned before.
        let is_same = self.out.is_file() && fs::read(&self.out).is_ok_and(|old| old == text.as_bytes());
        check(&self.out, if self.force || is_same { Over::Ours(mark) } else { Over::Unforced(Some(mark)) })?;
        replace(&self.out, &text)?;
        print(&self.summary(&plan, &machines, &workloads, seeds.len()))
    }

    /// The arguments of one machine and workload.
    fn runs(&self, machine: &str, workload: &str) -> RunArgs {
        RunArgs {
            machine: Some(machine.to_owned()),
            workload: Some(workload.to_owned()),
            mechanisms: self.mechanisms.clone(),
            cpus: self.cpus.clone(),
            seed: 1,
            job: self.job.clone(),
        }
    }

    fn seeds(&self) -> anyhow::Result<Vec<u64>> {
        let mut seeds = Vec::new();
        for (first, last) in &self.seeds {
            if last - first >= MOST_CELLS as u64 {
                bail!("{first}-{last} is more than {MOST_CELLS} seeds, and a plan has no more cells");
            }
            seeds.extend(*first..=*last);
        }
        seeds.sort_unstable();
        seeds.dedup();
        Ok(seeds)
    }

    /// The command that makes the plan again.
    fn command(&self, machines: &[String], workloads: &[String]) -> String {
        let mut words = vec!["framewright sweep plan".to_owned()];
        let lists = [("--machine", machines), ("--workload", workloads), ("--mechanisms", &self.mechanisms)];
        for (option, values) in lists {
            words.extend(values.iter().map(|value| format!("{option} {}", quoted(value))));
        }
        if !self.cpus.is_empty() {
            let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
            words.push(format!("--cpus {}", cpus.join(",")));
        }
        let seeds: Vec<String> = self.seeds.iter().map(|(first, last)| spelled(*first, *last)).collect();
        words.push(format!("--seeds {}", seeds.join(",")));
        words.extend(self.job.words());
        words.push(format!("-o {}", quoted(&self.out.display().to_string())));
        words.join(" ")
    }

    fn summary(&self, plan: &SweepPlan, machines: &[String], workloads: &[String], seeds: usize) -> String {
        let (out, sets) = (quoted(&self.out.display().to_string()), self.mechanisms.len().max(1));
        let cpus = match self.cpus.len() {
            0 => "all CPUs".to_owned(),
            cpus => counted(cpus, "number") + " of CPUs",
        };
        format!(
            "{}: {} of {}, {}, {}, {cpus} and {}\n\nframewright sweep run {out}\n",
            self.out.display(),
            counted(plan.cells.len(), "cell"),
            counted(machines.len(), "machine"),
            counted(workloads.len(), "workload"),
            counted(sets, "set") + " of mechanisms",
            counted(seeds, "seed"),
        )
    }
}

fn or(values: &[String], usual: &str) -> Vec<String> {
    if values.is_empty() { vec![usual.to_owned()] } else { values.to_vec() }
}

/// A seed, or all from one to another.
fn seeds(text: &str) -> Result<(u64, u64), String> {
    match range(text).map(RangeInclusive::into_inner) {
        Some((first, last)) if first <= last => Ok((first, last)),
        Some(_) => Err("ends before it begins".to_owned()),
        None => Err("is no seed and no range, as 7 or 1-5".to_owned()),
    }
}

fn spelled(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}
