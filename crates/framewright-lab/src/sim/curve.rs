//! Several runs side by side: how a workload scales with the number of CPUs, under one or more sets of mechanisms.

use std::fmt;

use framewright_sim::report::Report;
use framewright_table::figures::{change, fitted, grouped, percent, plural, ratio};
use framewright_table::{Table, cells};

/// Prints a table with a row for each run, grouped by mechanisms.
pub struct CurveText<'r>(pub &'r [Report]);

impl fmt::Display for CurveText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else { return Ok(()) };
        writeln!(f, "{} on {}, by number of CPUs", first.workload, first.machine)?;
        let groups = by_mechanisms(self.0);
        for (mechanisms, runs) in &groups {
            writeln!(f, "\n{}", fitted(&format!("mechanisms {mechanisms}"), 100))?;
            let unit = fitted(&plural(&first.unit), 20);
            let mut table = Table::new(">6>22>10>15>13<");
            let rate = format!("{unit}/s");
            table.row(cells!["CPUs", "{rate}", "scaling", "cycles for one", "waiting", "most waited-for lock"]);
            for run in runs {
                table.row(vec![
                    run.cpus.to_string(),
                    grouped(run.per_second),
                    format!("x {}", ratio(scaling(runs, run))),
                    grouped(run.cycles_per_operation),
                    percent(contention(run)) + " %",
                    worst_lock(run).map_or(String::new(), |name| fitted(name, 32)),
                ]);
            }
            write!(f, "{table}")?;
        }
        gains(f, &groups)
    }
}

/// The change of each set of mechanisms against the first, where both ran on equally many CPUs.
fn gains(f: &mut fmt::Formatter<'_>, groups: &[(&str, Vec<&Report>)]) -> fmt::Result {
    let Some(((first, _), others)) = groups.split_first() else { return Ok(()) };
    if others.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{}", fitted(&format!("against {first}"), 100))?;
    let mut table = Table::new(">6>22<");
    table.row(cells!["CPUs", "change"]);
    for (mechanisms, runs) in others {
        for run in runs {
            let change = against_first(groups, run).unwrap_or_else(|| "not run".to_owned());
            table.row(cells!["{}" = run.cpus, "{change}", "{}" = fitted(mechanisms, 70)]);
        }
    }
    write!(f, "{table}")
}

/// Runs that differ in CPUs only, in the order in which their mechanisms first appear.
pub(crate) fn by_mechanisms(runs: &[Report]) -> Vec<(&str, Vec<&Report>)> {
    let mut groups: Vec<(&str, Vec<&Report>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(mechanisms, _)| *mechanisms == run.mechanisms) {
            Some((_, group)) => group.push(run),
            None => groups.push((&run.mechanisms, vec![run])),
        }
    }
    for (_, group) in &mut groups {
        group.sort_by_key(|run| run.cpus);
    }
    groups
}

/// A run's throughput as a multiple of the group's smallest run.
pub fn scaling(group: &[&Report], run: &Report) -> f64 {
    match group.first() {
        Some(least) if least.per_second > 0.0 => run.per_second / least.per_second,
        _ => f64::NAN,
    }
}

/// Share of all CPUs' time that was spent waiting for locks, in percent.
pub fn contention(run: &Report) -> f64 {
    run.locks.iter().map(|lock| lock.contention_percent).sum()
}

/// The lock that took the most time to get, if any took time.
pub(crate) fn worst_lock(run: &Report) -> Option<&str> {
    let waited_for = run.locks.iter().filter(|lock| lock.contention_percent > 0.0);
    waited_for.max_by(|a, b| a.contention_percent.total_cmp(&b.contention_percent)).map(|lock| lock.name.as_str())
}

/// The change of throughput against the first group's run on equally many CPUs; none without one.
pub(crate) fn against_first(groups: &[(&str, Vec<&Report>)], run: &Report) -> Option<String> {
    let (mechanisms, first) = groups.first()?;
    let same = first.iter().find(|other| other.cpus == run.cpus)?;
    (*mechanisms != run.mechanisms).then(|| change(same.per_second, run.per_second))
}
