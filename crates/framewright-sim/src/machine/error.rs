//! Why there is no machine.

use thiserror::Error;

use super::built_in::{GENERIC, MOST_CPUS, names};

/// Why there is no machine.
#[derive(Clone, PartialEq, Eq, Error, Debug)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum MachineError {
    /// No machine has this name.
    #[error(
        "there is no machine {name:?}; there are {}, {GENERIC}:SOCKETSxCORESxTHREADS, and files that end in .toml",
        list()
    )]
    Unknown { name: String },
    /// The shape that stands in a name does not describe a machine.
    #[error(
        "{name}: {what}; wanted is {GENERIC}:SOCKETSxCORESxTHREADS with at most {MOST_CPUS} CPUs, as {GENERIC}:4x32x2"
    )]
    Shape { name: String, what: String },
    /// The file cannot be read.
    #[error("cannot read {file}: {what}")]
    Unreadable { file: String, what: String },
    /// The file is not written in TOML.
    #[error("{file} is no TOML: {what}")]
    Toml { file: String, what: String },
    /// Something in the file is wrong.
    #[error("{file}: {key}: {what}")]
    Entry { file: String, key: String, what: String },
}

fn list() -> String {
    names().collect::<Vec<_>>().join(", ")
}
