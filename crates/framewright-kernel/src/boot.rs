//! How much memory the descriptors need, and where it lies.
//!
//! The descriptors lie in memory that the allocator would manage otherwise. So their place is reserved
//! (`Config::reserved`), and their size must not depend on that: sizes follow from the regions alone. A kernel
//! therefore asks with the configuration that it has, adds the place, and boots.
//!
//! Rejected: a loop that asks again until the size stays. A list's size may fall and a depot's grow, so the loop need
//! not end.

use framewright::tags::Tags;
use framewright::units::{NodeId, PfnRange};
use framewright::{Allocator, Config, Layout, Parts, ZoneIdx};

use crate::error::Error;
use crate::kernel::Kernel;
use crate::machine::KernelMachine;
use crate::memory::{Carver, Room};
use crate::words::U64;

/// Returns the configuration that a kernel boots with, whose own choices are constants.
pub(crate) fn of_kernel<'c, K: Kernel>(config: &Config<'c>) -> Config<'c> {
    let mechanisms = K::MECHANISMS.unwrap_or(config.mechanisms);
    Config { contexts: K::CONTEXTS.sets(), mechanisms, ..*config }
}

/// Returns the bytes that the descriptors of a kernel need, in a block of any alignment.
///
/// About 23 bytes a frame of 1 GiB, and 17.2 from 64 GiB on. `Config::reserved` and `allocated` do not change it.
///
/// # Errors
/// What is wrong with the configuration.
pub fn bytes<K: Kernel>(config: &Config<'_>) -> Result<usize, Error> {
    measured::<K>(&of_kernel::<K>(config)).map(|(_, bytes)| bytes)
}

/// Returns the layout of a kernel's configuration, and the bytes that it needs.
pub(crate) fn measured<K: Kernel>(config: &Config<'_>) -> Result<(Layout, usize), Error> {
    let layout = Layout::on::<KernelMachine<K>>(config)?;
    let mut measuring = Carver::measuring();
    carve::<K>(&mut measuring, config, &layout);
    if measuring.is_short() { Err(Error::TooLarge) } else { Ok((layout, measuring.bytes())) }
}

/// Returns the highest place for `bytes` bytes in memory that is usable, not in use at boot, and in `within`.
///
/// `within` is the memory that the kernel has mapped at that moment. None if there is no such place.
///
/// The place is as high as possible, as in Linux's memblock, so that memory for devices with short addresses stays
/// free. Movable and CMA memory is left alone unless there is no other: it could never be taken as a range again.
pub fn place(config: &Config<'_>, bytes: usize, within: PfnRange) -> Option<PfnRange> {
    let frames = (bytes as u64).div_ceil(1_u64.checked_shl(config.geometry.page_shift.into())?);
    let usable = || config.regions.iter().rev().filter(|region| region.usable && region.present);
    let ranges = || usable().map(|region| region.range.intersect(within));
    let in_use = [config.reserved, config.allocated];
    let kept_too = [config.reserved, config.allocated, config.movable, config.cma];
    [&kept_too[..], &in_use].into_iter().find_map(|taken| ranges().find_map(|range| highest(range, frames, taken)))
}

/// Checks that the frames of a block of `bytes` bytes would not be handed out.
///
/// # Errors
/// They are too few or above all memory, or some is usable and no reserved range has them all.
pub(crate) fn check_place(config: &Config<'_>, bytes: usize, own: PfnRange) -> Result<(), Error> {
    let at = own.bytes(config.geometry.page_shift);
    let is_long = at.end.saturating_sub(at.start) >= bytes as u64;
    // Regions are in order.
    let is_below = config.regions.last().is_some_and(|last| own.start < last.range.end);
    let is_right = own.is_empty() || (is_long && is_below);
    if !is_right {
        return Err(Error::BadPlace(own));
    }
    let is_usable = config.regions.iter().any(|region| region.usable && !region.range.intersect(own).is_empty());
    let is_reserved = || config.reserved.iter().any(|reserved| reserved.intersect(own) == own);
    if is_usable && !is_reserved() { Err(Error::Unreserved(own)) } else { Ok(()) }
}

