//! What instructions cost on this machine, and whether that predicts what was not measured for it.
//!
//! The simulated machine adds up what a path takes: instructions, by the steps of the code, and its accesses to words.
//! How many there are is known ([`framewright::machine::Step`], and the directory of lines); how long they take differs
//! from machine to machine. A calibration measures two paths natively, both of them order 0 in batches of 64 pages, and
//! finds two numbers from them. Then it measures other paths, simulates the same code with those numbers, and says how
//! far off each one is.
//!
//! # What is fitted, and why only that
//!
//! A core that works out of order is limited by the places in its pipeline while nothing is waited for: an instruction
//! takes one, and so does a load that the first-level cache serves, or a store; its latency is hidden behind other
//! work. So there is *one* time for all three (`costs.instruction`, `costs.hit`, `stores.issue`), which comes from the
//! path through `Allocator::local`: some ninety of them and nothing else. The same path by plain calls has two pins
//! more, and what it takes beyond its instructions is theirs (`costs.pin`).
//!
//! Everything else is what a program of a few lines measures by itself, and stays as the machine's file has it: atomic
//! operations, fences, caches, memory. None of them occurs in the two paths.
//!
//! # What it cannot know
//!
//! Charged in order, nothing overlaps but what is hidden in those places. So a path with atomic operations comes out
//! too slow, by some of their time, for in truth other work goes on meanwhile; and a path in which each instruction
//! waits for the one before it comes out too fast. Where such a chain is known from the code, its step has a time of
//! its own in the machine's file (`costs.steps`).

mod simulated;

use std::fmt;

use framewright_bench::path::{self, FITTED, PREDICTED, Path};
use framewright_sim::machine::{Basis, MachineError, Spec};
use framewright_table::{Table, cells};
use serde::Serialize;

use framewright_table::figures::change_percent;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;
/// By how many percent a prediction may be off.
pub(crate) const TOLERANCE: f64 = 20.0;
/// Origin of fitted numbers, as a machine's file names it.
pub const BASIS: &str = "calibrate/order 0 batch 64";

/// Times per instruction between which the first path is simulated, in nanoseconds, to see how its time follows from
/// that.
const TRIED: (f64, f64) = (0.02, 0.2);
/// Times of a pin between which the second path is simulated, in nanoseconds.
const TRIED_PINS: (f64, f64) = (0.0, 1.0);

/// One path, natively and simulated.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct PathComparison {
    /// Name of the path.
    pub path: String,
    /// Nanoseconds of an allocation, with its free where the path has one, on this machine.
    pub native_ns: f64,
    /// Nanoseconds on the simulated machine.
    pub simulated_ns: f64,
    /// By how much longer that is, in percent.
    pub error_percent: f64,
    /// Whether numbers were fitted to it: then it proves nothing.
    pub fitted: bool,
    /// Whether the error is no larger than `TOLERANCE`.
    pub within: bool,
}

/// A calibration and what it predicts.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Calibration {
    /// Version of this form.
    pub schema: u32,
    /// The machine that all other numbers come from.
    pub machine: String,
    /// How often each path was measured.
    pub rounds: usize,
    /// Nanoseconds of an instruction, a first-level hit, and a store.
    pub instruction_ns: f64,
    /// Nanoseconds of pinning and unpinning.
    pub pin_ns: f64,
    /// Measured and simulated times of each path.
    pub rows: Vec<PathComparison>,
    /// The machine with these numbers.
    #[serde(skip)]
    pub spec: Spec,
}

/// There is no calibration.
#[derive(Clone, PartialEq, Eq, thiserror::Error, Debug)]
pub enum CalibrateError {
    /// A path could not be run.
    #[error("{0}")]
    Path(String),
    /// A path is faster than all that it is made of, or so slow that this explains nothing.
    #[error(
        "{path} takes {native} ns here, for which {what} would have to take {found} ns; measure again while the machine is idle, with a release build"
    )]
    Implausible {
        /// The path.
        path: String,
        /// Measured time.
        native: String,
        /// Number to be fitted.
        what: &'static str,
        /// Result of the fit.
        found: String,
    },
    /// The machine cannot have these numbers.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl Calibration {
    /// Those rows that nothing was fitted to.
    pub fn predicted(&self) -> impl Iterator<Item = &PathComparison> {
        self.rows.iter().filter(|row| !row.fitted)
    }
}

/// Measures every path on this machine, finds the numbers, and predicts the others; all else is as in `base`.
///
/// # Errors
/// A path could not be run, or no number explains what was measured.
pub fn calibrate(
    base: &Spec,
    rounds: usize,
    progress: &mut (dyn FnMut(&str, f64) + Send),
) -> Result<Calibration, CalibrateError> {
    let mut measuring = |share| progress("measuring", share);
    let natives = path::measure(&paths(), rounds, &mut measuring).map_err(CalibrateError::Path)?;
    from_measured(base, rounds, &natives, &mut |share| progress("simulating", share))
}

