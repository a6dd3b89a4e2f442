//! The published tables.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::reproduce::published::{Published, is_amount, names_differ};
use framewright_table::figures::change_percent;

/// The published tables of the series.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct IrqSafeTables {
    /// Title.
    pub title: String,
    /// Where it is from.
    pub source: String,
    /// Batches of pages.
    #[serde(rename = "row")]
    pub rows: Vec<BatchRow>,
    /// A pair, on another machine.
    pub page_bench02: Both,
    /// Parts of a pair there.
    pub time_bench: Vec<Primitive>,
    /// A process whose heap shrinks and grows.
    pub aim9: Vec<Aim9>,
    /// Packets.
    pub softirq: Vec<Softirq>,
}

/// With interrupts held off, and with the change.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Both {
    /// Before.
    pub vanilla: f64,
    /// With the change.
    pub irqsafe: f64,
}

impl Both {
    /// Returns the cycles that the change saves.
    pub fn saving(self) -> f64 {
        self.vanilla - self.irqsafe
    }

    fn check(self, what: &str) -> anyhow::Result<()> {
        is_amount(&format!("{what}: vanilla"), self.vanilla)?;
        is_amount(&format!("{what}: irqsafe"), self.irqsafe)
    }

    /// Both divided by a number.
    #[must_use]
    pub fn over(self, number: f64) -> Both {
        Both { vanilla: self.vanilla / number, irqsafe: self.irqsafe / number }
    }
}

/// Operation on a batch of pages.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Its pages are allocated.
    Alloc,
    /// Its pages are freed.
    Free,
    /// Both.
    Total,
}

impl Operation {
    /// Name of a batch's row, as a machine's file has it.
    pub fn row(self, batch: u32) -> String {
        let name = match self {
            Operation::Alloc => "alloc",
            Operation::Free => "free",
            Operation::Total => "total",
        };
        format!("{name} {batch}")
    }

    /// Returns this operation's part of the cost of an allocation and a free.
    pub fn of(self, [alloc, free]: [f64; 2]) -> f64 {
        match self {
            Operation::Alloc => alloc,
            Operation::Free => free,
            Operation::Total => alloc + free,
        }
    }
}

/// A batch.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct BatchRow {
    /// Operation of the row.
    pub operation: Operation,
    /// Pages, as the program calls it.
    pub batch: u32,
    /// Cycles a page, as printed.
    #[serde(flatten)]
    pub printed: Both,
}

impl BatchRow {
    /// Over as many pages as there were: one more than the program says.
    pub fn corrected(&self) -> Both {
        let batch = f64::from(self.batch);
        self.printed.over((batch + 1.0) / batch)
    }
}

/// A part.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Primitive {
    /// Title.
    pub name: String,
    /// Cycles of one.
    pub cycles: f64,
    /// Nanoseconds of one.
    pub ns: f64,
}

/// A statistic of a test of aim9.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Aim9 {
    /// `page_test` or `brk_test`.
    pub test: Test,
    /// Statistic of the row.
    pub statistic: Statistic,
    /// Title.
    #[serde(flatten)]
    pub value: Both,
}

/// A test of aim9.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Pages are written to.
    PageTest,
    /// Pages are not written to.
    BrkTest,
}

impl Test {
    /// Both.
    pub const ALL: [Test; 2] = [Test::PageTest, Test::BrkTest];

    /// As in the table.
    pub fn name(self) -> &'static str {
        match self {
            Test::PageTest => "page_test",
            Test::BrkTest => "brk_test",
        }
    }

    /// Name of a statistic's row.
    pub fn row(self, statistic: Statistic) -> String {
        format!("{} {}", self.name(), statistic.name())
    }
}

/// Statistic of the rates of several iterations.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// Harmonic mean.
    Hmean,
    /// Standard deviation, of a sample.
    Stddev,
    /// That over the mean, in percent.
    CoeffVar,
    /// The largest.
    Max,
}

impl Statistic {
    /// As in the table.
    pub fn name(self) -> &'static str {
        match self {
            Statistic::Hmean => "Hmean",
            Statistic::Stddev => "Stddev",
            Statistic::CoeffVar => "CoeffVar",
            Statistic::Max => "Max",
        }
    }

    /// Of these rates.
    pub fn of(self, rates: &[f64]) -> f64 {
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let deviation = || (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
        match self {
            Statistic::Hmean => count / rates.iter().map(|rate| rate.recip()).sum::<f64>(),
            Statistic::Stddev => deviation(),
            Statistic::CoeffVar => deviation() / mean * 100.0,
            Statistic::Max => rates.iter().copied().fold(0.0, f64::max),
        }
    }

    /// By how much the second is better, in percent of the first: rates are to be high, what they scatter by low.
    pub(crate) fn gain_percent(self, both: Both) -> f64 {
        let more = change_percent(both.vanilla, both.irqsafe);
        match self {
            Statistic::Hmean | Statistic::Max => more,
            // Of what does not scatter nothing can be gained, and a negative zero is no finding.
            Statistic::Stddev | Statistic::CoeffVar => 0.0 - more,
        }
    }
}

