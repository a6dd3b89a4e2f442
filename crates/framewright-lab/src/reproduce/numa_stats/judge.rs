//! What has to hold before one may say that the table was reproduced, and what our own counters have to reach.

use super::plan::OURS;
use super::result::{Beside, Pair, Row};
use crate::reproduce::check::{Check, Standing, points, seen};
use crate::reproduce::fitted::{Fitted, list};

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
    let near = Standing::of(gain.published, gain.simulated, GAIN, None) == Standing::Near;
    vec![
        order(&cycles_of),
        Check::seen(
            "one number of the machine fitted, to one row",
            fitted.len() == 1 && fitted.iter().all(|fitted| fitted.rows.len() == 1),
            list(fitted),
        ),
        cycles(rows),
        Check::seen(
            &format!("gain of all patches within {GAIN} points"),
            near,
            format!("{:+.1} %, published {:+.1} %", gain.simulated, gain.published),
        ),
        ours(beside),
    ]
}

/// By how much a row's cycles are off, in percent, and whether they may be; none for a row that predicts nothing.
pub fn standing(row: &Row) -> Option<(Standing, f64)> {
    let by = (row.simulated.cycles / row.published.cycles - 1.0) * 100.0;
    (!row.fitted).then(|| (Standing::of(0.0, by, CYCLES, None), by))
}

/// `rows` are their thresholds and cycles, theirs and ours.
fn order(rows: &[(&str, [f64; 2])]) -> Check {
    let mut wrong = Vec::new();
    for (number, one) in rows.iter().enumerate() {
        for other in &rows[number + 1..] {
            let [slow, fast] = if one.1[0] > other.1[0] { [one, other] } else { [other, one] };
            if (slow.1[0] / fast.1[0] - 1.0) * 100.0 >= TIE && slow.1[1] <= fast.1[1] {
                wrong.push(format!("{} is not above {}", slow.0, fast.0));
            }
        }
    }
    let detail = if wrong.is_empty() { format!("every pair {TIE} % apart or more") } else { wrong.join("; ") };
    Check::seen("rows in the published order", wrong.is_empty(), detail)
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
    fn what_is_out_of_order_is_named() {
        let rows = [("32", [799.0, 700.0]), ("64", [640.0, 710.0]), ("125", [537.0, 540.0])];
        assert_eq!(order(&rows).to_string(), "FAILS   rows in the published order: 32 is not above 64");
        assert_eq!(order(&[("20000", [394.0, 396.0]), ("30000", [395.0, 395.0])]).passed, Some(true));
        assert_eq!(ours(&[]).passed, None);
    }
}
