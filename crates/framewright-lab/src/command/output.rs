//! Where a command's output and its messages go, and what is done to text that somebody else wrote.

use std::borrow::Cow;
use std::io::{self, Write};

use clap::ValueEnum;

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

/// The same for what a program reads that takes control characters for what they are.
pub(crate) fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// An output without control characters but the ends of lines and tabs: names in it may be somebody else's, out of a
/// file or from a peer, and a terminal would obey them. They are escaped as JSON escapes them, so that a document stays
/// one.
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

/// Says something on the error stream; nobody has to listen, and a terminal that is gone is no reason to stop.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

/// A message for a terminal: what it quotes may be somebody else's, so control characters are escaped.
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
        // A document says the same afterwards.
        let name = "zo\u{9b}1mne\u{7f}".to_owned();
        let document = serde_json::to_string(&name).unwrap();
        assert_eq!(serde_json::from_str::<String>(&plain(&document)).unwrap(), name);
    }
}
