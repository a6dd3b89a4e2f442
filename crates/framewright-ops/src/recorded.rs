//! Digests of runs in a file that is checked in, for tests that must notice any change.
//!
//! The file has a line for each run, `KIND NAME: DIGESTS`, and the runs of one kind are compared at a time. Two
//! variables of the environment change what a comparison does:
//!
//! - `FRAMEWRIGHT_TRANSCRIPTS=FOLDER` also writes the transcript of each run into a folder. `diff -r` compares the
//!   folders of two revisions.
//! - `FRAMEWRIGHT_RECORD=1` writes the digests into the file instead.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Digests that differ before a comparison ends: enough to see what they have in common.
const MOST: usize = 8;

/// Held while a file is read or written: tests run side by side.
static FILE: Mutex<()> = Mutex::new(());

/// A run that was played.
pub struct Played {
    /// Its name among those of its kind.
    pub name: String,
    /// What is compared.
    pub digests: String,
    /// Returns what the digests are of, as text.
    transcript: Box<dyn FnOnce() -> String>,
}

impl Played {
    /// Makes a run with its digests. The transcript is made only if it is wanted: some take megabytes.
    pub fn new(name: impl Into<String>, digests: String, transcript: impl FnOnce() -> String + 'static) -> Played {
        Played { name: name.into(), digests, transcript: Box::new(transcript) }
    }
}

/// Returns the FNV-1a hash, which is the same on each machine, in each build.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let add = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, add)
}

/// Returns [`fnv`] in 32 bits.
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let hash = fnv(bytes);
    (hash ^ (hash >> 32)) as u32
}

/// Compares runs with the lines of `file` that begin with `kind`. Ends after some differences.
///
/// # Errors
/// Digests are not as recorded, or the file cannot be read or written.
pub fn compare(file: &Path, kind: &str, runs: impl IntoIterator<Item = Played>) -> Result<(), String> {
    let begins = format!("{kind} ");
    let folder = std::env::var_os("FRAMEWRIGHT_TRANSCRIPTS").map(PathBuf::from);
    let records = std::env::var_os("FRAMEWRIGHT_RECORD").is_some();
    let stored = {
        let _guard = FILE.lock();
        read(file)?
    };
    let mut known = stored.lines().filter(|line| line.starts_with(&begins));
    let (mut found, mut differ) = (Vec::new(), Vec::new());
    for Played { name, digests, transcript } in runs {
        if let Some(folder) = &folder {
            write(&folder.join(format!("{kind} {name}.txt").replace(' ', "-")), &transcript())?;
        }
        let line = format!("{kind} {name}: {digests}");
        let known = known.next().unwrap_or("nothing");
        if line != known {
            differ.push(format!("is       {line}\nrecorded {known}"));
        }
        found.push(line);
        if differ.len() >= MOST && !records && folder.is_none() {
            break;
        }
    }
    if records {
        return record(file, &begins, &found);
    }
    if differ.is_empty() && known.next().is_some() {
        differ.push(format!("fewer runs of the kind {kind} than are recorded"));
    }
    if differ.is_empty() {
        return Ok(());
    }
    Err(format!(
        "not as recorded in {} (framewright_ops::recorded says how to see more):\n{}",
        file.display(),
        differ.join("\n")
    ))
}

/// Replaces the lines of one kind.
fn record(file: &Path, begins: &str, found: &[String]) -> Result<(), String> {
    let _guard = FILE.lock();
    let stored = read(file)?;
    let others = stored.lines().filter(|line| !line.starts_with(begins));
    let mut lines: Vec<&str> = others.chain(found.iter().map(String::as_str)).collect();
    // Stable: the runs of a kind stay in their order.
    lines.sort_by_key(|line| line.split(' ').next());
    write(file, &(lines.join("\n") + "\n"))
}

#[allow(clippy::disallowed_methods, reason = "for tests, in folders that their caller names")]
fn write(file: &Path, text: &str) -> Result<(), String> {
    file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(file, text)).map_err(said(file))
}

fn read(file: &Path) -> Result<String, String> {
    // Before the first record there is none.
    if file.exists() { fs::read_to_string(file).map_err(said(file)) } else { Ok(String::new()) }
}

fn said(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

#[cfg(test)]
mod tests {
    use super::{Played, compare, hash};

    #[test]
    fn a_difference_is_named() {
        let folder = std::env::temp_dir().join(format!("framewright-recorded-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("digests.txt");
        std::fs::write(&file, "long 1: a\nshort 1: b\nshort 2: c\n").unwrap();
        let run = |name: &str, digests: &str| Played::new(name, digests.into(), String::new);
        assert_eq!(compare(&file, "short", [run("1", "b"), run("2", "c")]), Ok(()));
        for (runs, found) in [
            (vec![run("1", "b"), run("2", "d")], "is       short 2: d\nrecorded short 2: c"),
            (vec![run("1", "b")], "fewer runs of the kind short than are recorded"),
            (vec![run("1", "b"), run("2", "c"), run("3", "e")], "is       short 3: e\nrecorded nothing"),
        ] {
            let wrong = compare(&file, "short", runs).unwrap_err();
            assert!(wrong.ends_with(&format!(":\n{found}")), "{wrong}");
        }
        assert!(compare(&folder.join("missing.txt"), "short", [run("1", "b")]).is_err());
        std::fs::remove_dir_all(folder).unwrap();
        assert_ne!(hash(*b"a"), hash(*b"b"));
    }
}
