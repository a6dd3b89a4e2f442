//! The state of a kernel's memory as `/proc` shows it: the start of a replay, and what to compare its end with.
//!
//! Five files: `zoneinfo` (zones, watermarks, per-CPU lists), `buddyinfo` and `pagetypeinfo` (free blocks by order and
//! by mobility), `vmstat` (counters) and `kpageflags` (flags of every frame). The parsers go by words, not by columns, and
//! take what kernels since 3.0 print; counters that they do not know are kept by name. What is wrong is named with file
//! and line.
//!
//! Sizes are in frames throughout, as in the files.

mod blocks;
mod kpageflags;
mod vmstat;
mod zoneinfo;

#[cfg(test)]
mod tests;

use framewright::units::MigrateType;

pub use self::blocks::{BuddyDifference, BuddyInfo, BuddyRow, PageTypeInfo, PageTypeRow, PageblockRow};
pub use self::kpageflags::{KPageFlags, flag};
pub use self::vmstat::VmStat;
pub use self::zoneinfo::{PageSet, ZoneInfo, ZoneState};
use super::error::{Excerpt, Result, TraceError};

/// What is wrong with a file in the format of `/proc`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProcFault {
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: Excerpt,
    },
    /// A zone's number is missing.
    #[error("zone {zone} of node {node} has no `{field}`")]
    Missing {
        /// The zone's node.
        node: u32,
        /// The zone's name.
        zone: String,
        /// What is missing.
        field: &'static str,
    },
    /// A row has another number of columns than the one before it.
    #[error("{found} numbers, but {expected} in the lines before")]
    Columns {
        /// Numbers in the rows before.
        expected: usize,
        /// Numbers in this row.
        found: usize,
    },
    /// Nothing is in the file.
    #[error("there is no {0} in it")]
    Empty(&'static str),
    /// A mobility that no kernel has.
    #[error("{0} is no mobility")]
    MigrateType(Excerpt),
    /// The file is not text.
    #[error("is no text: byte {0} is not UTF-8")]
    NotText(usize),
    /// A file of 8 bytes a frame has another length.
    #[error("is not made of 8 bytes a frame: {0} bytes are left over")]
    Length(u64),
    /// A machine with too many frames, or too many runs of equal flags.
    #[error("has more than {0} frames or runs of frames with equal flags")]
    TooMany(u64),
}

impl ProcFault {
    fn expected(expected: &'static str, found: &str) -> ProcFault {
        ProcFault::Expected { expected, found: Excerpt::new(found.as_bytes()) }
    }
}

type Parsed<T> = std::result::Result<T, ProcFault>;

/// `bytes` as text.
///
/// # Errors
/// The first byte that is not UTF-8.
pub fn text<'a>(bytes: &'a [u8], file: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| TraceError::new(file, ProcFault::NotText(error.valid_up_to())))
}

/// Calls `parse` for every line that is not blank.
fn for_lines(text: &str, file: &str, mut parse: impl FnMut(&str) -> Parsed<()>) -> Result<()> {
    for (i, line) in text.lines().enumerate() {
        if !line.trim().is_empty() {
            parse(line).map_err(|fault| TraceError::at(file, i as u64 + 1, fault))?;
        }
    }
    Ok(())
}

fn number(word: &str) -> Parsed<u64> {
    word.parse().map_err(|_| ProcFault::expected("a number", word))
}

/// Whether a zone can be called so. Names appear in messages, so they must not hold anything.
fn is_name(zone: &str) -> bool {
    (1..=16).contains(&zone.len()) && zone.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The node, the zone's name and the rest of `Node 0, zone   Normal ...`; none if the line starts otherwise.
fn zone_head(line: &str) -> Option<Parsed<(u32, &str, &str)>> {
    let rest = line.trim_start().strip_prefix("Node ")?;
    let parse = || {
        let (node, rest) = rest.split_once(',')?;
        let rest = rest.trim_start().strip_prefix("zone")?.trim_start();
        let end = rest.find([' ', ',', '\t']).unwrap_or(rest.len());
        let (zone, rest) = rest.split_at(end);
        Some((node.trim().parse().ok()?, zone, rest)).filter(|_| is_name(zone))
    };
    Some(parse().ok_or_else(|| ProcFault::expected("`Node N, zone NAME`", line)))
}

fn migratetype(name: &str) -> Parsed<MigrateType> {
    // The reserve of kernels before 4.4 is the older form of the one for urgent requests.
    let name = if name == "Reserve" { "HighAtomic" } else { name };
    MigrateType::ALL
        .into_iter()
        .find(|migratetype| migratetype.name() == name)
        .ok_or_else(|| ProcFault::MigrateType(Excerpt::new(name.as_bytes())))
}