/// Returns the highest `frames` frames of `range` that are not taken.
fn highest(mut range: PfnRange, frames: u64, taken: &[&[PfnRange]]) -> Option<PfnRange> {
    loop {
        let start = range.end.0.checked_sub(frames).filter(|&start| start >= range.start.0)?;
        let found = PfnRange::new(start, range.end.0);
        // Each pass ends the range at a lower frame.
        match taken.iter().copied().flatten().find(|taken| !taken.intersect(found).is_empty()) {
            Some(taken) => range.end = taken.start,
            None => return Some(found),
        }
    }
}

/// Returns the bytes of the table of an allocator's tags ([`framewright::tags`]), in a block of any alignment.
pub fn tag_bytes<K: Kernel>(pages: &Allocator<'static, KernelMachine<K>>) -> usize {
    let mut measuring = Carver::measuring();
    measuring.words::<U64>(Tags::words(pages), false);
    measuring.bytes()
}

/// Returns the words of a table of tags in `block`, which is [`tag_bytes`] long.
///
/// A shorter block has fewer words; blocks whose first frame has none have no tag.
pub fn tag_words(block: &'static mut [u8]) -> &'static [U64] {
    let mut carver = Carver::new(block);
    let count = carver.whole().checked_div(size_of::<U64>()).unwrap_or(0);
    carver.words(count, true)
}

/// What lies in the block.
pub(crate) struct Carved<K: Kernel> {
    pub(crate) parts: Parts<'static, KernelMachine<K>>,
    /// The node of each CPU.
    pub(crate) nodes: &'static [NodeId],
    /// For the values of the CPUs.
    pub(crate) room: Room,
}

/// Cuts a block into the parts of `layout`.
///
/// Words that boot zeroes are left as they are (`Config::is_zeroed`).
// Called with a block, and to measure.
#[inline(never)]
pub(crate) fn carve<K: Kernel>(block: &mut Carver, config: &Config<'_>, layout: &Layout) -> Carved<K> {
    let cleared = !config.is_zeroed;
    Carved {
        parts: Parts {
            sections: block.words(layout.sections, cleared),
            bases: block.words(layout.bases, cleared),
            runs: block.records(layout.runs, |_| Default::default()),
            states: block.words(layout.frames, false),
            links: block.words(layout.frames, false),
            heads: block.words(layout.frames, false),
            pageblocks: block.words(layout.pageblocks, false),
            zones: block.records(layout.zones, |_| Default::default()),
            zonelists: block.records(layout.zonelists, |_| ZoneIdx::NONE),
            cpus: block.records(layout.cpus, |_| Default::default()),
            pcps: block.records(layout.pcps, |_| Default::default()),
            slots: block.words(layout.slots, cleared),
            shards: block.records(layout.shards, |_| Default::default()),
            magazines: block.words(layout.magazines, cleared),
            range_locks: block.words(layout.range_locks, cleared),
            cluster_of: block.words(layout.cluster_of, cleared),
            clusters: block.records(layout.clusters, |_| Default::default()),
            owners: block.words(layout.owners, cleared),
            owned: block.words(layout.owned, cleared),
            hints: block.words(layout.hints, cleared),
            diffs: block.records(layout.diffs, |_| Default::default()),
            node_stats: block.records(layout.node_stats, |_| Default::default()),
            node_diffs: block.records(layout.node_diffs, |_| Default::default()),
        },
        nodes: block.records(config.cpus.len(), |cpu| config.cpus.get(cpu).copied().unwrap_or(NodeId(0))),
        room: block.room(Allocator::<KernelMachine<K>>::PER_CPU_SIZE, layout.cpus),
    }
}
