//! The outcome that a list expects of a step, after ` -> `.
//!
//! | text | what fits |
//! |---|---|
//! | `served` | any success |
//! | `failed` | a request that was not served, a free or a split that was refused |
//! | `12`, `>=12`, `<=12` | a number of blocks or frames |
//! | `ok`, `skipped`, `0x40`, `12 blocks`, ... | the outcome that prints as this text |
//!
//! Numbers count blocks of `alloc` or `bulk`, and frames of a range, a drain or a free; a request that was not served
//! has 0. `served TEXT` and `failed: TEXT` mean `TEXT`, so that the command's output can be pasted into a list.

use std::fmt;
use std::str::FromStr;

use crate::language::outcome::Outcome;
use crate::language::words::{Reason, number};

/// How a number compares with the wanted one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Relation {
    /// It is that number.
    #[default]
    Equal,
    /// It is that number or less.
    AtMost,
    /// It is that number or more.
    AtLeast,
}

impl Relation {
    /// Every relation and the sign that it is written with.
    pub(crate) const SIGNS: [(&str, Relation); 3] =
        [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("=", Relation::Equal)];

    /// Returns whether `found` compares with `wanted` in this way.
    pub fn holds(self, found: u64, wanted: u64) -> bool {
        match self {
            Relation::Equal => found == wanted,
            Relation::AtMost => found <= wanted,
            Relation::AtLeast => found >= wanted,
        }
    }
}

impl fmt::Display for Relation {
    /// Writes the sign; nothing for [`Relation::Equal`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Relation::Equal => "",
            Relation::AtMost => "<=",
            Relation::AtLeast => ">=",
        })
    }
}

/// An expected outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Any success.
    Served,
    /// Any failure.
    Failed,
    /// A number of blocks or frames.
    Count(Relation, u64),
    /// The outcome that prints as this text.
    Text(String),
}

impl Expected {
    /// Returns whether `outcome` is what is expected.
    pub fn fits(&self, outcome: &Outcome) -> bool {
        match self {
            Expected::Served => outcome.is_served(),
            Expected::Failed => outcome.is_failed(),
            Expected::Count(relation, wanted) => outcome.count().is_some_and(|found| relation.holds(found, *wanted)),
            Expected::Text(text) => *text == outcome.to_string(),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Served => f.write_str("served"),
            Expected::Failed => f.write_str("failed"),
            Expected::Count(relation, wanted) => write!(f, "{relation}{wanted}"),
            Expected::Text(text) => f.write_str(text),
        }
    }
}

impl FromStr for Expected {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Expected, Reason> {
        let mut text = text.trim();
        while let Some(rest) = text.strip_prefix("served ").or(text.strip_prefix("failed: ")) {
            text = rest.trim();
        }
        match text {
            "" => return Err("the line ends where an outcome should be".into()),
            "served" => return Ok(Expected::Served),
            "failed" => return Ok(Expected::Failed),
            _ => {}
        }
        let sign = Relation::SIGNS.iter().find_map(|(sign, relation)| Some((*relation, text.strip_prefix(sign)?)));
        if let Some((relation, wanted)) = sign {
            let wanted = wanted.trim();
            let wanted = number(wanted).ok_or_else(|| format!("`{wanted}` where a number should be"))?;
            return Ok(Expected::Count(relation, wanted));
        }
        if !text.starts_with("0x")
            && let Some(wanted) = number(text)
        {
            return Ok(Expected::Count(Relation::Equal, wanted));
        }
        // Only these outcomes are one word; any other word is a mistake that no outcome would ever match.
        let is_known = text.contains(char::is_whitespace) || matches!(text, "ok" | "skipped") || text.starts_with("0x");
        if is_known { Ok(Expected::Text(text.to_owned())) } else { Err(format!("`{text}` is no outcome")) }
    }
}
