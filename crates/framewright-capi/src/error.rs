//! Error codes: one negative number for each way in which a call can be refused.
//!
//! A C function returns an `int`: 0, or one of these numbers. The numbers are part of the binary interface. A number
//! keeps its meaning for ever, and a new error gets a new number.
//!
//! | from | errors about |
//! |---|---|
//! | -1 | arguments that no Rust caller could pass: NULL, foreign handles, sizes that overflow |
//! | -20 | requests and frees ([`AllocError`], [`FreeError`]); an error that both know has one number |
//! | -50 | an arena that could not be built ([`ArenaError`], [`BootError`]) |
//!
//! Cost: none where a call succeeds. Rejected: `errno` values, of which too few fit; and an error kept for the thread,
//! which a caller must read before the next call.

use std::ffi::{CStr, c_int};

use framewright::{AllocError, BootError, FreeError, Why};
use framewright_rt::ArenaError;

/// Success.
pub const FW_OK: c_int = 0;

/// A pointer argument is NULL that must not be.
pub const FW_E_NULL: c_int = -1;
/// A pointer argument is not aligned for its type.
pub const FW_E_UNALIGNED: c_int = -2;
/// The handle is no arena of this process: NULL, destroyed, or a pointer to something else.
pub const FW_E_ARENA: c_int = -3;
/// The handle is no open local handle: NULL, closed, or a pointer to something else.
pub const FW_E_LOCAL: c_int = -4;
/// The local handle belongs to another thread.
pub const FW_E_THREAD: c_int = -5;
/// The `size` field of a structure is 0, too small, or that of a newer version whose fields are in use.
pub const FW_E_STRUCT: c_int = -6;
/// A field of the options has a value without a meaning.
pub const FW_E_OPTION: c_int = -7;
/// The text names no preset, switch or choice of mechanisms.
pub const FW_E_MECHANISMS: c_int = -8;
/// A number of bytes or pages is 0.
pub const FW_E_ZERO_SIZE: c_int = -9;
/// A size is larger than addresses can tell apart.
pub const FW_E_OVERFLOW: c_int = -10;
/// An alignment is no power of two.
pub const FW_E_ALIGNMENT: c_int = -11;
/// The arena still has allocated blocks or open local handles.
pub const FW_E_IN_USE: c_int = -12;
/// The process has as many arenas or local handles as there can be.
pub const FW_E_HANDLES: c_int = -13;
/// An invariant of the allocator is violated: its memory was damaged.
pub const FW_E_DAMAGED: c_int = -14;
/// The library met a bug of its own, and the call was given up.
pub const FW_E_INTERNAL: c_int = -15;
/// The library is newer than this interface, and the error has no number yet.
pub const FW_E_OTHER: c_int = -16;

/// The order is above the arena's largest.
pub const FW_E_ORDER: c_int = -20;
/// There is no such node.
pub const FW_E_NODE: c_int = -21;
/// The flags contradict each other, or are unknown.
pub const FW_E_FLAGS: c_int = -22;
/// The range has no pages.
pub const FW_E_RANGE: c_int = -23;
/// No block of this order can start at this address.
pub const FW_E_MISALIGNED: c_int = -24;
/// The address is not memory of this arena.
pub const FW_E_FOREIGN: c_int = -25;
/// The range reaches into another zone.
pub const FW_E_ZONE: c_int = -26;
/// The page is offline.
pub const FW_E_OFFLINE: c_int = -27;
/// The page was quarantined, because it was written to after its free or its descriptor was damaged.
pub const FW_E_QUARANTINED: c_int = -28;
/// Pageblocks cannot have this type.
pub const FW_E_TYPE: c_int = -29;
/// The library was compiled without this feature.
pub const FW_E_LEFT_OUT: c_int = -30;
/// A page of the range is in use and cannot be moved.
pub const FW_E_BUSY: c_int = -31;
/// Another call empties or takes the same memory. Trying again may help.
pub const FW_E_CONTENDED: c_int = -32;
/// A zone is locked, and the caller must not wait.
pub const FW_E_LOCKED: c_int = -33;
/// No per-CPU list holds blocks of this order.
pub const FW_E_NOT_KEPT: c_int = -34;
/// The call may wait, and was made in a signal handler.
pub const FW_E_IN_INTERRUPT: c_int = -35;
/// Out of memory: every zone that the request may use is at its watermark.
pub const FW_E_NO_MEMORY: c_int = -36;
/// Out of memory: enough pages are free, but no block is large enough.
pub const FW_E_FRAGMENTED: c_int = -37;
/// No zone satisfies the request's flags.
pub const FW_E_NO_ZONE: c_int = -38;
/// Out of memory for a request that must not wait.
pub const FW_E_WOULD_WAIT: c_int = -39;
/// A test injected the failure.
pub const FW_E_FAULT: c_int = -40;
/// The thread has no CPU of the allocator, as in a fork's child.
pub const FW_E_NO_CPU: c_int = -41;
/// The block was allocated with another order.
pub const FW_E_WRONG_ORDER: c_int = -42;
/// The address lies inside a block that starts elsewhere.
pub const FW_E_NOT_HEAD: c_int = -43;
/// The block is free already.
pub const FW_E_ALREADY_FREE: c_int = -44;
/// Too many threads free blocks of one zone at once. Trying again may help.
pub const FW_E_FREES: c_int = -45;

