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
    let near = Standing::of(gain.published, gain.simulated, GAIN, None) == Standing::Near;
    vec![
        order(rows),
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

fn order(rows: &[Row]) -> Check {
    let mut wrong = Vec::new();
    for (number, one) in rows.iter().enumerate() {
        for other in &rows[number + 1..] {
            let [slow, fast] = if one.published.cycles > other.published.cycles { [one, other] } else { [other, one] };
            let apart = (slow.published.cycles / fast.published.cycles - 1.0) * 100.0;
            if apart >= TIE && slow.simulated.cycles <= fast.simulated.cycles {
                wrong.push(format!("{} is not above {}", slow.threshold, fast.threshold));
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
    use framewright_sim::report::Report;

    use super::super::published::Figures;
    use super::*;

    fn row(threshold: &str, published: f64, simulated: f64, fitted: bool) -> Row {
        let figures = |cycles: f64| Figures { cycles, throughput: 1e11 / cycles };
        Row {
            threshold: threshold.to_owned(),
            published: figures(published),
            simulated: figures(simulated),
            fitted,
            band: None,
            why: String::new(),
            report: Report::default(),
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let rows = [row("32", 799.0, 700.0, false), row("64", 640.0, 710.0, false), row("125", 537.0, 540.0, true)];
        assert_eq!(order(&rows).to_string(), "FAILS   rows in the published order: 32 is not above 64");
        assert!(cycles(&rows).to_string().ends_with("cycles: 32 -12.4, 64 +10.9"));
        assert_eq!(standing(&rows[2]), None);
        let tie = [row("20000", 394.0, 396.0, true), row("30000", 395.0, 395.0, true)];
        assert_eq!(order(&tie).passed, Some(true));
        assert_eq!(ours(&[]).passed, None);
    }
}
