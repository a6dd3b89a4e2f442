//! `/proc/kpageflags`: 64 flags for every frame, eight bytes each, from frame 0 on.
//!
//! The flags are kept as runs of frames with equal flags, a small fraction of the file for most of a machine's memory.
//! The file may be large (2 GiB for 1 TiB of memory), so it is read as a stream, and only the runs are held.
//!
//! # Free blocks
//!
//! On kernels since 2.6.39 the flag BUDDY is set on *every* frame of a free block, not only on its first. So the flags
//! form a map of free frames. The blocks are recovered as the largest naturally aligned blocks that tile it.
//!
//! That is exact as far as the buddy system merges all it can. Two cases stay apart, and the reconstruction respects
//! both: two free buddies of the largest order, and blocks on both sides of a border between zones.
//!
//! Frames on per-CPU lists are neither free nor in use by these flags.

use std::io::Read;

use framewright::units::{Order, Pfn, PfnRange};

use super::buddyinfo::{BuddyInfo, BuddyRow};
use super::zoneinfo::ZoneInfo;
use crate::error::{ProcFault, Result, TraceError};

/// Bits of a frame's flags.
pub mod flag {
    /// On a list of pages to reclaim.
    pub const LRU: u64 = 1 << 5;
    /// Holds kernel objects.
    pub const SLAB: u64 = 1 << 7;
    /// Free, in a block of the buddy system.
    pub const BUDDY: u64 = 1 << 10;
    /// Mapped by a process.
    pub const MMAP: u64 = 1 << 11;
    /// Memory of a process that has no file.
    pub const ANON: u64 = 1 << 12;
    /// First frame of a compound page.
    pub const COMPOUND_HEAD: u64 = 1 << 15;
    /// Another frame of a compound page.
    pub const COMPOUND_TAIL: u64 = 1 << 16;
    /// Part of a page reserved in advance by `hugetlbfs`.
    pub const HUGE: u64 = 1 << 17;
    /// There is no such frame.
    pub const NOPAGE: u64 = 1 << 20;
    /// Part of a transparent huge page.
    pub const THP: u64 = 1 << 22;
    /// Taken by a balloon driver or not yet online.
    pub const OFFLINE: u64 = 1 << 23;
    /// Holds a page table.
    pub const PGTABLE: u64 = 1 << 26;
    /// Not managed by the allocator.
    pub const RESERVED: u64 = 1 << 32;
}

/// Flags of every frame.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KPageFlags {
    /// First frame and flags of each run, ascending; the first starts at 0.
    runs: Vec<(u64, u64)>,
    end: u64,
}

impl KPageFlags {
    /// The most runs that are held: 1 GiB of memory.
    pub const RUN_LIMIT: usize = 1 << 26;
    /// The most frames: 4 PiB of pages of 4 KiB.
    pub const FRAME_LIMIT: u64 = 1 << 40;

    /// Reads the file's bytes, called `file` in messages.
    ///
    /// # Errors
    /// The source cannot be read, or has more frames or runs than the limits, or not eight bytes a frame.
    pub fn parse(source: impl Read, file: &str) -> Result<KPageFlags> {
        let mut source = source;
        let mut flags = KPageFlags::default();
        let mut buffer = vec![0; 64 << 10];
        let mut filled = 0;
        loop {
            match source.read(&mut buffer[filled..]) {
                Ok(0) if filled > 0 => return Err(TraceError::new(file, ProcFault::Length(filled as u64))),
                Ok(0) if flags.end == 0 => return Err(TraceError::new(file, ProcFault::Empty("frame"))),
                Ok(0) => return Ok(flags),
                Ok(n) => filled += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::new(file, error)),
            }
            let mut frames = buffer[..filled].chunks_exact(8);
            for frame in &mut frames {
                let bits = frame.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
                flags.push(1, bits).map_err(|fault| TraceError::new(file, fault))?;
            }
            let left = frames.remainder().len();
            buffer.copy_within(filled - left..filled, 0);
            filled = left;
        }
    }

    /// Appends `frames` frames with equal flags.
    ///
    /// # Errors
    /// There are more frames or runs than the limits.
    pub fn push(&mut self, frames: u64, flags: u64) -> std::result::Result<(), ProcFault> {
        let too_many = ProcFault::TooMany(KPageFlags::FRAME_LIMIT);
        let end = self.end.checked_add(frames).filter(|&end| end <= KPageFlags::FRAME_LIMIT).ok_or(too_many)?;
        if frames > 0 && self.runs.last().is_none_or(|&(_, last)| last != flags) {
            if self.runs.len() >= KPageFlags::RUN_LIMIT {
                return Err(ProcFault::TooMany(KPageFlags::RUN_LIMIT as u64));
            }
            self.runs.push((self.end, flags));
        }
        self.end = end;
        Ok(())
    }

    /// One past the last frame.
    pub fn end_pfn(&self) -> Pfn {
        Pfn(self.end)
    }

    /// Flags of a frame; [`flag::NOPAGE`] above the last.
    pub fn get(&self, pfn: Pfn) -> u64 {
        let behind = self.runs.partition_point(|&(start, _)| start <= pfn.0);
        match self.runs.get(behind.wrapping_sub(1)) {
            Some(&(_, flags)) if pfn.0 < self.end => flags,
            _ => flag::NOPAGE,
        }
    }

    /// The runs of frames with equal flags, ascending.
    pub fn runs(&self) -> impl Iterator<Item = (PfnRange, u64)> {
        let ends = self.runs.iter().skip(1).map(|&(start, _)| start).chain([self.end]);
        self.runs.iter().zip(ends).map(|(&(start, flags), end)| (PfnRange::new(start, end), flags))
    }

    /// The largest ranges of frames with any of the bits of `mask`, ascending.
    pub fn ranges_with(&self, mask: u64) -> impl Iterator<Item = PfnRange> {
        let mut runs = self.runs().filter(move |&(_, flags)| flags & mask != 0).map(|(range, _)| range).peekable();
        std::iter::from_fn(move || {
            let mut range = runs.next()?;
            while let Some(next) = runs.next_if(|next| next.start == range.end) {
                range.end = next.end;
            }
            Some(range)
        })
    }

    /// The largest aligned blocks, up to `max_order`, that tile the free frames of `within`.
    pub fn free_blocks(&self, within: PfnRange, max_order: Order) -> impl Iterator<Item = (Pfn, Order)> {
        self.ranges_with(flag::BUDDY).flat_map(move |range| range.intersect(within).blocks(max_order))
    }

    /// Free blocks counted as `buddyinfo` counts them, for the zones with memory.
    pub fn buddyinfo(&self, zones: &ZoneInfo, max_order: Order) -> BuddyInfo {
        let max_order = max_order.min(Order::LIMIT);
        let rows = zones.zones.iter().filter(|zone| zone.spanned > 0).map(|zone| {
            let mut free = vec![0; usize::from(max_order.0) + 1];
            for (_, order) in self.free_blocks(zone.range(), max_order) {
                free[usize::from(order.0)] += 1;
            }
            BuddyRow { node: zone.node, zone: zone.name.clone(), free }
        });
        BuddyInfo { rows: rows.collect() }
    }
}