/// A system call failed.
pub const FW_E_OS: c_int = -50;
/// The arena has no memory.
pub const FW_E_EMPTY: c_int = -51;
/// A size is no multiple of the page, huge page or pageblock.
pub const FW_E_BAD_SIZE: c_int = -52;
/// The nodes together are larger than addresses can tell apart.
pub const FW_E_TOO_LARGE: c_int = -53;
/// The page is no power of two from the kernel's page to 1 GiB.
pub const FW_E_BAD_PAGE: c_int = -54;
/// The first frame is no multiple of the largest block.
pub const FW_E_FIRST_FRAME: c_int = -55;
/// The memory handed in does not begin at a multiple of the page.
pub const FW_E_MEMORY_START: c_int = -56;
/// The memory handed in is not as large as the nodes.
pub const FW_E_MEMORY_SIZE: c_int = -57;
/// The option is about mapping memory, and memory was handed in.
pub const FW_E_NOT_OURS: c_int = -58;
/// The kernel's pool has too few free huge pages.
pub const FW_E_HUGE_POOL: c_int = -59;
/// The kernel has no huge pages of this size.
pub const FW_E_NO_HUGE_PAGES: c_int = -60;
/// The memory could not be placed on its nodes, and the options are strict.
pub const FW_E_PLACEMENT: c_int = -61;
/// CPUs cannot follow the processors, and the options are strict.
pub const FW_E_PER_CPU: c_int = -62;
/// No thread could be started for background work.
pub const FW_E_NO_THREAD: c_int = -63;
/// Memory of this kind does not support the call.
pub const FW_E_UNSUPPORTED: c_int = -64;
/// Page size and orders do not fit together.
pub const FW_E_GEOMETRY: c_int = -65;
/// The map has no usable memory.
pub const FW_E_NO_USABLE: c_int = -66;
/// The number of CPUs is out of range.
pub const FW_E_CPUS: c_int = -67;
/// A region of the map is empty, out of order or overlapping.
pub const FW_E_REGION: c_int = -68;
/// The table of distances has the wrong size.
pub const FW_E_DISTANCES: c_int = -69;
/// The arena has more pages than descriptors can name.
pub const FW_E_FRAMES: c_int = -70;
/// The CPUs' lists have more entries than numbers can name.
pub const FW_E_SLOTS: c_int = -71;
/// There are too many counters.
pub const FW_E_COUNTERS: c_int = -72;
/// The mechanisms contradict each other.
pub const FW_E_CONFLICT: c_int = -73;
/// The library was compiled for other mechanisms.
pub const FW_E_COMPILED: c_int = -74;
/// The protection of per-CPU lists does not fit the handling of interrupts.
pub const FW_E_INTERRUPTS: c_int = -75;
/// The memory for descriptors is too small.
pub const FW_E_DESCRIPTORS: c_int = -76;
/// The arena was created without `limit_bytes`.
pub const FW_E_FIXED_SIZE: c_int = -77;
/// A node is larger at first than `limit_bytes`.
pub const FW_E_ABOVE_LIMIT: c_int = -78;
/// The arena is as large as its limit.
pub const FW_E_AT_LIMIT: c_int = -79;

