//! The published tables, and what a real Linux 6.1 did with the same workload (`docs/lab/linux-vm.md`).

use anyhow::{Context, ensure};
use framewright::Mechanisms;
use serde::{Deserialize, Serialize};

use crate::reproduce::estimate::Estimate;
use crate::reproduce::published::{Published, is_amount, names_differ, read};

/// Results of a real kernel in a machine of 1 GiB that QEMU emulates: three rounds for each configuration.
const REAL_FILE: &str = include_str!("../../../data/published/linux-6.1-thpfioscale-1g.json");
/// That machine, in words.
pub(crate) const EMULATED: &str = "a real Linux 6.1 on 4 CPUs that QEMU emulates, 1,024 MiB, three boots";
/// Our configurations of that machine, and what its rounds call them.
const EMULATED_CONFIGS: [(&str, &str); 2] = [("emulated-default", "default"), ("emulated-madvise", "madvhugepage")];
/// Mechanisms of the kernel that was run under emulation.
pub(crate) const REAL: &str = "linux-6.1";
/// Kernels of the series, from the first: what it was measured against, and with more and more of its patches. Names of
/// presets.
pub(crate) const KERNELS: [&str; 4] = ["vanilla-4.20", "lowzone", "boost", "stall"];

/// The published tables of the series.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct FragmentationTables {
    /// Title of the publication.
    pub title: String,
    /// Where it is from.
    pub source: String,
    /// Workload of the measurement.
    pub workload: String,
    /// Machines, each in two ways.
    #[serde(rename = "config")]
    pub configs: Vec<PublishedConfig>,
    /// Each kernel on each of them.
    #[serde(rename = "row")]
    pub rows: Vec<ThpRow>,
    /// Rows of an earlier version of the series.
    pub earlier: Vec<Earlier>,
    /// Rows of the first version, which was measured on another kernel: nothing is checked against it.
    pub before: Before,
    /// Results of a real kernel, for which no table was published.
    #[serde(skip)]
    pub emulated: Vec<ThpRow>,
}

/// A machine, and whether the process asks for huge pages.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct PublishedConfig {
    /// Name in the rows.
    pub name: String,
    /// The machine in words.
    pub title: String,
    /// Threads that want huge pages.
    pub threads: usize,
}

/// A kernel on a machine.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ThpRow {
    /// Which machine, and how.
    #[serde(skip_serializing)]
    pub config: String,
    /// Which kernel: the preset that models it.
    #[serde(skip_serializing)]
    pub kernel: String,
    /// Requests served from a block of another mobility smaller than a pageblock.
    pub events: f64,
    /// Counts of these events by the type of the request, where that was published.
    pub events_by_type: Option<ByType<f64>>,
    /// Faults that got a huge page, in percent.
    pub huge_percent: f64,
    /// Mean time of the others, in microseconds; 0 if there were none.
    pub fault_base_us: f64,
    /// Mean time of those that did, in microseconds.
    pub fault_huge_us: f64,
    /// Requests that waited rather than mix mobilities, of kernels that do that.
    pub stalls: Option<Stalls>,
}

/// Something by mobility.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ByType<T> {
    /// Of requests that cannot move.
    pub unmovable: T,
    /// Of those that can.
    pub movable: T,
    /// Of those that can be freed.
    pub reclaimable: T,
}

/// Waits.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// How many.
    pub count: f64,
    /// How long all together, in microseconds.
    pub us: f64,
    /// Minutes of the run, where that was said.
    pub minutes: Option<f64>,
}

/// Rows of another kernel, each named like the one of 4.20 with the same patches.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// Which kernel, and which version of the series.
    pub name: String,
    /// Where they are from.
    pub source: String,
    /// The rows.
    #[serde(rename(deserialize = "row"))]
    pub rows: Vec<Earlier>,
}

/// A row of an earlier version.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    /// As in [`ThpRow`].
    #[serde(skip_serializing)]
    pub config: String,
    /// As in [`ThpRow`].
    pub kernel: String,
    /// As in [`ThpRow`].
    pub events: f64,
    /// As in [`ThpRow`], where that was published.
    pub huge_percent: Option<f64>,
}

