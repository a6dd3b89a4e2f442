//! What has to hold before one may say that the tables were reproduced, and what our own lists have to reach.

use super::plan::MODES;
use super::published::{Statistic, Test};
use super::result::{Aim9, PageBench02, Reproduction, Row, Softirq};
use crate::reproduce::check::Check;
use crate::reproduce::fitted::{Fitted, at_most};

/// Percent by which a saving may be off.
pub const SAVING: f64 = 20.0;
/// Percent of the savings that have to be within that.
const SHARE: f64 = 80.0;
/// The smallest batch that counts: of one page, most is the loop around it.
const LEAST: u32 = 2;
/// Cycles by which the pair's saving may be off.
const PAIR: f64 = 5.0;
/// Percent that a test of aim9 may gain: least and most.
const GAINS: [(Test, [f64; 2]); 2] = [(Test::PageTest, [1.0, 5.0]), (Test::BrkTest, [0.0, 2.0])];
/// Percent of the packets that the change may lose.
const LOSS: [f64; 2] = [15.0, 27.0];
/// Percent that the other modes may lose at most.
const LITTLE: f64 = 2.0;

/// All checks.
pub fn checks(found: &Reproduction, fitted: &[Fitted]) -> Vec<Check> {
    let mut all = vec![
        at_most(2, "at most two numbers of the machine fitted, each to one row", fitted),
        savings(&found.rows),
        pair(found),
    ];
    all.extend(GAINS.map(|(test, band)| gain(found, test, band)));
    all.push(loss(found));
    all.extend(MODES[2..].iter().map(|mode| little(found, mode.name)));
    all
}

/// Whether our saving is near enough; none for a row that predicts nothing.
pub fn is_near(row: &Row) -> Option<bool> {
    (row.batch >= LEAST && !row.fitted).then(|| row.off_percent().abs() <= SAVING)
}

fn savings(rows: &[Row]) -> Check {
    let counted: Vec<(&Row, bool)> = rows.iter().filter_map(|row| Some((row, is_near(row)?))).collect();
    let near = counted.iter().filter(|(_, near)| *near).count();
    let off = counted.iter().filter(|(_, near)| !near);
    let off: Vec<String> = off.map(|(row, _)| format!("{} {:+.0} %", row.name(), row.off_percent())).collect();
    let share = near as f64 * 100.0 / counted.len().max(1) as f64;
    let outliers = if off.is_empty() { String::new() } else { format!("; not {}", off.join(", ")) };
    Check::seen(
        &format!("{SHARE} % of the savings from a batch of {LEAST} on within {SAVING} %"),
        share >= SHARE,
        format!("{near} of {}{outliers}", counted.len()),
    )
}

/// Whether the pair's saving is near enough.
pub fn is_pair(pair: &PageBench02) -> bool {
    (pair.simulated.saving() - pair.published.saving()).abs() <= PAIR
}

/// Whether a test of aim9 gains as much as it has to; none of what is not judged.
pub fn is_gain(row: &Aim9) -> Option<bool> {
    let (_, [least, most]) = GAINS.into_iter().find(|(test, _)| *test == row.test)?;
    // Where nothing is allocated nothing is gained: a rounding below zero is none.
    Some(row.simulated_gain_percent >= least - 0.005 && row.simulated_gain_percent <= most)
}

/// Whether packets lose as much as they have to.
pub fn is_loss(row: &Softirq) -> bool {
    (LOSS[0]..=LOSS[1]).contains(&-row.change_percent)
}

fn pair(found: &Reproduction) -> Check {
    let [theirs, ours] = [found.page_bench02.published, found.page_bench02.simulated].map(|both| both.saving());
    Check::seen(
        &format!("page_bench02: saving within {PAIR} cycles"),
        is_pair(&found.page_bench02),
        format!("{ours:.1}, published {theirs:.0}"),
    )
}

fn gain(found: &Reproduction, test: Test, [least, most]: [f64; 2]) -> Check {
    let name = format!("{}: gains {least} to {most} %", test.name());
    let row = found.aim9.iter().find(|row| row.test == test && row.statistic == Statistic::Hmean);
    let Some(row) = row else { return Check::unseen(&name, "not in the table") };
    let gain = row.simulated_gain_percent;
    let detail = format!("{gain:+.2} %, published {:+.2} %", row.published_gain_percent);
    Check::seen(&name, is_gain(row) == Some(true), detail)
}

fn loss(found: &Reproduction) -> Check {
    let [least, most] = LOSS;
    let name = format!("packets: {} loses {least} to {most} %", MODES[1].name);
    let Some(row) = found.softirq.iter().find(|row| row.mode == MODES[1].name) else {
        return Check::unseen(&name, "not run");
    };
    let published = row.published_change_percent.map_or(String::new(), |change| format!(", published {change:+.1} %"));
    Check::seen(&name, is_loss(row), format!("{:+.1} %{published}", row.change_percent))
}

fn little(found: &Reproduction, mode: &str) -> Check {
    let name = format!("packets: {mode} loses less than {LITTLE} %");
    let Some(row) = found.softirq.iter().find(|row| row.mode == mode) else { return Check::unseen(&name, "not run") };
    Check::seen(&name, row.change_percent > -LITTLE, format!("{:+.1} %", row.change_percent))
}
