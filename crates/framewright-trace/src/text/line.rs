//! What a line of a tracer's output is, and its head: who ran, where and when.
//!
//! Four tools print the same events with different heads:
//!
//! ```text
//! ftrace             fio-225     (    225) [000] d..3.    19.396058: mm_page_free: page=...
//! trace-cmd report   fio-225   [000]    19.396058: mm_page_free:         page=...
//! perf script        fio   225/225   [000]    19.396058:      1 kmem:mm_page_free: page=...
//! function graph      0)               |  /* mm_page_free: page=... */
//! ```
//!
//! The thread group in parentheses, the column of flags, the process before the slash and the period are there or not,
//! as the tool was told. A task's name may hold blanks, dashes and brackets, so a line is read from the one thing that
//! is sure: `[cpu]` with a task's number before it and a time after it. The first bracket for which both hold is the
//! right one. Reading from the left by column was rejected, since every tool pads by other widths.

/// Who ran, where and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head<'a> {
    /// Name of the task, none where the tool does not print it.
    pub(super) comm: Option<&'a [u8]>,
    pub(super) pid: u32,
    pub(super) cpu: u16,
    /// Nanoseconds, none where the tool does not print it.
    pub(super) time: Option<u64>,
}

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Line<'a> {
    /// An event: its name without the subsystem, and its fields.
    Event(Head<'a>, &'a [u8], &'a [u8]),
    /// The tracer lost so many events, or does not know how many.
    Lost(Option<u64>),
    /// A comment.
    Comment(&'a [u8]),
    /// Nothing of interest: blank, part of a call chain, the end of a function.
    Skip,
    /// The time is printed as a number of clock ticks.
    Ticks,
    /// Nothing that a tracer prints.
    Unrecognized,
}

/// What `line` is.
pub(super) fn classify(line: &[u8]) -> Line<'_> {
    let mut ticks = false;
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'[', &line[from..]) {
        let open = from + found;
        from = open + 1;
        let Some((cpu, after)) = bracket(&line[from..]) else { continue };
        let Some((comm, pid)) = task(&line[..open]) else { continue };
        match timed(after) {
            Some((Some(time), rest)) => {
                return event(Head { comm: Some(comm), pid, cpu, time: Some(time) }, rest);
            }
            Some((None, _)) => ticks = true,
            None => {}
        }
    }
    match line.trim_ascii_start() {
        _ if ticks => Line::Ticks,
        [] | [b'=', b'>', ..] => Line::Skip,
        [b'#', ..] => Line::Comment(line),
        trimmed => other(trimmed),
    }
}

/// `000] rest` as a CPU and the rest.
fn bracket(text: &[u8]) -> Option<(u16, &[u8])> {
    let close = memchr::memchr(b']', text.get(..6).unwrap_or(text))?;
    let cpu = u16::try_from(decimal(&text[..close])?).ok()?;
    // The blank also keeps the work on a line of nothing but brackets in proportion to its length.
    Some((cpu, text[close + 1..].strip_prefix(b" ")?))
}

/// The most bytes that the number of a thread group takes up with its padding.
const THREAD_GROUP: usize = 24;

/// The task before the CPU: `comm-pid`, `comm-pid (tgid)`, `comm pid` or `comm pid/tid`.
fn task(text: &[u8]) -> Option<(&[u8], u32)> {
    let mut text = text.trim_ascii_end();
    if let Some(inside) = text.strip_suffix(b")") {
        let inside = &inside[inside.len().saturating_sub(THREAD_GROUP)..];
        let open = memchr::memrchr(b'(', inside)?;
        let tgid = inside[open + 1..].trim_ascii();
        if !tgid.iter().all(|&b| b.is_ascii_digit() || b == b'-') {
            return None;
        }
        text = text[..text.len() - 1 - (inside.len() - open)].trim_ascii_end();
    }
    let (rest, pid) = split_digits(text)?;
    let comm = match rest {
        [comm @ .., b'-'] => comm.trim_ascii_start(),
        [.., b' ' | b'\t'] => rest.trim_ascii(),
        [before @ .., b'/'] => match split_digits(before)?.0 {
            comm @ ([] | [.., b' ' | b'\t']) => comm.trim_ascii(),
            _ => return None,
        },
        _ => return None,
    };
    Some((comm, pid))
}

/// A text into what stands before its last digits, and their value.
fn split_digits(text: &[u8]) -> Option<(&[u8], u32)> {
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (rest, digits) = text.split_at(text.len() - digits);
    Some((rest, u32::try_from(decimal(digits)?).ok()?))
}

