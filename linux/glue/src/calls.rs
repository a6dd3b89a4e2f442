//! Allocating and freeing, and what Linux asks about a zone. A zone is its number: node times 4, plus kind.
#![allow(unsafe_code, reason = "the functions are called from C by name")]

use framewright::mechanisms::{Compaction, Nofragment};
use framewright::request::{__GFP_KSWAPD_RECLAIM, __GFP_MOVABLE, __GFP_RECLAIMABLE};
use framewright::units::{CpuId, MigrateType, Order, Pfn, ZoneIdx};
use framewright::{Gfp, Request, Rights};

use crate::kernel::pages;

/// Mobility of a request, or of a list: the lowest three bits.
pub const FW_LINUX_TYPE: u32 = 7;
/// The request may use the high-atomic reserve.
pub const FW_LINUX_HIGHATOMIC: u32 = 8;
/// The request may use CMA's pageblocks.
pub const FW_LINUX_CMA: u32 = 0x10;
/// The request takes nothing small of another mobility.
pub const FW_LINUX_NOFRAGMENT: u32 = 0x20;
/// The request may wake background reclaim.
pub const FW_LINUX_KSWAPD: u32 = 0x40;

/// Bit of a result: mobilities were mixed, and the zone's marks may rise.
pub const FW_LINUX_BOOSTS: u64 = 1 << 62;
/// Result: there is no such block in the zone.
pub const FW_LINUX_NONE: u64 = u64::MAX;

const fn zone_of(zone: u32) -> ZoneIdx {
    ZoneIdx(zone as u16)
}

const fn rights_of(flags: u32) -> Rights {
    Rights {
        highatomic: flags & FW_LINUX_HIGHATOMIC != 0,
        cma: flags & FW_LINUX_CMA != 0,
        nofragment: flags & FW_LINUX_NOFRAGMENT != 0,
    }
}

/// Flags of a request, by the mobility that Linux has computed from its own.
const fn gfp_of(flags: u32) -> Gfp {
    let mobility = match flags & FW_LINUX_TYPE {
        1 => __GFP_MOVABLE.0,
        2 => __GFP_RECLAIMABLE.0,
        _ => 0,
    };
    Gfp(if flags & FW_LINUX_KSWAPD != 0 { mobility | __GFP_KSWAPD_RECLAIM.0 } else { mobility })
}

/// Takes a block of a zone; returns its first frame, perhaps with [`FW_LINUX_BOOSTS`], or [`FW_LINUX_NONE`].
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_alloc(zone: u32, preferred: u32, order: u32, flags: u32) -> u64 {
    // Nearly all requests are for a single page. With a constant order there is less to compute.
    match order {
        0 => alloc(zone, preferred, Order(0), flags),
        _ => alloc_block(zone, preferred, order, flags),
    }
}

#[inline(never)]
fn alloc_block(zone: u32, preferred: u32, order: u32, flags: u32) -> u64 {
    alloc(zone, preferred, Order(order as u8), flags)
}

#[inline(always)]
fn alloc(zone: u32, preferred: u32, order: Order, flags: u32) -> u64 {
    let request = Request { order, ..Request::page(gfp_of(flags)) };
    let served = pages().map(|pages| pages.alloc_in(zone_of(zone), zone_of(preferred), &request, rights_of(flags)));
    match served {
        Some(Ok(block)) if block.boosts => block.pfn.0 | FW_LINUX_BOOSTS,
        Some(Ok(block)) => block.pfn.0,
        _ => FW_LINUX_NONE,
    }
}

/// Takes a block from the lists of `record`; [`FW_LINUX_NONE`] leaves the request to `fw_linux_alloc`.
///
/// The zone is of the node that the request prefers; a movable request may have CMA memory; one above order 0 may not
/// have the high-atomic reserve. Most requests are served here, without a call back to C.
///
/// # Safety
/// The caller has preemption off, and `record` is what `fw_linux_record` would return; `u16::MAX` for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_linux_alloc_at(record: u16, zone: u32, order: u32, migratetype: u32) -> u64 {
    // With a constant order there is less to compute.
    match order {
        0 => alloc_at(record, zone, Order(0), migratetype),
        _ => alloc_block_at(record, zone, order, migratetype),
    }
}

#[inline(never)]
fn alloc_block_at(record: u16, zone: u32, order: u32, migratetype: u32) -> u64 {
    alloc_at(record, zone, Order(order as u8), migratetype)
}

