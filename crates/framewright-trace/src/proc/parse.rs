//! What the formats of `/proc` have in common: lines, numbers, and the zone that a line is about.

use framewright::pfn::{MigrateType, Order};

use crate::error::{Excerpt, ProcFault, ProcResult, Result, TraceError};

/// `bytes` as text.
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

/// Whether a zone can be called so. Names appear in messages, so they must not hold anything.
fn is_name(zone: &str) -> bool {
    (1..=16).contains(&zone.len()) && zone.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The node, the zone's name and the rest of `Node 0, zone   Normal ...`; none if the line starts otherwise.
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
    // The reserve of kernels before 4.4 is the older form of the one for urgent requests.
    let name = if name == "Reserve" { "HighAtomic" } else { name };
    MigrateType::ALL
        .into_iter()
        .find(|migratetype| migratetype.name() == name)
        .ok_or_else(|| ProcFault::MigrateType(Excerpt::new(name.as_bytes())))
}

/// The numbers of a row, as many as the rows before have.
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