/// Code, name and message of each error.
macro_rules! messages {
    ($($code:ident $message:literal)+) => {
        /// All codes with their names and messages, in the order above.
        const MESSAGES: &[(c_int, &CStr, &CStr)] =
            &[$(($code, c_str(concat!(stringify!($code), "\0")), c_str(concat!($message, "\0")))),+];
    };
}

/// A literal that ends with NUL.
const fn c_str(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("evaluated by the compiler: a message has a NUL inside"),
    }
}

messages! {
    FW_OK "success"
    FW_E_NULL "a pointer is NULL"
    FW_E_UNALIGNED "a pointer is not aligned for its type"
    FW_E_ARENA "no arena has this handle: it is NULL, destroyed or foreign"
    FW_E_LOCAL "no local handle is open here: it is NULL, closed or foreign"
    FW_E_THREAD "the local handle belongs to another thread"
    FW_E_STRUCT "the size field of a structure is wrong"
    FW_E_OPTION "an option has a value without a meaning"
    FW_E_MECHANISMS "no such preset, switch or choice of mechanisms"
    FW_E_ZERO_SIZE "a size is 0"
    FW_E_OVERFLOW "a size is larger than addresses can tell apart"
    FW_E_ALIGNMENT "an alignment is no power of two"
    FW_E_IN_USE "the arena has allocated blocks or open local handles"
    FW_E_HANDLES "too many arenas or local handles"
    FW_E_DAMAGED "an invariant of the allocator is violated"
    FW_E_INTERNAL "a bug of the library: the call was given up"
    FW_E_OTHER "an error that this interface does not know"
    FW_E_ORDER "the order is above the largest"
    FW_E_NODE "there is no such node"
    FW_E_FLAGS "the flags contradict each other or are unknown"
    FW_E_RANGE "the range has no pages"
    FW_E_MISALIGNED "no block of this order can start at this address"
    FW_E_FOREIGN "the address is not memory of this arena"
    FW_E_ZONE "the range reaches into another zone"
    FW_E_OFFLINE "the page is offline"
    FW_E_QUARANTINED "the page is in quarantine"
    FW_E_TYPE "no pageblock can have this type"
    FW_E_LEFT_OUT "the library is compiled without this feature"
    FW_E_BUSY "a page of the range is in use and cannot be moved"
    FW_E_CONTENDED "other calls take the same memory; try again"
    FW_E_LOCKED "a zone is locked and the caller must not wait"
    FW_E_NOT_KEPT "blocks of this order are not served from any context"
    FW_E_IN_INTERRUPT "a call that may wait was made in a signal handler"
    FW_E_NO_MEMORY "out of memory: every allowed zone is at its watermark"
    FW_E_FRAGMENTED "out of memory: no free block is large enough"
    FW_E_NO_ZONE "no zone with memory satisfies the request"
    FW_E_WOULD_WAIT "out of memory for a request that must not wait"
    FW_E_FAULT "made to fail by a test"
    FW_E_NO_CPU "the thread has no CPU of the allocator"
    FW_E_WRONG_ORDER "the block was allocated with another order"
    FW_E_NOT_HEAD "the address is inside a block that starts elsewhere"
    FW_E_ALREADY_FREE "the block is free already"
    FW_E_FREES "too many frees at once; try again"
    FW_E_OS "a system call failed"
    FW_E_EMPTY "an arena needs at least one page of memory"
    FW_E_BAD_SIZE "a size is no multiple of its unit"
    FW_E_TOO_LARGE "the arena is larger than addresses can tell apart"
    FW_E_BAD_PAGE "the page size is out of range or no power of two"
    FW_E_FIRST_FRAME "the first frame is no multiple of the largest block"
    FW_E_MEMORY_START "the memory handed in does not begin at a page"
    FW_E_MEMORY_SIZE "the memory handed in is not as large as the nodes"
    FW_E_NOT_OURS "the option is about mapping, and memory was handed in"
    FW_E_HUGE_POOL "too few huge pages are free"
    FW_E_NO_HUGE_PAGES "there are no huge pages of this size"
    FW_E_PLACEMENT "the memory could not be placed on its nodes"
    FW_E_PER_CPU "CPUs cannot follow the processors here"
    FW_E_NO_THREAD "no thread for background work"
    FW_E_UNSUPPORTED "memory of this kind does not support the call"
    FW_E_GEOMETRY "page size and orders do not fit together"
    FW_E_NO_USABLE "the map has no usable memory"
    FW_E_CPUS "the number of CPUs is out of range"
    FW_E_REGION "a region of the map is invalid"
    FW_E_DISTANCES "the table of distances has the wrong size"
    FW_E_FRAMES "the arena has too many pages"
    FW_E_SLOTS "the lists of CPUs are too long together"
    FW_E_COUNTERS "there are too many counters"
    FW_E_CONFLICT "the mechanisms contradict each other"
    FW_E_COMPILED "the library is compiled for other mechanisms"
    FW_E_INTERRUPTS "the protection of lists does not fit the handling of interrupts"
    FW_E_DESCRIPTORS "the memory for descriptors is too small"
    FW_E_FIXED_SIZE "the arena has a fixed size"
    FW_E_ABOVE_LIMIT "a node is larger than the limit"
    FW_E_AT_LIMIT "the arena is as large as its limit"
}

