//! A question and its answer, over a stream, within bounds.
//!
//! ```text
//! asker     zoneinfo\n
//! answer    ok 4711\n  and 4711 bytes        or        error: there is no file 'zone'; there are ...\n
//! ```
//!
//! The length comes first, so that half a file of a process that dies does not read like a whole one. Each side gives
//! the other a fixed time, and reads no more than a fixed number of bytes. The asker's side is here, the exporter's in
//! `serve.rs`.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::file::ReportFile;

/// How long to wait for an answer.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of an answer's first line.
const HEAD_LIMIT: usize = 1024;

/// Bytes of the largest file that is taken.
///
/// The zoneinfo of 64 nodes of four zones and 1,024 CPUs has some 30 MB.
const FILE_LIMIT: usize = 1 << 26;

/// Why nothing more is to be had from the other side.
#[derive(Debug)]
pub(super) enum Ended {
    /// Its time is over.
    Late,
    /// Something failed.
    Failed(io::Error),
}

/// Waits until `stream` can be read or written, or until the deadline.
fn wait(stream: BorrowedFd<'_>, flags: PollFlags, deadline: Instant) -> Result<(), Ended> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Err(Ended::Late);
        }
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(stream, flags)], Some(&left)) {
            Ok(0) => return Err(Ended::Late),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(Ended::Failed(error.into())),
        }
    }
}

/// The exporter, which has until a deadline.
pub(super) struct Peer<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl<'a> Peer<'a> {
    pub(super) fn new(stream: &'a UnixStream, patience: Duration) -> Result<Peer<'a>, Ended> {
        stream.set_nonblocking(true).map_err(Ended::Failed)?;
        Ok(Peer { stream, deadline: Instant::now() + patience })
    }

    /// Tries `step` until it doesn't have to wait.
    fn go_on<T>(&self, flags: PollFlags, mut step: impl FnMut(&UnixStream) -> io::Result<T>) -> Result<T, Ended> {
        loop {
            wait(self.stream.as_fd(), flags, self.deadline)?;
            match step(self.stream) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                done => return done.map_err(Ended::Failed),
            }
        }
    }

    /// Reads into all of `bytes`, or to the end: how many there were.
    fn read_all(&self, bytes: &mut [u8]) -> Result<usize, Ended> {
        let mut have = 0;
        while have < bytes.len() {
            match self.go_on(PollFlags::IN, |mut stream| stream.read(&mut bytes[have..]))? {
                0 => break,
                count => have += count,
            }
        }
        Ok(have)
    }

    /// Reads a line of at most `limit` bytes, or up to the stream's end; without the newline.
    ///
    /// Reads byte by byte, because the bytes after the line are for another reader.
    fn read_line(&self, limit: usize) -> Result<Vec<u8>, Ended> {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.len() < limit && self.read_all(&mut byte)? == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        Ok(line)
    }

    fn write_all(&self, mut bytes: &[u8]) -> Result<(), Ended> {
        while !bytes.is_empty() {
            let written = self.go_on(PollFlags::OUT, |mut stream| stream.write(bytes))?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Asks.
    pub(super) fn ask(&self, file: ReportFile) -> Result<(), Ended> {
        self.write_all(format!("{file}\n").as_bytes())
    }

    /// Reads the answer.
    pub(super) fn hear(&self) -> Result<Answer, Ended> {
        let head = self.read_line(HEAD_LIMIT)?;
        let head = str::from_utf8(&head).unwrap_or_default();
        if let Some(reason) = head.strip_prefix("error: ") {
            // In its own words, without control characters, which a terminal would obey.
            let plain = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
            return Ok(Answer::Refused(reason.chars().map(plain).collect()));
        }
        let length = head.strip_prefix("ok ").and_then(|length| length.parse().ok());
        let Some(length) = length.filter(|&length: &usize| length <= FILE_LIMIT) else { return Ok(Answer::Nonsense) };
        let mut bytes = vec![0; length];
        if self.read_all(&mut bytes)? < length {
            return Ok(Answer::Half);
        }
        // No file of ours has any other control characters: they would be for whatever shows it.
        let is_ours = |text: &String| !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t'));
        let text = String::from_utf8(bytes).ok().filter(is_ours);
        Ok(text.map_or(Answer::Nonsense, Answer::File))
    }
}

/// Outcome of a question.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The file.
    File(String),
    /// None, for this reason.
    Refused(String),
    /// A part of it; then the other side was gone.
    Half,
    /// Nothing that we would say.
    Nonsense,
}
