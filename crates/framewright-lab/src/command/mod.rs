//! The subcommands: arguments in, a call of the library, output out.

mod advice;
pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod doctor;
pub(crate) mod explain;
mod file;
mod folder;
pub(crate) mod list_mechanisms;
pub(crate) mod man;
pub(crate) mod ops;
pub(crate) mod replay;
pub(crate) mod proc;
pub(crate) mod record;
mod recording;
pub(crate) mod reproduce;
mod runs;
pub(crate) mod sim;
pub(crate) mod stress;
pub(crate) mod sweep;
pub(crate) mod top;

use std::borrow::Cow;
use std::io::{self, Write};

use clap::{Args, ValueEnum};
pub(crate) use framewright_lab::mechanisms;
use framewright_trace::flags::{KernelVersion, Kernels};
use framewright_trace::text::{Numbering, TextOptions};

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// A check found something wrong, and has said so.
#[derive(Debug, thiserror::Error)]
#[error("something is wrong")]
pub(crate) struct Violated;

/// A program that was run for the user ended with this code, and so do we.
#[derive(Debug, thiserror::Error)]
#[error("the command ended with code {0}")]
pub(crate) struct Ended(pub(crate) u8);

/// Writes all of the output at once, text or JSON. Every command's output goes through here, but for shells' scripts and the
/// benchmark's lines as they come, which quote no file.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_as_it_is(&plain(text))
}

/// The same for what a program reads that takes control characters for what they are.
pub(crate) fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// An output without control characters but the ends of lines and tabs: names in it may be somebody else's, out of a file or from a peer, and
/// a terminal would obey them. They are escaped as JSON escapes them, so that a document stays one.
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

pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// How to read a text trace.
#[derive(Args)]
#[command(next_help_heading = "Reading a text trace")]
pub(crate) struct Reading {
    /// Count malformed lines and go on, instead of stopping at the first.
    #[arg(long)]
    lenient: bool,
    /// Address of frame 0's page descriptor, for page moves recorded under address randomisation, as 0xffffea0000000000.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    vmemmap: Option<u64>,
    /// How the kernel numbers mobilities, where the trace does not tell.
    #[arg(long, value_enum, value_name = "KERNEL")]
    migratetypes: Option<Kernel>,
    /// Version of the kernel, for flags printed as numbers (gfp_flags=0x820) where the trace does not tell it, as 4.19.
    #[arg(long, value_name = "VERSION")]
    kernel: Option<KernelVersion>,
}

/// Numbering of mobilities by the kernel's age.
#[derive(Clone, Copy, ValueEnum)]
enum Kernel {
    /// Linux 4.4 and later: 1 is movable, 2 reclaimable.
    #[value(name = "since-4.4")]
    Since4_4,
    /// Before: 1 is reclaimable, 2 movable.
    #[value(name = "before-4.4")]
    Before4_4,
}

impl Reading {
    pub(crate) fn options(&self) -> TextOptions {
        let numbering = self.migratetypes.map(|kernel| match kernel {
            Kernel::Since4_4 => Numbering::MovableFirst,
            Kernel::Before4_4 => Numbering::ReclaimableFirst,
        });
        TextOptions {
            lenient: self.lenient,
            vmemmap: self.vmemmap,
            numbering: numbering.or(self.kernel.map(Numbering::of)),
            kernels: self.kernel.map_or(Kernels::ALL, Kernels::of),
            ..TextOptions::default()
        }
    }
}

fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "is no hexadecimal address".to_owned())
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
