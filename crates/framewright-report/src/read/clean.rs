//! Lines of a log as the kernel printed them, without what loggers, mails and web pages put around them.
//!
//! | around a line | example |
//! |---|---|
//! | level, time, caller | `<4>[12345.678901][ T1234] ` |
//! | a syslog or journal head | `Jan  1 00:00:00 host kernel: ` |
//! | `dmesg -x` | `kern  :warn  : ` |
//! | `/dev/kmsg` | `4,1968,241227987,-,caller=T12;` |
//! | a phone's log | `07-13 08:41:51.341 <4>[309805.658s][pid:1361,cpu5,task]` |
//! | a mail's quote | `> > ` |
//! | rsyslog's escape of an end of line | `#012` |
//! | a mail's quoted-printable text | `order=3D0` |
//! | a web page's escapes and tags | `&gt;`, `<br>` |
//! | a terminal's colours, a CR | `\x1b[33m` |

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// Longest line that is read whole, in bytes; the rest of a longer one is ignored.
pub(super) const LINE_LIMIT: usize = 1 << 16;

/// Compiles a pattern of this program.
///
/// `\b` is a boundary of ASCII words: the kernel writes ASCII. In lines that are not, a boundary of Unicode words makes
/// each search some ten times slower.
pub(super) fn pattern(text: &str) -> Regex {
    #[allow(clippy::expect_used, reason = "a constant of the program, which the tests compile")]
    Regex::new(&text.replace(r"\b", r"(?-u:\b)")).expect("a pattern of the program")
}

/// A line as the kernel printed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Body<'t> {
    /// The text.
    pub(super) text: &'t str,
    /// The task or the CPU that printed it, as `T1234` or `C2`, if the log says so.
    pub(super) caller: &'t str,
    /// Whether a logger's head was there.
    pub(super) has_head: bool,
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
    for (escape, plain) in [
        ("&gt;", ">"),
        ("&lt;", "<"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("\u{a0}", " "),
        ("&amp;", "&"),
        ("=3D", "="),
        ("=20", " "),
    ] {
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
              | \d+,\d+,\d+,[^;\s]{1,64};
              | \d{2}-\d{2}\s\d{2}:\d{2}:\d{2}\.\d+
              | \[\s*\d+\.\d+s\] | \[pid:[^\[\]]{1,64}\]
              | (?-u:[a-z0-9]{2,8})\s*:(?-u:[a-z]{3,7})\s*:\s
              | [^\[\]{}()=*]{0,80}? \b kernel (?: \[\d+\] )? : \s?
              | \[ \s* (?:[\d.:+\-TZ\s,]|[A-Z][a-z]{1,2}\b)* \]
              | \[ \s* [TC]\d+ \] )+",
        )
    });
    static CALLER: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:\[\s*|caller=)([TC]\d+)[\];,]"));
    let head = HEAD.find(line).map_or(0, |found| found.end());
    let caller = CALLER.captures(&line[..head]).and_then(|found| found.get(1));
    Body {
        text: &line[head..],
        caller: caller.map_or("", |found| found.as_str()),
        has_head: !line[..head].trim().is_empty(),
    }
}

/// Parts of a body that begin lines of their own: the kernel's output of two CPUs may share a line, and so may a whole
/// report whose ends of lines were lost.
pub(super) fn parts(body: &str) -> impl Iterator<Item = &str> {
    static BEGIN: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?:\bNode \d+,? )?\b(?:DMA32|DMA|Normal|HighMem|Movable|Device)(?: free:\s?\d+[kK]B|: \d+[*_]\d+[kK]B)",
            r"|\blowmem_reserve\[\]:|\bMem-Info:|\[\s*\d+\.\d{6}\] ",
            r"|\b[A-Z][a-z]{2}\s+\d{1,2} \d{2}:\d{2}:\d{2} \S+ kernel: "
        ))
    });
    let mut ends: Vec<usize> = BEGIN.find_iter(body).map(|found| found.start()).filter(|&at| at > 0).collect();
    ends.push(body.len());
    let mut from = 0;
    ends.into_iter().map(move |end| {
        let part = &body[from..end];
        from = end;
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_hold_several() {
        let all: Vec<&str> =
            parts("32*128kB lowmem_reserve[]: 0 Node 0 DMA free:4kB min:0kB [ 1.234567] Mem-Info:").collect();
        assert_eq!(
            all,
            ["32*128kB ", "lowmem_reserve[]: 0 ", "Node 0 DMA free:4kB min:0kB ", "[ 1.234567] ", "Mem-Info:"]
        );
    }

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
            "4,19685342,241227987454,-,caller=T12845;Mem-Info:",
            "07-13 08:41:51.341 <4>[309805.658142s][pid:1361,cpu5,sManagerService]Mem-Info:",
        ] {
            assert_eq!(body(line).text, "Mem-Info:", "{line}");
        }
        assert_eq!(body("[    0.123456][ T1234] x").caller, "T1234");
        assert_eq!(body("[    0.123456] [  C12] x").caller, "C12");
        assert_eq!(body("4,19685342,241227987454,-,caller=T12845;x").caller, "T12845");
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
