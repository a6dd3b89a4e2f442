//! Brings the copy of a source tree to the state that a build wants.
//!
//! The idea: the copy is the untouched tree plus a list of changed files, which the marker of `edit` names. A new build
//! writes those that differ from what it wants, and takes back those that it does not change. Other files keep their
//! times, so make compiles only what depends on a change.
//!
//! Cost: seconds and 1.4 GB for a copy of a user's tree, a second and nothing for links to Debian's tree.
//!
//! Rejected: a new copy for each build, after which make would compile everything.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::host;
use crate::edit::{self, Ours, Plan};
use crate::process;
use crate::source::{Source, remove};

/// Names the state of the untouched tree of which the copy was made.
const ORIGIN: &str = ".framewright-origin";

/// Copies the tree if there is no copy of this state, and makes its changed files those of the plan.
pub(super) fn bring_up_to_date(source: &Source, copy: &Path, plan: Option<&Plan>, ours: &Ours) -> Result<()> {
    let origin = source.digest()?;
    if !fs::read_to_string(copy.join(ORIGIN)).is_ok_and(|old| old == origin) {
        remove(copy)?;
        copy_tree(source, copy)?;
        fs::write(copy.join(ORIGIN), &origin).with_context(|| format!("cannot write to {}", copy.display()))?;
    }
    let before = edit::written_files(copy);
    if let Some(plan) = plan {
        plan.write(copy, ours)?;
        let wanted: BTreeSet<String> = edit::written_files(copy).into_iter().collect();
        for file in before.iter().filter(|file| !wanted.contains(*file)) {
            take_back(&source.root.join(file), &copy.join(file))?;
        }
    }
    host::fit_um(&source.root, copy)
}

/// Copies the tree as hard links if it is ours, otherwise whole.
fn copy_tree(source: &Source, copy: &Path) -> Result<()> {
    if let Some(parent) = copy.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let how = if source.is_ours { "-al" } else { "-a" };
    let bar = process::spinner("copying the tree");
    let mut command = Command::new("cp");
    process::output(command.arg(how).arg("--reflink=auto").arg(&source.root).arg(copy))?;
    bar.finish_and_clear();
    Ok(())
}

/// Gives a file of the copy its untouched text, with a new time; removes it if it was ours.
fn take_back(untouched: &Path, file: &Path) -> Result<()> {
    let removed = fs::remove_file(file);
    match fs::read(untouched) {
        Ok(text) => fs::write(file, text).with_context(|| format!("cannot write {}", file.display())),
        Err(_) => removed.with_context(|| format!("cannot remove {}", file.display())),
    }
}
