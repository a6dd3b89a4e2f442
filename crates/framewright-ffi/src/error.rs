//! Errors as numbers, and numbers as texts.
//!
//! An error of the core becomes its number by [`Code`]. [`message`] and [`name`] say what a number means.
//!
//! Cost: none where a call succeeds. Rejected: an error kept for the thread, which a caller must read before the next
//! call.

use core::ffi::{CStr, c_int};

use framewright::{AllocError, BootError, FreeError, Why};

use crate::numbers::*;

/// Code, name and message of each error.
macro_rules! messages {
    ($($code:ident $message:literal)+) => {
        /// All codes with their names and messages, in the order above.
        const MESSAGES: &[(c_int, &CStr, &CStr)] =
            &[$(($code, c_str(concat!(stringify!($code), "\0")), c_str(concat!($message, "\0")))),+];
    };
}

/// A literal that ends with NUL.
#[expect(clippy::panic, reason = "evaluated by the compiler")]
const fn c_str(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a message has a NUL inside"),
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
    FW_E_MISALIGNED "no block of this order can start there"
    FW_E_FOREIGN "this is not memory of the allocator"
    FW_E_ZONE "the range reaches into another zone"
    FW_E_OFFLINE "the page is offline"
    FW_E_QUARANTINED "the page is in quarantine"
    FW_E_TYPE "no pageblock can have this type"
    FW_E_LEFT_OUT "the library is compiled without this feature"
    FW_E_BUSY "a page of the range is in use and cannot be moved"
    FW_E_CONTENDED "other calls take the same memory; try again"
    FW_E_LOCKED "a zone is locked and the caller must not wait"
    FW_E_NOT_KEPT "blocks of this order are not served from any context"
    FW_E_IN_INTERRUPT "a call that may wait was made in an interrupt or a signal handler"
    FW_E_NO_MEMORY "out of memory: too few pages are free"
    FW_E_FRAGMENTED "out of memory: no free block is large enough"
    FW_E_NO_ZONE "no zone with memory satisfies the request"
    FW_E_WOULD_WAIT "out of memory for a request that must not wait"
    FW_E_FAULT "made to fail by a test"
    FW_E_NO_CPU "the caller has no CPU of the allocator"
    FW_E_WRONG_ORDER "the block was allocated with another order"
    FW_E_NOT_HEAD "it lies inside a block that starts elsewhere"
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
    FW_E_NOT_BOOTED "the allocator is not booted"
    FW_E_BOOTED "the allocator was booted before"
    FW_E_NO_PLACE "no place is large enough for the descriptors"
    FW_E_HOOK "the boot options lack the function that this needs"
    FW_E_NO_SUCH_CPU "there is no such CPU"
    FW_E_MANY_RESERVED "too many reserved ranges: find a place for the descriptors first"
    FW_E_RESERVED "a reserved range ends before it starts or lies above all memory"
    FW_E_UNRESERVED "the descriptors lie in memory that is not reserved, or above all memory"
}

/// Returns the message of a code; one that says so for a number that is no code.
pub fn message(code: c_int) -> &'static CStr {
    MESSAGES.iter().find(|entry| entry.0 == code).map_or(c"no error of framewright has this number", |entry| entry.2)
}

/// Returns the name of a code; `FW_E_?` for a number that is no code.
pub fn name(code: c_int) -> &'static CStr {
    MESSAGES.iter().find(|entry| entry.0 == code).map_or(c"FW_E_?", |entry| entry.1)
}

/// Returns what a function about nothing but success returns: 0, or the error.
#[inline]
pub fn status(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(FW_OK)
}

/// Returns what a function with a number for its result returns: that number, or the error, which is negative.
#[inline]
pub fn count(result: Result<u64, c_int>) -> i64 {
    match result {
        Ok(number) => i64::try_from(number).unwrap_or(i64::MAX),
        Err(code) => code.into(),
    }
}

/// A refusal as its code.
pub trait Code {
    /// Returns the error's number.
    fn code(&self) -> c_int;
}

impl Code for AllocError {
    fn code(&self) -> c_int {
        match self {
            AllocError::BadOrder { .. } | AllocError::BadAlignment { .. } => FW_E_ORDER,
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
            AllocError::NoMemory { why, .. } => why.code(),
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
            BootError::BadCpus => FW_E_CPUS,
            BootError::NoCpu => FW_E_NO_CPU,
            BootError::BadRegion(_) => FW_E_REGION,
            BootError::BadReserved(_) => FW_E_RESERVED,
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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_constant_has_one_message_and_a_number_of_its_own() {
        let source = include_str!("numbers.rs");
        let constants = source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split_once(": c_int"));
        let declared: Vec<&str> = constants.map(|(name, _)| name).collect();
        let listed: Vec<&str> = MESSAGES.iter().map(|entry| entry.1.to_str().unwrap()).collect();
        assert_eq!(declared, listed);
        assert!(MESSAGES.is_sorted_by(|earlier, later| earlier.0 > later.0), "two codes are equal or out of order");
        assert_eq!((name(FW_E_WRONG_ORDER), name(7)), (c"FW_E_WRONG_ORDER", c"FW_E_?"));
        assert_eq!(message(-999), c"no error of framewright has this number");
    }
}
