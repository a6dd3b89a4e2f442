//! The movement of a result when the numbers that it rests on are a little off.
//!
//! Every parameter of the machine model is made a tenth smaller and a tenth larger, one at a time, and the run is made
//! again. The band is the range of the result if any single number is wrong by that much. For two sets of mechanisms
//! the result is their ratio: a band that includes 1 says that the model cannot tell them apart.

use std::fmt;

use framewright_sim::machine::Basis;
use framewright_table::figures::{change, counted, fitted, grouped};
use framewright_table::{Table, cells};
use serde::Serialize;

/// A result under every parameter ± 10 %.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Sensitivity {
    /// Which result, as `page faults per second`.
    pub result: String,
    /// CPUs of the run.
    pub cpus: usize,
    /// Mechanisms of the run.
    pub mechanisms: String,
    /// Its value with the model as it is.
    pub base: f64,
    /// The least and the most that it became, and `base`.
    pub band: (f64, f64),
    /// Parameters, the one with the largest effect first.
    pub rows: Vec<Effect>,
}

/// The effect of one parameter on the result.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Effect {
    /// Parameter, as `latency.hitm`.
    pub parameter: String,
    /// Where its value comes from.
    pub basis: Basis,
    /// The result with a tenth less of it.
    pub lower: f64,
    /// The result with a tenth more.
    pub higher: f64,
}

/// A basis in a word, and what is said with it.
pub(crate) fn in_words(basis: &Basis) -> (&'static str, &str) {
    match basis {
        Basis::Source(by) => ("sourced", by),
        Basis::Assumed(why) => ("assumed", why),
        Basis::Fitted(rows) => ("fitted", rows),
    }
}

impl Sensitivity {
    /// Of a result that is `base`, from what each parameter did to it.
    pub fn new(result: &str, (cpus, mechanisms): (usize, &str), base: f64, mut rows: Vec<Effect>) -> Self {
        let values = || rows.iter().flat_map(|row| [row.lower, row.higher]);
        let band = (values().fold(base, f64::min), values().fold(base, f64::max));
        let reach = |row: &Effect| (row.lower - base).abs().max((row.higher - base).abs());
        // A stable sort: parameters without an effect stay in the model's order.
        rows.sort_by(|a, b| reach(b).total_cmp(&reach(a)));
        Self { result: result.to_owned(), cpus, mechanisms: mechanisms.to_owned(), base, band, rows }
    }

    /// Whether a parameter changes the result by a thousandth or more.
    pub fn matters(&self, row: &Effect) -> bool {
        [row.lower, row.higher].iter().any(|value| ((value - self.base) / self.base).abs() >= 0.001)
    }
}

impl fmt::Display for Sensitivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { result, cpus, mechanisms, base, band: (least, most), .. } = self;
        let cpus = counted(*cpus, "CPU");
        writeln!(f, "On {cpus}, {result}, by parameter of the machine model")?;
        writeln!(f, "{}", fitted(&format!("mechanisms {mechanisms}"), 100))?;
        let mut table = Table::new("<34<9>18>10>18>10");
        let (less, more) = ("10 % less of it", "10 % more of it");
        table.text(format!("{:<34}{:<9}{less:>28}{more:>28}", "parameter", "basis"));
        let (moving, still): (Vec<_>, Vec<_>) = self.rows.iter().partition(|row| self.matters(row));
        for row in moving {
            let (lower, higher) = (grouped(row.lower), grouped(row.higher));
            let [less, more] = [row.lower, row.higher].map(|value| change(*base, value));
            let name = fitted(&row.parameter, 31);
            let basis = in_words(&row.basis).0;
            table.row(cells!["  {name}", "{basis}", "{lower}", "{less}", "{higher}", "{more}"]);
        }
        write!(f, "{table}")?;
        if !still.is_empty() {
            writeln!(f, "  {} more change it by less than 0.1 %", still.len())?;
        }
        let (down, up) = (change(*base, *least), change(*base, *most));
        writeln!(f, "{} now; band {} ({down}) to {} ({up})", grouped(*base), grouped(*least), grouped(*most))
    }
}
