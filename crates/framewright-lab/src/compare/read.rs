//! From a file to the documents in it: JSON that the commands print, one after the other as `>>` leaves them.
//!
//! Only the kind of a document is found out here, by its `schema`; [`points`](super::points) reads its content. Any
//! other file is refused with the line, and with the commands that would make one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// How large a file may be, in bytes: some thousand runs on 112 CPUs.
const LIMIT: u64 = 1 << 30;

/// Which command prints a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A run of the simulated machine, or several.
    Sim,
    /// Allocators measured natively.
    Bench,
    /// A published table made again.
    Reproduce,
    /// A kernel's trace under other mechanisms.
    Replay,
}

impl Kind {
    /// The command.
    pub fn command(self) -> &'static str {
        match self {
            Kind::Sim => "framewright sim",
            Kind::Bench => "framewright bench",
            Kind::Reproduce => "framewright reproduce",
            Kind::Replay => "framewright replay",
        }
    }

    /// How one gets more measurements.
    pub fn more(self) -> &'static str {
        match self {
            Kind::Bench => "--rounds",
            _ => "runs with other seeds (--seed), appended to the file or named with a comma",
        }
    }
}

/// A fault of a file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {file}: {reason}")]
    File {
        /// Which.
        file: String,
        /// Why.
        reason: std::io::Error,
    },
    /// It is too large.
    #[error("{file} is larger than {LIMIT} bytes; compare its parts")]
    Large {
        /// Which.
        file: String,
    },
    /// It is empty.
    #[error("{file} is empty; {MAKERS}")]
    Empty {
        /// Which.
        file: String,
    },
    /// It is no JSON.
    #[error("{file}:{line}: is no JSON ({reason}); {MAKERS}")]
    Json {
        /// Which.
        file: String,
        /// Line, from 1 on.
        line: usize,
        /// The parser's message.
        reason: String,
    },
    /// It is JSON of something else.
    #[error("{file}:{line}: {what}; {MAKERS}")]
    Other {
        /// Which.
        file: String,
        /// Line at which it begins, from 1 on.
        line: usize,
        /// Its real content.
        what: String,
    },
    /// It has the right schema, but not what belongs to it.
    #[error("{file}:{line}: not as {command} --format json prints it: {reason}; make it again with this version")]
    Shape {
        /// Which.
        file: String,
        /// Line, from 1 on.
        line: usize,
        /// Which command prints its kind.
        command: &'static str,
        /// The missing or wrong field.
        reason: String,
    },
}

/// The commands that make files to compare.
const MAKERS: &str = "files to compare are what framewright sim, bench, reproduce and replay print with --format json";

/// One document of a file.
pub struct Document {
    /// The file.
    pub file: String,
    /// Line at which it begins, from 1 on.
    pub line: usize,
    /// The command that prints it.
    pub kind: Kind,
    /// Its text.
    text: String,
}

/// The fields that tell the kinds of documents apart.
#[derive(Deserialize)]
struct Probe {
    schema: Option<serde_json::Value>,
    schema_version: Option<u32>,
    experiment: Option<serde::de::IgnoredAny>,
    columns: Option<serde::de::IgnoredAny>,
    rows: Option<serde::de::IgnoredAny>,
}

impl Document {
    /// Its content.
    ///
    /// # Errors
    /// [`ReadError::Shape`] if it does not.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        serde_json::from_str(&self.text).map_err(|error| ReadError::Shape {
            file: self.file.clone(),
            line: self.line + error.line().saturating_sub(1),
            command: self.kind.command(),
            reason: reason(&error),
        })
    }
}

/// All documents of a file.
///
/// # Errors
/// The first that is none, and where.
pub fn read(path: &Path) -> Result<Vec<Document>, ReadError> {
    let file = path.display().to_string();
    let failed = |reason| ReadError::File { file: file.clone(), reason };
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(LIMIT + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LIMIT {
        return Err(ReadError::Large { file });
    }
    documents(&file, &text)
}

/// All documents of a text that is called `file`.
///
/// # Errors
/// As those of [`read`].
pub fn documents(file: &str, text: &str) -> Result<Vec<Document>, ReadError> {
    let mut all = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    // Ends of lines are counted from document to document: from the start they would be counted again for each.
    let (mut start, mut line, mut counted) = (0, 1, 0);
    while let Some(found) = stream.next() {
        found.map_err(|error| ReadError::Json { file: file.to_owned(), line: error.line(), reason: reason(&error) })?;
        let (from, to) = (start, stream.byte_offset());
        start = to;
        let piece = text[from..to].trim_start();
        let begin = to - piece.len();
        line += text[counted..begin].matches('\n').count();
        counted = begin;
        let kind = kind(piece).map_err(|what| ReadError::Other { file: file.to_owned(), line, what })?;
        all.push(Document { file: file.to_owned(), line, kind, text: piece.to_owned() });
    }
    if all.is_empty() {
        return Err(ReadError::Empty { file: file.to_owned() });
    }
    Ok(all)
}

/// Returns which command wrote a document, or what else the document is.
fn kind(text: &str) -> Result<Kind, String> {
    let Ok(probe) = serde_json::from_str::<Probe>(text) else {
        return Err("is JSON, but no object with a schema".to_owned());
    };
    let Some(schema) = probe.schema else {
        return match (probe.schema_version, probe.columns) {
            (Some(2), Some(_)) => Ok(Kind::Replay),
            (Some(version), Some(_)) => {
                Err(format!("is of a replay, but in version {version} of its form; this one reads 2"))
            }
            _ => Err("is JSON without a schema that this command knows".to_owned()),
        };
    };
    match schema.as_str().unwrap_or_default() {
        framewright_sim::report::SCHEMA => Ok(Kind::Sim),
        framewright_bench::SCHEMA if probe.rows.is_some() => Ok(Kind::Bench),
        crate::reproduce::found::SCHEMA if probe.experiment.is_some() => Ok(Kind::Reproduce),
        _ => Err(format!("is of schema {schema}, which is not compared")),
    }
}

/// The parser's message without the line, which is printed elsewhere.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}
