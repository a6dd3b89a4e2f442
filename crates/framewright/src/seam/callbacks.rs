//! What a machine's callbacks are asked for and answer, and the points at which a test lets the allocator fail.

use crate::types::request::Gfp;
use crate::types::units::{NodeId, Order};

/// Name under which threads sleep and are woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiter {
    /// Background reclaim of the node.
    Kswapd(NodeId),
    /// Background compaction of the node.
    Kcompactd(NodeId),
    /// Requests that wait for free memory on the node.
    Allocation(NodeId),
}

/// Shortage of a failing request; the argument of [`Machine::reclaim`].
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Node that the request prefers.
    pub node: NodeId,
    /// Order of the request; 0 if frames anywhere suffice.
    ///
    /// They suffice if compaction makes a block of them.
    pub order: Order,
    /// Flags of the request.
    pub gfp: Gfp,
    /// Rounds already made by this request, or by this run of background reclaim.
    ///
    /// A request searches harder in each round.
    pub attempt: u32,
    /// Number of frames wanted.
    ///
    /// More is welcome if it needs no extra work; less counts as progress.
    pub frames: u64,
    /// Exponent of the search: reclaim looks at 1 / 2^`priority` of the freeable frames.
    ///
    /// It looks at no fewer than are wanted. The value begins at [`Need::LIGHTEST`] and falls as rounds free too
    /// little.
    pub priority: u32,
    /// Whether to free only memory that need not be written out.
    ///
    /// Set while background reclaim works off a boost.
    pub gentle: bool,
}

impl Need {
    /// The first priority (`DEF_PRIORITY`).
    pub const LIGHTEST: u32 = 12;
    /// Frames that a request wants freed at a time (`SWAP_CLUSTER_MAX`).
    const CLUSTER: u64 = 32;

    /// Returns the shortage of a request that frees memory itself.
    #[inline]
    pub(crate) fn of_request(node: NodeId, order: Order, frames: u64, gfp: Gfp, attempt: u32) -> Need {
        let frames = frames.max(Need::CLUSTER);
        Need { node, order, gfp, attempt, frames, priority: Need::LIGHTEST, gentle: false }
    }
}

/// Result of reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reclaimed {
    /// Frames freed.
    pub frames: u64,
}

/// Points at which a test can make the allocator fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// A whole request fails: no zone has memory.
    Alloc,
    /// A refill of a per-CPU list returns nothing.
    Refill,
    /// Entering a per-CPU list is refused, as if another CPU were draining it.
    PcpBusy,
    /// A block of a contiguous range cannot be isolated.
    Isolate,
    /// A request that found nothing drains none of the cached blocks.
    Drain,
}

impl Fault {
    /// Every point.
    pub const ALL: [Fault; 5] = [Fault::Alloc, Fault::Refill, Fault::PcpBusy, Fault::Isolate, Fault::Drain];
}
