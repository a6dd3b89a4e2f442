//! Rows and columns, and a cell's difference to the base's.
//!
//! Rows of a table share a unit, not a direction: more huge pages served and fewer pages moved stand in one table of
//! counts. So the verdict on a difference is the row's. It is [`Difference::Unclear`] wherever chance may explain the
//! difference, however large it is. Without chance, as in a replay, every difference is one.

use serde::Serialize;

use super::points::Better;
use super::statistics::{ALPHA, Summary, u_test};

/// The kind of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Each argument.
    File,
    /// Each set of mechanisms.
    Mechanisms,
    /// Each contender of framewright bench.
    Allocator,
}

impl By {
    /// The fact that columns are told apart by; none of files.
    pub fn fact(self) -> &'static str {
        match self {
            By::File => "",
            By::Mechanisms => "mechanisms",
            By::Allocator => "allocator",
        }
    }
}

/// A constant fact.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fact {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

/// A column.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The facts that tell it from others.
    pub facts: Vec<Fact>,
}

/// Rows of one unit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct UnitTable {
    /// The unit.
    pub unit: String,
    /// The rows.
    pub rows: Vec<FigureRow>,
}

/// One figure of one thing.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FigureRow {
    /// Its name among the rows of its table.
    pub label: String,
    /// Its subject, CPUs included.
    pub name: String,
    /// The workload, as its file has it.
    pub workload: String,
    /// The machine of its first run.
    pub machine: String,
    /// CPUs or threads.
    pub cpus: Option<usize>,
    /// Which figure.
    pub metric: String,
    /// Which way is better.
    pub better: Better,
    /// Whether there is no chance in it.
    pub exact: bool,
    /// A cell for each column; none where nothing was run.
    pub cells: Vec<Option<SampleCell>>,
}

/// A sample, and how it stands to the base.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SampleCell {
    /// The measurements.
    pub values: Vec<f64>,
    /// Its middle.
    pub median: f64,
    /// The middle's interval; none of fewer than six.
    pub interval: Option<(f64, f64)>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation; 0 of one.
    pub deviation: f64,
    /// Against the first column; none in it, and where that has nothing.
    pub against: Option<Against>,
}

/// How a sample stands to the base.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Against {
    /// By how much its median is larger, in percent of the base's; none if that is zero and this is not.
    pub delta_percent: Option<f64>,
    /// Probability of such a difference by chance; none where there is no chance.
    pub p: Option<f64>,
    /// The verdict.
    pub verdict: Difference,
}

/// The verdict on a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// It got better.
    Better,
    /// It got worse.
    Worse,
    /// It differs, and neither is better.
    Differs,
    /// Both are one number, without chance.
    Same,
    /// It may be chance.
    Unclear,
}

impl SampleCell {
    /// Of a sample; none of an empty one.
    pub fn new(values: Vec<f64>) -> Option<Self> {
        let Summary { median, interval, mean, deviation } = Summary::of(&values)?;
        Some(Self { values, median, interval, mean, deviation, against: None })
    }

    /// The numbers, to compute with.
    pub fn summary(&self) -> Summary {
        Summary { median: self.median, interval: self.interval, mean: self.mean, deviation: self.deviation }
    }
}

impl Against {
    /// Of two cells of a row.
    pub fn new(base: &SampleCell, cell: &SampleCell, better: Better, exact: bool) -> Self {
        let (from, to) = (base.median, cell.median);
        let delta_percent =
            if from == to { Some(0.0) } else { Some((to / from - 1.0) * 100.0).filter(|delta| delta.is_finite()) };
        let p = if exact { None } else { u_test(&base.values, &cell.values) };
        let verdict = match (p, better) {
            (None, _) if from == to => Difference::Same,
            (Some(p), _) if p > ALPHA || from == to => Difference::Unclear,
            (_, Better::Neither) => Difference::Differs,
            (_, Better::Higher) if to > from => Difference::Better,
            (_, Better::Lower) if to < from => Difference::Better,
            _ => Difference::Worse,
        };
        Self { delta_percent, p, verdict }
    }
}
