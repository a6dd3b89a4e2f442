//! A machine as its file describes it: its numbers, each with its unit and its origin.

use serde::Serialize;

use super::error::MachineError;
use super::origin::{Basis, Unit};
use super::schema;

/// A number of a machine.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Parameter {
    /// Its path, as `latency.far_hit`, or `memory.loaded.2` for the third point of a curve.
    pub path: String,
    /// Its value; of a point of a curve, the value there.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
    /// Of a point of a curve, where on the curve it lies.
    pub at: Option<(f64, Unit)>,
    /// Where it comes from.
    pub basis: Basis,
}

impl Parameter {
    /// Returns whether the number can be scaled. Numbers of parts cannot.
    pub fn scales(&self) -> bool {
        schema::entry(&self.path).is_some_and(|entry| entry.kind.scales())
    }
}

/// A machine as its file describes it.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Spec {
    /// Name, as on the command line.
    pub name: String,
    /// Description in words.
    pub title: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) published: Vec<Parameter>,
}

impl Spec {
    /// Returns the numbers of the model, in the order of the file's sections.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter()
    }

    /// Returns what a latency checker printed on the machine.
    ///
    /// That is latencies by their names in `latency`, points of the curve of loaded latency, and the peak bandwidth of
    /// all nodes together.
    pub fn published(&self) -> impl Iterator<Item = &Parameter> {
        self.published.iter()
    }

    /// Returns the parameter of a path.
    pub fn parameter(&self, path: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.path == path)
    }

    /// Returns the machine with one number multiplied by `factor`.
    ///
    /// # Errors
    /// There is no such number, or it is one that does not scale, or the factor is no positive number.
    pub fn scaled(&self, path: &str, factor: f64) -> Result<Spec, MachineError> {
        let fail = |what: String| Err(MachineError::Entry { file: self.name.clone(), key: path.to_owned(), what });
        if !factor.is_finite() || factor <= 0.0 {
            return fail(format!("cannot be scaled by {factor}"));
        }
        let mut spec = self.clone();
        match spec.parameters.iter_mut().find(|parameter| parameter.path == path) {
            None => return fail("there is no such parameter".to_owned()),
            Some(parameter) if !parameter.scales() => {
                return fail("is a number of parts, which does not scale".to_owned());
            }
            Some(parameter) => parameter.value *= factor,
        }
        Ok(spec)
    }

    /// Returns the machine with one time replaced or added.
    ///
    /// # Errors
    /// There is no such number, or it is no time, or the value is none.
    pub fn with_time(&self, path: &str, (nanoseconds, basis): (f64, Basis)) -> Result<Spec, MachineError> {
        let fail = |what: String| Err(MachineError::Entry { file: self.name.clone(), key: path.to_owned(), what });
        let Some(place) = schema::time(path) else { return fail("is no time that a machine has".to_owned()) };
        if !(0.0..=1e9).contains(&nanoseconds) {
            return fail(format!("cannot be {nanoseconds} ns"));
        }
        let parameter = Parameter { path: path.to_owned(), value: nanoseconds, unit: Unit::Ns, at: None, basis };
        let mut spec = self.clone();
        match spec.parameters.iter_mut().find(|parameter| parameter.path == path) {
            Some(old) => *old = parameter,
            None => {
                let is_behind = |other: &Parameter| schema::place(&other.path) > Some(place);
                let at = spec.parameters.iter().position(is_behind).unwrap_or(spec.parameters.len());
                spec.parameters.insert(at, parameter);
            }
        }
        Ok(spec)
    }

    /// Sets the numbers of sockets, of cores of a socket and of threads of a core.
    ///
    /// With one socket, numbers between sockets mean nothing and are removed.
    pub(super) fn shaped(mut self, name: &str, shape: [u16; 3]) -> Spec {
        name.clone_into(&mut self.name);
        for (path, count) in ["topology.sockets", "topology.cores", "topology.threads"].into_iter().zip(shape) {
            for parameter in self.parameters.iter_mut().filter(|parameter| parameter.path == path) {
                parameter.value = f64::from(count);
                parameter.basis = Basis::Assumed("given with the machine's name".to_owned());
            }
        }
        if shape[0] == 1 {
            // A file of such a machine may not have them either.
            let has_meaning = |parameter: &Parameter| {
                let need = schema::entry(&parameter.path).map(|entry| entry.need);
                !matches!(need, Some(schema::Need::Sockets | schema::Need::PublishedSockets))
            };
            self.parameters.retain(has_meaning);
            self.published.retain(has_meaning);
        }
        self
    }
}
