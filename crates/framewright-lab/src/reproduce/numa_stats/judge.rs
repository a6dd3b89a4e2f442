//! What has to hold before one may say that the table was reproduced, and what our own counters have to reach.

use super::plan::OURS;
use super::result::{Beside, Pair, Row};
use crate::reproduce::check::{Check, Standing, order, points, seen};
use crate::reproduce::fitted::{Fitted, list};
use crate::sim::figures::change_percent;

/// Rows whose published cycles are less apart, in percent, may come in any order.
const TIE: f64 = 1.0;
/// Percent by which a row's cycles may be off.
pub const CYCLES: f64 = 8.0;
/// Points by which the gain of all patches may be off.
const GAIN: f64 = 10.0;
/// Cycles by which our counters may make an allocation and its free dearer.
const COST: f64 = 2.0;

/// All checks.
pub fn checks(rows: &[Row], fitted: &[Fitted], gain: Pair, beside: &[Beside]) -> Vec<Check> {
    let cycles_of: Vec<_> =
        rows.iter().map(|row| (row.threshold.as_str(), [row.published.cycles, row.simulated.cycles])).collect();
    vec![
        order("rows in the published order", TIE, &cycles_of),
        Check::seen(
            "one number of the machine fitted, to one row",
            fitted.len() == 1 && fitted.iter().all(|fitted| fitted.rows.len() == 1),
            list(fitted),
        ),
        cycles(rows),
        Check::seen(
            &format!("gain of all patches within {GAIN} points"),
            is_gain(gain),
            format!("{:+.1} %, published {:+.1} %", gain.simulated, gain.published),
        ),
        ours(beside),
    ]
}

/// Whether the gain of all patches is near enough.
pub fn is_gain(gain: Pair) -> bool {
    Standing::of(gain.published, gain.simulated, GAIN, None) == Standing::Near
}

/// By how much a row's cycles are off, in percent, and whether they may be; none for a row that predicts nothing.
pub fn standing(row: &Row) -> Option<(Standing, f64)> {
    let by = change_percent(row.published.cycles, row.simulated.cycles);
    (!row.fitted).then(|| (Standing::of(0.0, by, CYCLES, None), by))
}

fn cycles(rows: &[Row]) -> Check {
    let all = rows.iter().filter_map(|row| {
        let (standing, by) = standing(row)?;
        Some((standing, format!("{} {}", row.threshold, points(by))))
    });
    seen(&format!("rows not fitted within {CYCLES} % of the published cycles"), all)
}

fn ours(beside: &[Beside]) -> Check {
    let name = format!("{}: counters cost {COST} cycles or less", OURS[0]);
    let cycles = OURS.map(|name| beside.iter().find(|row| row.name == name).map(|row| row.simulated.cycles));
    let [Some(with), Some(without)] = cycles else { return Check::unseen(&name, "not run") };
    Check::seen(&name, with - without <= COST, format!("{with:.1} cycles with, {without:.1} without"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_run_is_not_seen() {
        assert_eq!(ours(&[]).passed, None);
    }
}
