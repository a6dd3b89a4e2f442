//! The output and the messages of a command, with control characters of foreign text made visible.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Writes all of the output at once, text or JSON. Every command's output goes through here, but for shells' scripts
/// and the benchmark's lines as they come, which quote no file.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_as_it_is(&plain(text))
}

/// Prints the text for people, or the data for programs.
pub(crate) fn print_as(format: Format, text: &dyn Display, data: &impl Serialize) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&text.to_string()),
        Format::Json => print(&(serde_json::to_string_pretty(data)? + "\n")),
    }
}

/// Like [`print`], with control characters as they are, for a program that reads them.
pub(crate) fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Escapes all control characters of an output but the ends of lines and tabs.
///
/// Names in it may come from a file or a peer, and a terminal would obey control characters in them. They are escaped
/// as JSON escapes them, so that a document stays one.
fn plain(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let escape = |mut plain: String, c: char| {
        if is_obeyed(c) {
            plain.push_str(&format!("\\u{:04x}", u32::from(c)))
        } else {
            plain.push(c)
        }
        plain
    };
    Cow::Owned(text.chars().fold(String::with_capacity(text.len()), escape))
}

/// Writes a message to the error stream. Failures are ignored: a terminal that is gone is no reason to stop.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

/// A message for a terminal, with control characters escaped, because it may quote foreign text.
pub(crate) fn printable(message: &str) -> String {
    message.trim_end().chars().fold(String::new(), |mut text, c| {
        if c.is_control() && c != '\n' {
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
        assert!(matches!(plain("two\nlines\tand \u{fc}"), Cow::Borrowed(_)));
        let all: String = (0..0x100_u32).filter_map(char::from_u32).collect();
        assert!(!plain(&all).contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        assert_eq!(plain("a\u{1b}]0;b\u{7}\rc\u{9b}d\u{7f}"), "a\\u001b]0;b\\u0007\\u000dc\\u009bd\\u007f");
        // A document keeps its meaning.
        let name = "zo\u{9b}1mne\u{7f}".to_owned();
        let document = serde_json::to_string(&name).unwrap();
        assert_eq!(serde_json::from_str::<String>(&plain(&document)).unwrap(), name);
    }
}
