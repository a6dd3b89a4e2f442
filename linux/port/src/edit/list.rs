//! Reads the list of edits from TOML.
//!
//! The idea: everything that can be wrong with an edit by itself is refused here, so that later steps meet only edits
//! that make sense. That is a missing anchor, an anchor of blanks only, an occurrence of 0, a path that leaves the
//! tree, and version bounds in the wrong order.
//!
//! Cost: none that matters; a list has some tens of edits.
//!
//! Rejected: letting `serde` refuse these through types of their own. Its messages name a line, not the edit.

use std::fs;
use std::path::{Component, Path};

use serde::Deserialize;

use super::problem::EditError;
use super::version::KernelVersion;

/// The edits of one TOML file, in its order.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditList {
    /// Edits in the order of the file.
    #[serde(default, rename = "edit")]
    pub edits: Vec<Edit>,
}

/// One change of one file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Path of the file in the tree, with `/`.
    pub file: String,
    /// C function whose text is searched; the whole file without it.
    pub function: Option<String>,
    /// Text to find. A run of white space matches any other run.
    pub anchor: Option<String>,
    /// Which match to take, from 1; without it, the only one.
    pub occurrence: Option<usize>,
    /// Where the text goes.
    pub place: Place,
    /// What is inserted.
    pub text: String,
    /// First version of Linux that the edit is for.
    pub since: Option<KernelVersion>,
    /// Last version of Linux that the edit is for.
    pub until: Option<KernelVersion>,
    /// Whether the edit is left out where it finds no place.
    #[serde(default)]
    pub optional: bool,
}

/// Where an edit puts its text.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Before the first line that the anchor covers.
    Before,
    /// After the last line that the anchor covers.
    After,
    /// In place of the anchor, which may be a part of a line.
    Replace,
    /// Before the first line of the function's body, or of the file.
    AtStart,
    /// After the last line of the function's body, or of the file.
    AtEnd,
}

impl EditList {
    /// Reads the list in a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or [`EditList::parse`] refuses its text.
    pub fn read(path: &Path) -> Result<EditList, EditError> {
        let text = fs::read_to_string(path).map_err(|error| EditError::io("read", path, error))?;
        EditList::parse(&text, &path.display().to_string())
    }

    /// Reads a list from TOML. Messages name `origin`.
    ///
    /// # Errors
    ///
    /// The text is not TOML of this form, or an edit contradicts itself.
    pub fn parse(text: &str, origin: &str) -> Result<EditList, EditError> {
        let list: EditList = toml::from_str(text)
            .map_err(|error| EditError::List { origin: origin.to_owned(), reason: error.to_string() })?;
        let faults: Vec<String> = list.edits.iter().enumerate().filter_map(|(at, edit)| edit.fault(at + 1)).collect();
        match faults.is_empty() {
            true => Ok(list),
            false => Err(EditError::List { origin: origin.to_owned(), reason: faults.join("\n") }),
        }
    }
}

impl Edit {
    /// Whether the edit is for this version of Linux.
    pub fn is_for(&self, version: KernelVersion) -> bool {
        self.since.is_none_or(|since| since <= version) && self.until.is_none_or(|until| version <= until)
    }

    /// What contradicts itself in the edit, which is number `number` of its list.
    fn fault(&self, number: usize) -> Option<String> {
        let needs_anchor = matches!(self.place, Place::Before | Place::After | Place::Replace);
        let anchor = self.anchor.as_deref();
        let path = Path::new(&self.file);
        let reason = if self.file.is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_))) {
            "file must be a path inside the tree"
        } else if needs_anchor && anchor.is_none_or(|anchor| anchor.trim().is_empty()) {
            "before, after and replace need an anchor that is not blank"
        } else if !needs_anchor && anchor.is_some() {
            "at-start and at-end take no anchor"
        } else if self.occurrence == Some(0) {
            "occurrence counts from 1"
        } else if self.since.zip(self.until).is_some_and(|(since, until)| until < since) {
            "until is before since"
        } else if self.place != Place::Replace && self.text.trim().is_empty() {
            "text is blank"
        } else if self.function.as_deref().is_some_and(|name| !is_identifier(name)) {
            "function must be a C identifier"
        } else {
            return None;
        };
        Some(format!("edit {number} ({}): {reason}", self.file))
    }
}

/// Whether `name` is a C identifier.
fn is_identifier(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}
