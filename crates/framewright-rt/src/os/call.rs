//! A system call by name: the error that says which failed, and the faults that tests ask for.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use rustix::io::Errno;

use crate::bytes::Bytes;

/// A system call that arenas make.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Call {
    /// `mmap`: address space, or memory in it.
    Mmap,
    /// `munmap`.
    Munmap,
    /// `mprotect`: makes reserved address space usable, or inaccessible again.
    Mprotect,
    /// `madvise`: huge pages, populating, giving memory back.
    Madvise,
    /// `memfd_create`.
    MemfdCreate,
    /// `ftruncate`: the size of a memfd or file.
    Ftruncate,
    /// `fcntl(F_ADD_SEALS)`.
    AddSeals,
    /// `mbind`: which nodes memory comes from.
    Mbind,
    /// `move_pages`, which is only asked where pages are.
    MovePages,
    /// `open`: an arena's file once more, for a lock.
    Open,
    /// `fcntl(F_DUPFD_CLOEXEC)`: a file that was handed in.
    Dup,
    /// `flock`: keeps other processes from the arena.
    Flock,
    /// `fstat`: the length of a file.
    Fstat,
    /// `lseek`: the parts of a file that are not holes.
    Lseek,
    /// `pread`: the ledger of an arena that is recovered.
    Pread,
    /// `pwrite`: the header of a ledger.
    Pwrite,
}

impl Call {
    /// Name of the system call.
    pub const fn name(self) -> &'static str {
        match self {
            Call::Mmap => "mmap",
            Call::Munmap => "munmap",
            Call::Mprotect => "mprotect",
            Call::Madvise => "madvise",
            Call::MemfdCreate => "memfd_create",
            Call::Ftruncate => "ftruncate",
            Call::AddSeals => "fcntl(F_ADD_SEALS)",
            Call::Mbind => "mbind",
            Call::MovePages => "move_pages",
            Call::Open => "open",
            Call::Dup => "fcntl(F_DUPFD_CLOEXEC)",
            Call::Flock => "flock",
            Call::Fstat => "fstat",
            Call::Lseek => "lseek",
            Call::Pread => "pread",
            Call::Pwrite => "pwrite",
        }
    }
}

/// A system call failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OsError {
    /// Which.
    pub call: Call,
    /// Bytes that it was about.
    pub bytes: u64,
    /// The error number (`errno`).
    pub errno: i32,
}

