//! Files that an arena's memory and its ledger lie in.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::call::{Call, OsError, attempt};

/// Opens a file once more, for a lock of its own.
///
/// A lock by `flock` belongs to the opened file, which all copies of its descriptor share, in other processes too.
#[allow(clippy::disallowed_methods, reason = "a file that is open already, by its descriptor")]
pub(crate) fn reopen(file: BorrowedFd<'_>) -> Result<OwnedFd, OsError> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    attempt(Call::Open, 0, || fs::open(&*path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()))
}

/// Copies a descriptor.
pub(crate) fn duplicate(file: BorrowedFd<'_>) -> Result<OwnedFd, OsError> {
    attempt(Call::Dup, 0, || rustix::io::fcntl_dupfd_cloexec(file, 0))
}

/// Locks an opened file; false if another has it locked.
pub(crate) fn lock(file: BorrowedFd<'_>) -> Result<bool, OsError> {
    match attempt(Call::Flock, 0, || fs::flock(file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(error) if error.errno == libc::EWOULDBLOCK => Ok(false),
        Err(error) => Err(error),
    }
}

/// Length of a file in bytes.
pub(crate) fn file_len(file: BorrowedFd<'_>) -> Result<u64, OsError> {
    attempt(Call::Fstat, 0, || fs::fstat(file).map(|stat| u64::try_from(stat.st_size).unwrap_or(0)))
}

/// Sets the length of a file.
pub(crate) fn set_file_len(file: BorrowedFd<'_>, len: u64) -> Result<(), OsError> {
    attempt(Call::Ftruncate, len as usize, || fs::ftruncate(file, len))
}

/// Reads bytes of a file; those beyond its end are 0.
pub(crate) fn read_at(file: BorrowedFd<'_>, mut offset: u64, mut bytes: &mut [u8]) -> Result<(), OsError> {
    while !bytes.is_empty() {
        let len = bytes.len();
        let read = match attempt(Call::Pread, len, || rustix::io::pread(file, &mut *bytes, offset)) {
            Ok(0) => {
                bytes.fill(0);
                return Ok(());
            }
            Ok(read) => read,
            Err(error) if error.errno == libc::EINTR => continue,
            Err(error) => return Err(error),
        };
        bytes = &mut bytes[read..];
        offset += read as u64;
    }
    Ok(())
}

/// Writes bytes of a file.
pub(crate) fn write_at(file: BorrowedFd<'_>, mut offset: u64, mut bytes: &[u8]) -> Result<(), OsError> {
    while !bytes.is_empty() {
        let written = match attempt(Call::Pwrite, bytes.len(), || rustix::io::pwrite(file, bytes, offset)) {
            Ok(0) => return Err(OsError { call: Call::Pwrite, bytes: bytes.len() as u64, errno: libc::ENOSPC }),
            Ok(written) => written,
            Err(error) if error.errno == libc::EINTR => continue,
            Err(error) => return Err(error),
        };
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// The next place from `at` on that is not in a hole of the file; none up to its end.
pub(crate) fn next_data(file: BorrowedFd<'_>, at: u64) -> Result<Option<u64>, OsError> {
    match attempt(Call::Lseek, 0, || fs::seek(file, SeekFrom::Data(at))) {
        Ok(data) => Ok(Some(data)),
        Err(error) if error.errno == Errno::NXIO.raw_os_error() => Ok(None),
        // A file system without holes.
        Err(error) if error.errno == Errno::INVAL.raw_os_error() => Ok(Some(at)),
        Err(error) => Err(error),
    }
}
