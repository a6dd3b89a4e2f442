//! The pageblocks in the order of addresses; a letter stands for as many as are needed to show all.

use ratatui::text::{Line, Span};

use super::pane::Pane;
use super::units::{PAGE, bytes};
use crate::top::map::{cells, scale};
use crate::top::state::Screen;

pub(super) fn title(top: &Screen) -> String {
    let map = top.sample().and_then(|sample| sample.map.as_ref().ok());
    match map {
        Some(map) if map.by_content => "Pageblocks by content".to_owned(),
        Some(_) => "Pageblocks by type".to_owned(),
        None => "Pageblocks".to_owned(),
    }
}

pub(super) fn draw(pane: &mut Pane<'_>, top: &Screen) {
    let Some(sample) = top.sample() else { return };
    let map = match &sample.map {
        Ok(map) => map,
        Err(reason) => return pane.waiting(reason),
    };
    let blocks = map.of_zone(top.zone().map(|zone| zone as u16));
    let legend = 2.min(pane.height().saturating_sub(1));
    let rows = pane.height() - legend;
    let scale = scale(blocks.len(), pane.width() * rows);
    let cells = cells(&blocks, scale);
    for (row, cells) in cells.chunks(pane.width().max(1)).enumerate() {
        // Cells that look alike are one span.
        let spans = cells.chunk_by(|a, b| a.kind == b.kind).map(|run| {
            let text: String = run.iter().map(|cell| cell.letter).collect();
            let kind = run.first().and_then(|cell| cell.kind);
            Span::styled(text, kind.map_or(pane.theme.quiet(), |kind| pane.theme.kind(kind)))
        });
        let line: Line<'_> = spans.collect();
        pane.line(row, &line);
    }
    let mut line = Line::from(Span::raw(". free "));
    for kind in top.kinds() {
        let (name, short) = kind.name();
        line.push_span(Span::styled(kind.letter().to_string(), pane.theme.kind(kind)));
        line.push_span(Span::raw(format!(" {} ", if pane.width() < 60 { short } else { name })));
    }
    pane.line(rows, &line);
    let state = match map.percent_read() {
        percent if percent < 100.0 => format!(", {percent:.0} % read"),
        _ if map.age >= 1.5 => format!(", {:.0} s old", map.age),
        _ => String::new(),
    };
    let size = bytes(scale as f64 * map.pageblock as f64 * PAGE);
    let quiet = pane.theme.quiet();
    pane.text(rows + 1, format!("{size} a letter{state}, CAPITAL: half in use"), quiet);
}
