//! `/proc/vmstat`: counters, one `name value` a line.

use super::parse::{for_lines, number};
use crate::error::{ProcFault, Result, TraceError};

/// Counters in the file's order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VmStat {
    counters: Vec<(String, u64)>,
}

impl VmStat {
    /// Reads the file's text, called `file` in messages.
    ///
    /// # Errors
    /// The line that is malformed.
    pub fn parse(text: &str, file: &str) -> Result<VmStat> {
        let mut counters = Vec::new();
        for_lines(text, file, |line| {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(name), Some(value), None) => counters.push((name.to_owned(), number(value)?)),
                _ => return Err(ProcFault::expected("`name value`", line)),
            }
            Ok(())
        })?;
        if counters.is_empty() {
            return Err(TraceError::new(file, ProcFault::Empty("counter")));
        }
        Ok(VmStat { counters })
    }

    /// The counter called `name`.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|&(known, _)| known == name).map(|(_, value)| value)
    }

    /// All counters in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counters.iter().map(|(name, value)| (name.as_str(), *value))
    }
}
