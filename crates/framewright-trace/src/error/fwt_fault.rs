//! Faults of a trace in our own format.

/// Version of the format that is written, and the only one that is read.
pub const FWT_VERSION: u32 = 1;

/// The result of reading a part of a trace in our own format.
pub(crate) type FwtResult<T> = Result<T, CompactFault>;

/// A fault of a compact trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
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
    Length { what: &'static str, value: u64, limit: u64 },
    /// A part has another length than it claims.
    #[error("{0} has another length than it claims")]
    Mismatch(&'static str),
    /// An impossible value.
    #[error("{0} has a value that cannot be")]
    Value(&'static str),
    /// Data that brotli refuses.
    #[error("{0} cannot be decompressed")]
    Compression(&'static str),
    /// The header's counts are wrong.
    #[error("has {found} {what}, but the header says {header}")]
    Count { what: &'static str, found: u64, header: u64 },
}
