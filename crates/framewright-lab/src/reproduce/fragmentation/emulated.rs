//! What a real Linux 6.1 did with the same workload, in a machine of 1 GiB that QEMU emulates: a mean of three rounds each (`docs/lab/linux-vm.md`).

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::plan::REAL;
use super::published::{ByType, Row};
use crate::reproduce::estimate::Estimate;

/// The file, and its text.
const NAME: &str = "linux-6.1-thpfioscale-1g.json";
const FILE: &str = include_str!("../../../../../data/published/linux-6.1-thpfioscale-1g.json");
/// The machine, in words.
pub const TITLE: &str = "a real Linux 6.1 on 4 CPUs that QEMU emulates, 1,024 MiB, three boots";
/// Our configurations of that machine, and what its rounds call them.
const CONFIGS: [(&str, &str); 2] = [("emulated-default", "default"), ("emulated-madvise", "madvhugepage")];

#[derive(Deserialize)]
struct Measured {
    rounds: Vec<Round>,
}

#[derive(Deserialize)]
struct Round {
    config: String,
    fragmenting: f64,
    by_type: ByType<f64>,
    huge_percent: f64,
    fault_base_us: f64,
    fault_huge_us: f64,
}

/// A row for each configuration.
///
/// # Errors
/// What is wrong with the file.
pub fn rows() -> anyhow::Result<Vec<Row>> {
    read().with_context(|| format!("data/published/{NAME}"))
}

fn read() -> anyhow::Result<Vec<Row>> {
    let measured: Measured = serde_json::from_str(FILE)?;
    CONFIGS.iter().map(|(config, theirs)| row(&measured, config, theirs)).collect()
}

fn row(measured: &Measured, config: &str, theirs: &str) -> anyhow::Result<Row> {
    let rounds: Vec<&Round> = measured.rounds.iter().filter(|round| round.config == theirs).collect();
    ensure!(!rounds.is_empty(), "there is no round of {theirs}");
    let mean =
        |value: fn(&Round) -> f64| Estimate::of(rounds.iter().map(|round| value(round))).map_or(0.0, |all| all.mean);
    Ok(Row {
        config: config.to_owned(),
        kernel: REAL.to_owned(),
        events: mean(|round| round.fragmenting),
        events_by_type: Some(ByType {
            unmovable: mean(|round| round.by_type.unmovable),
            movable: mean(|round| round.by_type.movable),
            reclaimable: mean(|round| round.by_type.reclaimable),
        }),
        huge_percent: mean(|round| round.huge_percent),
        fault_base_us: mean(|round| round.fault_base_us),
        fault_huge_us: mean(|round| round.fault_huge_us),
        stalls: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_means_of_three_rounds() {
        let told = |row: &Row| format!("{}: {:.1} events, {:.2} % huge", row.config, row.events, row.huge_percent);
        let all: Vec<String> = rows().unwrap().iter().map(told).collect();
        assert_eq!(all, ["emulated-default: 17.3 events, 2.60 % huge", "emulated-madvise: 36.7 events, 21.87 % huge"]);
    }
}
