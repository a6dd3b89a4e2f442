//! Tells events from other lines of a tracer's output, and reads their heads: task, CPU and time.
//!
//! The tools print the same events with different heads:
//!
//! ```text
//! ftrace                 fio-225     (    225) [000] d..3.    19.396058: mm_page_free: page=...
//! ftrace, latency format    fio-225     0d..3.   123us+: mm_page_free: page=...
//! trace-cmd report       fio-225   [000]    19.396058: mm_page_free:         page=...
//!   --ts-diff            fio-225   [000]    19.396070: (+12)    mm_page_free:         page=...
//!   -l                   fio-225     0d..3.    19.396058: mm_page_free:         page=...
//! perf script            fio   225/225   [000]    19.396058:      1 kmem:mm_page_free: page=...
//! function graph          0)               |  /* mm_page_free: page=... */
//! ```
//!
//! Optional are the thread group in parentheses, the column of flags, the process before the slash and the period. So
//! are other columns before the time and after it. A task's name may hold blanks, dashes and brackets.
//!
//! So a line is read from its one certain part: `[cpu]` with a pid before it and a time after it, with no other
//! bracket between. The first bracket for which all hold is the right one. The event is the first word after the time
//! that is a name with a colon.
//!
//! The latency format has no bracket: the CPU's number stands before the flags without a blank. The times of ftrace's
//! own latency format are microseconds from the start of the trace, and its names have 8 bytes. Both are used as they
//! are.
//!
//! Rejected: reading from the left by column. Every tool pads by other widths.

use super::tracepoint_name::tracepoint;

/// The task, CPU and time of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LineHead<'a> {
    /// Name of the task, none where the tool does not print it.
    pub(super) comm: Option<&'a [u8]>,
    pub(super) pid: u32,
    pub(super) cpu: u16,
    /// Nanoseconds, none where the tool does not print it.
    pub(super) time: Option<u64>,
}

/// A line of a tracer's output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TracerLine<'a> {
    /// An event: its name without the subsystem, and its fields.
    Event(LineHead<'a>, &'a [u8], &'a [u8]),
    /// The tracer lost events; their number, if it says so.
    Lost(Option<u64>),
    /// A comment.
    Comment(&'a [u8]),
    /// Nothing of interest: blank, part of a call chain, the end of a function.
    Skip,
    /// The time is printed as a number of clock ticks.
    Ticks,
    /// No line that a tracer prints.
    Unrecognized,
}

/// Tells the kind of `line`.
pub(super) fn classify(line: &[u8]) -> TracerLine<'_> {
    let mut ticks = false;
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'[', &line[from..]) {
        let open = from + found;
        from = open + 1;
        let Some((cpu, after)) = bracket(&line[from..]) else { continue };
        let Some((comm, pid)) = task(&line[..open]) else { continue };
        match timed(after) {
            Some((Some(time), rest)) => {
                return event(LineHead { comm: Some(comm), pid, cpu, time: Some(time) }, rest);
            }
            Some((None, _)) => ticks = true,
            None => {}
        }
    }
    if !ticks && let Some((head, rest)) = latency(line) {
        return event(head, rest);
    }
    match line.trim_ascii_start() {
        _ if ticks => TracerLine::Ticks,
        [] | [b'=', b'>', ..] => TracerLine::Skip,
        [b'#', ..] => TracerLine::Comment(line),
        trimmed => other(trimmed),
    }
}