/// Throughput of a kernel.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Softirq {
    /// Name of the kernel.
    pub kernel: String,
    /// How it protects the lists.
    pub mode: String,
    /// Megabits a second.
    pub mbit: f64,
}

impl Published for IrqSafeTables {
    const FILE: &'static str = "irq-safe.toml";
    const TEXT: &'static str = include_str!("../../../data/published/irq-safe.toml");

    fn check(&self) -> anyhow::Result<()> {
        let names: Vec<String> = self.rows.iter().map(|row| row.operation.row(row.batch)).collect();
        names_differ(&names)?;
        for (BatchRow { batch, printed, .. }, name) in self.rows.iter().zip(&names) {
            ensure!(*batch != 0, "row {name}: a batch of no page");
            printed.check(&format!("row {name}"))?;
        }
        self.page_bench02.check("page_bench02")?;
        let statistics: Vec<String> = self.aim9.iter().map(|row| row.test.row(row.statistic)).collect();
        names_differ(&statistics)?;
        self.aim9.iter().zip(&statistics).try_for_each(|(row, name)| row.value.check(&format!("row {name}")))?;
        names_differ(self.time_bench.iter().map(|row| &row.name))?;
        for Primitive { name, cycles, ns } in &self.time_bench {
            // An empty loop takes no whole cycle.
            ensure!(*cycles >= 0.0 && cycles.is_finite(), "time_bench {name}: cycles is {cycles}");
            is_amount(&format!("time_bench {name}: ns"), *ns)?;
        }
        names_differ(self.softirq.iter().map(|row| &row.kernel))?;
        self.softirq.iter().try_for_each(|row| is_amount(&format!("kernel {}: mbit", row.kernel), row.mbit))
    }
}

impl IrqSafeTables {
    /// The first kernel that protects its lists so.
    pub fn kernel(&self, mode: &str) -> Option<&Softirq> {
        self.softirq.iter().find(|row| row.mode == mode)
    }

    /// Batches, from the smallest.
    pub fn batches(&self) -> Vec<u32> {
        let all = self.rows.iter().filter(|row| row.operation == Operation::Alloc);
        all.map(|row| row.batch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::published::mistake;

    #[test]
    fn the_total_is_the_sum() {
        let published = IrqSafeTables::built_in().unwrap();
        assert_eq!((published.rows.len(), published.batches().len()), (45, 15));
        let of = |operation, batch| {
            published.rows.iter().find(|row| row.operation == operation && row.batch == batch).unwrap().printed
        };
        for batch in published.batches() {
            let all = [Operation::Alloc, Operation::Free, Operation::Total].map(|operation| of(operation, batch));
            for column in [|both: Both| both.vanilla, |both: Both| both.irqsafe] {
                let [alloc, free, total] = all.map(column);
                assert!((alloc + free - total).abs() < 0.02, "{batch}");
            }
        }
    }

    #[test]
    fn a_page_more_than_it_says_is_divided_out() {
        let printed = Both { vanilla: 287.15, irqsafe: 219.0 };
        let row = BatchRow { operation: Operation::Alloc, batch: 1, printed };
        assert_eq!(row.corrected(), Both { vanilla: 143.575, irqsafe: 109.5 });
    }

    #[test]
    fn statistics_are_those_of_the_table() {
        assert_eq!(Statistic::Hmean.of(&[2.0, 6.0]), 3.0);
        assert!((Statistic::Stddev.of(&[2.0, 4.0]) - 2.0_f64.sqrt()).abs() < 1e-12);
        let printed = [
            (Statistic::Hmean, 2.88),
            (Statistic::Stddev, 61.07),
            (Statistic::CoeffVar, 62.15),
            (Statistic::Max, 1.82),
        ];
        for (row, (statistic, gain)) in IrqSafeTables::built_in().unwrap().aim9.iter().zip(printed) {
            assert_eq!(row.statistic, statistic);
            // The coefficients are printed with two places.
            assert!((statistic.gain_percent(row.value) - gain).abs() < 0.5, "{statistic:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |from, to| mistake::<IrqSafeTables>(from, to);
        assert_eq!(wrong("batch = 2\n", "batch = 1\n"), "row alloc 1 is there twice");
        assert_eq!(wrong("vanilla = 287.15", "vanilla = -1"), "row alloc 1: vanilla is -1");
        assert_eq!(wrong("statistic = \"stddev\"", "statistic = \"hmean\""), "row page_test Hmean is there twice");
        assert_eq!(wrong("mbit = 47491", "mbit = 0"), "kernel 4.11-rc6: mbit is 0");
        assert_eq!(wrong("vanilla = 213", "vanilla = 0"), "page_bench02: vanilla is 0");
        assert_eq!(wrong("irqsafe = 675536.13", "irqsafe = nan"), "row page_test Hmean: irqsafe is NaN");
        assert_eq!(wrong("cycles = 33", "cycles = -33"), "time_bench spin_lock_unlock: cycles is -33");
        assert_eq!(wrong("ns = 8.334", "ns = 0"), "time_bench spin_lock_unlock: ns is 0");
        assert!(wrong("mode =", "modes =").contains("unknown field"));
    }
}