/// Returns the message of a code; one that says so for a number that is no code.
pub(crate) fn message(code: c_int) -> &'static CStr {
    MESSAGES.iter().find(|entry| entry.0 == code).map_or(c"no error of framewright has this number", |entry| entry.2)
}

/// Returns the name of a code; `FW_E_?` for a number that is no code.
pub(crate) fn name(code: c_int) -> &'static CStr {
    MESSAGES.iter().find(|entry| entry.0 == code).map_or(c"FW_E_?", |entry| entry.1)
}

/// A refusal as its code.
pub(crate) trait Code {
    /// Returns the error's number.
    fn code(&self) -> c_int;
}

impl Code for AllocError {
    fn code(&self) -> c_int {
        match self {
            AllocError::BadOrder { .. } => FW_E_ORDER,
            AllocError::BadNode(_) => FW_E_NODE,
            AllocError::BadFlags => FW_E_FLAGS,
            AllocError::BadRange(_) => FW_E_RANGE,
            AllocError::Misaligned(..) => FW_E_MISALIGNED,
            AllocError::Foreign(_) => FW_E_FOREIGN,
            AllocError::OtherZone(_) => FW_E_ZONE,
            AllocError::Offline(_) => FW_E_OFFLINE,
            AllocError::Quarantined(_) => FW_E_QUARANTINED,
            AllocError::BadType(_) => FW_E_TYPE,
            AllocError::LeftOut(_) => FW_E_LEFT_OUT,
            AllocError::NoMemory { why } => why.code(),
            AllocError::Busy { .. } => FW_E_BUSY,
            AllocError::Contended { .. } => FW_E_CONTENDED,
            AllocError::Locked => FW_E_LOCKED,
            AllocError::NotKept(_) => FW_E_NOT_KEPT,
            AllocError::InInterrupt => FW_E_IN_INTERRUPT,
            _ => FW_E_OTHER,
        }
    }
}

impl Code for Why {
    fn code(&self) -> c_int {
        match self {
            Why::Watermark => FW_E_NO_MEMORY,
            Why::Fragmented => FW_E_FRAGMENTED,
            Why::NoZone => FW_E_NO_ZONE,
            Why::WouldWait => FW_E_WOULD_WAIT,
            Why::Fault => FW_E_FAULT,
            Why::NoCpu => FW_E_NO_CPU,
            _ => FW_E_OTHER,
        }
    }
}

