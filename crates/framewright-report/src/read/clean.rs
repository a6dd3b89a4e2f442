//! Lines of a log as the kernel printed them, without what loggers, mails and web pages put around them.
//!
//! | around a line | example |
//! |---|---|
//! | level, time, caller | `<4>[12345.678901][ T1234] ` |
//! | a syslog or journal head | `Jan  1 00:00:00 host kernel: ` |
//! | `dmesg -x` | `kern  :warn  : ` |
//! | a mail's quote | `> > ` |
//! | rsyslog's escape of an end of line | `#012` |
//! | a web page's escapes and tags | `&gt;`, `<br>` |
//! | a terminal's colours, a CR | `\x1b[33m` |

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// Longest line that is read whole, in bytes; the rest of a longer one is ignored.
pub(super) const LINE_LIMIT: usize = 1 << 16;

/// Compiles a pattern of this program.
pub(super) fn pattern(text: &str) -> Regex {
    #[allow(clippy::expect_used, reason = "a constant of the program, which the tests compile")]
    Regex::new(text).expect("a pattern of the program")
}

/// A line as the kernel printed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Body<'t> {
    /// The text.
    pub(super) text: &'t str,
    /// Who printed it, as `T1234` or `C2`, if the log says so.
    pub(super) caller: &'t str,
}

/// Removes escapes, tags and control sequences. The result may have several lines.
pub(super) fn unescaped(line: &str) -> Cow<'_, str> {
    static CONTROL: LazyLock<Regex> = LazyLock::new(|| pattern(r"\x1b\[[0-9;]*[A-Za-z]|[\r\x00]"));
    static BREAK: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)<br ?/?>|#012|</?p>|\\n"));
    static TAG: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?i)</?(?:pre|code|span|div|tt|blockquote)\b[^<>]*>"#));
    let end = (0..=line.len().min(LINE_LIMIT)).rev().find(|&end| line.is_char_boundary(end)).unwrap_or(0);
    let line = &line[..end];
    let mut text = Cow::Borrowed(line);
    for (is_there, pattern, with) in [
        (line.contains(['\x1b', '\r', '\0']), &CONTROL, ""),
        (line.contains(['<', '#', '\\']), &BREAK, "\n"),
        (line.contains('<'), &TAG, ""),
    ] {
        if is_there && let Cow::Owned(changed) = pattern.replace_all(&text, with) {
            text = Cow::Owned(changed);
        }
    }
    for (escape, plain) in
        [("&gt;", ">"), ("&lt;", "<"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("\u{a0}", " "), ("&amp;", "&")]
    {
        if text.contains(escape) {
            text = Cow::Owned(text.replace(escape, plain));
        }
    }
    text
}

/// Removes the head that a logger wrote before the kernel's own text.
pub(super) fn body(line: &str) -> Body<'_> {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?x)^ (?: [>|\s]
              | <\d{1,3}>
              | (?-u:[a-z0-9]{2,8})\s*:(?-u:[a-z]{3,7})\s*:\s
              | [^\[\]{}()]{0,80}? \b kernel (?: \[\d+\] )? : \s?
              | \[ \s* (?:[\d.:+\-TZ\s,]|[A-Z][a-z]{1,2}\b)* \]
              | \[ \s* [TC]\d+ \] )+",
        )
    });
    static CALLER: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[\s*([TC]\d+)\]"));
    let head = HEAD.find(line).map_or(0, |found| found.end());
    let caller = CALLER.captures(&line[..head]).and_then(|found| found.get(1));
    Body { text: &line[head..], caller: caller.map_or("", |found| found.as_str()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_loggers_are_removed() {
        for line in [
            "Mem-Info:",
            "[12345.678901] Mem-Info:",
            "[    0.123456][ T1234] Mem-Info:",
            "[Mon Jan  1 00:00:00 2024] Mem-Info:",
            "Jan  1 00:00:00 host kernel: Mem-Info:",
            "Jan  1 00:00:00 host kernel: [12345.678901] Mem-Info:",
            "2024-01-01T00:00:00.123456+00:00 host kernel: [  1.5] Mem-Info:",
            "<4>[12345.678901] Mem-Info:",
            "<4>Mem-Info:",
            "kern  :warn  : [12345.678901] Mem-Info:",
            "> > [12345.678901] Mem-Info:",
            "[12345.678901] host kernel: Mem-Info:",
            "Jan 01 00:00:00 host kernel[123]: Mem-Info:",
        ] {
            assert_eq!(body(line).text, "Mem-Info:", "{line}");
        }
        assert_eq!(body("[    0.123456][ T1234] x").caller, "T1234");
        assert_eq!(body("[    0.123456] [  C12] x").caller, "C12");
        assert_eq!(body("swapper/0: page allocation failure").text, "swapper/0: page allocation failure");
        assert_eq!(body("Node 0 DMA free:4kB").text, "Node 0 DMA free:4kB");
    }

    #[test]
    fn escapes_become_what_they_stand_for() {
        assert_eq!(unescaped("a#012 b<br/>c\r"), "a\n b\nc");
        assert_eq!(unescaped("<pre>&lt;IRQ&gt;&nbsp;x\x1b[33my\x1b[0m</pre>"), "<IRQ> xy");
        assert!(matches!(unescaped("plain"), Cow::Borrowed(_)));
        assert_eq!(unescaped(&"\u{20ac}".repeat(LINE_LIMIT)).len(), LINE_LIMIT / 3 * 3);
    }
}