/// The paths, fitted ones first.
fn paths() -> Vec<Path> {
    FITTED.into_iter().chain(PREDICTED).collect()
}

/// Names of the paths, in the order in which [`from_measured`] wants what they took.
pub fn names() -> Vec<String> {
    paths().iter().map(ToString::to_string).collect()
}

/// The numbers, and the predictions, from what each path took on this machine, in nanoseconds. Equal times give equal
/// numbers.
///
/// # Errors
/// As [`calibrate`].
pub fn from_measured(
    base: &Spec,
    rounds: usize,
    natives: &[f64],
    progress: &mut dyn FnMut(f64),
) -> Result<Calibration, CalibrateError> {
    let [local, plain] = FITTED;
    let [of_local, of_plain] = [0, 1].map(|path: usize| natives.get(path).copied().unwrap_or(0.0));
    let instruction = solve((&local, of_local), TRIED, "an instruction", |time| with(base, time, 0.0))?;
    let pin = solve((&plain, of_plain), TRIED_PINS, "a pin", |pin| with(base, instruction, pin))?;
    let spec = with(base, instruction, pin)?;
    let paths = paths();
    let mut rows = Vec::new();
    for (number, (path, &native_ns)) in paths.iter().zip(natives).enumerate() {
        progress(number as f64 / paths.len() as f64);
        let simulated_ns = simulated::measure(path, &spec).map_err(CalibrateError::Path)?;
        let error_percent = change_percent(native_ns, simulated_ns);
        rows.push(PathComparison {
            path: path.to_string(),
            native_ns: rounded(native_ns),
            simulated_ns: rounded(simulated_ns),
            error_percent: rounded(error_percent),
            fitted: FITTED.contains(path),
            within: error_percent.abs() <= TOLERANCE,
        });
    }
    let machine = base.name.clone();
    Ok(Calibration { schema: SCHEMA, machine, rounds, instruction_ns: instruction, pin_ns: pin, rows, spec })
}

/// The machine with another time per place of the pipeline, and for pins.
fn with(base: &Spec, instruction: f64, pin: f64) -> Result<Spec, MachineError> {
    let fitted = || Basis::Fitted(BASIS.to_owned());
    ["costs.instruction", "costs.hit", "stores.issue"]
        .into_iter()
        .try_fold(base.clone(), |spec, path| spec.with_time(path, (instruction, fitted())))?
        .with_time("costs.pin", (pin, fitted()))
}

/// The number with which a path takes as long as it does natively. What it takes is linear in that number.
fn solve(
    (path, native): (&Path, f64),
    (low, high): (f64, f64),
    what: &'static str,
    machine: impl Fn(f64) -> Result<Spec, MachineError>,
) -> Result<f64, CalibrateError> {
    let at = |number: f64| -> Result<f64, CalibrateError> {
        simulated::measure(path, &machine(number)?).map_err(CalibrateError::Path)
    };
    let (of_low, of_high) = (at(low)?, at(high)?);
    let found = low + (native - of_low) * (high - low) / (of_high - of_low);
    if !(found >= 0.0 && found <= 100.0 * high) {
        let (native, found) = (format!("{native:.3}"), format!("{found:.4}"));
        return Err(CalibrateError::Implausible { path: path.to_string(), native, what, found });
    }
    Ok((found * 1e4).round() / 1e4)
}

/// To thousandths: further digits are noise.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Calibration { machine, rounds, instruction_ns, pin_ns, .. } = self;
        writeln!(f, "calibrated on order 0 in batches of 64, {rounds} rounds; all other numbers are of {machine}")?;
        writeln!(f, "  {:<46}{instruction_ns:>9.4} ns", "an instruction, a first-level hit, or a store")?;
        writeln!(f, "  {:<46}{pin_ns:>9.4} ns\n", "a pin")?;
        let mut table = Table::new("<>>><");
        let what = "what one allocation (and free) takes, ns";
        table.row(cells!["{what:<40}", "{:>12}" = "native", "{:>12}" = "simulated", "{:>10}" = "error"]);
        for PathComparison { path, native_ns, simulated_ns, error_percent, fitted, within } in &self.rows {
            let mark = match (fitted, within) {
                (true, _) => "fitted",
                (false, true) => "",
                (false, false) => "missed",
            };
            let error = format!("{error_percent:+.1} %");
            table.row(cells!["  {path:<38}", "{native_ns:>12.1}", "{simulated_ns:>12.1}", "{error:>10}", "  {mark}"]);
        }
        write!(f, "{table}")?;
        let (all, hits) = (self.predicted().count(), self.predicted().filter(|row| row.within).count());
        write!(f, "\n{hits} of {all} predictions are within {TOLERANCE} %")?;
        let far = |row: &&PathComparison| row.error_percent.abs();
        match self.predicted().max_by(|a, b| far(a).total_cmp(&far(b))) {
            Some(row) => writeln!(f, "; the farthest is {}, by {:+.1} %", row.path, row.error_percent),
            None => writeln!(f),
        }
    }
}