impl Code for FreeError {
    fn code(&self) -> c_int {
        match self {
            FreeError::Foreign(_) => FW_E_FOREIGN,
            FreeError::Misaligned(..) => FW_E_MISALIGNED,
            FreeError::BadOrder { .. } => FW_E_ORDER,
            FreeError::WrongOrder { .. } => FW_E_WRONG_ORDER,
            FreeError::NotHead { .. } => FW_E_NOT_HEAD,
            FreeError::AlreadyFree(_) => FW_E_ALREADY_FREE,
            FreeError::Offline(_) => FW_E_OFFLINE,
            FreeError::Quarantined(_) => FW_E_QUARANTINED,
            FreeError::BadRange(_) => FW_E_RANGE,
            FreeError::NoCpu => FW_E_NO_CPU,
            FreeError::Busy(_) => FW_E_FREES,
            _ => FW_E_OTHER,
        }
    }
}

impl Code for BootError {
    fn code(&self) -> c_int {
        match self {
            BootError::BadGeometry => FW_E_GEOMETRY,
            BootError::NoMemory => FW_E_NO_USABLE,
            BootError::BadCpus | BootError::NoCpu => FW_E_CPUS,
            BootError::BadRegion(_) => FW_E_REGION,
            BootError::BadNode(_) => FW_E_NODE,
            BootError::BadDistances => FW_E_DISTANCES,
            BootError::TooManyFrames { .. } => FW_E_FRAMES,
            BootError::TooManySlots { .. } => FW_E_SLOTS,
            BootError::TooManyCounters { .. } => FW_E_COUNTERS,
            BootError::Mechanisms(_) => FW_E_CONFLICT,
            BootError::OtherMechanisms(_) => FW_E_COMPILED,
            BootError::LeftOut(_) => FW_E_LEFT_OUT,
            BootError::Interrupts => FW_E_INTERRUPTS,
            BootError::TooShort { .. } => FW_E_DESCRIPTORS,
            _ => FW_E_OTHER,
        }
    }
}

impl Code for ArenaError {
    fn code(&self) -> c_int {
        match self {
            ArenaError::Os(_) => FW_E_OS,
            ArenaError::Empty => FW_E_EMPTY,
            ArenaError::BadSize { .. } => FW_E_BAD_SIZE,
            ArenaError::TooLarge { .. } => FW_E_TOO_LARGE,
            ArenaError::BadPage { .. } => FW_E_BAD_PAGE,
            ArenaError::BadFirstFrame { .. } => FW_E_FIRST_FRAME,
            ArenaError::Misaligned { .. } => FW_E_MEMORY_START,
            ArenaError::WrongLength { .. } => FW_E_MEMORY_SIZE,
            ArenaError::NotOurs { .. } => FW_E_NOT_OURS,
            ArenaError::HugePoolEmpty { .. } => FW_E_HUGE_POOL,
            ArenaError::NoHugePages { .. } => FW_E_NO_HUGE_PAGES,
            ArenaError::Placement { .. } => FW_E_PLACEMENT,
            ArenaError::PerCpu(_) => FW_E_PER_CPU,
            ArenaError::NoThread(_) => FW_E_NO_THREAD,
            ArenaError::Unsupported { .. } => FW_E_UNSUPPORTED,
            ArenaError::Boot(error) => error.code(),
            ArenaError::FixedSize => FW_E_FIXED_SIZE,
            ArenaError::AboveLimit { .. } => FW_E_ABOVE_LIMIT,
            ArenaError::AtLimit { .. } => FW_E_AT_LIMIT,
            ArenaError::Refused(error) => error.code(),
            _ => FW_E_OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_has_one_message_and_a_number_of_its_own() {
        let source = include_str!("error.rs");
        let constants = source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split_once(": c_int"));
        let declared: Vec<&str> = constants.map(|(name, _)| name).collect();
        let listed: Vec<&str> = MESSAGES.iter().map(|entry| entry.1.to_str().unwrap()).collect();
        assert_eq!(declared, listed);
        assert!(MESSAGES.is_sorted_by(|earlier, later| earlier.0 > later.0), "two codes are equal or out of order");
        assert_eq!((name(FW_E_WRONG_ORDER), name(7)), (c"FW_E_WRONG_ORDER", c"FW_E_?"));
        assert_eq!(message(-999), c"no error of framewright has this number");
    }
}
