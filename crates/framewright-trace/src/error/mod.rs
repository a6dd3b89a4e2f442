//! Faults of a trace, and where they are.
//!
//! Every error names its file, the line or the byte where there is one, and a reason as a value that can be matched
//! on. Quoted parts of the input are cut and escaped, so that no control character of a hostile file reaches a
//! terminal.
//!
//! The faults of each format are declared here, below the formats: an error holds any of them, and every format
//! returns errors.

mod line_fault;
mod proc_fault;
mod fwt_fault;
mod ring_buffer_fault;
mod excerpt;

use std::fmt;
use std::io;
use std::path::Path;

pub use self::excerpt::Excerpt;
pub(crate) use self::fwt_fault::FwtResult;
pub use self::fwt_fault::{CompactFault, FWT_VERSION};
pub use self::line_fault::LineFault;
pub use self::proc_fault::ProcFault;
pub(crate) use self::proc_fault::ProcResult;
pub use self::ring_buffer_fault::RawFault;
pub(crate) use self::ring_buffer_fault::RawResult;

/// The result of reading a trace.
pub type Result<T> = std::result::Result<T, TraceError>;

/// A fault of a trace, with its file and line.
#[derive(Debug)]
pub struct TraceError(Box<Detail>);

#[derive(Debug)]
struct Detail {
    file: String,
    line: Option<u64>,
    reason: Reason,
}

/// The kind of fault.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The file could not be read or written.
    #[error("{0}")]
    Io(io::Error),
    /// The compressed data are damaged or end too early.
    #[error("compressed data are damaged or cut off: {0}")]
    Compression(String),
    /// A line of a text trace is malformed.
    #[error(transparent)]
    Line(#[from] LineFault),
    /// A file in the format of `/proc` is malformed.
    #[error(transparent)]
    Proc(#[from] ProcFault),
    /// A trace in our own format is malformed.
    #[error(transparent)]
    Compact(#[from] CompactFault),
    /// A page of a kernel's ring buffer, or its description, is malformed.
    #[error(transparent)]
    Raw(#[from] RawFault),
    /// A text has no line that a tracer prints.
    #[error("none of its {0} lines is one of ftrace, trace-cmd report or perf script")]
    NotATrace(u64),
    /// A directory has no trace.
    #[error("there is no *.fwt and no trace.txt, trace.txt.zst or trace.txt.gz in this directory")]
    NoTrace,
    /// A directory has several traces.
    #[error("there is more than one trace in this directory: {0}; name the one to read")]
    SeveralTraces(String),
    /// A file is larger than any of its kind.
    #[error("is larger than {0} bytes")]
    TooLarge(u64),
}

impl TraceError {
    /// An error of a whole file.
    pub fn new(file: &str, reason: impl Into<Reason>) -> TraceError {
        TraceError(Box::new(Detail { file: file.to_owned(), line: None, reason: reason.into() }))
    }

    /// An error at a line, counted from 1.
    pub fn at(file: &str, line: u64, reason: impl Into<Reason>) -> TraceError {
        TraceError(Box::new(Detail { file: file.to_owned(), line: Some(line), reason: reason.into() }))
    }

    /// The file.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The line, counted from 1, if the file has lines.
    pub fn line(&self) -> Option<u64> {
        self.0.line
    }

    /// The kind of fault.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Detail { file, line, reason } = &*self.0;
        match line {
            Some(line) => write!(f, "{file}:{line}: {reason}"),
            None => write!(f, "{file}: {reason}"),
        }
    }
}

// No `source`: the message has the reason, and printing a chain of sources would repeat it.
impl std::error::Error for TraceError {}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Reason {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
                Reason::Compression(error.to_string())
            }
            _ => Reason::Io(error),
        }
    }
}

/// A path as messages show it, with control characters escaped.
pub fn file_name(path: &Path) -> String {
    path.to_string_lossy().chars().fold(String::new(), |mut name, c| {
        if c.is_control() {
            name.extend(c.escape_default());
        } else {
            name.push(c);
        }
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped() {
        assert_eq!(file_name(Path::new("a\x1b\u{9b}ü")), "a\\u{1b}\\u{9b}ü");
    }

    #[test]
    fn errors_name_file_line_and_reason() {
        let error = TraceError::at("t.txt", 7, LineFault::Unterminated);
        assert_eq!((error.file(), error.line()), ("t.txt", Some(7)));
        assert!(matches!(error.reason(), Reason::Line(LineFault::Unterminated)));
        assert!(error.to_string().starts_with("t.txt:7: "));
        let error = TraceError::new("dir", io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.to_string(), "dir: entity not found");
        assert!(std::error::Error::source(&error).is_none(), "or it would be printed twice");
        let error = TraceError::new("a.gz", io::Error::new(io::ErrorKind::InvalidData, "bad block"));
        assert_eq!(error.to_string(), "a.gz: compressed data are damaged or cut off: bad block");
        let error = TraceError::at("a.gz", 3, io::Error::from(io::ErrorKind::UnexpectedEof));
        assert!(error.to_string().starts_with("a.gz:3: compressed data are damaged or cut off: "));
    }
}
