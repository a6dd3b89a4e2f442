//! Waits for locks on a time line, for `ui.perfetto.dev` and `chrome://tracing`.
//!
//! The format is Chrome's trace events as JSON: a node is a process, a CPU one of its threads, and each taking of a
//! lock is a complete event for the wait, if there was one, and one for the time that the lock was held. Events are
//! written one a line as they come, so that a trace needs no memory of its own size.

use std::collections::BTreeSet;
use std::io::{self, Write};

use framewright_sim::report::LockSpan;
use serde::Serialize;

/// An event, with the names that the format gives them. Times are microseconds.
#[derive(Serialize)]
struct TimelineEvent<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    ph: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Args>,
}

/// The argument of a name event or of a sort event.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Args {
    Name(String),
    SortIndex(usize),
}

/// The begin of a Chrome trace of ours.
pub const MARK: &str = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";

/// Writes spans as a Chrome trace.
///
/// # Errors
/// Those of `out`.
pub fn write(spans: &[LockSpan], out: &mut impl Write) -> io::Result<()> {
    out.write_all(MARK.as_bytes())?;
    let mut first = true;
    let mut emit = |out: &mut dyn Write, event: &TimelineEvent<'_>| {
        let comma = if std::mem::take(&mut first) { "\n" } else { ",\n" };
        write!(out, "{comma}{}", serde_json::to_string(event)?)
    };
    let cpus: BTreeSet<(usize, usize)> = spans.iter().map(|span| (span.node, span.cpu)).collect();
    let nodes: BTreeSet<usize> = cpus.iter().map(|&(node, _)| node).collect();
    for node in nodes {
        emit(out, &about("process_name", (node, None), Args::Name(format!("node {node}"))))?;
        emit(out, &about("process_sort_index", (node, None), Args::SortIndex(node)))?;
    }
    for (node, cpu) in cpus {
        emit(out, &about("thread_name", (node, Some(cpu)), Args::Name(format!("CPU {cpu}"))))?;
        emit(out, &about("thread_sort_index", (node, Some(cpu)), Args::SortIndex(cpu)))?;
    }
    for span in spans {
        let LockSpan { lock, wanted_ns, taken_ns, released_ns, .. } = span;
        if taken_ns > wanted_ns {
            emit(out, &complete(span, &format!("waits for {lock}"), "wait", (*wanted_ns, *taken_ns)))?;
        }
        emit(out, &complete(span, &format!("holds {lock}"), "hold", (*taken_ns, *released_ns)))?;
    }
    writeln!(out, "\n]}}")
}

/// A metadata event.
fn about(what: &'static str, (pid, tid): (usize, Option<usize>), args: Args) -> TimelineEvent<'static> {
    TimelineEvent { name: what, cat: None, ph: "M", ts: None, dur: None, pid, tid, args: Some(args) }
}

/// An event for one span of a CPU's time.
fn complete<'a>(span: &LockSpan, name: &'a str, cat: &'static str, (from, to): (u64, u64)) -> TimelineEvent<'a> {
    let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
    TimelineEvent {
        name,
        cat: Some(cat),
        ph: "X",
        ts: Some(microseconds(from)),
        dur: Some(microseconds(to.saturating_sub(from))),
        pid: span.node,
        tid: Some(span.cpu),
        args: None,
    }
}
