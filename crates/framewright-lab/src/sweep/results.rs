//! The file that a process appends to: a line of JSON for each cell that is done.
//!
//! A line stands for itself: it has the cell with its hash and the version of the program, so files may be joined and
//! cut between lines. A line is written in one piece when its cell is done. A killed process may leave a last line
//! without its end; the process that continues the file drops it, and the cell is run again. A lock, which ends with
//! its process, lets one process at a time have the file.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use framewright_trace::output::{Access, Folder};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::digest::Digest;

/// Version of this format.
pub const SCHEMA: &str = "framewright-sweep-result/1";
/// The start of every line, common to all versions of the form.
const KIND: &str = "framewright-sweep-result/";
/// With which a plan begins.
const PLAN: &str = "{\"schema\":\"framewright-sweep-plan/";
/// Bytes of a file at most.
const LONGEST: u64 = 1 << 30;

/// The result of a cell.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ResultLine {
    /// Version of this format.
    pub schema: String,
    /// Place of the cell in the plan.
    pub index: usize,
    /// Its digest.
    pub hash: Digest,
    /// Version of the program that ran it.
    pub version: String,
    /// The cell.
    pub cell: Cell,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long that took on the host that ran it. The only thing here that differs from one time to the next, so
    /// merged results have it not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// A result, or none.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It ran to its end.
    Result(Found),
    /// It did not.
    Failure(Failure),
}

/// The results of a run. Numbers that do not exist, as cycles for each of no operations, are null.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Found {
    /// The unit of an operation.
    pub unit: String,
    /// Operations that ended in the window.
    pub operations: u64,
    /// Operations per second of virtual time.
    pub per_second: Option<f64>,
    /// Cycles that all CPUs together spent for one operation.
    pub cycles_per_operation: Option<f64>,
    /// Share of all CPUs' time that was spent waiting for locks, in percent.
    pub waiting_percent: Option<f64>,
    /// The lock that was waited for longest.
    pub lock: Option<String>,
    /// Figures of the workload's own.
    pub figures: Vec<Figure>,
    /// Virtual time before the measured window, in nanoseconds.
    pub warm_up_ns: u64,
    /// Length of the measured window, in nanoseconds.
    pub window_ns: u64,
    /// Accesses to shared words in the window.
    pub accesses: u64,
    /// Switches between CPUs in the whole run.
    pub switches: u64,
    /// Digest of the run's whole report, with every lock, line and CPU: equal here is equal in all.
    pub report: Digest,
}

/// A figure of the workload's own.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
}

/// Why there is no result.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub struct Failure {
    /// The message.
    pub error: String,
    /// The command that runs the cell again.
    pub again: String,
}

impl ResultLine {
    /// The outcome of a cell.
    pub fn new(index: usize, (hash, cell): (&Digest, &Cell), version: &str, outcome: Outcome) -> ResultLine {
        let (schema, version) = (SCHEMA.to_owned(), version.to_owned());
        ResultLine { schema, index, hash: hash.clone(), version, cell: cell.clone(), outcome, seconds: None }
    }

    /// The line as files have it, with its end.
    ///
    /// # Errors
    /// None that a line could cause.
    pub fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// The results of a cell that ran to its end.
    pub fn found(&self) -> Option<&Found> {
        match &self.outcome {
            Outcome::Result(found) => Some(found),
            Outcome::Failure(_) => None,
        }
    }

    fn parse(text: &str) -> anyhow::Result<ResultLine> {
        if text.starts_with(PLAN) {
            bail!("is a plan, no result of one: `framewright sweep run` runs it, and merge takes it as --plan FILE");
        }
        let line: ResultLine = serde_json::from_str(text)
            .context("is no result of a sweep; remove the line, and its cell is run again")?;
        if line.schema != SCHEMA {
            bail!("is {:?}, and a result that this program reads is {SCHEMA:?}", line.schema);
        }
        if line.cell.hash(&line.version)? != line.hash {
            bail!("the cell is not what its hash says: somebody changed it; remove the line and run the cell again");
        }
        Ok(line)
    }
}

/// The content of a file of results.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ResultsContent {
    /// The file.
    pub name: String,
    /// Results, each with the number of its line.
    pub lines: Vec<(usize, ResultLine)>,
    /// Bytes up to the end of the last line.
    pub whole: usize,
    /// Bytes after it, of a line that was not written to its end.
    pub torn: usize,
}

impl ResultsContent {
    /// Reads the content of a file that errors call `name`. A last line without an end must begin as our lines do, so
    /// that no foreign data is dropped.
    ///
    /// # Errors
    /// Which line is no result, and why.
    pub fn parse(name: &str, bytes: &[u8]) -> anyhow::Result<ResultsContent> {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let mut content = ResultsContent { name: name.to_owned(), whole, torn: bytes.len() - whole, lines: Vec::new() };
        for (number, line) in (1..).zip(bytes[..whole].split(|byte| *byte == b'\n')) {
            if line.is_empty() {
                continue;
            }
            let line = std::str::from_utf8(line).context("is no text").and_then(ResultLine::parse);
            content.lines.push((number, line.with_context(|| format!("{name}:{number}"))?));
        }
        let (tail, start) = (&bytes[whole..], format!("{{\"schema\":\"{KIND}"));
        if !start.as_bytes().starts_with(tail) && !tail.starts_with(start.as_bytes()) {
            bail!("{name}: its last line has no end, and does not begin as a result of a sweep");
        }
        Ok(content)
    }

    /// Reads a file, to its last whole line.
    ///
    /// # Errors
    /// It cannot be read; or which line is no result, and why.
    pub fn read(path: &Path) -> anyhow::Result<ResultsContent> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        ResultsContent::parse(&name, &bytes(&file, &name)?)
    }
}

/// A file of results that this process alone appends to.
#[derive(Debug)]
pub struct Store {
    file: File,
    path: PathBuf,
}

impl Store {
    /// Opens a file, or makes it; with what is in it. A last line that was not written to its end is dropped from the
    /// file.
    ///
    /// # Errors
    /// The file cannot be written, holds something else, or is in use by another process.
    pub fn open(path: &Path) -> anyhow::Result<(Store, ResultsContent)> {
        let name = path.display().to_string();
        // Appended to where it is, so no other file must be put in its place.
        let file = Folder::of(path, Access::Shared).and_then(|(folder, name)| folder.append(name));
        let file = file.with_context(|| format!("cannot write {name}"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => bail!(
                "{name} is being written by another process: wait until it is done, or name a file of this process' \
                 own with -o; merge puts them together"
            ),
            Err(error) => bail!("{name} cannot be locked ({error}): name a file on a local file system with -o"),
        }
        let content = ResultsContent::parse(&name, &bytes(&file, &name)?)?;
        if content.torn > 0 {
            file.set_len(content.whole as u64).with_context(|| format!("cannot write {name}"))?;
        }
        Ok((Store { file, path: path.to_owned() }, content))
    }

    /// Appends a line.
    ///
    /// # Errors
    /// It cannot be written; the file then ends with the line before.
    pub fn append(&mut self, line: &ResultLine) -> anyhow::Result<()> {
        let text = line.json()?;
        let before = self.file.metadata().map(|metadata| metadata.len());
        self.file.write_all(text.as_bytes()).with_context(|| {
            let _ = before.and_then(|length| self.file.set_len(length));
            format!("cannot write {}", self.path.display())
        })
    }
}

fn bytes(file: &File, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > LONGEST {
        bail!("{name} is larger than {} MiB", LONGEST >> 20);
    }
    Ok(bytes)
}
