//! Lines of bounded length.
//!
//! A line longer than [`LINE_LIMIT`] is reported and skipped without being held. So a file without any line end costs
//! no more memory than one with many.
//!
//! Rejected: memory maps. They need `unsafe`, cannot be compressed, and a file that is cut while it is read kills the
//! process.

use std::io::{self, Read};

/// The longest line that is read, in bytes. The longest that a tracer prints for our events has under 400.
pub(crate) const LINE_LIMIT: usize = 64 << 10;
/// Bytes that one read asks a file for.
const CHUNK: usize = 256 << 10;

/// One line of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line<'a> {
    /// Without its end (`\n` or `\r\n`).
    Whole(&'a [u8]),
    /// The last one, if the file does not end with a line end.
    Unterminated(&'a [u8]),
    /// Longer than 64 KiB; its start.
    TooLong(&'a [u8]),
}

/// The lines of a source.
pub struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were read and not yet returned: from `start` to `end`.
    start: usize,
    end: usize,
    number: u64,
    /// Start of the last line that was too long.
    overlong: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// The lines of `source`.
    pub fn new(source: R) -> Lines<R> {
        Lines { source, buffer: vec![0; LINE_LIMIT + CHUNK], start: 0, end: 0, number: 0, overlong: Vec::new() }
    }

    /// Number of the line that was returned last, counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line, none at the end.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.start + searched..self.end];
            if let Some(found) = memchr::memchr(b'\n', rest) {
                return Ok(Some(self.take_line(searched + found)));
            }
            searched = self.end - self.start;
            if searched > LINE_LIMIT {
                return self.pass_over().map(Some);
            }
            if self.fill()? == 0 {
                return Ok(self.take_last());
            }
        }
    }

    fn take_line(&mut self, len: usize) -> Line<'_> {
        let line = self.start..self.start + len;
        self.start = line.end + 1;
        self.number += 1;
        let line = &self.buffer[line];
        if len > LINE_LIMIT {
            return Line::TooLong(&line[..LINE_LIMIT]);
        }
        Line::Whole(line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn take_last(&mut self) -> Option<Line<'_>> {
        let line = self.start..self.end;
        self.start = self.end;
        if line.is_empty() {
            return None;
        }
        self.number += 1;
        Some(Line::Unterminated(&self.buffer[line]))
    }

    /// Appends more of the source to the buffer; 0 at its end.
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Skips the rest of a line that is too long, keeping its start for the message.
    fn pass_over(&mut self) -> io::Result<Line<'_>> {
        self.number += 1;
        let head = self.buffer[self.start..self.start + LINE_LIMIT].to_vec();
        loop {
            self.start = self.end;
            if self.fill()? == 0 {
                break;
            }
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[..self.end]) {
                self.start = found + 1;
                break;
            }
        }
        self.overlong = head;
        Ok(Line::TooLong(&self.overlong))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, String)> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let text = match line {
                Line::Whole(text) => format!("{}", text.escape_ascii()),
                Line::Unterminated(text) => format!("{} without end", text.escape_ascii()),
                Line::TooLong(text) => format!("{}... too long, {}", text[..3].escape_ascii(), text.len()),
            };
            found.push((lines.number(), text));
        }
        found
    }

    #[test]
    fn lines_are_counted_and_bounded() {
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n"), [(1, String::new())]);
        assert_eq!(lines(b"a\r\nb"), [(1, "a".into()), (2, "b without end".into())]);
        for len in [LINE_LIMIT + 1, LINE_LIMIT + CHUNK, LINE_LIMIT + CHUNK + 1, 3 << 20] {
            let text = [&b"a\n"[..], &vec![b'x'; len], b"\nb\n"].concat();
            let expected = [(1, "a".into()), (2, format!("xxx... too long, {LINE_LIMIT}")), (3, "b".into())];
            assert_eq!(lines(&text), expected, "{len}");
        }
        assert_eq!(lines(&[&vec![b'x'; LINE_LIMIT][..], b"\n"].concat())[0].1.len(), LINE_LIMIT);
        assert_eq!(lines(&vec![b'x'; 1 << 20]), [(1, format!("xxx... too long, {LINE_LIMIT}"))]);
    }
}
