//! The screen: three lines about the source, five panels, a line of keys.
//!
//! From 78 columns and 20 rows on, all panels are shown; below that, only the focused one; below 40 columns and 10
//! rows, a sentence that says so. Drawing depends on the state, the theme and the size alone, so a terminal, `--once`
//! and a test get equal frames.

mod help;
mod free;
mod map;
mod locks;
mod pcp;
mod events;
mod pane;
mod theme;
mod units;

use framewright_table::figures::{fitted, share};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use self::pane::Pane;
pub use self::theme::Theme;
use self::units::{memory, time};
use super::sample::EVENTS;
use super::state::{Panel, Screen, TimeBase};

/// Columns and rows below which nothing is shown.
pub const LEAST: (u16, u16) = (40, 10);
/// Columns and rows from which on all panels are shown.
const ALL: (u16, u16) = (78, 20);
/// Rows of the head.
const HEAD: usize = 3;

/// Draws all of it.
pub fn draw(top: &Screen, theme: Theme, buffer: &mut Buffer) {
    let area = *buffer.area();
    let mut pane = Pane::new(buffer, area, theme);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let (has, needs) = (area.as_size(), LEAST);
        let text =
            format!("{}x{} is too small for top: it needs {}x{}. q quits.", has.width, has.height, needs.0, needs.1);
        pane.words(0, &text, Style::new());
        return;
    }
    head(&mut pane, top);
    let (width, height) = (pane.width(), pane.height());
    let mut middle = pane.part((0, HEAD), (width, height - HEAD - 1));
    if top.shows_help {
        help::draw(&mut middle, top);
    } else if top.sample().is_none() {
        let text = top.ended.as_deref().unwrap_or("waiting for the first sample");
        middle.words(1, text, Style::new());
    } else if top.is_zoomed || area.width < ALL.0 || area.height < ALL.1 {
        panel(&mut middle, top, top.focus);
    } else {
        panels(&mut middle, top);
    }
    help::keys(&mut pane.part((0, height - 1), (width, 1)), top);
}

/// A frame as text, as wide and high as asked for.
pub fn frame(top: &Screen, theme: Theme, (width, height): (u16, u16)) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(top, theme, &mut buffer);
    let rows = buffer.content().chunks(usize::from(width.max(1)));
    let row = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(|cell| cell.symbol()).collect();
        text.trim_end().to_owned() + "\n"
    };
    rows.map(row).collect()
}

/// The source, its state, and the share of free memory.
fn head(pane: &mut Pane<'_>, top: &Screen) {
    let theme = pane.theme;
    let right = state(top);
    let room = pane.width().saturating_sub(right.chars().count() + 2);
    let about = &top.about;
    let source =
        if about.machine.is_empty() { about.source.clone() } else { format!("{}, {}", about.source, about.machine) };
    pane.text(0, fitted(&source, room), theme.strong());
    pane.right(0, &right, if top.is_paused || top.ended.is_some() { theme.warning() } else { Style::new() });
    pane.text(1, fitted(&about.mechanisms, pane.width()), theme.quiet());
    let Some(sample) = top.sample() else { return };
    let (managed, free, listed) = sample.memory();
    let percent = share(free as f64, managed as f64);
    let text = format!("free {} of {} ({percent:.0} %)", memory(free), memory(managed));
    let listed = format!("  in CPUs' lists {}", memory(listed));
    let listed = if text.len() + listed.len() <= pane.width() { listed } else { String::new() };
    let width = pane.width().saturating_sub(text.len() + listed.len() + 2).min(40);
    let bar = theme.bar(percent / 100.0, width);
    pane.line(2, &Line::from(vec![Span::raw(text + "  "), Span::styled(bar, theme.level(0.0)), Span::raw(listed)]));
    if let Some(ended) = &top.ended {
        let width = pane.width();
        pane.text(2, format!("{:<width$}", fitted(ended, width)), theme.warning());
    }
}

/// The state of the source: paused, ended, or its speed.
fn state(top: &Screen) -> String {
    let at = top.sample().map_or(0.0, |sample| sample.at);
    let at = match top.about.clock {
        TimeBase::Wall => String::new(),
        TimeBase::Simulated => format!("at {}, ", time(at)),
    };
    let speed = top.speed.map(|speed| format!("{} a second, ", time(speed))).unwrap_or_default();
    match () {
        () if top.ended.is_some() => format!("{at}ENDED"),
        () if top.is_paused => format!("{at}PAUSED"),
        () => format!("{at}{speed}every {}", time(top.every)),
    }
}

/// All panels, each in its place.
fn panels(pane: &mut Pane<'_>, top: &Screen) {
    let (width, height) = (pane.width(), pane.height());
    // Eleven orders, the marks and a title; further rows go to the pageblocks, once all events have one.
    let upper = height.saturating_sub(EVENTS.len() + 1).max(13);
    let (left, right) = (width / 2, width - width / 2 - 1);
    panel(&mut pane.part((0, 0), (left, upper)), top, Panel::Free);
    panel(&mut pane.part((left + 1, 0), (right, upper)), top, Panel::Map);
    let widths = [width * 33 / 100, width * 26 / 100];
    let mut at = 0;
    for (of, width) in [Panel::Locks, Panel::Pcp, Panel::Events].into_iter().zip([
        widths[0],
        widths[1],
        width - widths[0] - widths[1] - 2,
    ]) {
        panel(&mut pane.part((at, upper), (width, height - upper)), top, of);
        at += width + 1;
    }
}

fn panel(pane: &mut Pane<'_>, top: &Screen, panel: Panel) {
    type Title = fn(&Screen) -> String;
    type Draw = fn(&mut Pane<'_>, &Screen);
    let (title, draw): (Title, Draw) = match panel {
        Panel::Free => (free::title, free::draw),
        Panel::Map => (map::title, map::draw),
        Panel::Locks => (locks::title, locks::draw),
        Panel::Pcp => (pcp::title, pcp::draw),
        Panel::Events => (events::title, events::draw),
    };
    let has_focus = panel == top.focus;
    let number = panel.number();
    let mark = if has_focus { format!("[{number}]") } else { format!(" {number} ") };
    draw(&mut pane.titled(&format!("{mark} {}", title(top)), has_focus), top);
}
