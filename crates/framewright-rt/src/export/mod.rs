//! Exports an allocator's files to other processes, through a socket that answers requests such as `zoneinfo`.
//!
//! A process has no `/proc` of its own. An [`Export`] is a socket in the file system and a thread that listens there.
//! [`fetch`] is the other end, and the command `framewright proc` calls it. Each connection is one question, by a
//! file's name, and one answer, the file (`talk.rs` has the bytes). Files are those of Linux and its debugfs
//! ([`ReportFile`]).
//!
//! The thread reads the allocator as any other caller does, without a lock, into a text, and then writes that text to
//! the asker. An asker that asks or reads slowly, or not at all, delays nobody (`serve.rs`). After a second the thread
//! closes such a connection. A question has at most 64 bytes.
//!
//! The permissions of the socket's file decide which users may connect. It has mode 0600 from its first moment on: its
//! own user alone may. A process that wants to admit others changes the mode afterwards. The file goes when the
//! `Export` is dropped. A killed process leaves the file; no process answers there any more, and the next `Export`
//! replaces it. Concurrent exporters take turns by a lock of the folder, which they must be able to read: exactly one
//! of them gets the path. A fork's child has neither thread nor socket; it may export elsewhere.
//!
//! Rejected: a file that is rewritten at intervals. It costs time without readers, is old for a reader, and stays when
//! the process is gone. The command `framewright proc tree` writes one for readers that want files. Also rejected: HTTP
//! (a port that others may reach, and a parser for their requests). With shared memory the exporter would have to
//! survive any error of a reader.

mod serve;
mod talk;
mod file;

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use framewright::report::Source;
use framewright::units::NodeId;
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use thiserror::Error;

use crate::thread::Thread;
use file::Nodes;
use serve::serve;
use talk::{ANSWER_PATIENCE, Answer, Ended, Peer};

pub use file::{ReportFile, UnknownFile, online};

/// Bytes of the longest path of a socket: one less than the system's field.
const PATH_LIMIT: usize = 107;

/// Connections that wait to be taken; the standard library has as many.
const BACKLOG: i32 = 128;

/// Number of looks at a locked folder, and the time between two.
///
/// That is 5 s in all; an exporter holds the lock for milliseconds.
const LOCK_LOOKS: u32 = 5_000;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// A socket at which other processes read an allocator's files, until it is dropped.
///
/// ```
/// use framewright_rt::{Arena, ReportFile, export};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("pool.sock");
/// let arena = Arena::builder().size(64 << 20).build()?;
/// let export = arena.export(&path)?;
/// // In another process:
/// let text = export::fetch(&path, ReportFile::BuddyInfo)?;
/// assert!(text.starts_with("Node 0, zone   Normal "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Export {
    path: PathBuf,
    /// Device and number of the socket's file, which tell it from whatever is at that path later.
    file: (u64, u64),
    thread: Thread,
}

impl Export {
    /// Answers at `path` from now on.
    ///
    /// `with_source` gets a closure, which it calls with the allocator, or does not call if the allocator is gone.
    ///
    /// # Errors
    /// No socket can be made at the path, or no thread can be started.
    pub fn start<W>(path: impl AsRef<Path>, with_source: W) -> Result<Export, ExportError>
    where
        W: Fn(&mut dyn FnMut(&dyn Source)) + Send + 'static,
    {
        let given = path.as_ref();
        let fails = |reason| ExportError { path: given.to_owned(), reason };
        let length = given.as_os_str().len();
        if length > PATH_LIMIT {
            return Err(fails(ExportReason::PathTooLong(length)));
        }
        let locked = FolderLock::take(given).map_err(fails)?;
        let listener = listen(given).map_err(fails)?;
        // The working directory may change before the file is removed. A socket's own path may have to be short.
        let path = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
        let failed = |error| fails(ExportReason::Failed(error));
        let file = socket_at(&path).ok_or_else(|| fails(ExportReason::NotASocket))?;
        let start = || {
            listener.set_nonblocking(true)?;
            let (tell, told) = UnixStream::pair()?;
            // The other end is readable as soon as this one says nothing more.
            let stop = move || drop(tell.shutdown(std::net::Shutdown::Both));
            Thread::start(stop, move || serve(&listener, &told, &with_source))
        };
        let thread = start().map_err(|error| {
            remove(&path, file);
            failed(error)
        })?;
        drop(locked);
        Ok(Export { path, file, thread })
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the thread answers. Not in a fork's child.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // In a fork's child the socket is the parent's. The lock keeps others from replacing the socket between the
        // look and the removal. Without the lock, still no exporter replaces a socket that has a listener.
        let _locked = if self.thread.is_here() { FolderLock::take(&self.path).ok() } else { None };
        if self.thread.is_here() {
            remove(&self.path, self.file);
        }
    }
}