/// `flags  19.396058: rest` as the time and the rest; the time is none if it is not in seconds.
fn timed(text: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let (mut token, mut rest) = token(text);
    if token.last() != Some(&b':') {
        (token, rest) = self::token(rest);
    }
    let digits = token.strip_suffix(b":")?;
    match seconds(digits) {
        Some(time) => Some((Some(time), rest)),
        None => decimal(digits).map(|_| (None, rest)),
    }
}

/// Seconds with a fraction of up to nine digits, in nanoseconds.
pub(super) fn seconds(text: &[u8]) -> Option<u64> {
    let dot = memchr::memchr(b'.', text)?;
    let fraction = &text[dot + 1..];
    let scale = 10_u64.pow(9_u32.checked_sub(u32::try_from(fraction.len()).ok()?)?);
    decimal(&text[..dot])?.checked_mul(1_000_000_000)?.checked_add(decimal(fraction)? * scale)
}

/// The first word and what follows it.
pub(super) fn token(text: &[u8]) -> (&[u8], &[u8]) {
    let start = text.iter().position(|&b| b != b' ' && b != b'\t').unwrap_or(text.len());
    let text = &text[start..];
    text.split_at(text.iter().position(|&b| b == b' ' || b == b'\t').unwrap_or(text.len()))
}

/// A number of decimal digits.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0_u64, |value, &b| {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// What follows the time.
fn event<'a>(head: Head<'a>, text: &'a [u8]) -> Line<'a> {
    let (mut name, mut body) = token(text);
    if decimal(name).is_some() {
        // perf's period.
        (name, body) = token(body);
    }
    if name.starts_with(b"PERF_RECORD_LOST") {
        let count = token(body).1;
        return Line::Lost(decimal(count.trim_ascii()));
    }
    if name == b"<stack" {
        return Line::Skip;
    }
    Line::Event(head, event_name(name), body)
}

/// An event's name without subsystem; empty if the word is none.
fn event_name(word: &[u8]) -> &[u8] {
    let Some(name) = word.strip_suffix(b":") else { return b"" };
    let name = memchr::memrchr(b':', name).map_or(name, |colon| &name[colon + 1..]);
    if name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_') { name } else { b"" }
}

/// A line that is not empty and has no usual head.
fn other(line: &[u8]) -> Line<'_> {
    if line.starts_with(b"CPU:")
        && (contains(line, b" LOST ")
            || contains(line, b"[LOST ")
            || contains(line, b" DROPPED")
            || contains(line, b"[EVENTS DROPPED"))
    {
        return Line::Lost(
            line.split(|b| !b.is_ascii_digit()).filter(|word| !word.is_empty()).nth(1).and_then(decimal),
        );
    }
    if contains(line, b" and lost ") && contains(line, b"chunks") {
        return Line::Lost(None);
    }
    if let Some(comment) = memchr::memmem::find(line, b"/* ")
        && let Some(head) = graph_head(&line[..comment])
    {
        return event(head, &line[comment + 3..]);
    }
    if graph_head(line).is_some() || contains(line, b" => ") || is_call_chain(line) || is_preamble(line) {
        Line::Skip
    } else {
        Line::Unrecognized
    }
}

/// The columns of the function graph tracer, each ended by a bar except for the CPU.
fn graph_head(text: &[u8]) -> Option<Head<'_>> {
    let mut head = Head { comm: None, pid: 0, cpu: 0, time: None };
    let mut bars = 0;
    let mut cpu = None;
    for column in text.split(|&b| b == b'|') {
        bars += 1;
        let mut column = column.trim_ascii();
        if cpu.is_none() {
            if let Some(close) = memchr::memchr(b')', column.get(..6).unwrap_or(column)) {
                cpu = decimal(&column[..close]).and_then(|cpu| u16::try_from(cpu).ok());
                column = column[close + 1..].trim_ascii();
            } else if let Some(time) = seconds(column) {
                head.time = Some(time);
                continue;
            }
        }
        if head.comm.is_none()
            && cpu.is_some()
            && let Some((comm, pid)) = task(column).filter(|(comm, _)| !comm.is_empty())
        {
            (head.comm, head.pid) = (Some(comm), pid);
        }
    }
    head.cpu = cpu?;
    (bars > 1).then_some(head)
}

/// `ffffffff81234567 symbol+0x12 (module)`.
fn is_call_chain(line: &[u8]) -> bool {
    let (address, rest) = token(line);
    let digits = address.strip_prefix(b"0x").unwrap_or(address);
    (4..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit) && !rest.is_empty()
}

/// What trace-cmd and perf print before the first event, and the line between two tasks of the function graph.
fn is_preamble(line: &[u8]) -> bool {
    const STARTS: [&[u8]; 7] = [b"cpus=", b"version", b"CPU ", b"trace-cmd", b"buffer", b"-----", b"Processed "];
    STARTS.iter().any(|start| line.starts_with(start))
}

pub(super) fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}
