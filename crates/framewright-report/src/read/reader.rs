//! Which report a line belongs to.

use std::collections::BTreeMap;

use super::clean::{Body, LINE_LIMIT, body, parts, unescaped};
use super::fill::{Draft, Line, head, is_begin_of_state, release_at_boot, vmalloc_bytes};
use super::unwrap::{Open, Step};
use crate::report::{Kind, Report};

/// Most callers that print at the same time; a line of a further one counts as one of no caller's.
const CALLERS: usize = 64;

/// Shortest line that a mail program breaks.
const SOFT: usize = 60;

/// The lines of one caller (`T1234`, `C2`), or of all if the log names none.
#[derive(Clone, Debug, Default)]
struct Caller {
    open: Open,
    draft: Option<Draft>,
    /// Bytes that a `vmalloc` asked for, in a line before the head of its failure.
    bytes: Option<u64>,
}

/// Reads reports from the lines of a log.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    line: u64,
    /// Release of the kernel that booted last in this log.
    booted: Option<String>,
    callers: BTreeMap<String, Caller>,
    /// The caller that printed the last line.
    last: String,
    /// A line that goes on with the next one.
    soft: Option<String>,
}

impl Reader {
    /// Reads the next line; adds the reports that end before it to `ended`.
    pub fn add(&mut self, line: &str, ended: &mut Vec<Report>) {
        self.line += 1;
        let whole = match self.soft.take() {
            Some(begun) => begun + line,
            None => line.to_owned(),
        };
        // Quoted-printable text of a mail: a line that ends with `=` goes on.
        if let Some(begun) = whole.strip_suffix('=').filter(|begun| begun.len() < LINE_LIMIT && begun.len() >= SOFT) {
            self.soft = Some(begun.to_owned());
            return;
        }
        self.whole(&whole, ended);
    }

    fn whole(&mut self, line: &str, ended: &mut Vec<Report>) {
        for part in unescaped(line).split('\n') {
            let Body { text, caller: name, has_head } = body(part);
            // A line that a mail has broken goes on without a head.
            let name = if has_head { name.to_owned() } else { std::mem::take(&mut self.last) };
            let name = name.as_str();
            let is_known = self.callers.contains_key(name);
            let key = if is_known || self.callers.len() < CALLERS { name } else { "" };
            let mut caller = self.callers.remove(key).unwrap_or_default();
            for text in parts(text) {
                // A part that was a line has its own head.
                let text = body(text).text.trim_end();
                if !text.is_empty() {
                    self.part(&mut caller, text, ended);
                }
            }
            self.callers.insert(key.to_owned(), caller);
            self.last = name.to_owned();
        }
    }

    fn part(&mut self, caller: &mut Caller, text: &str, ended: &mut Vec<Report>) {
        match caller.open.add(self.line, text) {
            Step::Joined => {}
            Step::Opened(before) => {
                before.into_iter().for_each(|(line, text)| self.complete(caller, line, &text, ended));
            }
            Step::Single(head) => {
                head.into_iter().for_each(|(line, text)| self.complete(caller, line, &text, ended));
                // A line in between does not end an open one, but a report's begin does.
                if caller.open.is_open()
                    && is_begin_of_state(text)
                    && let Some((line, open)) = caller.open.close()
                {
                    self.complete(caller, line, &open, ended);
                }
                self.complete(caller, self.line, text, ended);
            }
        }
    }

    /// Ends all reports that are not complete: the log ends, or pauses.
    pub fn finish(&mut self, ended: &mut Vec<Report>) {
        if let Some(begun) = self.soft.take() {
            self.whole(&begun, ended);
        }
        let mut rest = Vec::new();
        for (_, mut caller) in std::mem::take(&mut self.callers) {
            if let Some((line, text)) = caller.open.close() {
                self.complete(&mut caller, line, &text, &mut rest);
            }
            end(caller.draft.take(), &mut rest);
        }
        rest.sort_by_key(|report| report.line);
        ended.extend(rest);
    }

    /// Gives a complete line to its report.
    fn complete(&mut self, caller: &mut Caller, line: u64, text: &str, ended: &mut Vec<Report>) {
        if let Some(release) = release_at_boot(text) {
            self.booted = Some(release);
        }
        if let Some(mut report) = head(text, line) {
            if let Some(bytes) = caller.bytes.take().filter(|_| report.kind == Kind::Failure) {
                report.kind = Kind::Vmalloc;
                report.vmalloc.bytes = Some(bytes);
            }
            self.begin(caller, report, ended);
            return;
        }
        if let Some(bytes) = vmalloc_bytes(text) {
            caller.bytes = Some(bytes);
            return;
        }
        if is_begin_of_state(text) {
            if caller.draft.as_ref().is_none_or(|draft| !draft.report.memory.zones.is_empty()) {
                self.begin(caller, Report::new(line, Kind::State), ended);
            }
            return;
        }
        let draft = caller.draft.get_or_insert_with(|| Draft::new(Report::new(line, Kind::State)));
        if draft.fill(text) == Line::Repeated {
            // A second state without a head of its own, as `cat` of several files has it.
            self.begin(caller, Report::new(line, Kind::State), ended);
            caller.draft.iter_mut().for_each(|draft| _ = draft.fill(text));
        }
    }

    fn begin(&self, caller: &mut Caller, mut report: Report, ended: &mut Vec<Report>) {
        report.release.clone_from(&self.booted);
        end(caller.draft.replace(Draft::new(report)), ended);
    }
}

/// Hands a report out, unless it says nothing.
fn end(draft: Option<Draft>, ended: &mut Vec<Report>) {
    let report = draft.map(Draft::end);
    ended.extend(report.filter(|report| report.kind != Kind::State || !report.memory.zones.is_empty()));
}

/// Reads all reports of a text.
pub fn reports(text: &str) -> Vec<Report> {
    let (mut reader, mut found) = (Reader::default(), Vec::new());
    text.lines().for_each(|line| reader.add(line, &mut found));
    reader.finish(&mut found);
    found
}
