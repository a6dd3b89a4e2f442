//! Shares of CPU time: of all CPUs together, and of the CPUs with the least, the median and the most operations.
//!
//! The three are whole CPUs, not the extremes of each row, so that every column adds up. A CPU's time runs from its
//! first to its last operation of the window, which is not quite the window.

use framewright_sim::report::{CpuReport, Report, Times};
use framewright_table::figures::share;
use serde::Serialize;

/// Shares of CPU time.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct CpuTime {
    /// All CPUs, or single ones.
    pub columns: Vec<TimeColumn>,
    /// The uses of time; only those with any.
    pub rows: Vec<TimeRow>,
}

/// A CPU, or all.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct TimeColumn {
    /// `all CPUs`, or the CPU and why it is here.
    pub name: String,
    /// Operations that it completed.
    pub operations: u64,
}

/// One use of time.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct TimeRow {
    /// Name, as `instructions`.
    pub name: &'static str,
    /// Percent of the column's time.
    pub percent: Vec<f64>,
}

impl CpuTime {
    /// Of a run; `None` if it counted no time.
    pub fn of(report: &Report) -> Option<Self> {
        let groups = groups(&report.per_cpu);
        let whole: Vec<f64> = groups.iter().map(|(_, cpus)| cpus.iter().flat_map(|cpu| parts(cpu)).sum()).collect();
        if whole[0] <= 0.0 {
            return None;
        }
        let columns = groups.iter().map(|(name, cpus)| TimeColumn {
            name: name.clone(),
            operations: cpus.iter().map(|cpu| cpu.operations).sum(),
        });
        let percent = |part: usize| {
            let of = |((_, cpus), &whole): (&(String, Vec<&CpuReport>), &f64)| {
                share(cpus.iter().map(|cpu| parts(cpu)[part]).sum(), whole)
            };
            groups.iter().zip(&whole).map(of).collect()
        };
        let rows = NAMES.iter().enumerate().map(|(part, &name)| TimeRow { name, percent: percent(part) });
        let mut rows: Vec<TimeRow> = rows.filter(|row| row.percent.iter().any(|&percent| percent > 0.0)).collect();
        rows.sort_by(|a, b| b.percent[0].total_cmp(&a.percent[0]));
        Some(Self { columns: columns.collect(), rows })
    }
}

const NAMES: [&str; 11] = [
    "instructions",
    "hits in own caches",
    "lines from the same socket",
    "lines from another socket",
    "lines from memory",
    "queued for a line",
    "spinning",
    "waiting for stores",
    "zeroing pages",
    "asleep",
    "in interrupts",
];

/// Times in the order of [`NAMES`].
fn parts(cpu: &CpuReport) -> [f64; NAMES.len()] {
    let Times { instructions, hits, near, far, memory, queued, spinning, stores, zeroing, asleep, interrupts } =
        cpu.time;
    [instructions, hits, near, far, memory, queued, spinning, stores, zeroing, asleep, interrupts]
}

/// All CPUs, and of several those with the least, the median and the most operations; of equals the first.
fn groups(cpus: &[CpuReport]) -> Vec<(String, Vec<&CpuReport>)> {
    let mut groups = vec![("all CPUs".to_owned(), cpus.iter().collect())];
    if cpus.len() < 2 {
        groups[0].0 = cpus.iter().map(|cpu| format!("CPU {}", cpu.cpu)).collect();
        return groups;
    }
    let mut ranked: Vec<&CpuReport> = cpus.iter().collect();
    ranked.sort_by_key(|cpu| (cpu.operations, cpu.cpu));
    for (name, rank) in [("least", 0), ("median", ranked.len() / 2), ("most", ranked.len() - 1)] {
        groups.push((format!("{name}: CPU {}", ranked[rank].cpu), vec![ranked[rank]]));
    }
    groups
}