impl Published for FragmentationTables {
    const FILE: &'static str = "fragmentation.toml";
    const TEXT: &'static str = include_str!("../../../data/published/fragmentation.toml");

    fn built_in() -> anyhow::Result<Self> {
        let emulated = emulated().context("data/published/linux-6.1-thpfioscale-1g.json")?;
        Ok(Self { emulated, ..read()? })
    }

    fn check(&self) -> anyhow::Result<()> {
        names_differ(self.configs.iter().map(|config| &config.name))?;
        let named: Vec<String> = self.rows.iter().map(|row| format!("{} of {}", row.kernel, row.config)).collect();
        names_differ(&named)?;
        for config in &self.configs {
            for kernel in KERNELS {
                ensure!(self.row(&config.name, kernel).is_some(), "there is no row {kernel} of {}", config.name);
            }
        }
        for (row, name) in self.rows.iter().zip(named) {
            self.is_of(&row.config, &row.kernel).and_then(|()| row.check()).with_context(|| format!("row {name}"))?;
        }
        let older =
            self.earlier.iter().map(|row| ("earlier", row)).chain(self.before.rows.iter().map(|row| ("before", row)));
        for (table, row) in older {
            let name = || format!("{table} row {} of {}", row.kernel, row.config);
            self.is_of(&row.config, &row.kernel).with_context(name)?;
            is_amount("events", row.events).with_context(name)?;
            row.huge_percent.map_or(Ok(()), is_percent).with_context(name)?;
        }
        for PublishedConfig { name, .. } in &self.configs {
            ensure!(self.before(name).rows.len() == KERNELS.len(), "not every kernel of {name} has a before row");
        }
        Ok(())
    }
}

impl FragmentationTables {
    /// A row, published or of a real kernel.
    pub fn row(&self, config: &str, kernel: &str) -> Option<&ThpRow> {
        self.rows.iter().chain(&self.emulated).find(|row| row.config == config && row.kernel == kernel)
    }

    /// Returns the results of another kernel in a configuration, in the order of `KERNELS`.
    pub fn before(&self, config: &str) -> Before {
        let row = |kernel: &str| self.before.rows.iter().find(|row| row.config == config && row.kernel == kernel);
        Before { rows: KERNELS.into_iter().filter_map(row).cloned().collect(), ..self.before.clone() }
    }

    /// Returns the largest difference of two postings of one kernel, in points of faults that got a huge page.
    ///
    /// Nothing else is known of the chance in one posting.
    pub fn noise(&self, config: &str) -> f64 {
        let apart = self.earlier.iter().filter(|row| row.config == config).filter_map(|earlier| {
            Some((earlier.huge_percent? - self.row(config, &earlier.kernel)?.huge_percent).abs())
        });
        apart.fold(0.0, f64::max)
    }

    /// There is such a machine, and such a kernel.
    fn is_of(&self, config: &str, kernel: &str) -> anyhow::Result<()> {
        ensure!(self.configs.iter().any(|known| known.name == config), "there is no config {config}");
        ensure!(Mechanisms::preset(kernel).is_some(), "there is no preset {kernel}");
        Ok(())
    }
}

impl ThpRow {
    fn check(&self) -> anyhow::Result<()> {
        is_amount("events", self.events)?;
        is_percent(self.huge_percent)?;
        let times = [("fault_base_us", self.fault_base_us, 100.0), ("fault_huge_us", self.fault_huge_us, 0.0)];
        for (name, time, none) in times {
            let are_none = self.huge_percent == none;
            ensure!((time == 0.0) == are_none && time >= 0.0, "{name} is {time} at {} %", self.huge_percent);
        }
        if let Some(types) = self.events_by_type {
            let sum = types.unmovable + types.movable + types.reclaimable;
            ensure!(sum == self.events, "events_by_type are {sum} together, events are {}", self.events);
        }
        self.stalls.map_or(Ok(()), |stalls| is_amount("stalls", stalls.count.min(stalls.us)))
    }
}

