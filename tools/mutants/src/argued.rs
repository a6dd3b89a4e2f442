//! The list of mutants that no test can notice, each with the reason: `tools/mutants/argued.toml`.
//!
//! An entry `[[mutant]]` names one mutant, or several of one line, by lasting names. An entry `[[rule]]` names all whose line
//! contains a text: the hints, on which no result depends by definition. An entry that names nothing is an error, so
//! that the list cannot outlive the code; so is a mutant that two entries name.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use crate::copy::Result;
use crate::mutant::Key;

/// The file, from the root of the workspace.
pub(crate) const LIST: &str = "tools/mutants/argued.toml";

/// The list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Argued {
    #[serde(default)]
    mutant: Vec<One>,
    #[serde(default)]
    rule: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    file: String,
    function: String,
    text: String,
    changes: Vec<String>,
    /// Number among equal ones.
    #[serde(default = "first")]
    nth: u32,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Begin of the file's name.
    #[serde(default)]
    file: String,
    /// Part of the line.
    text: String,
    /// All if empty.
    #[serde(default)]
    changes: Vec<String>,
    reason: String,
}

/// What names a mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Entry,
    /// Some that a rule names may be killed, because a fault of a hint can break something else.
    Rule,
}

fn first() -> u32 {
    1
}

impl Argued {
    /// Reads the list.
    pub(crate) fn read(root: &Path) -> Result<Argued> {
        let text = std::fs::read_to_string(root.join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
        Argued::parse(&text)
    }

    /// Parses the list.
    pub(crate) fn parse(text: &str) -> Result<Argued> {
        toml::from_str(text).map_err(|error| format!("{LIST}: {error}").into())
    }

    /// Returns the mutants that the list names.
    ///
    /// # Errors
    /// An entry names no mutant or has no reason, or two name one.
    pub(crate) fn named<'k>(&self, keys: impl Iterator<Item = &'k Key>) -> Result<HashMap<&'k Key, By>> {
        let keys: Vec<&Key> = keys.collect();
        let mut named = HashMap::new();
        let mut note = |key: &'k Key, by| match named.insert(key, by) {
            Some(_) => Err(format!("{LIST}: two entries name {key}")),
            None => Ok(()),
        };
        for one in &self.mutant {
            let is_line = |key: &&&Key| key.file == one.file && key.function == one.function && key.text == one.text;
            for change in &one.changes {
                let is_one = |key: &&&Key| is_line(key) && key.change == *change && key.nth == one.nth;
                let found = keys.iter().find(is_one).ok_or_else(|| {
                    format!(
                        "{LIST}: no mutant {change} number {} of `{}` in {}, {}",
                        one.nth, one.text, one.file, one.function
                    )
                })?;
                note(found, By::Entry)?;
            }
            is_argued(&one.reason, &one.text)?;
        }
        for rule in &self.rule {
            let is_one = |key: &&&Key| {
                key.file.starts_with(&rule.file)
                    && key.text.contains(&rule.text)
                    && (rule.changes.is_empty() || rule.changes.contains(&key.change))
            };
            let mut found = keys.iter().filter(is_one).peekable();
            if found.peek().is_none() {
                return Err(format!("{LIST}: no mutant has the text `{}`", rule.text).into());
            }
            found.try_for_each(|key| note(key, By::Rule))?;
            is_argued(&rule.reason, &rule.text)?;
        }
        Ok(named)
    }
}

fn is_argued(reason: &str, text: &str) -> Result<()> {
    if reason.split_whitespace().count() < 3 {
        return Err(format!("{LIST}: no reason for `{text}`").into());
    }
    Ok(())
}
