//! The thread of an export: answers all askers in turn, and waits for none of them.
//!
//! Each asker is in one of two states, and has a second for each:
//!
//! | state | waits until the socket can be | ends |
//! |---|---|---|
//! | asks | read | by a line, by as many bytes as no name has, or by the end of the stream |
//! | is answered | written | when the answer is written |
//!
//! An asker that says nothing, or reads nothing, is hung up on after that second. There are at most [`ASKERS`]. One
//! more takes the place of the one whose time ends first, so askers that say nothing cannot keep others out.
//!
//! Cost: no time without askers. An answer is a copy of the file, at most [`ASKERS`] at a time.
//!
//! Rejected: one asker at a time, each of which could hold up all others for two seconds; and a thread for each.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use framewright::report::Source;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::file::{NAME_LIMIT, ReportFile, parse};
use crate::callbacks::Panics;

/// Askers at a time.
const ASKERS: usize = 32;

/// Time limit of an asker for its question, and again for reading the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long to wait when a connection cannot be taken, for want of file descriptors perhaps.
const PAUSE: Duration = Duration::from_millis(100);

/// Calls its argument with the allocator, if that still exists.
type WithSource<'a> = dyn Fn(&mut dyn FnMut(&dyn Source)) + 'a;

/// Answers until told to stop.
pub(super) fn serve(listener: &UnixListener, stop: &UnixStream, with_source: &WithSource<'_>) {
    let mut askers: Vec<Asker> = Vec::new();
    // Until then no connection is taken.
    let mut pause: Option<Instant> = None;
    while let Ok(ready) = wait(listener.as_fd(), stop.as_fd(), &askers, pause) {
        let now = Instant::now();
        pause = pause.filter(|&end| end > now);
        // From the last on, so that the numbers of those before stay right.
        for at in (0..askers.len()).rev() {
            let goes_on = if ready.askers[at] { askers[at].go_on(with_source) } else { askers[at].deadline > now };
            if !goes_on {
                askers.remove(at);
            }
        }
        if ready.listener && pause.is_none() {
            match listener.accept().and_then(|(stream, _)| Asker::new(stream)) {
                Ok(asker) => {
                    if askers.len() == ASKERS {
                        // They came in this order, and each has the same time.
                        let first = (0..ASKERS).min_by_key(|&at| askers[at].deadline).unwrap_or(0);
                        askers.remove(first);
                    }
                    askers.push(asker);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => pause = Some(now + PAUSE),
            }
        }
    }
}

/// What can be done now.
struct Ready {
    listener: bool,
    /// In the order of the askers.
    askers: Vec<bool>,
}

/// Waits until something can be done, or a deadline is over.
///
/// # Errors
/// The thread is to stop, or the system failed.
fn wait(
    listener: BorrowedFd<'_>,
    stop: BorrowedFd<'_>,
    askers: &[Asker],
    pause: Option<Instant>,
) -> Result<Ready, Errno> {
    let end = askers.iter().map(|asker| asker.deadline).chain(pause).min();
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
    let accepts = if pause.is_some() { PollFlags::empty() } else { PollFlags::IN };
    let mut all = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN), PollFd::from_borrowed_fd(listener, accepts)];
    all.extend(askers.iter().map(|asker| PollFd::from_borrowed_fd(asker.stream.as_fd(), asker.flags())));
    match poll(&mut all, left.as_ref()) {
        Ok(_) | Err(Errno::INTR) if !all[0].revents().is_empty() => Err(Errno::CANCELED),
        Ok(_) => {
            let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
            Ok(Ready { listener: is_ready(&all[1]), askers: all[2..].iter().map(is_ready).collect() })
        }
        Err(Errno::INTR) => Ok(Ready { listener: false, askers: vec![false; askers.len()] }),
        Err(error) => Err(error),
    }
}

/// The other side of a connection.
struct Asker {
    stream: UnixStream,
    deadline: Instant,
    question: Vec<u8>,
    /// What is left of the answer, and where it begins.
    answer: Option<(Vec<u8>, usize)>,
}

impl Asker {
    fn new(stream: UnixStream) -> io::Result<Asker> {
        stream.set_nonblocking(true)?;
        Ok(Asker { stream, deadline: Instant::now() + PATIENCE, question: Vec::new(), answer: None })
    }

    fn flags(&self) -> PollFlags {
        if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Reads or writes as much as there is. Returns whether the connection goes on.
    fn go_on(&mut self, with_source: &WithSource<'_>) -> bool {
        let done = match &mut self.answer {
            None => self.read(),
            Some((bytes, at)) => self.stream.write(&bytes[*at..]).map(|written| {
                *at += written;
                *at == bytes.len()
            }),
        };
        match done {
            Ok(true) if self.answer.is_none() => {
                self.answer = Some((answer(&self.question, with_source), 0));
                // The time to read the allocator does not count against the asker.
                self.deadline = Instant::now() + PATIENCE;
                true
            }
            Ok(is_done) => !is_done && self.deadline > Instant::now(),
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Reads what there is of the question. Returns whether it is complete.
    fn read(&mut self) -> io::Result<bool> {
        // One byte more than a name has: a longer line is read as one that names nothing.
        let mut bytes = [0; NAME_LIMIT + 1];
        let count = self.stream.read(&mut bytes[self.question.len()..])?;
        self.question.extend_from_slice(&bytes[self.question.len()..][..count]);
        let end = self.question.iter().position(|&byte| byte == b'\n');
        self.question.truncate(end.unwrap_or(usize::MAX));
        Ok(end.is_some() || count == 0 || self.question.len() > NAME_LIMIT)
    }
}

/// Returns the answer to a question, as `talk.rs` says.
fn answer(question: &[u8], with_source: &WithSource<'_>) -> Vec<u8> {
    let answer = match parse(question) {
        Err(unknown) => Err(unknown.to_string()),
        Ok(file) => {
            let mut answer = Err("the allocator is gone".to_owned());
            let look = || {
                with_source(&mut |source| {
                    let nodes = || ReportFile::Online.text(source).unwrap_or_default();
                    let missing = || format!("there is no {file}: nodes are {}", nodes().trim_end());
                    answer = file.text(source).ok_or_else(missing);
                });
            };
            // The thread answers the next asker all the same.
            let told = Panics::default().catch(look);
            if told.is_some() { answer } else { Err("the allocator's source panicked".to_owned()) }
        }
    };
    match answer {
        Ok(file) => format!("ok {}\n{file}", file.len()).into_bytes(),
        Err(reason) => format!("error: {reason}\n").into_bytes(),
    }
}
