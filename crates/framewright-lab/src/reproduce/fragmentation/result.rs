//! Theirs and ours, as data.

use framewright_sim::thpfioscale::Outcome;
use framewright_sim::thpfioscale::outcome::{Block, Sample};
use serde::Serialize;

use super::judge;
use super::measured::{Measured, reading, why};
use super::plan::{
    ABLATION, CLOSER, Lengths, MACHINES, OURS, Part, Plan, REPEATED, RESTATED, Runs, SETTINGS, Setting, kernels,
};
use super::published::{Before, KERNELS, Row as Theirs};
use crate::reproduce::check::Check;
use crate::reproduce::fitted::{Fitted, is_row, restated};
use crate::reproduce::head::Head;
use crate::sim::figures::change_if_any;

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "fragmentation";

/// See the module's description.
#[derive(Clone, Serialize, Debug)]
pub struct Reproduction {
    /// Which experiment it is, and how it is made again.
    #[serde(flatten)]
    pub head: Head,
    /// How much was run.
    pub lengths: Lengths,
    /// Machines of ours, each in its ways.
    pub configs: Vec<Ours>,
    /// Kernels on each.
    pub rows: Vec<Row>,
    /// What was chosen knowing rows, and which.
    pub fitted: Vec<Fitted>,
    /// What each mechanism does alone, and together, in the configuration [`CLOSER`].
    pub ablation: Vec<Alone>,
    /// What becomes of huge pages there.
    pub rounds: Vec<Rounds>,
    /// What had to hold.
    pub checks: Vec<Check>,
    /// The configuration that pictures are of: [`CLOSER`], or the first that was run.
    #[serde(skip)]
    pub pictured: &'static str,
    /// One run of each kernel there.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
}

/// A configuration.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Ours {
    /// What rows call it.
    pub name: &'static str,
    /// The machine that it stands for, in words, or what it is if it was not published.
    pub title: String,
    /// Our machine.
    pub model: String,
    /// Its CPUs.
    pub cpus: usize,
    /// Its memory, in MiB.
    pub mib: u32,
    /// Inodes in the log when it is written: on nodes of 64 GiB (assumed), fewer on smaller ones; as they were seen on the emulated machine.
    pub log: u32,
    /// How far postings of one kernel are apart, in points of huge pages; none if it was not published.
    pub noise_points: Option<f64>,
    /// What was published of another kernel; none if nothing was.
    pub before: Option<Before>,
}

/// A kernel in a configuration.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// Which configuration.
    pub config: &'static str,
    /// Which kernel.
    pub kernel: &'static str,
    /// Whether something was chosen knowing this row.
    pub fitted: bool,
    /// Theirs; none of what was not published.
    pub published: Option<Theirs>,
    /// Ours.
    pub simulated: Measured,
    /// Changes of the number of events against the first kernel, in percent.
    pub change_percent: Change,
    /// Who mixed what, in a sentence.
    pub why: String,
}

/// Changes against the first kernel, in percent. None of that kernel itself, and where it has nothing to change.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Change {
    /// Theirs.
    pub published: Option<f64>,
    /// Ours, of means.
    pub simulated: Option<f64>,
}

/// Some mechanisms.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Alone {
    /// Which.
    pub mechanisms: &'static str,
    /// What they are.
    pub what: &'static str,
    /// What they do.
    pub simulated: Measured,
}

/// A kernel for several rounds, with one seed.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Rounds {
    /// Which.
    pub kernel: &'static str,
    /// Faults that got a huge page, by round, in percent.
    pub huge_percent: Vec<f64>,
}

