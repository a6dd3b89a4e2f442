//! The keys: a line at the foot, and the full list with the meanings of the panels.

use ratatui::text::{Line, Span};

use super::pane::{Pane, wrapped};
use super::theme::Theme;
use super::units::time;
use crate::top::state::{Screen, TimeBase};

/// Keys, and what they do. The first ones are the last to go when there is no room.
const KEYS: [(&str, &str); 9] = [
    ("q, Esc, Ctrl-C", "leave (Esc leaves help and zoom first)"),
    ("space", "pause, and go on"),
    ("Tab, left, right", "next panel, or the one before"),
    ("1 to 5", "this panel"),
    ("Enter, f", "zoom the panel, and back"),
    ("up, down", "scroll the panel"),
    ("+, -", "more, or less, time between samples"),
    ("z, Z", "next zone, or the one before; all together"),
    ("?, h", "this"),
];

/// The meanings of the panels.
const PANELS: [&str; 5] = [
    "1 free blocks by order; the bar is their share of the free memory, its letters their mobility",
    "2 pageblocks from the lowest address; a capital is half in use, a dot is free",
    "3 locks: takings that found them taken, and the share of all CPUs' time spent waiting",
    "4 pages in each CPU's list, of the number at which it is drained",
    "5 events a second, and over the last samples",
];

/// The foot.
pub(super) fn keys(pane: &mut Pane<'_>, top: &Screen) {
    let every = format!("every {}", time(top.every));
    let pause = if top.is_paused { "go on" } else { "pause" };
    let items = [
        ("q", "quit"),
        ("?", "help"),
        ("space", pause),
        ("Tab", "panel"),
        ("Enter", "zoom"),
        ("z", "zone"),
        ("+-", &every),
        ("1-5", "panel"),
    ];
    let mut line = Line::default();
    for (key, does) in items {
        let width = key.len() + 1 + does.chars().count() + 2;
        if line.width() + width > pane.width() + 2 {
            break;
        }
        line.push_span(Span::styled(key.to_owned(), pane.theme.key()));
        line.push_span(Span::raw(format!(" {does}  ")));
    }
    pane.line(0, &line);
}

/// Columns of the keys, where the screen is wide enough.
const NAMES: usize = 18;

pub(super) fn draw(pane: &mut Pane<'_>, top: &Screen) {
    let lines = lines(pane.width(), pane.theme, top);
    let rows = pane.height().saturating_sub(1);
    let most = lines.len().saturating_sub(rows);
    let first = top.help_scroll.min(most);
    let more = if first < most { ": down for more" } else { "" };
    let mut inside = pane.titled(&format!(" Keys{more}"), true);
    lines.iter().skip(first).take(rows).enumerate().for_each(|(row, line)| inside.line(row, line));
}

/// All of it, as wide as there is room for.
fn lines(width: usize, theme: Theme, top: &Screen) -> Vec<Line<'static>> {
    let clock = match top.about.clock {
        TimeBase::Wall => "Numbers are the source's own; docs/top.md says where each is from.",
        TimeBase::Simulated => "Times are simulated ones; docs/top.md says where each number is from.",
    };
    let mut lines = Vec::new();
    for (key, does) in KEYS {
        let parts = wrapped(does, width.saturating_sub(NAMES).max(1));
        lines.extend(parts.into_iter().enumerate().map(|(at, part)| {
            let name = if at == 0 { format!(" {key}") } else { String::new() };
            Line::from(vec![Span::styled(format!("{name:<NAMES$}"), theme.key()), Span::raw(part)])
        }));
    }
    let words = PANELS.into_iter().chain([clock, "Other keys than up and down close this."]);
    lines.extend(words.flat_map(|text| wrapped(text, width)).map(Line::from));
    lines
}
