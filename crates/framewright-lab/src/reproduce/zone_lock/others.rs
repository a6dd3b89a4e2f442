//! Other workloads, under every preset: what a table of page faults does not show.
//!
//! - [`Other::Mix`]: half of the processes have huge pages, in fragmented memory. That was published for three kernels,
//!   each part by itself. Those kernels had their pages on LRU lists and compacted memory while the test ran, which ours do
//!   not, so theirs are shown beside ours and nothing is asked of how near they are.
//! - [`Other::Pipe`] and [`Other::FarPipe`]: what one CPU allocates, another frees.
//! - [`Other::ParallelFree`]: all CPUs free all that they have at the same time.
//!
//! Processes have the simulator's usual 16 MiB, and nodes as much memory as they need.

use framewright_sim::report::Report;
use framewright_sim::workload::PageFaultMix;
use serde::Serialize;

use super::plan::{Kernel, Load, OURS, Other, Plan};
use super::published::MixRow as TheirMix;
use crate::reproduce::plan::Runs;
use crate::reproduce::why::{self, ZONE, hold_p999, waiting};
use crate::sim::figures::{duration, percent, share};

/// A kernel under [`Other::Mix`].
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct MixRow {
    /// Name of the preset.
    pub name: String,
    /// Theirs; none if nothing was published.
    pub published: Option<Parts>,
    /// Ours; none if there is no such preset.
    pub simulated: Option<OurMix>,
}

/// What both halves of the processes did.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Parts {
    /// Pages of 4 KiB a second of the processes with small pages.
    pub small_performance: f64,
    /// Pages of 4 KiB a second of the processes with huge pages.
    pub huge_performance: f64,
    /// The first part in percent of the first kernel's; none if that has not been run.
    pub small_percent: Option<f64>,
    /// The second part, the same.
    pub huge_percent: Option<f64>,
    /// The geometric mean of both.
    pub geometric_mean_percent: Option<f64>,
}

/// Ours.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct OurMix {
    /// What was measured.
    #[serde(flatten)]
    pub parts: Parts,
    /// The mechanisms, as a list of switches.
    pub mechanisms: String,
    /// Huge faults that got small pages, in percent.
    pub fallback_percent: f64,
    /// Share of CPU time spent waiting for the zone lock, in percent.
    pub zone_lock_contention_percent: f64,
    /// 999 of 1000 times the zone lock was held no longer, in nanoseconds.
    pub hold_p999_ns: f64,
    /// What limits the kernel, in a sentence.
    pub why: String,
    /// The run.
    #[serde(skip)]
    pub report: Report,
}

/// One of the other workloads under every preset.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Elsewhere {
    /// What it is.
    pub title: &'static str,
    /// The workload with its options.
    pub workload: String,
    /// What is counted.
    pub unit: String,
    /// Presets.
    pub rows: Vec<ElsewhereRow>,
}

/// A preset under such a workload.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct ElsewhereRow {
    /// Name of the preset.
    pub name: String,
    /// The mechanisms, as a list of switches.
    pub mechanisms: String,
    /// Operations per second.
    pub performance: f64,
    /// In percent of our own kernel's; none if that was not run.
    pub percent_of_default: Option<f64>,
    /// Share of CPU time spent waiting for the zone lock, in percent.
    pub zone_lock_contention_percent: f64,
    /// 999 of 1000 times the zone lock was held no longer, in nanoseconds.
    pub hold_p999_ns: f64,
    /// What limits the preset, in a sentence.
    pub why: String,
}

impl Parts {
    fn of([small, huge]: [f64; 2], first: Option<[f64; 2]>) -> Self {
        let against = first.map(|first| [share(small, first[0]), share(huge, first[1])]);
        Self {
            small_performance: small,
            huge_performance: huge,
            small_percent: against.map(|against| against[0]),
            huge_percent: against.map(|against| against[1]),
            geometric_mean_percent: against.map(|[small, huge]| (small * huge).sqrt()),
        }
    }

    /// Both parts together.
    pub fn total(&self) -> f64 {
        self.small_performance + self.huge_performance
    }
}

/// All presets under [`Other::Mix`], and what was published of them.
pub(super) fn mix(plan: &Plan<'_>, runs: &Runs) -> Vec<MixRow> {
    let (published, reports) = (plan.published, reports(plan, runs, Other::Mix));
    let first = published.mix.first();
    let theirs = |row: &TheirMix| Parts::of([row.small, row.huge], first.map(|first| [first.small, first.huge]));
    let first = first.and_then(|first| reports.iter().find(|(kernel, _)| kernel.name == first.name));
    let first = first.and_then(|(_, report)| Some(halves((*report)?)));
    let of = |&(kernel, report): &(&Kernel, Option<&Report>)| MixRow {
        name: kernel.name.clone(),
        published: published.mix.iter().find(|row| row.name == kernel.name).map(theirs),
        simulated: report.map(|report| OurMix {
            parts: Parts::of(halves(report), first),
            mechanisms: switches(kernel),
            fallback_percent: figure(report, PageFaultMix::FALLBACKS),
            zone_lock_contention_percent: waiting(report, ZONE),
            hold_p999_ns: hold_p999(report),
            why: format!("{}; {}", why::sentence(report), huge_faults(report)),
            report: report.clone(),
        }),
    };
    reports.iter().map(of).collect()
}

/// The other workloads under all presets.
pub(super) fn elsewhere(plan: &Plan<'_>, runs: &Runs) -> Vec<Elsewhere> {
    let of = |other: Other| {
        let reports = reports(plan, runs, other);
        let ours = reports.iter().find(|(kernel, _)| kernel.name == OURS).and_then(|(_, report)| *report);
        let row = |&(kernel, report): &(&Kernel, Option<&Report>)| {
            let report = report?;
            Some(ElsewhereRow {
                name: kernel.name.clone(),
                mechanisms: switches(kernel),
                performance: report.per_second,
                percent_of_default: ours.map(|ours| share(report.per_second, ours.per_second)),
                zone_lock_contention_percent: waiting(report, ZONE),
                hold_p999_ns: hold_p999(report),
                why: why::sentence(report),
            })
        };
        let workload = other.workload(&plan.lengths);
        let rows = reports.iter().filter_map(row).collect();
        Elsewhere { title: other.title(), unit: workload.unit().to_owned(), workload: workload.to_string(), rows }
    };
    if plan.presets.is_empty() { Vec::new() } else { Other::ALL[1..].iter().copied().map(of).collect() }
}

/// Presets with their runs of a workload.
fn reports<'r>(plan: &'r Plan<'_>, runs: &'r Runs, other: Other) -> Vec<(&'r Kernel, Option<&'r Report>)> {
    let report = |kernel: &Kernel| Some(&plan.outcome(runs, &kernel.name, Load::Other(other))?.report);
    plan.presets.iter().map(|kernel| (kernel, report(kernel))).collect()
}

fn switches(kernel: &Kernel) -> String {
    kernel.mechanisms.map_or(String::new(), |mechanisms| mechanisms.to_string())
}

fn halves(report: &Report) -> [f64; 2] {
    [PageFaultMix::SMALL, PageFaultMix::HUGE].map(|name| figure(report, name))
}

/// A figure of the workload's own.
fn figure(report: &Report, name: &str) -> f64 {
    report.figure(name).unwrap_or(f64::NAN)
}

fn huge_faults(report: &Report) -> String {
    let fallbacks = percent(figure(report, PageFaultMix::FALLBACKS));
    let attempt = duration(figure(report, PageFaultMix::ATTEMPT));
    format!("{fallbacks} % of the huge faults got small pages, and to ask for a huge one took {attempt}")
}
