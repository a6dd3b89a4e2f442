//! Flags of requests, with the bits of Linux 6.1's `gfp_t`.
//!
//! A request has one of `FW_USER`, `FW_KERNEL`, `FW_NOWAIT`, `FW_ATOMIC` and `FW_MOVABLE`, and any of the others.
//! The numbers are those of [`framewright::Gfp`], so a call passes them on as they are.

use framewright::Gfp;
#[cfg(test)]
use framewright::request;

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
/// The block itself does not move.
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

/// Bits that a request may have: those that Linux 6.1 defines.
pub(crate) const KNOWN_FLAGS: u32 = 0xff_ffff;

/// Returns the flags; `None` if one is unknown.
pub(crate) fn gfp(flags: u32) -> Option<Gfp> {
    (flags & !KNOWN_FLAGS == 0).then_some(Gfp(flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_core() {
        let flags = [
            (FW_USER, request::GFP_USER),
            (FW_KERNEL, request::GFP_KERNEL),
            (FW_NOWAIT, request::GFP_NOWAIT),
            (FW_ATOMIC, request::GFP_ATOMIC),
            (FW_MOVABLE, request::GFP_HIGHUSER_MOVABLE),
            (FW_ZERO, request::__GFP_ZERO),
            (FW_RECLAIMABLE, request::__GFP_RECLAIMABLE),
            (FW_NORETRY, request::__GFP_NORETRY),
            (FW_RETRY_MAYFAIL, request::__GFP_RETRY_MAYFAIL),
            (FW_MEMALLOC, request::__GFP_MEMALLOC),
            (FW_NOMEMALLOC, request::__GFP_NOMEMALLOC),
            (FW_THISNODE, request::__GFP_THISNODE),
        ];
        for (ours, core) in flags {
            assert_eq!(gfp(ours), Some(core));
        }
        assert_eq!(gfp(0x100_0000), None);
    }
}
