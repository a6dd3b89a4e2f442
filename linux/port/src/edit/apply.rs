//! Writes a plan to a tree, with the files that are ours, and refuses a tree that is edited already.
//!
//! The idea: every file is first written beside its destination, under a temporary name. When all are there, they are
//! renamed. An error before the first rename leaves the tree as it was. A file is never written in place, so a tree
//! whose files are hard links to those of another tree can be edited without a change of the other.
//!
//! The last file is the marker `.framewright-edits`. It lists the files that were written. Its presence, or that of our
//! header, marks an edited tree.
//!
//! Cost: each file is written once. Rejected: a backup of each file; the untouched tree is the backup.

use std::fs;
use std::path::{Path, PathBuf};

use super::plan::Plan;
use super::problem::EditError;

/// The file that marks an edited tree, in the tree's root.
const MARKER: &str = ".framewright-edits";
/// Where the header goes that all of Linux can include.
const HEADER: &str = "include/linux/framewright.h";
/// Where the object made of Rust goes. Kbuild links `*_shipped` files without compiling anything.
const OBJECT: &str = "mm/framewright_rust.o_shipped";

/// The files of ours that a tree gets: each with its path in the tree.
#[derive(Clone, Debug, Default)]
pub struct Ours(pub Vec<(PathBuf, String)>);

impl Ours {
    /// The C files and headers of the folder linux/kernel/, in the order of their names, and an object.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn of(kernel: &Path, object: Option<PathBuf>) -> Result<Ours, EditError> {
        let unreadable = |error| EditError::io("read", kernel, error);
        let mut files = Vec::new();
        for entry in fs::read_dir(kernel).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match name.rsplit_once('.') {
                Some(("framewright", "h")) => files.push((path, HEADER.to_owned())),
                Some((_, "c" | "h")) => files.push((path, format!("mm/{name}"))),
                _ => {}
            }
        }
        files.sort();
        files.extend(object.map(|path| (path, OBJECT.to_owned())));
        Ok(Ours(files))
    }
}

/// The file that shows that the tree is edited already, if it is.
pub fn is_edited(tree: &Path) -> Option<&'static str> {
    [MARKER, HEADER].into_iter().find(|trace| tree.join(trace).exists())
}

/// The files that the last plan wrote to the tree, as paths in it; empty for an untouched tree.
pub fn written_files(tree: &Path) -> Vec<String> {
    fs::read_to_string(tree.join(MARKER)).unwrap_or_default().lines().map(str::to_owned).collect()
}

impl Plan {
    /// Writes the changed files and ours to the tree for which the plan was made.
    ///
    /// # Errors
    ///
    /// The tree is edited already, or a file cannot be written. Nothing is changed if a file cannot be prepared.
    pub fn apply(&self, tree: &Path, ours: &Ours) -> Result<(), EditError> {
        if let Some(trace) = is_edited(tree) {
            return Err(EditError::EditedAlready { tree: tree.to_owned(), trace });
        }
        self.write(tree, ours)
    }

    /// Like [`Plan::apply`], for a tree that may be edited already; leaves files alone that would not change.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written.
    pub fn write(&self, tree: &Path, ours: &Ours) -> Result<(), EditError> {
        let mut contents: Vec<(&str, Vec<u8>)> =
            self.files.iter().map(|change| (change.file.as_str(), change.text.clone().into_bytes())).collect();
        for (from, to) in &ours.0 {
            contents.push((to, fs::read(from).map_err(|error| EditError::io("read", from, error))?));
        }
        let names: Vec<&str> = contents.iter().map(|(file, _)| *file).collect();
        contents.push((MARKER, (names.join("\n") + "\n").into_bytes()));
        replace_all(tree, &contents)
    }
}

/// Replaces files of a tree: prepares all, then renames all.
fn replace_all(tree: &Path, contents: &[(&str, Vec<u8>)]) -> Result<(), EditError> {
    let mut prepared: Vec<(PathBuf, PathBuf)> = Vec::new();
    let result = prepare(tree, contents, &mut prepared);
    if result.is_err() {
        for (temporary, _) in &prepared {
            // The first error is the one to report.
            let _ = fs::remove_file(temporary);
        }
        return result;
    }
    for (temporary, path) in prepared {
        fs::rename(&temporary, &path).map_err(|error| EditError::io("rename to", &path, error))?;
    }
    Ok(())
}

/// Writes every file that differs beside its destination, and notes both names.
fn prepare(tree: &Path, contents: &[(&str, Vec<u8>)], prepared: &mut Vec<(PathBuf, PathBuf)>) -> Result<(), EditError> {
    for (file, content) in contents {
        let path = tree.join(file);
        if fs::read(&path).is_ok_and(|old| old == *content) {
            continue;
        }
        let temporary = tree.join(format!("{file}.framewright-new"));
        prepared.push((temporary.clone(), path.clone()));
        fs::write(&temporary, content).map_err(|error| EditError::io("write", &temporary, error))?;
        if let Ok(metadata) = fs::metadata(&path) {
            let permissions = metadata.permissions();
            fs::set_permissions(&temporary, permissions)
                .map_err(|error| EditError::io("set the mode of", &temporary, error))?;
        }
    }
    Ok(())
}
