//! Traces as text: the output of ftrace, `trace-cmd report` and `perf script`.
//!
//! One pass over the bytes, a line at a time, without regular expressions: a trace of a minute has hundreds of
//! megabytes. Memory is bounded whatever the input: lines, task names and the table of unknown events all have limits.
//! The text need not be UTF-8.
//!
//! | file | tells |
//! |---|---|
//! | `line_format.rs` | an event from other lines, and its head: task, CPU and time |
//! | `event_fields.rs` | the fields of an event, by their names |
//! | `migratetypes.rs`, `vmemmap.rs`, `gfp_text.rs` | values that depend on the kernel |
//!
//! There are three classes of trouble:
//!
//! - Events of other subsystems are counted by name, and lines that are no events at all are counted.
//! - Events that the tracer says it lost are counted: a replay of a trace with gaps frees what it has not allocated.
//! - A line of one of our events that cannot be read is an error. The lenient mode counts it and goes on.
//!
//! A line that names one of our events is never skipped: if its head cannot be read, that is an error too.
//!
//! A last line without line end is such an error even if it could be read: a cut `order=10` reads well as `order=1`.
//!
//! Not read: the verbose latency format (`... [0000abcd] 0.123ms (+0.001ms):`), and traces whose clock counts ticks.

mod parser;
mod text_options;
mod gfp_text;
mod migratetypes;
mod vmemmap;
mod event_fields;
mod line_format;
mod tracepoint_name;

#[cfg(test)]
mod tests;

use std::io::Read;

use self::line_format::{TracerLine, classify};
pub use self::migratetypes::Numbering;
use self::parser::Parser;
pub use self::text_options::TextOptions;
pub use crate::error::LineFault;
use crate::error::{Excerpt, Reason, Result, TraceError};
use crate::flags::Kernels;
use crate::lines::{Line, Lines};
use crate::record::{Comms, Quality, Record};

/// Reads the records of a text trace, one after the other.
///
/// After an error there is nothing more.
pub struct TextReader<R> {
    lines: Lines<R>,
    file: String,
    lenient: bool,
    parser: Parser,
    quality: Quality,
    ended: bool,
}

impl<R: Read> TextReader<R> {
    /// Reads from `source`, called `file` in messages.
    pub fn new(source: R, file: &str, options: &TextOptions) -> TextReader<R> {
        TextReader {
            lines: Lines::new(source),
            file: file.to_owned(),
            lenient: options.lenient,
            parser: Parser::new(options),
            quality: Quality::default(),
            ended: false,
        }
    }

    /// The names of tasks so far.
    pub fn comms(&self) -> &Comms {
        &self.parser.comms
    }

    /// The quality of the trace so far.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// Reads all of the text, and returns the kernels that can have printed it.
    pub(crate) fn kernels(mut self) -> Kernels {
        self.by_ref().for_each(drop);
        self.parser.kernels()
    }

    /// The next record or the first error.
    fn read(&mut self) -> Result<Option<Record>> {
        loop {
            let line = self.lines.next_line();
            let line = match line {
                Ok(Some(line)) => line,
                Ok(None) => return self.end(),
                Err(error) => return Err(TraceError::at(&self.file, self.lines.number() + 1, error)),
            };
            let found = match line {
                Line::Whole(text) => self.parser.line(text, &mut self.quality),
                Line::Unterminated(text) if self.lenient => self.parser.line(text, &mut self.quality),
                Line::Unterminated(text) => match classify(text) {
                    TracerLine::Skip | TracerLine::Comment(_) => self.parser.line(text, &mut self.quality),
                    _ => Err(LineFault::Unterminated),
                },
                Line::TooLong(text) => Err(LineFault::TooLong(Excerpt::new(&text[..40]))),
            };
            self.quality.lines = self.lines.number();
            match found {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(fault) => {
                    let error = TraceError::at(&self.file, self.lines.number(), fault);
                    if !self.lenient {
                        return Err(error);
                    }
                    self.quality.malformed_lines += 1;
                    if self.quality.malformed.len() < Quality::MESSAGES {
                        self.quality.malformed.push(error.to_string());
                    }
                }
            }
        }
    }

    fn end(&self) -> Result<Option<Record>> {
        let quality = &self.quality;
        let is_trace =
            quality.records() + quality.unknown_events() + quality.lost_reports + quality.malformed_lines > 0;
        if is_trace || quality.unrecognized_lines == 0 {
            return Ok(None);
        }
        Err(TraceError::new(&self.file, Reason::NotATrace(quality.lines)))
    }
}

impl<R: Read> Iterator for TextReader<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