fn is_percent(huge_percent: f64) -> anyhow::Result<()> {
    ensure!((0.0..=100.0).contains(&huge_percent), "huge_percent is {huge_percent}");
    Ok(())
}

#[derive(Deserialize)]
struct RealRounds {
    rounds: Vec<RealRound>,
}

#[derive(Deserialize)]
struct RealRound {
    config: String,
    fragmenting: f64,
    by_type: ByType<f64>,
    huge_percent: f64,
    fault_base_us: f64,
    fault_huge_us: f64,
}

/// A row of the real kernel for each configuration: means of its rounds.
fn emulated() -> anyhow::Result<Vec<ThpRow>> {
    let measured: RealRounds = serde_json::from_str(REAL_FILE)?;
    EMULATED_CONFIGS.iter().map(|(config, theirs)| row(&measured, config, theirs)).collect()
}

fn row(measured: &RealRounds, config: &str, theirs: &str) -> anyhow::Result<ThpRow> {
    let rounds: Vec<&RealRound> = measured.rounds.iter().filter(|round| round.config == theirs).collect();
    ensure!(!rounds.is_empty(), "there is no round of {theirs}");
    let mean = |value: fn(&RealRound) -> f64| {
        Estimate::of(rounds.iter().map(|round| value(round))).map_or(0.0, |all| all.mean)
    };
    Ok(ThpRow {
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
    use crate::reproduce::published::mistake;

    #[test]
    fn every_kernel_is_there() {
        let published = FragmentationTables::built_in().unwrap();
        assert_eq!((published.configs.len(), published.rows.len(), published.earlier.len()), (4, 16, 12));
        assert_eq!(published.before.rows.len(), 16);
        let stalls = published.rows.iter().filter(|row| row.stalls.is_some());
        assert!(stalls.clone().all(|row| row.kernel == "stall") && stalls.count() == 4);
        let noise = ["skylake-default", "skylake-madvise", "haswell-default", "haswell-madvise"]
            .map(|config| (published.noise(config) * 100.0).round());
        assert_eq!(noise, [344.0, 133.0, 738.0, 757.0]);
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |from, to| mistake::<FragmentationTables>(from, to);
        let cases = [
            ("kernel = \"lowzone\"", "kernel = \"boost\"", "row boost of skylake-default is there twice"),
            ("kernel = \"lowzone\"", "kernel = \"low\"", "there is no row lowzone of skylake-default"),
            ("name = \"haswell-default\"", "name = \"skylake-default\"", "row skylake-default is there twice"),
            ("events = 804694", "events = 0", "row vanilla-4.20 of skylake-default: events is 0"),
            (
                "unmovable = 3816",
                "unmovable = 3817",
                "row vanilla-4.20 of skylake-default: events_by_type are 804695 together, events are 804694",
            ),
            (
                "huge_percent = 78.57",
                "huge_percent = 178.57",
                "row vanilla-4.20 of skylake-madvise: huge_percent is 178.57",
            ),
            (
                "fault_huge_us = 178.93",
                "fault_huge_us = 0",
                "row boost of skylake-default: fault_huge_us is 0 at 5.12 %",
            ),
            ("huge_percent = 1.68", "huge_percent = 168", "earlier row boost of skylake-default: huge_percent is 168"),
            ("events = 71227", "events = 0", "before row vanilla-4.20 of skylake-default: events is 0"),
            ("count = 102", "count = 0", "row stall of skylake-madvise: stalls is 0"),
        ];
        for (from, to, told) in cases {
            assert_eq!(wrong(from, to), told);
        }
        assert!(wrong("threads = 1", "thread = 1").contains("unknown field"));
    }

    #[test]
    fn rows_are_means_of_three_rounds() {
        let told = |row: &ThpRow| format!("{}: {:.1} events, {:.2} % huge", row.config, row.events, row.huge_percent);
        let all: Vec<String> = emulated().unwrap().iter().map(told).collect();
        assert_eq!(all, ["emulated-default: 17.3 events, 2.60 % huge", "emulated-madvise: 36.7 events, 21.87 % huge"]);
    }
}
