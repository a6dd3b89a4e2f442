//! Errors of arenas as a whole, as values that name the remedy.

use framewright::{AllocError, BootError, NodeId, Order};
use thiserror::Error;

use crate::bytes::Bytes;
use crate::cpus::RseqUnavailable;
use crate::os::{HugePage, OsError};

/// An arena could not be built, trimmed, grown or shrunk. A failed build leaves nothing mapped.
///
/// Sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
#[non_exhaustive]
pub enum ArenaError {
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The memory has no bytes, or no size was given.
    #[error("an arena needs at least one page of memory")]
    Empty,
    /// A size is no multiple of its unit: the page; the huge page; with several nodes, the pageblock.
    #[error("a size of {} is no multiple of {}", Bytes(*.bytes), Bytes(*.multiple))]
    BadSize { bytes: u64, multiple: u64 },
    /// All nodes together are larger than addresses or frame numbers can tell apart.
    #[error("{} are more than addresses can tell apart, {max} bytes", Bytes(*.bytes))]
    TooLarge { bytes: u64, max: u64 },
    /// The page size is no power of two in range, or exceeds the huge page.
    ///
    /// It must be from the kernel's page to 1 GiB.
    #[error(
        "a page of {}: it must be a power of two from the kernel's page to 1 GiB, and no larger than a huge page",
        Bytes(*.bytes)
    )]
    BadPage { bytes: u64 },
    /// The largest block would be larger than 1 GiB.
    #[error("the largest order is {order}, and may be at most {max} with pages of this size")]
    BadMaxOrder { order: Order, max: Order },
    /// The first frame number is no multiple of the largest block, in frames.
    #[error("the first frame {pfn:#x} is no multiple of the largest block's {multiple:#x} frames")]
    BadFirstFrame { pfn: u64, multiple: u64 },
    /// Memory handed in does not begin at a multiple of the page.
    #[error("memory at {address:#x} does not begin at a multiple of {}", Bytes(*.multiple))]
    Misaligned { address: usize, multiple: u64 },
    /// Memory handed in is not as large as the nodes together.
    #[error("memory of {} was handed in for nodes of {}", Bytes(*.bytes), Bytes(*.nodes))]
    WrongLength { bytes: u64, nodes: u64 },
    /// The option changes how memory is mapped, and memory handed in is mapped already.
    #[error("{option} is up to who mapped the memory that was handed in")]
    NotOurs { option: &'static str },
    /// The file handed in is not empty: it may be an arena's that can be recovered.
    #[error("a new arena needs an empty file, and this one has {}", Bytes(*.bytes))]
    FileNotEmpty { bytes: u64 },
    /// The file handed in is locked by another arena that keeps a ledger there.
    #[error("another arena uses the file")]
    FileInUse,
    /// The backing is a file's, and no file was handed in ([`crate::ArenaBuilder::file`]).
    #[error("an arena in a file needs a file")]
    NoFile,
    /// The option does not go together with [`crate::ArenaBuilder::recoverable`].
    #[error("an arena with {option} cannot be recoverable")]
    NotRecoverable { option: &'static str },
    /// The pool has too few free huge pages.
    #[error(
        "fewer than {needed} huge pages of {page} are free; as root, raise \
         /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages{}",
        .page.bytes() >> 10,
        if *.page == HugePage::Size2MiB { " (/proc/sys/vm/nr_hugepages)" } else { "" }
    )]
    HugePoolEmpty { page: HugePage, needed: u64 },
    /// The machine or its kernel has no huge pages of this size.
    #[error("there are no huge pages of {page} here; /sys/kernel/mm/hugepages lists the sizes there are")]
    NoHugePages { page: HugePage },
    /// A node's memory could not be placed as asked, and the builder is strict.
    #[error("memory of node {}: {error}", .node.0)]
    Placement { node: NodeId, error: OsError },
    /// CPUs cannot follow the processors here, and the builder is strict.
    #[error(transparent)]
    PerCpu(RseqUnavailable),
    /// There is no thread for background work; the error number.
    #[error("no thread for background work: {}", std::io::Error::from_raw_os_error(*.0))]
    NoThread(i32),
    /// Memory of this kind does not support the call.
    #[error("{what} does not work with {memory} memory")]
    Unsupported { what: &'static str, memory: &'static str },
    /// The arena was built without [`crate::ArenaBuilder::limit`].
    #[error("the arena was built without a limit, so its size is fixed")]
    FixedSize,
    /// A node is larger at first than the limit.
    #[error("a node of {} is larger than the limit, {}", Bytes(*.bytes), Bytes(*.limit))]
    AboveLimit { bytes: u64, limit: u64 },
    /// All memory up to the limit is present.
    #[error("the arena is as large as its limit, {}", Bytes(*.limit))]
    AtLimit { limit: u64 },
    /// The program's `on_grow` or `on_shrink` refused.
    #[error("the program's hook vetoed {what} by {}", Bytes(*.bytes))]
    Vetoed { what: &'static str, bytes: u64 },
    /// The program's [`crate::Commit`] refused a range, with an error number or without.
    #[error(
        "the program's hook refused to {what} {}{}",
        Bytes(*.bytes),
        .errno.map_or(String::new(), |errno| format!(": {}", std::io::Error::from_raw_os_error(errno)))
    )]
    Hook { what: &'static str, bytes: u64, errno: Option<i32> },
    /// A hook that is asked about a change asks for another one.
    #[error("a hook cannot grow or shrink its arena")]
    InHook,
    /// The allocator refused the range, or the caller.
    #[error(transparent)]
    Refused(AllocError),
    /// A range of frames reaches out of the arena.
    #[error("frames {start:#x} to {end:#x} are not all the arena's")]
    NotItsFrames { start: u64, end: u64 },
    /// The allocator refused the configuration.
    #[error(transparent)]
    Boot(#[from] BootError),
}
