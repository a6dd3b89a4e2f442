//! Theirs and ours as data, and what has to hold before one may say that the tables were reproduced.

use framewright_sim::thpfioscale::Outcome;
use framewright_sim::thpfioscale::outcome::{Block, Sample};
use serde::Serialize;

use super::measured::{Measured, reading, why};
use super::plan::{
    ABLATION, CLOSER, Lengths, MACHINES, NAME, OURS, Part, Plan, REPEATED, RESTATED, Runs, SETTINGS, Setting, kernels,
};
use super::published::{Before, KERNELS, Published, Row as Theirs};
use crate::reproduce::check::{Check, disordered, points};
use crate::reproduce::fitted::{Fitted, is_row, restated};
use crate::reproduce::head::Head;
use crate::sim::figures::{change_if_any, percent, ratio};

/// Points by which the first kernel's huge pages may be off.
const HUGE: f64 = 15.0;
/// Percent by which the first patch makes fallbacks of unmovable requests fewer, on one socket at least.
const UNMOVABLE: f64 = 70.0;
/// Percent by which patches 1 to 4, and 1 to 5, make events fewer at least.
const FEWER: f64 = 90.0;
/// The same of ours.
const OURS_FEWER: f64 = 99.0;
/// Percent of faults that ours serves with a huge page, at least, if a process asks.
const OURS_HUGE: f64 = 95.0;
/// Percent of the first round's huge pages that ours has in the last, at least.
const KEPT: f64 = 98.0;
/// How many times as much as in the first kernel background reclaim may look at under ours.
const SCANNED: f64 = 1.5;
/// The share of pages that readers get under ours, of those that they get under the first kernel, at least.
const READ: f64 = 0.98;
/// What configurations of one socket, and those in which a process asks for huge pages, have in their names.
const ONE_SOCKET: &str = "skylake";
const ASKED: &str = "madvise";

/// Theirs and ours.
#[derive(Clone, Serialize, Debug)]
pub struct Found {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) lengths: Lengths,
    /// Machines of ours, each in its ways.
    pub configs: Vec<Ours>,
    /// Kernels on each.
    pub rows: Vec<Row>,
    /// What was chosen knowing rows, and which.
    pub(super) fitted: Vec<Fitted>,
    /// What each mechanism does alone, and together, in the configuration [`CLOSER`].
    pub(super) ablation: Vec<Alone>,
    /// What becomes of huge pages there.
    pub(super) rounds: Vec<Rounds>,
    /// What had to hold.
    pub checks: Vec<Check>,
    /// The configuration that pictures are of: [`CLOSER`], or the first that was run.
    #[serde(skip)]
    pub(super) pictured: &'static str,
    /// The name of the second machine.
    #[serde(skip)]
    pub(super) other: String,
    /// One run of each kernel there.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
}

/// A configuration.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Ours {
    pub(super) name: &'static str,
    /// The machine that it stands for, in words, or what it is if it was not published.
    pub(super) title: String,
    pub(super) model: String,
    pub(super) cpus: usize,
    /// Its memory, in MiB.
    pub(super) mib: u32,
    /// Inodes in the log when it is written: on nodes of 64 GiB (assumed), fewer on smaller ones; as they were seen on the emulated machine.
    pub(super) log: u32,
    /// How far postings of one kernel are apart, in points of huge pages; none if it was not published.
    pub(super) noise_points: Option<f64>,
    /// What was published of another kernel; none if nothing was.
    pub(super) before: Option<Before>,
}

/// A kernel in a configuration.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    pub(super) config: &'static str,
    /// Which kernel.
    pub kernel: &'static str,
    /// Whether something was chosen knowing this row.
    pub(super) fitted: bool,
    /// Theirs; none of what was not published.
    pub(super) published: Option<Theirs>,
    /// Ours.
    pub simulated: Measured,
    /// Changes of the number of events against the first kernel, in percent.
    pub(super) change_percent: Change,
    /// Who mixed what, in a sentence.
    pub(super) why: String,
}

/// Changes against the first kernel, in percent. None of that kernel itself, and where it has nothing to change.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Change {
    pub(super) published: Option<f64>,
    /// Ours, of means.
    pub simulated: Option<f64>,
}

/// Some mechanisms.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Alone {
    pub(super) mechanisms: &'static str,
    pub(super) what: &'static str,
    /// Ours.
    pub simulated: Measured,
}

/// A kernel for several rounds, with one seed.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Rounds {
    /// Which kernel.
    pub kernel: &'static str,
    /// Faults that got a huge page, by round, in percent.
    pub(super) huge_percent: Vec<f64>,
}

