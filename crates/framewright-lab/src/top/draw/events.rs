//! Events per second, now and over the last samples.

use framewright_table::figures::{count, fitted};
use ratatui::text::{Line, Span};

use super::pane::Pane;
use crate::top::sample::EVENTS;
use crate::top::state::{Screen, TimeBase};

/// Columns of the name and of the number.
const NAME: usize = 16;
const NUMBER: usize = 7;

pub(super) fn title(top: &Screen) -> String {
    match top.about.clock {
        TimeBase::Wall => "Events a second".to_owned(),
        TimeBase::Simulated => "Events a simulated second".to_owned(),
    }
}

pub(super) fn draw(pane: &mut Pane<'_>, top: &Screen) {
    let Some(sample) = top.sample() else { return };
    let counted = |&row: &usize| sample.counts[row].is_some();
    let rows: Vec<usize> = (0..EVENTS.len()).filter(counted).collect();
    let first = top.scroll.min(rows.len().saturating_sub(pane.height()));
    for (at, &row) in rows.iter().skip(first).take(pane.height()).enumerate() {
        let rate = top.between().and_then(|between| between.rates[row]);
        let number = rate.map_or_else(|| "-".to_owned(), told);
        let head = format!("{:<NAME$}{number:>NUMBER$} ", fitted(EVENTS[row].name, NAME));
        let curve = curve(pane, top, row, pane.width().saturating_sub(NAME + NUMBER + 1));
        let style = pane.theme.level(0.0);
        pane.line(at, &Line::from(vec![Span::raw(head), Span::styled(curve, style)]));
    }
}

/// A rate: tenths below ten.
fn told(rate: f64) -> String {
    if rate > 0.0 && rate < 9.95 { format!("{rate:.1}") } else { count(rate.round() as u64) }
}

/// The newest at the right, as high as they are beside the highest of them.
fn curve(pane: &Pane<'_>, top: &Screen, row: usize, width: usize) -> String {
    let mut newest: Vec<f64> = top.history(row).rev().take(width).collect();
    newest.reverse();
    let most = newest.iter().copied().fold(0.0, f64::max);
    let heights: String =
        newest.iter().map(|&rate| pane.theme.height(if most > 0.0 { rate / most } else { 0.0 })).collect();
    format!("{heights:>width$}")
}