/// Device and number of the socket at a path; none if there is something else, such as a link to one.
fn socket_at(path: &Path) -> Option<(u64, u64)> {
    let there = fs::symlink_metadata(path).ok()?;
    there.file_type().is_socket().then(|| (there.dev(), there.ino()))
}

/// Removes a socket of this process; anything else at its path stays.
fn remove(path: &Path, own: (u64, u64)) {
    if socket_at(path) == Some(own) {
        let _ = fs::remove_file(path);
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Keeps other exporters from the folder until it is dropped.
///
/// So no two exporters check at once whether a socket is in use and then replace it. The folder itself is locked
/// (`flock`), so that no lock file is left. The lock is held for the one or two system calls of [`listen`].
struct FolderLock(fs::File);

impl FolderLock {
    fn take(path: &Path) -> Result<FolderLock, ExportReason> {
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let folder = fs::File::open(folder).map_err(ExportReason::Failed)?;
        // Other programs may lock folders for longer, for purposes of their own.
        for _ in 0..LOCK_LOOKS {
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(FolderLock(folder)),
                Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(ExportReason::Failed(error.into())),
            }
        }
        Err(ExportReason::Locked)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // By hand, since a child that was forked meanwhile has the folder open too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Makes a socket at `path`, to which its own user alone may connect.
///
/// The kernel gives the file the mode of the socket. So it has that mode from the first moment on, whatever the
/// process' umask.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Makes a socket at `path`, in the place of one that has no listener.
///
/// Caller holds: the folder's lock. Between another exporter's bind and listen, its socket looks like one without a
/// listener. Between the look and the removal here, the path may have become another exporter's. So exactly one
/// exporter does this at a time.
fn listen(path: &Path) -> Result<UnixListener, ExportReason> {
    let in_use = match bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => error,
        bound => return bound.map_err(ExportReason::Failed),
    };
    if socket_at(path).is_none() {
        return Err(ExportReason::NotASocket);
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ExportReason::Live),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(ExportReason::Failed)?;
            // Another program than an exporter may have been faster; then its socket is live.
            bind(path).map_err(|error| match error.kind() {
                ErrorKind::AddrInUse => ExportReason::Live,
                _ => ExportReason::Failed(error),
            })
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(ExportReason::Failed(error)),
        Err(_) => Err(ExportReason::Failed(in_use)),
    }
}

/// Reads a file of the allocator that is exported at `path`.
///
/// # Errors
/// No process answers there, or it refuses this file.
pub fn fetch(path: impl AsRef<Path>, file: ReportFile) -> Result<String, FetchError> {
    let path = path.as_ref();
    let failed = |reason| FetchError { path: path.to_owned(), file, reason };
    let stream = connect(path).map_err(failed)?;
    let ended = |ended| match ended {
        Ended::Late => failed(FetchReason::Late),
        Ended::Failed(error) => failed(FetchReason::Failed(error)),
    };
    let server = Peer::new(&stream, ANSWER_PATIENCE).map_err(ended)?;
    // A server that hangs up on a question may have left an answer before.
    let asked = server.ask(file);
    match server.hear().map_err(ended)? {
        Answer::File(text) => Ok(text),
        Answer::Refused(reason) => Err(failed(FetchReason::Refused(reason))),
        Answer::Half => Err(failed(FetchReason::Half)),
        Answer::Nonsense => asked.map_err(ended).and(Err(failed(FetchReason::Nonsense))),
    }
}

/// Reads the node numbers of the allocator that is exported at `path`.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_nodes(path: impl AsRef<Path>) -> Result<Vec<NodeId>, FetchError> {
    let (path, file) = (path.as_ref(), ReportFile::Online);
    let nonsense = || FetchError { path: path.to_owned(), file, reason: FetchReason::Nonsense };
    Nodes::parse(&fetch(path, file)?).map(|nodes| nodes.0).ok_or_else(nonsense)
}

