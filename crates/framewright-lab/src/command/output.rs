//! The output and the messages of a command, with control characters of foreign text made visible.
//!
//! Names and texts come from files, sockets and arguments, and a terminal would obey the control characters in them.
//! So nothing else in this crate writes to the standard output or the error stream (`ci/clippy.sh`). Only the screen of
//! `top` is drawn by ratatui, which drops control characters.
//!
//! | characters | why they are escaped |
//! |---|---|
//! | all controls but the end of a line and the tab | a terminal obeys them |
//! | those that order text from right to left, or hide how it is ordered | a name would read as another |
//! | the line and the paragraph separator | a line of foreign text would look like one of ours |

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

/// The colours that this program itself uses: reset, bold, underlined, red, green, yellow.
const COLOURS: [&str; 6] = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[4m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Writes all of the output at once, text or JSON.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write_out(&plain(text, false))
}

/// Like [`print`], for a text that has colours if the output is a terminal.
#[allow(clippy::disallowed_methods, reason = "asks whether it is a terminal")]
pub(crate) fn print_coloured(text: &str) -> anyhow::Result<()> {
    write_out(&plain(text, has_colours(&io::stdout())))
}

/// Prints the text for people, or the data for programs.
pub(crate) fn print_as(format: Format, text: &dyn Display, data: &impl Serialize) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&text.to_string()),
        Format::Json => print(&(serde_json::to_string_pretty(data)? + "\n")),
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that writes to the standard output")]
fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Whether a stream shows colours.
fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether a terminal, or a reader's eye, takes a character for more than itself.
fn is_obeyed(c: char) -> bool {
    let is_order = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_break = matches!(c, '\u{2028}' | '\u{2029}');
    c.is_control() && !matches!(c, '\n' | '\t') || is_order || is_break
}

/// Escapes what a terminal would obey, but for the ends of lines, tabs and, if they are meant, the colours of our own.
///
/// The escapes are those of JSON, so that a document stays one.
fn plain(text: &str, has_colours: bool) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(is_obeyed) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let colour = COLOURS.iter().find(|colour| has_colours && rest.starts_with(**colour));
        let length = match (colour, rest.chars().next()) {
            (Some(colour), _) => {
                plain.push_str(colour);
                colour.len()
            }
            (None, Some(c)) => {
                plain.push_str(&format!("\\u{:04x}", u32::from(c)));
                c.len_utf8()
            }
            (None, None) => break,
        };
        rest = &rest[length..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Writes a message to the error stream. Failures are ignored: a terminal that is gone is no reason to stop.
pub(crate) fn note(text: &str) {
    write_error(&(printable(text) + "\n"));
}

#[allow(clippy::disallowed_methods, reason = "the one place that writes to the error stream")]
fn write_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints what the parser of arguments answers: the help that was asked for, or a message that quotes arguments.
#[allow(clippy::disallowed_methods, reason = "asks whether the streams are terminals")]
pub(crate) fn answer(parsed: &clap::Error) -> ExitCode {
    let text = parsed.render();
    let is_coloured = if parsed.use_stderr() { has_colours(&io::stderr()) } else { has_colours(&io::stdout()) };
    let text = if is_coloured { text.ansi().to_string() } else { text.to_string() };
    let text = plain(&text, is_coloured);
    if parsed.use_stderr() {
        write_error(&text);
    } else {
        // A reader that is gone needs no help.
        let _ = write_out(&text);
    }
    ExitCode::from(u8::try_from(parsed.exit_code()).unwrap_or(2))
}

/// A message for a terminal, with control characters escaped, because it may quote foreign text.
pub(crate) fn printable(message: &str) -> String {
    message.trim_end().chars().fold(String::new(), |mut text, c| {
        if is_obeyed(c) || c == '\t' {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
        text
    })
}

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,.:/+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_has_nothing_that_a_terminal_obeys() {
        assert!(matches!(plain("two\nlines\tand \u{fc}", false), Cow::Borrowed(_)));
        let all: String = (0..0x3000_u32).filter_map(char::from_u32).collect();
        for shown in [plain(&all, false), plain(&all, true), printable(&all).into()] {
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
            assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{2028}', '\u{200f}', '\u{61c}']));
        }
        assert_eq!(plain("a\u{1b}]0;b\u{7}\rc\u{9b}d\u{7f}", true), "a\\u001b]0;b\\u0007\\u000dc\\u009bd\\u007f");
        // Colours of our own alone, and none where there is no terminal.
        let coloured = "\u{1b}[1mbold\u{1b}[0m \u{1b}[8mhidden\u{1b}[2J";
        assert_eq!(plain(coloured, true), "\u{1b}[1mbold\u{1b}[0m \\u001b[8mhidden\\u001b[2J");
        assert!(!plain(coloured, false).contains('\u{1b}'));
        // A document keeps its meaning.
        let name = "zo\u{9b}1mne\u{7f}\u{202e}".to_owned();
        let document = serde_json::to_string(&name).unwrap();
        assert_eq!(serde_json::from_str::<String>(&plain(&document, false)).unwrap(), name);
    }
}