#[inline(always)]
fn alloc_at(record: u16, zone: u32, order: Order, migratetype: u32) -> u64 {
    let mobility = match migratetype {
        0 => MigrateType::Unmovable,
        1 => MigrateType::Movable,
        2 => MigrateType::Reclaimable,
        _ => return FW_LINUX_NONE,
    };
    let Some(pages) = pages() else { return FW_LINUX_NONE };
    // SAFETY: the promise of the caller of `fw_linux_alloc_at`, which alone leads here.
    let pin = unsafe { pages.machine().pinned_at(CpuId(record)) };
    pages.alloc_listed(&pin, zone_of(zone), order, mobility).map_or(FW_LINUX_NONE, |pfn| pfn.0)
}

/// Frees a block to the lists of `record`; false leaves it to `fw_linux_free`.
///
/// # Safety
/// As `fw_linux_alloc_at`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_linux_free_at(record: u16, pfn: u64, order: u32) -> bool {
    match order {
        0 => free_at(record, pfn, Order(0)),
        _ => free_block_at(record, pfn, order),
    }
}

#[inline(never)]
fn free_block_at(record: u16, pfn: u64, order: u32) -> bool {
    free_at(record, pfn, Order(order as u8))
}

#[inline(always)]
fn free_at(record: u16, pfn: u64, order: Order) -> bool {
    let Some(pages) = pages() else { return false };
    // SAFETY: the promise of the caller of `fw_linux_free_at`, which alone leads here.
    let pin = unsafe { pages.machine().pinned_at(CpuId(record)) };
    pages.free_listed(&pin, Pfn(pfn), order)
}

/// Whether `fw_linux_alloc_at` and `fw_linux_free_at` ever serve; some mechanisms ask something of every request.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_serves_listed() -> bool {
    pages().is_some_and(|pages| pages.serves_listed())
}

/// Whether mobilities are mixed only when nothing else is left; Linux reclaims and compacts before.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_keeps_apart() -> bool {
    pages().is_some_and(|pages| pages.mechanisms().nofragment == Nofragment::Enforced)
}

/// Frees a block, or a part of one; false if it is not allocated.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_free(pfn: u64, order: u32) -> bool {
    if order == 0 {
        return pages().is_some_and(|pages| pages.free_part(Pfn(pfn), Order(0)).is_ok());
    }
    pages().is_some_and(|pages| pages.free_part(Pfn(pfn), Order(order as u8)).is_ok())
}

/// Makes single frames of an allocated block; false if there is no such block.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_split(pfn: u64, order: u32) -> bool {
    pages().is_some_and(|pages| pages.split(Pfn(pfn), Order(order as u8), Order(0)).is_ok())
}

/// Whether a zone has a free block of this order or larger for a request with these flags.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_has_block(zone: u32, order: u32, flags: u32) -> bool {
    pages().is_some_and(|pages| pages.has_block_in(zone_of(zone), Order(order as u8), rights_of(flags)))
}

/// Returns the number of free blocks of this order and type in a zone.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_free_blocks(zone: u32, order: u32, migratetype: u32) -> u64 {
    let migratetype = MigrateType::from_index(migratetype as usize);
    pages().zip(migratetype).map_or(0, |(pages, mt)| pages.free_blocks(zone_of(zone), Order(order as u8), mt))
}

/// Frees to a zone what its lists do not show; returns the number of frames.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_gather(zone: u32, order: u32, flags: u32) -> u64 {
    pages().map_or(0, |pages| pages.gather(zone_of(zone), Order(order as u8), rights_of(flags)))
}

/// Frees all cached blocks to their zones; returns the number of frames.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_drain() -> u64 {
    pages().map_or(0, |pages| pages.drain_all())
}

/// Gives a pageblock of a zone's high-atomic reserve to requests with these flags; false if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_unreserve(zone: u32, order: u32, flags: u32) -> bool {
    let migratetype = gfp_of(flags).migratetype();
    pages().is_some_and(|pages| pages.unreserve_highatomic(zone_of(zone), Order(order as u8), migratetype))
}

/// Whether the switches let the allocator compact; if not, Linux does.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_compacts() -> bool {
    pages().is_some_and(|pages| pages.mechanisms().compaction != Compaction::Off)
}

/// Compacts a zone for a request of this order, and leaves it `keep` free frames; returns the frames looked at.
///
/// `insists`: ranges are emptied of which more than half is in use.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_compact(zone: u32, order: u32, flags: u32, keep: u64, insists: bool) -> u64 {
    let (zone, rights) = (zone_of(zone), rights_of(flags));
    pages().map_or(0, |pages| pages.compact_in(zone, Order(order as u8), rights, keep, insists).scanned)
}