/// What a run looks like.
#[derive(Clone, PartialEq, Debug)]
pub struct Picture {
    /// Which kernel.
    pub kernel: &'static str,
    /// Over time.
    pub samples: Vec<Sample>,
    /// Pageblocks at the end of each phase.
    pub blocks: Vec<(&'static str, Vec<Block>)>,
}

impl Reproduction {
    /// From what was published and what was run. `command` says how it is made again.
    pub fn new(plan: &Plan<'_>, runs: &Runs, command: &str) -> Self {
        let published = plan.published;
        let ran: Vec<&Setting> =
            SETTINGS.iter().filter(|setting| !runs.of(Part::Table, setting.name, OURS).is_empty()).collect();
        let configs: Vec<Ours> = ran.iter().map(|setting| config(plan, setting)).collect();
        let fitted: Vec<Fitted> = restated(&RESTATED).collect();
        let rows: Vec<Row> = ran.iter().flat_map(|setting| rows(plan, runs, (setting, &fitted))).collect();
        let pictured =
            ran.iter().find(|setting| setting.name == CLOSER).or(ran.first()).map_or(CLOSER, |setting| setting.name);
        let rounds: Vec<Rounds> = REPEATED.iter().filter_map(|kernel| rounds(runs, kernel)).collect();
        Self {
            head: Head::new(NAME, command, [&published.title, &published.source], (plan.machines[0], plan.seed)),
            checks: judge::checks(&rows, &rounds, published),
            ablation: ablation(runs),
            pictures: kernels().filter_map(|kernel| picture(runs, pictured, kernel)).collect(),
            pictured,
            lengths: plan.lengths,
            configs,
            rows,
            fitted,
            rounds,
        }
    }

    /// Rows of a configuration.
    pub fn of<'r>(&'r self, config: &'r str) -> impl Iterator<Item = &'r Row> {
        self.rows.iter().filter(move |row| row.config == config)
    }
}

fn config(plan: &Plan<'_>, setting: &Setting) -> Ours {
    let published = plan.published.configs.iter().find(|config| config.name == setting.name);
    let (machine, options) = (&MACHINES[setting.machine], plan.options(setting));
    let topology = plan.machines[setting.machine].model().topology;
    Ours {
        name: setting.name,
        title: published.map_or(setting.title().to_owned(), |config| config.title.clone()),
        model: machine.name.to_owned(),
        cpus: usize::from(topology.sockets * machine.cores * topology.threads),
        mib: options.mib,
        log: options.log,
        noise_points: published.map(|config| plan.published.noise(&config.name)),
        before: published.map(|config| plan.published.before(&config.name)),
    }
}

fn rows(plan: &Plan<'_>, runs: &Runs, (setting, fitted): (&Setting, &[Fitted])) -> Vec<Row> {
    let config = setting.name;
    let theirs = |kernel| plan.published.row(config, kernel);
    let first = Measured::of(&runs.of(Part::Table, config, KERNELS[0]));
    let change = |from: Option<f64>, to: Option<f64>| change_if_any(from?, to?);
    let row = |kernel: &'static str| {
        let outcomes = runs.of(Part::Table, config, kernel);
        let simulated = Measured::of(&outcomes)?;
        let [theirs_first, published] = [KERNELS[0], kernel].map(theirs);
        let is_first = kernel == KERNELS[0];
        Some(Row {
            config,
            kernel,
            fitted: is_row(fitted, &format!("{config} {kernel}")),
            published: published.cloned(),
            simulated,
            change_percent: Change {
                published: change(theirs_first.map(|row| row.events), published.map(|row| row.events))
                    .filter(|_| !is_first),
                simulated: change(first.map(|row| row.events.mean), Some(simulated.events.mean)).filter(|_| !is_first),
            },
            why: why(&outcomes),
        })
    };
    setting.kernels().filter_map(row).collect()
}

/// What was not run for its own sake is in the table.
fn ablation(runs: &Runs) -> Vec<Alone> {
    if !runs.0.iter().any(|(case, _)| case.part == Part::Ablation) {
        return Vec::new();
    }
    let alone = |&(mechanisms, what): &(&'static str, &'static str)| {
        let both = [Part::Ablation, Part::Table].map(|part| runs.of(part, CLOSER, mechanisms));
        Some(Alone { mechanisms, what, simulated: Measured::of(&both.concat())? })
    };
    ABLATION.iter().filter_map(alone).collect()
}

fn rounds(runs: &Runs, kernel: &'static str) -> Option<Rounds> {
    let outcome = *runs.of(Part::Rounds, CLOSER, kernel).first()?;
    Some(Rounds { kernel, huge_percent: reading(outcome).map(|phase| phase.faults.percent()).collect() })
}

/// One run of a kernel in a configuration.
fn picture(runs: &Runs, config: &str, kernel: &'static str) -> Option<Picture> {
    let outcome: &Outcome = runs.of(Part::Table, config, kernel).first().copied()?;
    let blocks = outcome.phases.iter().map(|phase| (phase.name, phase.blocks.clone())).collect();
    Some(Picture { kernel, samples: outcome.samples.clone(), blocks })
}
