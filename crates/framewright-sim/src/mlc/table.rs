//! The rows of a latency checker, published against simulated.

use std::fmt;

use serde::Serialize;

use super::chase::{Before, Chase};
use super::lines::MlcError;
use super::streams;
use crate::machine::{Parameter, Spec, Unit};
use crate::model::Model;

/// One row of a latency checker.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// Name of the latency.
    pub what: String,
    /// The path of the published number in the machine's file.
    pub path: String,
    /// Published latency.
    pub published: f64,
    /// Latency on the simulated machine.
    pub simulated: f64,
    /// Unit of both: nanoseconds, or 10^9 bytes a second.
    pub unit: Unit,
    /// How much more the simulated machine printed, in percent.
    pub error_percent: f64,
}

/// A latency checker's output, against the published one.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Table {
    /// The machine.
    pub machine: String,
    /// Its rows, in the order of the machine's file.
    pub rows: Vec<Row>,
}

impl Table {
    /// Returns the largest error in either direction, in percent.
    pub fn worst(&self) -> f64 {
        self.rows.iter().map(|row| row.error_percent.abs()).fold(0.0, f64::max)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "latency checker on {}, at rest (load factor 1)", self.machine)?;
        if self.rows.is_empty() {
            return write!(
                f,
                "nothing to compare with: the machine's file has no rows in [mlc]; docs/extending.md says how to add them"
            );
        }
        writeln!(f, "{:<42} {:>14} {:>14} {:>8}", "what", "published", "simulated", "error")?;
        for Row { what, published, simulated, unit, error_percent, .. } in &self.rows {
            let unit = if *unit == Unit::GbPerS { "GB/s" } else { "ns  " };
            writeln!(f, "{what:<42} {published:>9.1} {unit} {simulated:>9.1} {unit} {error_percent:>+6.1} %")?;
        }
        write!(f, "largest error: {:.1} %", self.worst())
    }
}

/// Runs the checker on a machine, for every published row that its shape allows.
///
/// A cache that is too large to fill in reasonable time has no row.
///
/// # Errors
/// The machine cannot be set up. CPUs cannot deadlock, because they share nothing that they wait for.
pub fn check(spec: &Spec) -> Result<Table, MlcError> {
    let mut model = spec.model();
    model.memory.load_permille = 1000;
    // The checker turns prefetchers off.
    model.memory.beside = false;
    // A chase has no other work while it waits.
    model.costs.hit = model.latency.l1;
    let mut rows = Vec::new();
    let peak = spec.published().find(|row| row.unit == Unit::GbPerS).map(|row| row.value);
    for parameter in spec.published() {
        let name = parameter.path.strip_prefix("mlc.").unwrap_or(&parameter.path);
        match (parameter.at, peak) {
            (None, _) if name == "peak" => {
                let found = streams::peak(&model)?;
                rows.push(row(parameter, "bandwidth of all nodes, reads", (parameter.value, found), Unit::GbPerS));
            }
            (None, _) => {
                if let Some((what, found)) = at_rest(&model, name)? {
                    rows.push(row(parameter, what, (nanoseconds(&model, parameter), found), Unit::Ns));
                }
            }
            (Some((rate, _)), _) => {
                let Some((latency, reached)) = streams::loaded(&model, rate)? else { continue };
                let what = format!("memory, own node, under {rate} GB/s");
                rows.push(row(parameter, &format!("{what}: the load"), (rate, reached), Unit::GbPerS));
                rows.push(row(parameter, &what, (parameter.value, latency), Unit::Ns));
            }
        }
    }
    Ok(Table { machine: spec.name.clone(), rows })
}

fn row(parameter: &Parameter, what: &str, (published, simulated): (f64, f64), unit: Unit) -> Row {
    let error_percent = (simulated / published - 1.0) * 100.0;
    Row { what: what.to_owned(), path: parameter.path.clone(), published, simulated, unit, error_percent }
}

fn nanoseconds(model: &Model, parameter: &Parameter) -> f64 {
    match parameter.unit {
        Unit::Cycles => parameter.value * 1e6 / model.topology.khz as f64,
        _ => parameter.value,
    }
}

/// Measures one latency at rest, by its name in a machine's file.
///
/// Returns what it is and its nanoseconds; `None` if the machine has no such latency.
fn at_rest(model: &Model, name: &str) -> Result<Option<(&'static str, f64)>, MlcError> {
    let capacity = model.capacity;
    let [l1, l2, llc] = [capacity.l1, capacity.l2, capacity.llc].map(|lines| lines as usize);
    let cores = usize::from(model.topology.cores);
    let near = (cores > 1).then_some(1);
    let [sockets, package] = [model.topology.sockets, model.topology.package].map(usize::from);
    let die = (package > 1).then_some(cores);
    let far = (sockets > package).then_some(package * cores);
    let (what, chase) = match name {
        "l1" => ("first-level cache", Chase::again(l1 / 2)),
        "l2" => ("second-level cache", Chase::again(l1 + l1.min(l2.saturating_sub(l1)) / 2)),
        "llc" => ("last-level cache", Chase::again(l2 + l2.min(llc.saturating_sub(l2)) / 2)),
        "hit" => ("L2->L2 HIT, same socket", near.map(|other| Chase::after(other, Before::Read, 0))),
        "hitm" => ("L2->L2 HITM, same socket", near.map(|other| Chase::after(other, Before::Write, 0))),
        "die_hit" => ("L2->L2 HIT, other node, same socket", die.map(|other| Chase::after(other, Before::Read, 1))),
        "die_hitm_home_there" => {
            ("L2->L2 HITM, other node, home at writer", die.map(|other| Chase::after(other, Before::Write, 1)))
        }
        "die_hitm_home_here" => {
            ("L2->L2 HITM, other node, home at reader", die.map(|other| Chase::after(other, Before::Write, 0)))
        }
        "far_hit" => ("L2->L2 HIT, other socket", far.map(|other| Chase::after(other, Before::Read, package))),
        "far_hitm_home_there" => {
            ("L2->L2 HITM, other socket, home at writer", far.map(|other| Chase::after(other, Before::Write, package)))
        }
        "far_hitm_home_here" => {
            ("L2->L2 HITM, other socket, home at reader", far.map(|other| Chase::after(other, Before::Write, 0)))
        }
        "dram" => ("memory, own node", Some(Chase::fresh(0))),
        "die_dram" => ("memory, other node of the socket", die.map(|_| Chase::fresh(1))),
        "far_dram" => ("memory, other node", far.map(|_| Chase::fresh(package))),
        _ => return Ok(None),
    };
    match chase {
        Some(chase) => Ok(Some((what, chase.run(model)?))),
        None => Ok(None),
    }
}