/// What a run looks like.
#[derive(Clone, PartialEq, Debug)]
pub struct Picture {
    /// Which kernel.
    pub kernel: &'static str,
    /// Over time.
    pub samples: Vec<Sample>,
    /// Pageblocks at the end of each phase.
    pub(super) blocks: Vec<(&'static str, Vec<Block>)>,
}

impl Found {
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
            checks: checks(&rows, &rounds, published),
            ablation: ablation(runs),
            pictures: kernels().filter_map(|kernel| picture(runs, pictured, kernel)).collect(),
            pictured,
            other: plan.machines[1].name.clone(),
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

/// Whether something holds in a configuration, and its numbers; none if that was not run.
type Seen = Option<(bool, String)>;

/// What is judged: rows, and the tables that they are of.
struct Bench<'a> {
    rows: &'a [Row],
    published: &'a Published,
}

fn checks(rows: &[Row], rounds: &[Rounds], published: &Published) -> Vec<Check> {
    let bench = Bench { rows, published };
    let [first, lowzone, boost, stall] = KERNELS;
    vec![
        bench.check(&format!("{first}: huge pages within {HUGE} points of the published"), "", |config| {
            let row = bench.row(config, first)?;
            let (theirs, ours) = (row.published.as_ref()?.huge_percent, row.simulated.huge_percent.mean);
            let detail = format!("{} %, published {} %", percent(ours), percent(theirs));
            Some(((ours - theirs).abs() <= HUGE, detail))
        }),
        bench.check(&format!("{lowzone}: fewer events than {first}"), "", |config| bench.fewer(config, lowzone, 0.0)),
        bench.one_socket_most(lowzone),
        bench.check(&format!("{lowzone}: {UNMOVABLE} % fewer unmovable requests fall back"), ONE_SOCKET, |config| {
            let [from, to] = [first, lowzone].map(|kernel| bench.row(config, kernel));
            let [from, to] = [from?, to?].map(|row| row.simulated.events_by_type.unmovable.mean);
            Some(fewer(change_if_any(from, to), UNMOVABLE, ""))
        }),
        bench.check(&format!("{boost}: {FEWER} % fewer events"), "", |config| bench.fewer(config, boost, FEWER)),
        bench.check(&format!("{stall}: {FEWER} % fewer events"), "", |config| bench.fewer(config, stall, FEWER)),
        bench.check("huge pages in the published order, where that is further apart than two postings", "", |config| {
            bench.order(config)
        }),
        bench
            .check(&format!("{OURS}: {OURS_FEWER} % fewer events"), "", |config| bench.fewer(config, OURS, OURS_FEWER)),
        bench.check(&format!("{OURS}: {OURS_HUGE} % huge pages where they are asked for"), ASKED, |config| {
            let huge = bench.row(config, OURS)?.simulated.huge_percent.mean;
            Some((huge >= OURS_HUGE, format!("{} %", percent(huge))))
        }),
        kept(rounds),
        bench.check(&format!("{OURS}: background reclaim looks at {SCANNED} times {first}'s or less"), "", |config| {
            let scanned = bench.ratio(config, |row| row.simulated.kswapd_scanned.mean)?;
            Some((scanned <= SCANNED, format!("{} times", ratio(scanned))))
        }),
        bench.check(&format!("{OURS}: readers get {READ} of {first}'s pages or more"), "", |config| {
            let read = bench.ratio(config, |row| row.simulated.read_pages_per_s.mean)?;
            Some((read >= READ, format!("{read:.3}")))
        }),
    ]
}

/// Whether a row has as few events as its kernel has to; none of the kernel that others are held against, and of theirs where nothing was published.
pub(super) fn is_fewer(row: &Row) -> Option<bool> {
    let least = match row.kernel {
        OURS => OURS_FEWER,
        _ if row.published.is_none() => return None,
        kernel if kernel == KERNELS[1] => 0.0,
        _ => FEWER,
    };
    Some(is_less(row.change_percent.simulated?, least))
}

/// Whether a change in percent makes something fewer, and by so much at least.
fn is_less(change: f64, least: f64) -> bool {
    change < 0.0 && change <= -least
}

/// The same, and in words with what was published; there is no change where the first kernel has nothing.
fn fewer(change: Option<f64>, least: f64, theirs: &str) -> (bool, String) {
    match change {
        Some(change) => (is_less(change, least), format!("{} %{theirs}", points(change))),
        None => (false, format!("{} has none", KERNELS[0])),
    }
}

/// Whether a row's huge pages are as many as its kernel has to have; none where nothing is asked of it, or it says nothing.
pub(super) fn is_huge(row: &Row) -> Option<bool> {
    let ours = row.simulated.huge_percent.mean;
    match row.kernel {
        OURS => row.config.contains(ASKED).then_some(ours >= OURS_HUGE),
        _ if row.fitted => None,
        kernel if kernel == KERNELS[0] => Some((ours - row.published.as_ref()?.huge_percent).abs() <= HUGE),
        _ => None,
    }
}

impl Bench<'_> {
    fn row(&self, config: &str, kernel: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.config == config && row.kernel == kernel)
    }

    /// A check in each published configuration whose name has this in it. If it fails somewhere, it is told where; if not all were run, it is not seen.
    fn check(&self, name: &str, within: &str, seen: impl Fn(&str) -> Seen) -> Check {
        let names = self.published.configs.iter().map(|config| config.name.as_str());
        let all: Vec<(&str, Seen)> =
            names.filter(|config| config.contains(within)).map(|config| (config, seen(config))).collect();
        let told = |holds: bool| {
            let told = all.iter().filter_map(|(config, seen)| Some((config, seen.as_ref()?)));
            let told = told.filter(move |(_, seen)| seen.0 == holds);
            told.map(|(config, (_, detail))| format!("{config} {detail}")).collect::<Vec<_>>().join("; ")
        };
        let open: Vec<&str> = all.iter().filter(|(_, seen)| seen.is_none()).map(|(config, _)| *config).collect();
        if all.iter().any(|(_, seen)| seen.as_ref().is_some_and(|seen| !seen.0)) {
            Check::seen(name, false, told(false))
        } else if open.is_empty() {
            Check::seen(name, true, told(true))
        } else {
            let so_far = if open.len() == all.len() { String::new() } else { format!("; {}", told(true)) };
            Check::unseen(name, format!("not run: {}{so_far}", open.join(", ")))
        }
    }

    fn fewer(&self, config: &str, kernel: &str, least: f64) -> Seen {
        let row = self.row(config, kernel)?;
        let theirs = row.change_percent.published.map_or(String::new(), |change| format!(", published {change:.1} %"));
        Some(fewer(row.change_percent.simulated, least, &theirs))
    }

    /// The first patch does most on one socket.
    fn one_socket_most(&self, kernel: &str) -> Check {
        let name = format!("{kernel}: fewer by more on one socket than on two");
        let mut changes = [Vec::new(), Vec::new()];
        for config in &self.published.configs {
            let change = self.row(&config.name, kernel).and_then(|row| row.change_percent.simulated);
            let Some(change) = change else { return Check::unseen(&name, format!("not run: {}", config.name)) };
            changes[usize::from(!config.name.contains(ONE_SOCKET))].push(change);
        }
        let [one, two] = changes;
        let holds = one.iter().all(|one| two.iter().all(|two| one < two));
        let told =
            |all: &[f64]| all.iter().map(|change| format!("{} %", points(*change))).collect::<Vec<_>>().join(", ");
        Check::seen(&name, holds, format!("{} on one, {} on two", told(&one), told(&two)))
    }

    fn order(&self, config: &str) -> Seen {
        let noise = self.published.noise(config);
        let huge = |kernel| {
            let row = self.row(config, kernel)?;
            Some((kernel, [row.published.as_ref()?.huge_percent, row.simulated.huge_percent.mean]))
        };
        let all = KERNELS.iter().map(|kernel| huge(*kernel)).collect::<Option<Vec<_>>>()?;
        let wrong = disordered(&all, |less, more| more - less > noise);
        let detail = if wrong.is_empty() { format!("({noise:.1} points)") } else { wrong.join(", ") };
        Some((wrong.is_empty(), detail))
    }

    /// Ours of the first kernel's.
    fn ratio(&self, config: &str, value: fn(&Row) -> f64) -> Option<f64> {
        Some(value(self.row(config, OURS)?) / value(self.row(config, KERNELS[0])?))
    }
}

fn kept(rounds: &[Rounds]) -> Check {
    let name = format!("{OURS}: {KEPT} % of the first round's huge pages in the last");
    let rounds = rounds.iter().find(|rounds| rounds.kernel == OURS).map(|rounds| &rounds.huge_percent[..]);
    let Some([first, .., last]) = rounds else { return Check::unseen(&name, "a quick run has one round") };
    let detail =
        format!("{} % in the first, {} % in round {}", percent(*first), percent(*last), rounds.map_or(0, <[_]>::len));
    Check::seen(&name, *last >= first * KEPT / 100.0, detail)
}