/// `000] rest` as a CPU and the rest.
fn bracket(text: &[u8]) -> Option<(u16, &[u8])> {
    let close = memchr::memchr(b']', text.get(..6).unwrap_or(text))?;
    let cpu = u16::try_from(decimal(&text[..close])?).ok()?;
    // The blank also bounds the work on a line of nothing but brackets by its length.
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

/// Splits off the digits at the end of a text: the text before them, and their value.
fn split_digits(text: &[u8]) -> Option<(&[u8], u32)> {
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (rest, digits) = text.split_at(text.len() - digits);
    Some((rest, u32::try_from(decimal(digits)?).ok()?))
}

/// The most columns that are skipped before the time, and between the time and the event.
const COLUMNS: usize = 8;

/// Splits `flags  19.396058: rest` into time and rest, after any columns.
///
/// The time is none if it is not in seconds.
fn timed(text: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let mut rest = text;
    for _ in 0..COLUMNS {
        let (word, after) = token(rest);
        if word.is_empty() || word[0] == b'[' {
            return None;
        }
        if let Some(digits) = word.strip_suffix(b":") {
            return match seconds(digits) {
                Some(time) => Some((Some(time), after)),
                None => decimal(digits).map(|_| (None, after)),
            };
        }
        rest = after;
    }
    None
}

/// The head of a line of the latency format, and what follows its time.
fn latency(line: &[u8]) -> Option<(LineHead<'_>, &[u8])> {
    let mut rest = line;
    // A task's name has at most 15 bytes, so its number is one of the first words.
    for _ in 0..2 * COLUMNS {
        let (word, after) = token(rest);
        if word.is_empty() {
            return None;
        }
        if let Some(cpu) = cpu_and_flags(word)
            && let Some((comm, pid)) = task(&line[..line.len() - after.len() - word.len()])
            && let Some((time, after)) = since_start(after)
        {
            return Some((LineHead { comm: Some(comm), pid, cpu, time: Some(time) }, after));
        }
        rest = after;
    }
    None
}

/// The CPU of `0d..3.`.
fn cpu_and_flags(word: &[u8]) -> Option<u16> {
    let digits = word.iter().take_while(|b| b.is_ascii_digit()).count();
    let (cpu, flags) = word.split_at(digits);
    let is_flag = |&b: &u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'#';
    let are_flags = (3..=8).contains(&flags.len()) && flags.iter().all(is_flag);
    if are_flags { u16::try_from(decimal(cpu)?).ok() } else { None }
}

/// `19.396058: rest`, `123us+: rest` or `2us : rest` as nanoseconds and the rest.
fn since_start(text: &[u8]) -> Option<(u64, &[u8])> {
    let (word, after) = token(text);
    if let Some(time) = word.strip_suffix(b":").and_then(seconds) {
        return Some((time, after));
    }
    let digits = word.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, unit) = word.split_at(digits);
    let time = decimal(digits)?.checked_mul(1000)?;
    match unit.strip_prefix(b"us")? {
        // A mark for a long time since the line before.
        [_, b':'] | [b':'] => Some((time, after)),
        [] => after.trim_ascii_start().strip_prefix(b":").map(|after| (time, after)),
        _ => None,
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

/// Reads an event from the text after its time.
fn event<'a>(head: LineHead<'a>, text: &'a [u8]) -> TracerLine<'a> {
    let mut rest = text;
    // Whether any word with a colon is the event. After unknown columns only a known name is.
    let mut any = true;
    for _ in 0..COLUMNS {
        let (word, after) = token(rest);
        if word.starts_with(b"PERF_RECORD_LOST") {
            return TracerLine::Lost(decimal(token(after).1.trim_ascii()));
        }
        if word == b"<stack" {
            return TracerLine::Skip;
        }
        let name = event_name(word);
        if !name.is_empty() && (any || tracepoint(name).is_some()) {
            return TracerLine::Event(head, name, after);
        }
        // perf's period, the time since the event before, a cgroup, or another column of a tool.
        any &= decimal(word).is_some() || (word.first() == Some(&b'(') && word.last() == Some(&b')'));
        rest = after;
    }
    TracerLine::Event(head, b"", text)
}

/// An event's name without subsystem and modifiers (`kmem:mm_page_free:k:`); empty if the word is none.
fn event_name(word: &[u8]) -> &[u8] {
    let Some(names) = word.strip_suffix(b":") else { return b"" };
    let is_name = |name: &&[u8]| name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_') && !name.is_empty();
    let mut parts = names.split(|&b| b == b':');
    if !parts.clone().all(|part| is_name(&part)) {
        return b"";
    }
    parts.clone().find(|part| tracepoint(part).is_some()).or(parts.next_back()).unwrap_or(b"")
}

/// A line that is not empty and has no usual head.
fn other(line: &[u8]) -> TracerLine<'_> {
    if line.starts_with(b"CPU:")
        && (contains(line, b" LOST ")
            || contains(line, b"[LOST ")
            || contains(line, b" DROPPED")
            || contains(line, b"[EVENTS DROPPED"))
    {
        return TracerLine::Lost(
            line.split(|b| !b.is_ascii_digit()).filter(|word| !word.is_empty()).nth(1).and_then(decimal),
        );
    }
    if contains(line, b" and lost ") && contains(line, b"chunks") {
        return TracerLine::Lost(None);
    }
    if let Some(comment) = memchr::memmem::find(line, b"/* ")
        && let Some(head) = graph_head(&line[..comment])
    {
        return event(head, &line[comment + 3..]);
    }
    if graph_head(line).is_some() || contains(line, b" => ") || is_call_chain(line) || is_preamble(line) {
        TracerLine::Skip
    } else {
        TracerLine::Unrecognized
    }
}

/// The columns of the function graph tracer, each ended by a bar except for the CPU.
fn graph_head(text: &[u8]) -> Option<LineHead<'_>> {
    let mut head = LineHead { comm: None, pid: 0, cpu: 0, time: None };
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

/// Whether trace-cmd or perf print this before the first event, or the function graph between two tasks.
fn is_preamble(line: &[u8]) -> bool {
    const STARTS: [&[u8]; 7] = [b"cpus=", b"version", b"CPU ", b"trace-cmd", b"buffer", b"-----", b"Processed "];
    STARTS.iter().any(|start| line.starts_with(start))
}

pub(super) fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}
