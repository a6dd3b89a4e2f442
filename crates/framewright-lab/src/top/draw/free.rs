//! Free pages by order and zone: a block of rows for each zone that fits, with a row for each order.
//!
//! A row has the number of free blocks, the memory in them, and a bar as long as their share of the zone's free memory.
//! Where the source tells mobilities apart, the bar is made of their letters.

use framewright::units::MigrateType;
use framewright_table::figures::{count, share};
use ratatui::text::{Line, Span};

use super::pane::Pane;
use super::units::memory;
use crate::top::map::BlockKind;
use crate::top::sample::Zone;
use crate::top::state::Screen;

/// Columns and rows of a card with eleven orders.
const CARD: (usize, usize) = (38, 13);

pub(super) fn title(top: &Screen) -> String {
    format!("Free pages: {}", top.shown().title_of_view())
}

impl Zone {
    /// As a title has it.
    fn title_of_view(&self) -> String {
        if self.name.contains(' ') { self.name.clone() } else { format!("zone {}", self.title()) }
    }
}

pub(super) fn draw(pane: &mut Pane<'_>, top: &Screen) {
    let Some(sample) = top.sample() else { return };
    let columns = (pane.width() / CARD.0).max(1);
    let rows = (pane.height() / CARD.1).max(1);
    let shown = top.shown();
    if columns * rows == 1 || top.zone().is_some() || sample.zones.len() < 2 {
        return card(pane, &shown, top.scroll);
    }
    // All together, then each, the largest first if there is no room for all.
    let mut zones: Vec<&Zone> = sample.zones.iter().collect();
    if zones.len() + 1 > columns * rows {
        zones.sort_by_key(|zone| std::cmp::Reverse(zone.managed));
    }
    let cards: Vec<&Zone> = std::iter::once(&shown).chain(zones).take(columns * rows).collect();
    let columns = columns.min(cards.len());
    let (width, height) = (pane.width() / columns, pane.height() / cards.len().div_ceil(columns));
    for (at, zone) in cards.into_iter().enumerate() {
        let mut part = pane.part((at % columns * width, at / columns * height), (width - 1, height));
        let strong = part.theme.strong();
        part.text(0, zone.title_of_view(), strong);
        let size = (part.width(), part.height().saturating_sub(1));
        card(&mut part.part((0, 1), size), zone, 0);
    }
}

/// One zone.
fn card(pane: &mut Pane<'_>, zone: &Zone, scroll: usize) {
    let rows = pane.height().saturating_sub(1).min(zone.blocks.len());
    let first = scroll.min(zone.blocks.len() - rows);
    let all: u64 = zone.free_frames().sum();
    for (row, (order, frames)) in zone.free_frames().enumerate().skip(first).take(rows).enumerate() {
        let head = format!("{order:>2} {:>7} {:>8} ", count(zone.blocks[order]), memory(frames));
        let width = pane.width().saturating_sub(head.len() + 1);
        let mut line = Line::from(Span::raw(head));
        let of_all = share(frames as f64, all as f64) / 100.0;
        match zone.types.as_ref().and_then(|types| types.get(order)) {
            Some(types) => letters(pane, types, of_all, width).for_each(|span| line.push_span(span)),
            None => line.push_span(Span::styled(pane.theme.bar(of_all, width), pane.theme.kind(BlockKind::Movable))),
        }
        pane.line(row, &line);
    }
    let brief = |frames| memory(frames).replace("iB", "").replace(' ', "");
    let [min, low, high] = zone.marks.map(brief);
    let boost = if zone.boost > 0 { format!(" boost {}", brief(zone.boost)) } else { String::new() };
    let quiet = pane.theme.quiet();
    pane.text(rows, format!("{} free, min {min} low {low} high {high}{boost}", memory(zone.free)), quiet);
}

/// A bar of the types' letters.
fn letters<'t>(
    pane: &Pane<'_>,
    types: &'t [u64; MigrateType::COUNT],
    of_all: f64,
    width: usize,
) -> impl Iterator<Item = Span<'static>> + use<'t> {
    let theme = pane.theme;
    let whole: u64 = types.iter().sum();
    let length = if of_all > 0.0 { (of_all * width as f64).round().max(1.0) as usize } else { 0 };
    let mut before = 0;
    // The rounding error goes to the next letter, so that the letters add up to the length.
    MigrateType::ALL.into_iter().filter_map(move |migratetype| {
        let blocks = types[migratetype.index()];
        let begin = (before as f64 / whole.max(1) as f64 * length as f64).round() as usize;
        before += blocks;
        let end = (before as f64 / whole.max(1) as f64 * length as f64).round() as usize;
        let kind = BlockKind::of(migratetype);
        let text = kind.letter().to_string().repeat(end - begin);
        (!text.is_empty()).then(|| Span::styled(text, theme.kind(kind)))
    })
}
