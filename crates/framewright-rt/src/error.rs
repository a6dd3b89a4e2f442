//! Errors of building an arena, as values that name the remedy.

use std::fmt;

use framewright::{BootError, NodeId};

use crate::bytes::Bytes;
use crate::cpus::RseqUnavailable;
use crate::os::{HugePage, OsError};

/// An arena could not be built or trimmed. A failed build leaves nothing mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ArenaError {
    /// A system call failed.
    Os(OsError),
    /// The memory has no bytes, or no size was given.
    Empty,
    /// A size is no multiple of its unit.
    BadSize {
        /// The given size in bytes.
        bytes: u64,
        /// Its unit in bytes: the page; the huge page; with several nodes, the pageblock.
        multiple: u64,
    },
    /// All nodes together are larger than addresses or frame numbers can tell apart.
    TooLarge {
        /// The requested size in bytes.
        bytes: u64,
        /// The most there can be, in bytes.
        max: u64,
    },
    /// The page size is no power of two in range, or exceeds the huge page.
    ///
    /// It must be from the kernel's page to 1 GiB.
    BadPage {
        /// The given page size in bytes.
        bytes: u64,
    },
    /// The first frame number is no multiple of the largest block.
    BadFirstFrame {
        /// The given frame number.
        pfn: u64,
        /// Frames in the largest block.
        multiple: u64,
    },
    /// Memory handed in does not begin at a multiple of the page.
    Misaligned {
        /// Where it begins.
        address: usize,
        /// The page, in bytes.
        multiple: u64,
    },
    /// Memory handed in is not as large as the nodes together.
    WrongLength {
        /// Its size in bytes.
        bytes: u64,
        /// The nodes' in bytes.
        nodes: u64,
    },
    /// The option changes how memory is mapped, and memory handed in is mapped already.
    NotOurs {
        /// The option.
        option: &'static str,
    },
    /// The pool has too few free huge pages.
    HugePoolEmpty {
        /// Their size.
        page: HugePage,
        /// How many were asked for.
        needed: u64,
    },
    /// The machine or its kernel has no huge pages of this size.
    NoHugePages {
        /// The size.
        page: HugePage,
    },
    /// A node's memory could not be placed as asked, and the builder is strict.
    Placement {
        /// The arena's node.
        node: NodeId,
        /// Why.
        error: OsError,
    },
    /// CPUs cannot follow the processors here, and the builder is strict.
    PerCpu(RseqUnavailable),
    /// There is no thread for background work; the error number.
    NoThread(i32),
    /// Memory of this kind does not support the call.
    Unsupported {
        /// The call.
        what: &'static str,
        /// The kind of memory.
        memory: &'static str,
    },
    /// The allocator refused the configuration.
    Boot(BootError),
}

impl fmt::Display for ArenaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ArenaError::Os(ref error) => error.fmt(f),
            ArenaError::Empty => f.write_str("an arena needs at least one page of memory"),
            ArenaError::BadSize { bytes, multiple } => {
                write!(f, "a size of {} is no multiple of {}", Bytes(bytes), Bytes(multiple))
            }
            ArenaError::TooLarge { bytes, max } => {
                write!(f, "{} are more than addresses can tell apart, {max} bytes", Bytes(bytes))
            }
            ArenaError::BadPage { bytes } => write!(
                f,
                "a page of {}: it must be a power of two from the kernel's page to 1 GiB, and no larger than a huge page",
                Bytes(bytes)
            ),
            ArenaError::BadFirstFrame { pfn, multiple } => {
                write!(f, "the first frame {pfn:#x} is no multiple of the largest block's {multiple:#x} frames")
            }
            ArenaError::Misaligned { address, multiple } => {
                write!(f, "memory at {address:#x} does not begin at a multiple of {}", Bytes(multiple))
            }
            ArenaError::WrongLength { bytes, nodes } => {
                write!(f, "memory of {} was handed in for nodes of {}", Bytes(bytes), Bytes(nodes))
            }
            ArenaError::NotOurs { option } => {
                write!(f, "{option} is up to who mapped the memory that was handed in")
            }
            ArenaError::HugePoolEmpty { page, needed } => write!(
                f,
                "fewer than {needed} huge pages of {page} are free; as root, raise /sys/kernel/mm/hugepages/hugepages-{}kB/\
                 nr_hugepages{}",
                page.bytes() >> 10,
                if page == HugePage::Size2MiB { " (/proc/sys/vm/nr_hugepages)" } else { "" }
            ),
            ArenaError::NoHugePages { page } => {
                write!(f, "there are no huge pages of {page} here; /sys/kernel/mm/hugepages lists the sizes there are")
            }
            ArenaError::Placement { node, ref error } => write!(f, "memory of node {}: {error}", node.0),
            ArenaError::PerCpu(ref error) => error.fmt(f),
            ArenaError::NoThread(errno) => {
                let reason = std::io::Error::from_raw_os_error(errno);
                write!(f, "no thread for background work: {reason}")
            }
            ArenaError::Unsupported { what, memory } => write!(f, "{what} does not work with {memory} memory"),
            ArenaError::Boot(ref error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ArenaError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ArenaError::Os(error) | ArenaError::Placement { error, .. } => Some(error),
            ArenaError::PerCpu(error) => Some(error),
            ArenaError::Boot(error) => Some(error),
            _ => None,
        }
    }
}

impl From<OsError> for ArenaError {
    fn from(error: OsError) -> ArenaError {
        ArenaError::Os(error)
    }
}

impl From<BootError> for ArenaError {
    fn from(error: BootError) -> ArenaError {
        ArenaError::Boot(error)
    }
}
