//! Memory and time as the panels write them.

use framewright_table::figures::{duration, significant};

/// Bytes of a page, which all sources share.
pub(super) const PAGE: f64 = 4096.0;

/// Frames as bytes.
pub(super) fn memory(frames: u64) -> String {
    bytes(frames as f64 * PAGE)
}

pub(super) fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = units.iter().scan(bytes, |left, unit| {
        let now = *left;
        *left /= 1024.0;
        Some((now, unit))
    });
    let fits = |&(value, _): &(f64, &&str)| value < 1023.5;
    let (value, unit) = unit.clone().find(fits).or_else(|| unit.clone().last()).unwrap_or((bytes, &"B"));
    format!("{} {unit}", significant(value, if value < 100.0 { 2 } else { 3 }))
}

/// A number of seconds in its unit, without zeros that say nothing.
pub(super) fn time(seconds: f64) -> String {
    duration(seconds * 1e9).replace(".00 ", " ").replace(".0 ", " ")
}
