//! What came of each mutant, in a file that a run continues.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use crate::copy::Result;
use crate::mutant::Key;

/// What came of a mutant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Verdict {
    /// A test failed.
    Killed,
    /// A test did not end.
    Timeout,
    /// Every test that reaches it passed.
    Survived,
    /// No test reaches it.
    Unreached,
    /// The tests that fit into the limit of time passed.
    Open,
}

impl Verdict {
    pub(crate) const ALL: [Verdict; 5] =
        [Verdict::Killed, Verdict::Timeout, Verdict::Survived, Verdict::Unreached, Verdict::Open];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Killed => "killed",
            Verdict::Timeout => "timeout",
            Verdict::Survived => "survived",
            Verdict::Unreached => "unreached",
            Verdict::Open => "open",
        })
    }
}

impl FromStr for Verdict {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Verdict, String> {
        let found = Verdict::ALL.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| format!("no verdict is called {text}"))
    }
}

/// Reads the file; of a mutant with several verdicts, the last.
pub(crate) fn read(path: &Path) -> HashMap<Key, (Verdict, String)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let parse = |line: &str| {
        let (verdict, rest) = line.split_once('\t')?;
        let (by, key) = rest.split_once('\t')?;
        Some((Key::parse(key)?, (verdict.parse().ok()?, by.to_owned())))
    };
    text.lines().filter_map(parse).collect()
}

/// Opens the file to append to it.
pub(crate) fn append(path: &Path) -> Result<File> {
    File::options().create(true).append(true).open(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Appends a verdict, with the test that it is due to.
pub(crate) fn note(file: &mut File, verdict: Verdict, by: &str, key: &Key) -> Result<()> {
    // One write, so that a line is whole or missing.
    Ok(file.write_all(format!("{verdict}\t{by}\t{key}\n").as_bytes())?)
}
