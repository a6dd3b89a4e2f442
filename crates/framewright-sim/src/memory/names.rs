//! Names of the words in regions with fields.

use std::collections::BTreeMap;

/// Bytes of a counted place.
const PLACE: usize = 4;

/// Names of the words in regions with fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// By offset in the arena: bytes, the record that the word is part of, and its name.
    fields: BTreeMap<usize, (usize, String, String)>,
}

impl Names {
    pub(crate) fn add(&mut self, offset: usize, bytes: usize, (part, field): (String, String)) {
        self.fields.insert(offset, (bytes, part, field));
    }

    /// Returns the record at an offset, and the names of its fields in the four bytes there.
    pub(crate) fn of(&self, offset: usize) -> Option<(&str, String)> {
        let before = self.fields.range(..=offset).next_back().filter(|(at, (bytes, ..))| *at + bytes > offset);
        let inside = self.fields.range(offset + 1..offset + PLACE);
        let found: Vec<_> = before.into_iter().chain(inside).map(|(_, (_, part, field))| (part, field)).collect();
        let (part, _) = found.first()?;
        let names: Vec<&str> = found.iter().map(|(_, field)| field.as_str()).collect();
        Some((part, names.join(", ")))
    }
}
