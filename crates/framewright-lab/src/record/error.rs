//! Errors of a recording; each says what becomes of the recorded pages.

use std::io;
use std::path::Path;

use framewright_trace::error::{Reason, TraceError};

/// An error of a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The machine cannot be recorded.
    #[error("this machine cannot be recorded as it is:\n  {}", .0.join("\n  "))]
    NotReady(Vec<String>),
    /// There is something in the folder.
    #[error("{0} is there and not empty; name another folder, or remove it")]
    Exists(String),
    /// The folder is empty, but not the user's own.
    #[error("{0} is somebody else's, or a link; name a folder that is not there, or one of your own")]
    NotOwn(String),
    /// Something could not be done to a file.
    #[error("cannot {doing} {path}: {error}")]
    File {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The command could not be started.
    #[error("cannot run {program}: {error}; name a program that the shell finds, or its path")]
    Command {
        /// The program.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// A text of the kernel cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is no room for the trace.
    #[error("the disk of {0} has no room for a longer trace; make some, or name a folder on another disk with -o")]
    Full(String),
    /// The pages could not be made a trace, but they are still there.
    #[error("{error}; the pages as the kernel had them are in {spool}: {}", remedy(error, spool, *is_convertible))]
    Kept {
        /// Why.
        error: Box<RecordError>,
        /// Where they are.
        spool: String,
        /// Whether all is there that makes them a trace later.
        is_convertible: bool,
    },
    /// A kept spool is not as a recorder left it.
    #[error("{path} is not as a recorder left it: {why}; record again")]
    Damaged {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
}

impl RecordError {
    pub(crate) fn at(doing: &'static str, path: &Path, error: io::Error) -> RecordError {
        RecordError::File { doing, path: path.display().to_string(), error }
    }
}

/// Advice about pages that were kept because of this error.
fn remedy(error: &RecordError, spool: &str, is_convertible: bool) -> String {
    let error = match error {
        RecordError::File { error, .. } => Some(error),
        RecordError::Trace(error) => match error.reason() {
            Reason::Io(error) => Some(error),
            _ => None,
        },
        _ => None,
    };
    match error.map(io::Error::kind) {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) if is_convertible => {
            format!("where there is more room, framewright convert {spool} trace.fwt makes a trace of them")
        }
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            "nothing reads them so; remove them, and record again on a disk with more room".to_owned()
        }
        _ => "please report it with them".to_owned(),
    }
}
