//! Why there is no machine.

use thiserror::Error;

use super::built_in::{GENERIC, MOST_CPUS, names};

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
