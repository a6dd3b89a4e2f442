//! `framewright sweep`: many runs of the simulated machine, on as many hosts as one has.

mod merge;
mod plan;
mod run;

use clap::{Args, Subcommand};

/// Plan hundreds of simulated runs, share them among hosts, and merge the results.
///
/// The runs, which are called cells, are every one of some mechanisms with every one of some workloads, machines,
/// numbers of CPUs and seeds.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright sweep plan -m baseline -m default --cpus 1,8,28 --seeds 1-5
      30 cells, in plan.jsonl
  framewright sweep run plan.jsonl
      appends to plan.results.jsonl; the same command again goes on where it was
  framewright sweep run plan.jsonl --shard 2/8
      on the second of eight hosts; under Slurm and Kubernetes it knows that by itself
  framewright sweep merge plan.results.jsonl --plan plan.jsonl
      tables of what came out, and what is missing

docs/sweep.md has the formats, and recipes for Slurm, GNU parallel, Kubernetes and Ray.")]
pub(crate) struct Sweep {
    #[command(subcommand)]
    step: SweepStep,
}

#[derive(Subcommand)]
enum SweepStep {
    Plan(plan::Planning),
    Run(run::Running),
    Merge(merge::Merging),
}

impl Sweep {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match &self.step {
            SweepStep::Plan(plan) => plan.run(),
            SweepStep::Run(run) => run.run(),
            SweepStep::Merge(merge) => merge.run(),
        }
    }
}
