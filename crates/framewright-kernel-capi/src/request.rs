//! Requests and nodes as the core has them, and flags that only kernels use.

use core::ffi::{c_int, c_uint};

use framewright::Request;
use framewright::request::__GFP_ZERO;
use framewright::units::NodeId;
use framewright_ffi::numbers::{FW_E_FLAGS, FW_E_HOOK, FW_E_NODE};
use framewright_ffi::request::{gfp, order_of};

use crate::kernel::{booted, hooks};

/// Memory that the most limited devices reach: zone DMA.
pub const FW_DMA: u32 = 0x1;
/// Memory that 32-bit devices reach: zone DMA32 or below.
pub const FW_DMA32: u32 = 0x4;

/// Returns the request of a call.
///
/// # Errors
/// A flag is unknown, or the kernel cannot zero.
pub(crate) fn request_of(flags: u32, order: c_uint) -> Result<Request, c_int> {
    let gfp = gfp(flags).ok_or(FW_E_FLAGS)?;
    if gfp.contains(__GFP_ZERO) && hooks().zero.is_none() {
        return Err(FW_E_HOOK);
    }
    Ok(Request { order: order_of(order), ..Request::page(gfp) })
}

/// Returns the node of a call.
///
/// # Errors
/// No node has a number that high.
pub(crate) fn node_of(node: c_uint) -> Result<NodeId, c_int> {
    let node = u8::try_from(node).map_err(|_| FW_E_NODE)?;
    if usize::from(node) < booted()?.nodes() { Ok(NodeId(node)) } else { Err(FW_E_NODE) }
}
