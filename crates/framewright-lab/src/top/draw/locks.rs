//! Waits for each lock between the last two samples.

use framewright_table::figures::{count, duration, fitted, percent, share};

use super::pane::Pane;
use crate::top::state::Screen;

/// Columns after the name, without and with the details.
const NUMBERS: usize = 12;
const DETAILS: usize = 20;

pub(super) fn title(_: &Screen) -> String {
    "Locks".to_owned()
}

pub(super) fn draw(pane: &mut Pane<'_>, top: &Screen) {
    let Some(sample) = top.sample() else { return };
    if let Err(reason) = &sample.locks {
        return pane.waiting(reason);
    }
    let Some(between) = top.between() else { return };
    let is_wide = pane.width() >= 24 + NUMBERS + DETAILS;
    let name = pane.width().saturating_sub(NUMBERS + if is_wide { DETAILS } else { 0 });
    let details = if is_wide { format!("{:>9}{:>11}", "taken", "waited") } else { String::new() };
    let quiet = pane.theme.quiet();
    pane.text(0, format!("{:<name$}{:>5}{:>7}{details}", "", "found", "CPU"), quiet);
    pane.text(1, format!("{:<name$}{:>5}{:>7}", "", "taken", "time"), quiet);
    if between.locks.is_empty() {
        pane.words(2, "no lock was taken", quiet);
    }
    let rows = pane.height().saturating_sub(2);
    let first = top.scroll.min(between.locks.len().saturating_sub(rows));
    let all = between.seconds * top.about.cpus.max(1) as f64;
    for (row, lock) in between.locks.iter().skip(first).take(rows).enumerate() {
        let found = format!("{} %", whole_percent(share(lock.contended as f64, lock.taken as f64)));
        let time = share(lock.waited, all);
        let head =
            format!("{:<name$}{found:>5}{:>5} %", fitted(&short(&lock.name), name.saturating_sub(1)), percent(time));
        let details = format!("{:>9}{:>11}", count(lock.taken), duration(lock.waited * 1e9));
        let style = if time >= 5.0 { pane.theme.warning() } else { ratatui::style::Style::new() };
        pane.text(row + 2, if is_wide { head + &details } else { head }, style);
    }
}

fn whole_percent(value: f64) -> String {
    if value > 0.0 && value < 1.0 { "<1".to_owned() } else { format!("{value:.0}") }
}

/// A lock's name in fewer words: `zone lock, Node 0, zone Normal` is `N0 Normal`, `depot shard 7 lock, Node 1` is
/// `depot 7 N1`.
fn short(name: &str) -> String {
    let name = name.replace("depot shard ", "depot ").replace(" lock, ", ", ").replace(", Node ", " N");
    let name = name.replace(", zone ", " ");
    name.strip_prefix("zone ").map_or(name.clone(), ToOwned::to_owned)
}
