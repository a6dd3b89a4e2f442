//! Faults of a file in a format of `/proc`.

use super::excerpt::Excerpt;

/// The result of reading a part of a file of `/proc`.
pub(crate) type ProcResult<T> = Result<T, ProcFault>;

/// A fault of a file in a format of `/proc`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum ProcFault {
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Expected { expected: &'static str, found: Excerpt },
    /// A zone's number is missing.
    #[error("zone {zone} of node {node} has no `{field}`")]
    Missing { node: u32, zone: String, field: &'static str },
    /// A row has another number of columns than the one before it.
    #[error("{found} numbers, but {expected} in the lines before")]
    Columns { expected: usize, found: usize },
    /// The file holds nothing of its kind.
    #[error("there is no {0} in it")]
    Empty(&'static str),
    /// A mobility that no kernel has.
    #[error("{0} is no mobility")]
    MigrateType(Excerpt),
    /// The file is not text.
    #[error("is no text: byte {0} is not UTF-8")]
    NotText(usize),
    /// A file of 8 bytes a frame has another length.
    #[error("is not made of 8 bytes a frame: {0} bytes are left over")]
    Length(u64),
    /// A machine with too many frames, or too many runs of equal flags.
    #[error("has more than {0} frames or runs of frames with equal flags")]
    TooMany(u64),
}

impl ProcFault {
    pub(crate) fn expected(expected: &'static str, found: &str) -> ProcFault {
        ProcFault::Expected { expected, found: Excerpt::new(found.as_bytes()) }
    }
}
