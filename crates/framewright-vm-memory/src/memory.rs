//! A guest's memory: which blocks of an arena lie at which guest addresses.
//!
//! A range of guest addresses is cut into the largest blocks that begin at multiples of their size and fit. So a huge
//! page of the host is one of the guest. A hypervisor has a slot for each region, and few of them are best: 6 GiB are
//! six blocks of 1 GiB. Where the arena has no block of that size, the rest of the range is made of smaller ones, down
//! to the pageblock (2 MiB).
//!
//! Rejected: one contiguous range of the arena for each range of the guest. It is one slot, but an arena that is shared
//! by many guests has no such range after a while.
#![allow(unsafe_code, reason = "`from_ranges_shared` is unsafe to call")]

use std::fs::File;
use std::sync::Arc;

use framewright::request::{__GFP_NOWARN, __GFP_THISNODE, GFP_USER};
use framewright::{AllocError, NodeId, Order, Request, Why};
use framewright_rt::Arena;
use vm_memory::bitmap::NewBitmap;
use vm_memory::{GuestAddress, GuestRegionCollection};

use crate::error::Error;
use crate::region::{GuestRegionArena, file_of, place_in};

/// All memory of a guest, out of an arena. A clone shares the regions.
pub type GuestMemoryArena<B = ()> = GuestRegionCollection<GuestRegionArena<B>>;

/// A range of guest addresses, and where in the arena its memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestRange {
    start: GuestAddress,
    bytes: u64,
    node: Option<NodeId>,
}

impl GuestRange {
    /// Returns a range whose memory lies on any node of the arena.
    pub const fn new(start: GuestAddress, bytes: u64) -> GuestRange {
        GuestRange { start, bytes, node: None }
    }

    /// Returns the range with its memory on one node of the arena, and on no other.
    pub const fn on(self, node: NodeId) -> GuestRange {
        GuestRange { node: Some(node), ..self }
    }
}

/// Allocates a guest's memory from an arena, for ranges in ascending order.
///
/// It is zero, and takes no memory of the system before it is used.
///
/// # Errors
/// A range is empty, overlaps another one or is no multiple of the arena's page; or the arena has too little memory.
/// Nothing stays allocated then.
pub fn from_ranges<B: NewBitmap>(arena: &Arc<Arena>, ranges: &[GuestRange]) -> Result<GuestMemoryArena<B>, Error> {
    regions(arena, ranges, None)
}

/// Like [`from_ranges`], with the place of each region in the arena's memfd (`GuestMemoryRegion::file_offset`).
///
/// For devices in other processes, which map the regions (vhost-user).
///
/// # Safety
/// Through the file all memory of the arena can be written. Code that gets it, here or in another process, writes to
/// the guest's regions only.
///
/// # Errors
/// As [`from_ranges`], or the arena's memory is no memfd ([`framewright_rt::Backing::Memfd`]).
pub unsafe fn from_ranges_shared<B: NewBitmap>(
    arena: &Arc<Arena>,
    ranges: &[GuestRange],
) -> Result<GuestMemoryArena<B>, Error> {
    // SAFETY: the caller's promise.
    let file = unsafe { file_of(arena) }.ok_or(Error::NoFile)?.map_err(Error::File)?;
    regions(arena, ranges, Some(&Arc::new(file)))
}

fn regions<B: NewBitmap>(
    arena: &Arc<Arena>,
    ranges: &[GuestRange],
    file: Option<&Arc<File>>,
) -> Result<GuestMemoryArena<B>, Error> {
    let mut regions = Vec::new();
    for range in ranges {
        tile(arena, range, file, &mut regions)?;
    }
    Ok(GuestRegionCollection::from_regions(regions)?)
}

/// Appends the regions of one range.
fn tile<B: NewBitmap>(
    arena: &Arc<Arena>,
    range: &GuestRange,
    file: Option<&Arc<File>>,
    regions: &mut Vec<GuestRegionArena<B>>,
) -> Result<(), Error> {
    let (start, unit) = (range.start.0, arena.page_size() as u64);
    let bad = Error::BadRange { start, bytes: range.bytes, unit };
    let end = start.checked_add(range.bytes).filter(|end| start != *end && (start | end).is_multiple_of(unit));
    let (mut next, end) = (start / unit, end.ok_or(bad)? / unit);
    let mut largest = arena.report().max_order;
    while next < end {
        let fits = Order((end - next).ilog2() as u8).min(Order(next.trailing_zeros() as u8));
        let order = fits.min(largest);
        match block(arena, order, range.node) {
            Ok(block) => {
                let address = GuestAddress(next * unit);
                let place = file.map(|file| place_in(file, &block));
                regions.extend(GuestRegionArena::new(block, address, place));
                next += order.frames();
            }
            Err(AllocError::NoMemory { why: Why::Fragmented, .. }) if order > smallest(unit) => {
                largest = Order(order.0 - 1);
            }
            Err(error) => return Err(Error::NoBlock { address: next * unit, error }),
        }
    }
    Ok(())
}

/// Returns the order of the smallest block that takes the place of a larger one: 2 MiB.
fn smallest(page: u64) -> Order {
    Order((2_u64 << 20).max(page).ilog2() as u8 - page.ilog2() as u8)
}

fn block(arena: &Arc<Arena>, order: Order, node: Option<NodeId>) -> Result<framewright_rt::OwnedPages, AllocError> {
    // Not movable: a guest's memory is mapped by its hypervisor, and pinned by its devices.
    let request = Request { order, ..Request::page(GFP_USER | __GFP_NOWARN) };
    match node {
        None => arena.alloc_owned(&request),
        Some(node) => arena.alloc_owned(&Request { gfp: request.gfp | __GFP_THISNODE, ..request }.on(node)),
    }
}
