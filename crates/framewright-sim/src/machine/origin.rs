//! The unit of a number in a machine's file, and its origin.

use std::fmt;

use serde::Serialize;

/// Where a number comes from.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// It was measured, and read at this place.
    Source(String),
    /// It is assumed, for this reason.
    Assumed(String),
    /// It was chosen so that these rows of published tables come out.
    Fitted(String),
}

impl Basis {
    /// The keys of the bases in a file.
    pub(super) const KEYS: [&'static str; 3] = ["source", "assumed", "fitted"];

    /// Reads the basis that a file gives under one of the keys.
    ///
    /// # Errors
    /// The text is empty, or names no row of a table.
    pub(super) fn parse(key: &str, text: &str) -> Result<Basis, String> {
        if text.trim().is_empty() {
            return Err(format!("`{key}` is empty"));
        }
        let text = text.to_owned();
        match key {
            "source" => Ok(Basis::Source(text)),
            "assumed" => Ok(Basis::Assumed(text)),
            _ => {
                let names_a_row = |row: &str| {
                    row.split_once('/').is_some_and(|(table, row)| !table.trim().is_empty() && !row.trim().is_empty())
                };
                match text.split(',').map(str::trim).find(|row| !names_a_row(row)) {
                    Some(row) => Err(format!("`fitted` says {row:?}, which is no table/row")),
                    None => Ok(Basis::Fitted(text)),
                }
            }
        }
    }

    /// Returns the rows of published tables, as `table/row`, that the number was fitted to.
    ///
    /// It cannot predict them.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        let rows = match self {
            Basis::Fitted(rows) => Some(rows.split(',').map(str::trim)),
            Basis::Source(_) | Basis::Assumed(_) => None,
        };
        rows.into_iter().flatten()
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Basis::Source(text) => write!(f, "source: {text}"),
            Basis::Assumed(text) => write!(f, "assumed: {text}"),
            Basis::Fitted(text) => write!(f, "fitted: {text}"),
        }
    }
}

/// Units.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Cycles of the machine's clock.
    Cycles,
    /// Nanoseconds.
    Ns,
    /// Cycles in a nanosecond.
    Ghz,
    /// Cache lines of 64 bytes.
    Lines,
    /// 1,024 bytes.
    Kib,
    /// 1,048,576 bytes.
    Mib,
    /// Things.
    Count,
    /// Hundredths of a whole.
    Percent,
    /// A factor.
    Ratio,
    /// 10^9 bytes a second.
    GbPerS,
}

impl Unit {
    const ALL: [Unit; 10] = [
        Unit::Cycles,
        Unit::Ns,
        Unit::Ghz,
        Unit::Lines,
        Unit::Kib,
        Unit::Mib,
        Unit::Count,
        Unit::Percent,
        Unit::Ratio,
        Unit::GbPerS,
    ];

    /// Returns the key that gives a number this unit.
    pub fn key(self) -> &'static str {
        match self {
            Unit::Cycles => "cycles",
            Unit::Ns => "ns",
            Unit::Ghz => "ghz",
            Unit::Lines => "lines",
            Unit::Kib => "kib",
            Unit::Mib => "mib",
            Unit::Count => "count",
            Unit::Percent => "percent",
            Unit::Ratio => "ratio",
            Unit::GbPerS => "gb_per_s",
        }
    }

    /// Returns the unit of a key.
    pub(super) fn of(key: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.key() == key)
    }
}