fn connect(path: &Path) -> Result<UnixStream, FetchReason> {
    let length = path.as_os_str().len();
    if length > PATH_LIMIT {
        return Err(FetchReason::PathTooLong(length));
    }
    let is_socket = || fs::metadata(path).is_ok_and(|file| file.file_type().is_socket());
    UnixStream::connect(path).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused if is_socket() => FetchReason::Stale,
        ErrorKind::ConnectionRefused => FetchReason::NotASocket,
        _ => FetchReason::Failed(error),
    })
}

/// There can be no socket at this path.
#[derive(Debug, Error)]
#[error("no export at {}: {reason}", .path.display())]
pub struct ExportError {
    /// The path.
    pub path: PathBuf,
    /// Why.
    pub reason: ExportReason,
}

/// Why there can be no socket at a path.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportReason {
    /// The path has this many bytes, more than a socket's may have.
    #[error("the path has {0} bytes, and a socket's at most {PATH_LIMIT}")]
    PathTooLong(usize),
    /// A socket exists at the path, and a process listens there.
    #[error("a process listens there; end it, or name another path")]
    Live,
    /// There is a file that is no socket.
    #[error("there is a file that is no socket")]
    NotASocket,
    /// Another process keeps the folder locked.
    #[error("another process keeps the folder locked; name another folder")]
    Locked,
    /// The system's reason.
    #[error("{0}")]
    Failed(io::Error),
}

/// A file could not be read.
#[derive(Debug, Error)]
#[error("no {file} from {}: {reason}", .path.display())]
pub struct FetchError {
    /// Where the socket is, or should be.
    pub path: PathBuf,
    /// The file.
    pub file: ReportFile,
    /// Why.
    pub reason: FetchReason,
}

/// Why a file could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FetchReason {
    /// The path has this many bytes, more than a socket's may have.
    #[error("the path has {0} bytes, and a socket's at most {PATH_LIMIT}")]
    PathTooLong(usize),
    /// No process listens at the socket: its own is gone.
    #[error("nobody listens there; the process that did is gone")]
    Stale,
    /// The file is no socket.
    #[error("that is no socket")]
    NotASocket,
    /// There was no answer in time.
    #[error("no answer within {} s", ANSWER_PATIENCE.as_secs())]
    Late,
    /// The other side has no such file, in its words.
    #[error("{0}")]
    Refused(String),
    /// The other side was gone before the file's end.
    #[error("the process was gone before the end")]
    Half,
    /// The other side says something that no export says.
    #[error("whoever listens there is no exported allocator")]
    Nonsense,
    /// The system's reason.
    #[error("{0}")]
    Failed(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new reason does not compile before it has a text here.
    #[test]
    fn every_reason_is_told() {
        let reasons = [
            FetchReason::PathTooLong(150),
            FetchReason::Stale,
            FetchReason::NotASocket,
            FetchReason::Late,
            FetchReason::Refused("there is no node 7".to_owned()),
            FetchReason::Half,
            FetchReason::Nonsense,
            FetchReason::Failed(ErrorKind::PermissionDenied.into()),
        ];
        for reason in reasons {
            let expected = match reason {
                FetchReason::PathTooLong(_) => "the path has 150 bytes, and a socket's at most 107",
                FetchReason::Stale => "nobody listens there; the process that did is gone",
                FetchReason::NotASocket => "that is no socket",
                FetchReason::Late => "no answer within 5 s",
                FetchReason::Refused(_) => "there is no node 7",
                FetchReason::Half => "the process was gone before the end",
                FetchReason::Nonsense => "whoever listens there is no exported allocator",
                FetchReason::Failed(_) => "permission denied",
            };
            let error = FetchError { path: "pool.sock".into(), file: ReportFile::VmStat, reason };
            assert_eq!(error.to_string(), format!("no vmstat from pool.sock: {expected}"));
        }
    }
}
