//! The numbers of both headers: errors, flags of requests, texts.
//!
//! A C function returns an `int`: 0, or one of the errors. The numbers are part of the binary interface. A number
//! keeps its meaning for ever, and a new error gets a new number.
//!
//! | from | errors about |
//! |---|---|
//! | -1 | arguments that no Rust caller could pass: NULL, foreign handles, sizes that overflow |
//! | -20 | requests and frees (`AllocError`, `FreeError`); an error that both know has one number |
//! | -50 | an arena or an allocator that could not be built (`ArenaError`, `BootError`) |
//! | -80 | a kernel's calls before and at boot |
//!
//! Flags have the bits of Linux 6.1's `gfp_t`. A request has one of `FW_USER`, `FW_KERNEL`, `FW_NOWAIT`, `FW_ATOMIC`
//! and `FW_MOVABLE`, and any of the others. The numbers are those of `framewright::Gfp`, so a call passes them on as
//! they are.
//!
//! Rejected: `errno` values, of which too few fit.

use core::ffi::c_int;

/// Version of the header: `major << 16 | minor << 8 | patch`.
pub const FW_VERSION: u32 = 0x100;

/// Free blocks by order, as `/proc/buddyinfo`.
pub const FW_TEXT_BUDDYINFO: u32 = 0;
/// Watermarks, sizes and the lists of CPUs, as `/proc/zoneinfo`.
pub const FW_TEXT_ZONEINFO: u32 = 1;
/// Counters, as `/proc/vmstat`.
pub const FW_TEXT_VMSTAT: u32 = 2;
/// Free blocks by order and mobility, as `/proc/pagetypeinfo`.
pub const FW_TEXT_PAGETYPEINFO: u32 = 3;
/// Ordinary memory of a process; may wait and reclaim.
pub const FW_USER: u32 = 0x10_0cc0;
/// Like `FW_USER`, without regard to the caller's memory policy.
pub const FW_KERNEL: u32 = 0xcc0;
/// May not wait; uses no reserves.
pub const FW_NOWAIT: u32 = 0x800;
/// May not wait; may use a part of the reserves.
pub const FW_ATOMIC: u32 = 0xa20;
/// Like `FW_USER`, grouped with other short-lived or movable blocks, so that large blocks stay whole elsewhere.
///
/// The block itself does not move, unless a kernel has the hook `migrate`.
pub const FW_MOVABLE: u32 = 0x10_0cca;
/// Clears the block.
pub const FW_ZERO: u32 = 0x100;
/// Groups the block with others that the program gives back when memory is short.
pub const FW_RECLAIMABLE: u32 = 0x10;
/// Gives up early.
pub const FW_NORETRY: u32 = 0x1_0000;
/// Tries hard, and fails in the end.
pub const FW_RETRY_MAYFAIL: u32 = 0x4000;
/// May use all reserves: the caller is about to free memory.
pub const FW_MEMALLOC: u32 = 0x2_0000;
/// Uses no reserves.
pub const FW_NOMEMALLOC: u32 = 0x8_0000;
/// Only memory of the node that the call names.
pub const FW_THISNODE: u32 = 0x20_0000;

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
/// The arena still has allocated blocks or open local handles; `fw_stats` says which.
pub const FW_E_IN_USE: c_int = -12;
/// The process has as many arenas or local handles as there can be.
pub const FW_E_HANDLES: c_int = -13;
/// An invariant of the allocator is violated: its memory was damaged.
pub const FW_E_DAMAGED: c_int = -14;
/// The library met a bug of its own, and the call was given up.
pub const FW_E_INTERNAL: c_int = -15;
/// The library is newer than this interface, and the error has no number yet.
pub const FW_E_OTHER: c_int = -16;

/// The order is above the largest.
pub const FW_E_ORDER: c_int = -20;
/// There is no such node.
pub const FW_E_NODE: c_int = -21;
/// The flags contradict each other, or are unknown.
pub const FW_E_FLAGS: c_int = -22;
/// The range has no pages.
pub const FW_E_RANGE: c_int = -23;
/// No block of this order can start at this page, or the address lies inside a page.
pub const FW_E_MISALIGNED: c_int = -24;
/// The page is not memory of this allocator.
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
/// The call may wait, and was made in an interrupt or a signal handler.
pub const FW_E_IN_INTERRUPT: c_int = -35;
/// Out of memory: too few pages are free, besides those kept from the request (watermarks).
pub const FW_E_NO_MEMORY: c_int = -36;
/// Out of memory: enough pages are free, but no block is large enough.
pub const FW_E_FRAGMENTED: c_int = -37;
/// No zone satisfies the request's flags.
pub const FW_E_NO_ZONE: c_int = -38;
/// Out of memory for a request that must not wait.
pub const FW_E_WOULD_WAIT: c_int = -39;
/// A test injected the failure.
pub const FW_E_FAULT: c_int = -40;
/// The caller gets no CPU of the allocator: others keep them, or it is in a fork's child or an NMI.
pub const FW_E_NO_CPU: c_int = -41;
/// The block was allocated with another order.
pub const FW_E_WRONG_ORDER: c_int = -42;
/// The page lies inside a block that starts elsewhere.
pub const FW_E_NOT_HEAD: c_int = -43;
/// The block is free already.
pub const FW_E_ALREADY_FREE: c_int = -44;
/// Too many threads free blocks of one zone at once. Trying again may help.
pub const FW_E_FREES: c_int = -45;

/// A system call failed; `errno` has its reason.
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

/// The kernel's allocator is not booted.
pub const FW_E_NOT_BOOTED: c_int = -80;
/// The kernel's allocator was booted before, or is being booted.
pub const FW_E_BOOTED: c_int = -81;
/// No usable, free memory is large enough for the descriptors.
pub const FW_E_NO_PLACE: c_int = -82;
/// The boot options lack the function that this needs.
pub const FW_E_HOOK: c_int = -83;
/// There is no such CPU.
pub const FW_E_NO_SUCH_CPU: c_int = -84;
/// There are more reserved ranges than the call has room for.
pub const FW_E_MANY_RESERVED: c_int = -85;
/// A reserved range ends before it starts, or lies above all memory.
pub const FW_E_RESERVED: c_int = -86;
/// The descriptors lie in usable memory that the boot options do not reserve, or above all memory.
pub const FW_E_UNRESERVED: c_int = -87;

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn the_version_is_the_crates() {
        let parts = [FW_VERSION >> 16, FW_VERSION >> 8 & 0xff, FW_VERSION & 0xff];
        assert_eq!(parts.map(|part| part.to_string()).join("."), env!("CARGO_PKG_VERSION"));
    }
}
