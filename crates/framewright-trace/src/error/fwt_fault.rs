//! What can be wrong with a trace in our own format.

/// Version of the format that is written, and the only one that is read.
pub const FWT_VERSION: u32 = 1;

/// The result of reading a part of a trace in our own format.
pub(crate) type FwtResult<T> = Result<T, CompactFault>;

/// What is wrong with a compact trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CompactFault {
    /// The file does not start as it must.
    #[error("is no compact trace: it does not start with the bytes of one")]
    NotOurs,
    /// Another version of the format.
    #[error("has version {0} of the format; this program reads version {FWT_VERSION}")]
    Version(u32),
    /// The writer did not get to the end.
    #[error("was not finished by whoever wrote it")]
    Unfinished,
    /// The file is too short.
    #[error("ends in the middle of {0}")]
    Truncated(String),
    /// Bytes have changed.
    #[error("{0} is damaged: its checksum is wrong")]
    Checksum(String),
    /// A section of an unknown kind, or where it must not be.
    #[error("{0} should not be there")]
    Misplaced(String),
    /// Something is longer than it may be.
    #[error("{what} claims a length of {value}, above {limit}")]
    Length {
        /// What.
        what: &'static str,
        /// Its length.
        value: u64,
        /// The largest length.
        limit: u64,
    },
    /// Something has not the length that it claims.
    #[error("{0} has another length than it claims")]
    Mismatch(&'static str),
    /// A value that cannot be.
    #[error("{0} has a value that cannot be")]
    Value(&'static str),
    /// Data that brotli refuses.
    #[error("{0} cannot be decompressed")]
    Compression(&'static str),
    /// The header's counts are wrong.
    #[error("has {found} {what}, but the header says {header}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there should be.
        header: u64,
    },
}
