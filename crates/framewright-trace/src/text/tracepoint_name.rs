//! Names of events in texts, with those of older kernels.

use crate::record::Tracepoint;

/// Returns the tracepoint called `name`, now or in an older kernel.
pub(super) fn tracepoint(name: &[u8]) -> Option<Tracepoint> {
    match name {
        b"mm_page_free_direct" => Some(Tracepoint::Free),
        b"mm_pagevec_free" => Some(Tracepoint::FreeBatched),
        _ => Tracepoint::named(name),
    }
}

/// Whether `text` has a tracepoint's name as a word before a colon or a parenthesis.
pub(super) fn is_in(text: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    [&b"mm_page"[..], b"page_migrate", b"mm_vmscan_direct"].iter().any(|start| {
        memchr::memmem::find_iter(text, start).any(|at| {
            let is_start = at.checked_sub(1).is_none_or(|before| !is_part(&text[before]));
            let rest = &text[at..text.len().min(at + 32)];
            let end = rest.iter().position(|b| !is_part(b)).unwrap_or(rest.len());
            is_start && matches!(rest.get(end), Some(b':' | b'(')) && tracepoint(&rest[..end]).is_some()
        })
    })
}

/// Whether events called `name` print a user's text, which can look like a line of a trace.
pub(super) fn is_note(name: &[u8]) -> bool {
    [&b"tracing_mark_write"[..], b"print", b"bprint", b"bputs", b"bpf_trace_printk", b"raw_data"].contains(&name)
}
