//! Machines as files: every number with its unit and with where it comes from.
//!
//! A machine's file (`data/machines/*.toml`) is a list of numbers that a reader can check one by one. Each names its
//! unit by its key and its origin by one of three words:
//!
//! ```toml
//! hit = { ns = 53.7, source = "FD.io CSIT, MLC" }            # somebody measured it, and it was read there
//! read = { ns = 8.5, fitted = "numa-stats/32" }              # chosen so that these rows of published tables come out
//! pin = { cycles = 11, assumed = "as on a 4 GHz desktop" }   # neither, and why one may think so
//! ```
//!
//! What is fitted to a row of a table cannot predict that row. Therefore the origin stays with the number: [`Spec`]
//! keeps all of them by path, reports list them, and an analysis of sensitivity scales one at a time.
//! [`Spec::model`] turns them into what the simulator computes with.
//!
//! Besides, a file holds what a latency checker printed on such a machine (`[mlc]`). Those rows are no parameters: they
//! are what a simulated latency checker has to print in turn.

mod convert;
mod origin;
mod read;
mod schema;
mod write;

use std::fs::File;
use std::io::Read;

use serde::Serialize;
use thiserror::Error;

pub use origin::{Basis, Unit};
pub use write::Written;

/// CPUs that a machine may have.
pub const MOST_CPUS: usize = 1024;

/// How large a machine's file may be, in bytes.
const FILE_LIMIT: u64 = 1 << 18;

/// Machines that come with the program.
const BUILT_IN: [(&str, &str); 7] = [
    ("skylake-2x28", include_str!("../../../data/machines/skylake-2x28.toml")),
    ("broadwell-2x22", include_str!("../../../data/machines/broadwell-2x22.toml")),
    ("haswell-2x18", include_str!("../../../data/machines/haswell-2x18.toml")),
    ("ivybridge-ex-4x15", include_str!("../../../data/machines/ivybridge-ex-4x15.toml")),
    ("skylake-desktop", include_str!("../../../data/machines/skylake-desktop.toml")),
    ("this", include_str!("../../../data/machines/this.toml")),
    (GENERIC, include_str!("../../../data/machines/generic.toml")),
];

/// The machine whose sockets, cores and threads its user gives.
const GENERIC: &str = "generic";

/// A number of a machine.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Parameter {
    /// Where it stands, as `latency.far_hit`, or `memory.loaded.2` for the third point of a curve.
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
    /// Whether it can be a little larger or smaller. What the machine consists of cannot.
    pub fn scales(&self) -> bool {
        schema::entry(&self.path).is_some_and(|entry| entry.kind.scales())
    }
}

/// A machine as its file describes it.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Spec {
    /// Name, as on the command line.
    pub name: String,
    /// What it is, in words.
    pub title: String,
    parameters: Vec<Parameter>,
    published: Vec<Parameter>,
}

impl Spec {
    /// The numbers that make up the model, in the order of the file's sections.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter()
    }

    /// What a latency checker printed on the machine: latencies by the names that they have in `latency`, points of the
    /// curve of loaded latency, and the peak bandwidth of all nodes together.
    pub fn published(&self) -> impl Iterator<Item = &Parameter> {
        self.published.iter()
    }

    /// The parameter of a path.
    pub fn parameter(&self, path: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.path == path)
    }

    /// The machine with one number multiplied by `factor`.
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

    /// The machine with one time replaced, or given where it has none and may have one.
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

    /// Gives the machine other numbers of sockets, of cores of a socket and of threads of a core. With one socket, numbers
    /// between sockets mean nothing and are left out.
    fn shaped(mut self, name: &str, shape: [u16; 3]) -> Spec {
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

/// Why there is no machine.
#[derive(Clone, PartialEq, Eq, Error, Debug)]
pub enum MachineError {
    /// No machine has this name.
    #[error(
        "there is no machine {name:?}; there are {}, {GENERIC}:SOCKETSxCORESxTHREADS, and files that end in .toml",
        list()
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The shape that stands in a name does not describe a machine.
    #[error(
        "{name}: {what}; wanted is {GENERIC}:SOCKETSxCORESxTHREADS with at most {MOST_CPUS} CPUs, as {GENERIC}:4x32x2"
    )]
    Shape {
        /// What was asked for.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// The file cannot be read.
    #[error("cannot read {file}: {what}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        what: String,
    },
    /// The file is not written in TOML.
    #[error("{file} is no TOML: {what}")]
    Toml {
        /// The file.
        file: String,
        /// Where and why.
        what: String,
    },
    /// Something in the file is wrong.
    #[error("{file}: {key}: {what}")]
    Entry {
        /// The file, or the name of the machine.
        file: String,
        /// The key, with the tables that it is in.
        key: String,
        /// What is wrong.
        what: String,
    },
}

fn list() -> String {
    names().collect::<Vec<_>>().join(", ")
}

/// The machines that come with the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// A machine that comes with the program, `generic:SOCKETSxCORESxTHREADS`, or one from a user's file, which ends in
/// `.toml`.
///
/// # Errors
/// There is none of that name, or its file cannot be read or is wrong.
pub fn load(name: &str) -> Result<Spec, MachineError> {
    if !name.ends_with(".toml") {
        return named(name);
    }
    let unreadable = |what: String| MachineError::Unreadable { file: name.to_owned(), what };
    let mut text = String::new();
    let file = File::open(name).map_err(|error| unreadable(error.to_string()))?;
    file.take(FILE_LIMIT + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    if text.len() as u64 > FILE_LIMIT {
        return Err(unreadable(format!("it is larger than {FILE_LIMIT} bytes")));
    }
    parse(name, &text)
}

/// A machine that comes with the program, by its name, or `generic:SOCKETSxCORESxTHREADS`.
///
/// # Errors
/// There is none of that name.
pub fn named(name: &str) -> Result<Spec, MachineError> {
    let (base, shape) = match name.split_once(':') {
        Some((base, shape)) if base == GENERIC => (base, Some(parse_shape(name, shape)?)),
        _ => (name, None),
    };
    let Some((_, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == base) else {
        return Err(MachineError::Unknown { name: name.to_owned() });
    };
    let spec = parse(&format!("{base}.toml"), text)?;
    Ok(match shape {
        Some(shape) => spec.shaped(name, shape),
        None => spec,
    })
}

/// Reads a machine from the text of a file, which its errors call `file`. The machine is called like the file, without
/// the folder and the ending.
///
/// # Errors
/// The first thing in the text that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Spec, MachineError> {
    read::spec(file, text)
}

fn parse_shape(name: &str, shape: &str) -> Result<[u16; 3], MachineError> {
    let fail = |what: String| MachineError::Shape { name: name.to_owned(), what };
    let mut counts = [0; 3];
    let parts: Vec<&str> = shape.split('x').collect();
    if parts.len() != counts.len() {
        return Err(fail(format!("{shape:?} is not three numbers with an x between them")));
    }
    for (count, part) in counts.iter_mut().zip(parts) {
        *count = part.parse().map_err(|_| fail(format!("{part:?} is no number of parts")))?;
    }
    let cpus: u64 = counts.iter().map(|count| u64::from(*count)).product();
    match cpus {
        0 => Err(fail("it has no CPU".to_owned())),
        _ if cpus > MOST_CPUS as u64 => Err(fail(format!("{cpus} CPUs are too many"))),
        _ => Ok(counts),
    }
}