impl OsError {
    /// A remedy, where one is known.
    pub fn hint(&self) -> Option<&'static str> {
        let errno = Errno::from_raw_os_error(self.errno);
        match (self.call, errno) {
            (Call::Mmap | Call::Mprotect, Errno::NOMEM) => Some(
                "the limit of address space (ulimit -v), the number of mappings (/proc/sys/vm/max_map_count) or the \
                 commit limit (/proc/sys/vm/overcommit_memory is 2) is reached",
            ),
            (Call::Mmap, Errno::INVAL) => {
                Some("the address space is too small; valgrind leaves some 50 GiB to an arena and its limit")
            }
            (Call::MemfdCreate, Errno::MFILE | Errno::NFILE) => Some("the limit of open files (ulimit -n) is reached"),
            (Call::Ftruncate, Errno::FBIG) => Some("the limit of file sizes (ulimit -f) is below the arena's size"),
            (Call::Mbind, Errno::PERM | Errno::NOSYS) => {
                Some("this process may not place memory (a container's seccomp profile); build with best effort")
            }
            (Call::Open, _) => Some("a recoverable arena opens its file once more, through /proc"),
            (Call::Mbind, Errno::INVAL) => Some("a node is not online; see /sys/devices/system/node/online"),
            (Call::Madvise, Errno::NOMEM | Errno::FAULT) => {
                Some("there is too little memory, of this kind or on these nodes")
            }
            (Call::Madvise, Errno::INVAL) => Some("this kernel does not know the advice"),
            _ => None,
        }
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = std::io::Error::from_raw_os_error(self.errno);
        write!(f, "{} of {} failed: {reason}", self.call.name(), Bytes(self.bytes))?;
        match self.hint() {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for OsError {}

/// The faults of a thread's calls.
#[derive(Clone, Copy)]
struct FaultPlan {
    /// Only calls of this kind are counted.
    only: Option<Call>,
    /// Calls counted so far.
    calls: u64,
    /// The first call to fail, counted from 1, and the last.
    fail: (u64, u64),
    errno: i32,
}

thread_local! {
    static PLAN: Cell<Option<FaultPlan>> = const { Cell::new(None) };
}

/// Makes system calls of this thread fail while it lives, to test how a program reacts.
///
/// A call that is to fail is not made at all. There is one plan for each thread; a new one replaces it.
///
/// ```
/// use framewright_rt::os::{Call, Faults};
/// use framewright_rt::{Arena, ArenaError};
///
/// let faults = Faults::always(Call::Mmap, 12); // ENOMEM
/// assert!(matches!(Arena::builder().size(1 << 20).build(), Err(ArenaError::Os(error)) if error.call == Call::Mmap));
/// drop(faults);
/// assert!(Arena::builder().size(1 << 20).build().is_ok());
/// ```
#[derive(Debug)]
pub struct Faults {
    /// The plan is this thread's.
    _here: PhantomData<*const ()>,
}

impl Faults {
    fn plan(only: Option<Call>, fail: (u64, u64), errno: i32) -> Faults {
        PLAN.set(Some(FaultPlan { only, calls: 0, fail, errno }));
        Faults { _here: PhantomData }
    }

    /// Makes the `k`-th call from now, counted from 1, fail with `errno`.
    ///
    /// With `k = 0` no call fails, and calls are only counted.
    pub fn nth(k: u64, errno: i32) -> Faults {
        Faults::plan(None, (k, k), errno)
    }

    /// The `k`-th call of one kind fails with `errno`.
    pub fn nth_of(call: Call, k: u64, errno: i32) -> Faults {
        Faults::plan(Some(call), (k, k), errno)
    }

    /// Every call of one kind fails with `errno`, as where it is denied.
    pub fn always(call: Call, errno: i32) -> Faults {
        Faults::plan(Some(call), (1, u64::MAX), errno)
    }

    /// Calls so far, of the one kind if the plan is for one.
    pub fn calls(&self) -> u64 {
        PLAN.get().map_or(0, |plan| plan.calls)
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        PLAN.set(None);
    }
}

/// The error that the plan has for this call.
fn planned(call: Call) -> Option<i32> {
    let mut plan = PLAN.get()?;
    if plan.only.is_some_and(|only| only != call) {
        return None;
    }
    plan.calls += 1;
    PLAN.set(Some(plan));
    (plan.fail.0 <= plan.calls && plan.calls <= plan.fail.1 && plan.fail.0 != 0).then_some(plan.errno)
}

/// Makes a call about `bytes` bytes, unless a test made it fail.
pub(super) fn attempt<T>(call: Call, bytes: usize, make: impl FnOnce() -> rustix::io::Result<T>) -> Result<T, OsError> {
    let fault = planned(call).map(Errno::from_raw_os_error);
    let result = fault.map_or_else(make, Err);
    result.map_err(|errno| OsError { call, bytes: bytes as u64, errno: errno.raw_os_error() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(call: Call) -> Option<i32> {
        attempt(call, 1, || Ok(())).err().map(|error| error.errno)
    }

    #[test]
    fn plans_fail_the_calls_they_name() {
        assert_eq!(call(Call::Mmap), None);
        let faults = Faults::nth(2, 12);
        assert_eq!([call(Call::Mmap), call(Call::Mbind), call(Call::Mmap)], [None, Some(12), None]);
        assert_eq!(faults.calls(), 3);
        drop(faults);
        let faults = Faults::nth_of(Call::Mbind, 1, 1);
        assert_eq!([call(Call::Mmap), call(Call::Mbind), call(Call::Mbind)], [None, Some(1), None]);
        assert_eq!(faults.calls(), 2);
        drop(faults);
        let faults = Faults::always(Call::Mmap, 22);
        assert_eq!([call(Call::Mmap), call(Call::Mmap)], [Some(22), Some(22)]);
        drop(faults);
        let faults = Faults::nth(0, 12);
        assert_eq!((call(Call::Mmap), faults.calls()), (None, 1));
    }

    #[test]
    fn errors_say_what_failed_and_what_would_help() {
        let error = OsError { call: Call::Mbind, bytes: 4096, errno: 1 };
        assert_eq!(
            error.to_string(),
            "mbind of 4 KiB failed: Operation not permitted (os error 1); this process may not place memory (a \
             container's seccomp profile); build with best effort"
        );
        let error = OsError { call: Call::Mmap, bytes: 1 << 40, errno: libc::EINVAL };
        assert!(error.hint().is_some_and(|hint| hint.contains("valgrind leaves some 50 GiB")));
        let error = OsError { call: Call::Ftruncate, bytes: 1, errno: 28 };
        assert_eq!(error.to_string(), "ftruncate of 1 byte failed: No space left on device (os error 28)");
    }
}
