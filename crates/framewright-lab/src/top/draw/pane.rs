//! A rectangle of the screen, and the lines that are written to it. Lines are cut at its edge.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::theme::Theme;

/// A rectangle of the screen to draw on.
pub(crate) struct Pane<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
    pub(crate) theme: Theme,
}

impl<'b> Pane<'b> {
    pub(crate) fn new(buffer: &'b mut Buffer, area: Rect, theme: Theme) -> Pane<'b> {
        let area = area.intersection(*buffer.area());
        Pane { buffer, area, theme }
    }

    pub(crate) fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    pub(crate) fn height(&self) -> usize {
        usize::from(self.area.height)
    }

    /// A part of it: from the corner `(x, y)` on, `width` columns and `height` rows.
    pub(crate) fn part(&mut self, (x, y): (usize, usize), (width, height): (usize, usize)) -> Pane<'_> {
        let clip = |value: usize| u16::try_from(value).unwrap_or(u16::MAX);
        let part = Rect {
            x: self.area.x.saturating_add(clip(x)),
            y: self.area.y.saturating_add(clip(y)),
            width: clip(width),
            height: clip(height),
        };
        let area = part.intersection(self.area);
        Pane { buffer: self.buffer, area, theme: self.theme }
    }

    /// Writes a row, from its beginning.
    pub(crate) fn line(&mut self, row: usize, line: &Line<'_>) {
        if row < self.height() {
            self.buffer.set_line(self.area.x, self.area.y + row as u16, line, self.area.width);
        }
    }

    /// Writes a row in one style.
    pub(crate) fn text(&mut self, row: usize, text: impl Into<String>, style: Style) {
        self.line(row, &Line::from(Span::styled(text.into(), style)));
    }

    /// Writes at the end of a row.
    pub(crate) fn right(&mut self, row: usize, text: &str, style: Style) {
        let width = text.chars().count().min(self.width());
        self.part((self.width() - width, row), (width, 1)).text(0, text, style);
    }

    /// Writes words from `row` on, as many a row as there is room for; returns the number of rows.
    pub(crate) fn words(&mut self, row: usize, text: &str, style: Style) -> usize {
        let lines = wrapped(text, self.width());
        lines.iter().enumerate().for_each(|(at, line)| self.text(row + at, line.clone(), style));
        lines.len()
    }

    /// Writes why a panel has nothing to show.
    pub(crate) fn waiting(&mut self, reason: &str) {
        let quiet = self.theme.quiet();
        let mut row = 0;
        for paragraph in reason.lines() {
            row += self.words(row, paragraph, quiet);
        }
    }

    /// Writes the title and a line; returns the part below.
    pub(crate) fn titled(&mut self, title: &str, has_focus: bool) -> Pane<'_> {
        let (width, rule, theme) = (self.width(), self.theme.rule(), self.theme);
        let title: String = title.chars().take(width).collect();
        let rest = rule.repeat(width.saturating_sub(title.chars().count() + 1));
        let title = Span::styled(title, theme.title(has_focus));
        self.line(0, &Line::from(vec![title, Span::raw(" "), Span::styled(rest, theme.quiet())]));
        self.part((0, 1), (width, self.height().saturating_sub(1)))
    }
}

/// Breaks words into lines of at most `width` characters; a longer word has a line of its own.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
