//! Colours and characters of the screen: at most sixteen colours, or none, and characters that the terminal has.
//!
//! Colours only repeat what letters, bars and brackets say, so nothing is lost without them. `NO_COLOR` in the
//! environment switches colours off (no-color.org). A locale other than UTF-8 switches off the characters for blocks
//! and lines.

use ratatui::style::{Color, Modifier, Style};

use crate::top::map::BlockKind;

/// The colours and the characters of the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Theme {
    /// Whether there are colours.
    pub has_colours: bool,
    /// Whether there is more than ASCII.
    pub has_blocks: bool,
}

/// Heights of a small curve, the lowest first.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// ASCII characters instead of blocks and lines.
const PLAIN: [char; 9] = [' ', '_', '.', ':', '-', '=', '+', '*', '#'];

impl Theme {
    /// Of the program's surroundings.
    pub fn of_environment() -> Theme {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        // As in setlocale(3): the first that is set counts.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
        let has_blocks = locale.contains("utf-8") || locale.contains("utf8");
        Theme { has_colours: set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"), has_blocks }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// For text that matters less.
    pub(crate) fn quiet(self) -> Style {
        if self.has_colours { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }

    /// For text that matters most.
    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// For errors, and for a source that stands still.
    pub(crate) fn warning(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Names of keys.
    pub(crate) fn key(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// The title of a panel.
    pub(crate) fn title(self, has_focus: bool) -> Style {
        if has_focus { Style::new().add_modifier(Modifier::REVERSED) } else { self.coloured(Color::Cyan) }
    }

    /// A kind of pageblock.
    pub(crate) fn kind(self, kind: BlockKind) -> Style {
        self.coloured(match kind {
            BlockKind::Movable => Color::Green,
            BlockKind::Unmovable => Color::Red,
            BlockKind::Reclaimable => Color::Blue,
            BlockKind::Mixed => Color::Magenta,
            BlockKind::HighAtomic | BlockKind::Cma | BlockKind::Isolate => Color::Cyan,
            BlockKind::Other | BlockKind::Away | BlockKind::Unread => Color::DarkGray,
        })
    }

    /// A bar's colour by how full it is.
    pub(crate) fn level(self, share: f64) -> Style {
        self.coloured(if share >= 0.9 { Color::Yellow } else { Color::Green })
    }

    /// A bar of `width` columns, filled to this share.
    pub(crate) fn bar(self, share: f64, columns: usize) -> String {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let eighths = (share * columns as f64 * 8.0).round() as usize;
        // A share above zero shows at least one character.
        let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
        let (full, rest) = if self.has_blocks { (eighths / 8, eighths % 8) } else { (eighths.div_ceil(8), 0) };
        let parts = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
        let mut bar: String = std::iter::repeat_n(if self.has_blocks { '█' } else { '#' }, full.min(columns)).collect();
        bar.extend(rest.checked_sub(1).and_then(|part| parts.get(part)).filter(|_| full < columns));
        bar
    }

    /// A curve's height: nothing, or one of eight.
    pub(crate) fn height(self, share: f64) -> char {
        let steps = if self.has_blocks { BLOCKS } else { PLAIN };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        steps[if share > 0.0 { ((share * 8.0).round() as usize).clamp(1, 8) } else { 0 }]
    }

    /// The character of a title's line.
    pub(crate) fn rule(self) -> &'static str {
        if self.has_blocks { "─" } else { "-" }
    }
}
