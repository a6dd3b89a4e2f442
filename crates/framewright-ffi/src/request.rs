//! Requests as the core has them.

use core::ffi::c_uint;

use framewright::{Gfp, Order};

/// Bits that a request may have: those that Linux 6.1 defines.
const KNOWN_FLAGS: u32 = 0xff_ffff;

/// Returns the flags; `None` if one is unknown.
pub fn gfp(flags: u32) -> Option<Gfp> {
    (flags & !KNOWN_FLAGS == 0).then_some(Gfp(flags))
}

/// Returns the order as the core has it; one above every limit is as wrong as any other.
pub fn order_of(order: c_uint) -> Order {
    Order(u8::try_from(order).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use framewright::request;

    use super::*;
    use crate::numbers::*;

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
