//! How full the per-CPU lists are: a row for each CPU, or a letter's height if there are more than rows.

use framewright_table::figures::share;
use framewright_trace::proc::PageSet;
use ratatui::text::{Line, Span};

use super::pane::Pane;
use super::units::memory;
use crate::top::state::Screen;

/// Columns of a row of its own.
const ROW: usize = 26;

pub(super) fn title(_: &Screen) -> String {
    "Per-CPU lists".to_owned()
}

pub(super) fn draw(pane: &mut Pane<'_>, top: &Screen) {
    let zone = top.shown();
    let sets = &zone.pcps;
    let columns = (pane.width() / ROW).max(1);
    let (rows, quiet) = (pane.height().saturating_sub(1), pane.theme.quiet());
    if sets.is_empty() {
        return;
    }
    if sets.len() <= columns * rows {
        let rows = sets.len().div_ceil(columns);
        // One width for all numbers, so that bars can be compared.
        let tail = sets.iter().map(|set| numbers(set).len()).max().unwrap_or(0).max(10);
        for (at, set) in sets.iter().enumerate() {
            let (width, x) = (pane.width() / columns, at / rows * (pane.width() / columns));
            row(&mut pane.part((x, at % rows), (width.saturating_sub(1), 1)), set, tail);
        }
        return pane.text(rows, told(sets, pane.width()), quiet);
    }
    // Eight CPUs a group, so that one can count.
    let group = |width: usize| (width.saturating_sub(4) / 9 * 8).max(8);
    let each = group(pane.width());
    let first = top.scroll.min(sets.len().div_ceil(each).saturating_sub(rows));
    for (at, some) in sets.chunks(each).skip(first).take(rows).enumerate() {
        let mut line = Line::from(Span::styled(format!("{:>4}", some[0].cpu), quiet));
        for eight in some.chunks(8) {
            let heights: String = eight.iter().map(|set| pane.theme.height(fill(set))).collect();
            line.push_span(Span::raw(" "));
            line.push_span(Span::styled(heights, pane.theme.level(0.0)));
        }
        pane.line(at, &line);
    }
    pane.text(rows.min(sets.len().div_ceil(each)), told(sets, pane.width()), quiet);
}

/// Frames of `high` that are in the list.
fn fill(set: &PageSet) -> f64 {
    share(set.count as f64, set.high as f64) / 100.0
}

fn numbers(set: &PageSet) -> String {
    format!(" {}/{}", set.count, set.high)
}

fn row(pane: &mut Pane<'_>, set: &PageSet, tail: usize) {
    let head = format!("{:>3} ", set.cpu);
    let width = pane.width().saturating_sub(head.len() + tail);
    let bar = pane.theme.bar(fill(set), width);
    let gap = " ".repeat(width - bar.chars().count());
    let line = vec![
        Span::styled(head, pane.theme.quiet()),
        Span::styled(bar, pane.theme.level(fill(set))),
        Span::raw(gap + &numbers(set)),
    ];
    pane.line(0, &Line::from(line));
}

/// All of them in words, as many as there is room for.
fn told(sets: &[PageSet], room: usize) -> String {
    let (count, high) = sets.iter().fold((0, 0), |(count, high), set| (count + set.count, high + set.high));
    let text = format!("{} of {}", memory(count), memory(high));
    let longer = format!("{text} in {} lists", sets.len());
    if longer.len() <= room { longer } else { text }
}
