//! Where CPU time went: of all CPUs together, and of those that got the least, the median and the most done.
//!
//! The three are whole CPUs, not the extremes of each row, so that every column adds up. What a CPU's parts leave of the window
//! is shown as not accounted for rather than spread over the rest.

use framewright_sim::report::{CpuReport, Report, Times};
use serde::Serialize;

use super::figures::share;

/// Shares below this many percent are rounding.
const ROUNDING: f64 = 0.05;

/// Shares of CPU time.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct CpuTime {
    /// Whose time.
    pub columns: Vec<Column>,
    /// What for; only what somebody spent time on.
    pub rows: Vec<Row>,
}

/// A CPU, or all.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Column {
    /// `all CPUs`, or the CPU and why it is here.
    pub name: String,
    /// Operations that it completed.
    pub operations: u64,
}

/// What time was spent for.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// Name, as `instructions`.
    pub name: &'static str,
    /// Percent of the column's time.
    pub percent: Vec<f64>,
}

impl CpuTime {
    /// Of a run; `None` if it counted no time.
    pub fn of(report: &Report) -> Option<Self> {
        let window = report.window_ns as f64;
        let spent: f64 = report.per_cpu.iter().flat_map(parts).sum();
        if window <= 0.0 || spent <= 0.0 {
            return None;
        }
        let groups = groups(&report.per_cpu);
        let columns = groups
            .iter()
            .map(|(name, cpus)| Column { name: name.clone(), operations: cpus.iter().map(|cpu| cpu.operations).sum() });
        let rows = (0..NAMES.len()).map(|part| Row {
            name: NAMES[part],
            percent: groups
                .iter()
                .map(|(_, cpus)| {
                    let time: f64 = cpus.iter().map(|cpu| parts(cpu)[part]).sum();
                    share(time, window * cpus.len() as f64)
                })
                .collect(),
        });
        let mut rows: Vec<Row> = rows.collect();
        let rest = (0..groups.len()).map(|i| 100.0 - rows.iter().map(|row| row.percent[i]).sum::<f64>());
        let rest: Vec<f64> = rest.collect();
        rows.retain(|row| row.percent.iter().any(|&percent| percent > 0.0));
        rows.sort_by(|a, b| b.percent[0].total_cmp(&a.percent[0]));
        if rest.iter().any(|rest| rest.abs() >= ROUNDING) {
            rows.push(Row { name: "not accounted for", percent: rest });
        }
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
