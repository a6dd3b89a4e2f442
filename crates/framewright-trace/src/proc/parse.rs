//! Parts that the formats of `/proc` share: lines, numbers, and the zone that a line is about.

use framewright::units::{MigrateType, Order};

use crate::error::{Excerpt, ProcFault, ProcResult, Result, TraceError};

/// Returns `bytes` as text.
///
/// # Errors
/// The first byte that is not UTF-8.
pub fn text<'a>(bytes: &'a [u8], file: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| TraceError::new(file, ProcFault::NotText(error.valid_up_to())))
}

/// Calls `parse` for every line that is not blank.
pub(super) fn for_lines(text: &str, file: &str, mut parse: impl FnMut(&str) -> ProcResult<()>) -> Result<()> {
    for (i, line) in text.lines().enumerate() {
        if !line.trim().is_empty() {
            parse(line).map_err(|fault| TraceError::at(file, i as u64 + 1, fault))?;
        }
    }
    Ok(())
}

pub(super) fn number(word: &str) -> ProcResult<u64> {
    word.parse().map_err(|_| ProcFault::expected("a number", word))
}

/// Whether a zone can have this name. Names appear in messages, so they must be harmless.
fn is_name(zone: &str) -> bool {
    (1..=16).contains(&zone.len()) && zone.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Splits `Node 0, zone   Normal ...` into node, zone and rest; none for other lines.
pub(super) fn zone_head(line: &str) -> Option<ProcResult<(u32, &str, &str)>> {
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

pub(super) fn migratetype(name: &str) -> ProcResult<MigrateType> {
    // Before 4.4 the reserve for urgent requests had this name.
    let name = if name == "Reserve" { "HighAtomic" } else { name };
    MigrateType::ALL
        .into_iter()
        .find(|migratetype| migratetype.name() == name)
        .ok_or_else(|| ProcFault::MigrateType(Excerpt::new(name.as_bytes())))
}

/// Reads the numbers of a row, which has as many as the rows before.
pub(super) fn numbers(text: &str, expected: Option<usize>) -> ProcResult<Vec<u64>> {
    let numbers = text.split_whitespace().map(number).collect::<ProcResult<Vec<_>>>()?;
    match expected {
        Some(expected) if expected != numbers.len() => Err(ProcFault::Columns { expected, found: numbers.len() }),
        None if numbers.is_empty() || numbers.len() > Order::COUNT => {
            Err(ProcFault::expected("a number for each of up to 19 orders", text))
        }
        _ => Ok(numbers),
    }
}
