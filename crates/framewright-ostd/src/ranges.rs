//! Memory that was added before the allocator has booted.
//!
//! OSTD adds its usable ranges one by one, and then allocates. The allocator needs the whole map to boot. So ranges are
//! noted here, in words that a static can hold.
//!
//! Below a range lies memory that OSTD has allocated before there was an allocator: it takes a range from its start,
//! and adds what remains. Some of that is freed later, such as the tables of the first page table. So the map has the
//! memory below each range too, as much as OSTD may have taken.
//!
//! Cost: descriptors for that memory, 0.6 % of it.
//!
//! Rejected: memory that is withheld, and brought online when it is freed. A withheld block comes back as a whole, and
//! OSTD frees single frames.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use framewright::{PfnRange, Region};

/// Ranges that can be noted: more than firmware has been seen to name.
pub(crate) const MOST: usize = 128;

/// Frames that have one frame of metadata in OSTD: 64 bytes each.
const FRAMES_OF_METADATA: u64 = 64;
/// Frames that OSTD may have taken early besides its metadata: 64 MiB.
///
/// The most of it are page tables of the metadata: 64 for 8 GiB, 8,192 for 1 TiB.
const TAKEN: u64 = 1 << 14;

/// A list with room for `N` elements.
pub(crate) struct List<T, const N: usize> {
    all: [T; N],
    len: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    fn new(empty: T) -> Self {
        List { all: [empty; N], len: 0 }
    }

    fn push(&mut self, element: T) {
        if let Some(place) = self.all.get_mut(self.len) {
            *place = element;
            self.len = self.len.saturating_add(1);
        }
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        self.all.get(..self.len).unwrap_or_default()
    }
}

/// The memory map.
pub(crate) struct Map {
    /// All memory, ascending: the ranges, and the memory below each.
    pub(crate) regions: List<Region, { 2 * MOST }>,
    /// The memory below the ranges, which is in use or none.
    pub(crate) early: List<PfnRange, MOST>,
}

/// Ranges of frames, noted by any CPU.
pub(crate) struct Ranges {
    /// Start and end of each.
    ends: [[AtomicU64; 2]; MOST],
    count: AtomicUsize,
}

impl Ranges {
    pub(crate) const fn new() -> Ranges {
        Ranges { ends: [const { [const { AtomicU64::new(0) }; 2] }; MOST], count: AtomicUsize::new(0) }
    }

    /// Notes a range; false if there is no room.
    pub(crate) fn note(&self, range: PfnRange) -> bool {
        let place = self.count.fetch_add(1, Ordering::Relaxed);
        let Some([start, end]) = self.ends.get(place) else { return false };
        start.store(range.start.0, Ordering::Relaxed);
        end.store(range.end.0, Ordering::Release);
        true
    }

    /// Returns the memory map of the ranges that are noted.
    pub(crate) fn map(&self) -> Map {
        let mut ranges = [PfnRange::default(); MOST];
        for (range, [start, end]) in ranges.iter_mut().zip(&self.ends) {
            let end = end.load(Ordering::Acquire);
            *range = PfnRange::new(start.load(Ordering::Relaxed), end);
        }
        ranges.sort_unstable_by_key(|range| range.start);
        let mut map = Map { regions: List::new(Region::usable(0, 0, 0)), early: List::new(PfnRange::default()) };
        let taken = ranges.iter().map(|range| range.end.0).max().unwrap_or(0) / FRAMES_OF_METADATA + TAKEN;
        let mut before = 0_u64;
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let start = range.start.0;
            let below = PfnRange::new(before.max(start.saturating_sub(taken)), start);
            if !below.is_empty() {
                map.regions.push(Region::usable(below.start.0, below.end.0, 0));
                map.early.push(below);
            }
            map.regions.push(Region::usable(start, range.end.0, 0));
            before = range.end.0;
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_in_any_order_with_the_memory_below() {
        let ranges = Ranges::new();
        for (start, end) in [(0x10_0000, 0x20_0000), (0, 0x9f), (0x100, 0x6000), (0x7000, 0x7fe0)] {
            assert!(ranges.note(PfnRange::new(start, end)));
        }
        let map = ranges.map();
        let early = [(0x9f, 0x100), (0x6000, 0x7000), (0xf_4000, 0x10_0000)];
        assert_eq!(map.early.as_slice(), early.map(|(start, end)| PfnRange::new(start, end)));
        let regions = map.regions.as_slice();
        assert_eq!(regions.len(), 7);
        assert!(regions.is_sorted_by(|one, next| one.range.end <= next.range.start));
        assert!(regions.iter().all(|region| region.usable && !region.range.is_empty()));
    }

    #[test]
    fn as_many_ranges_as_there_is_room_for() {
        let ranges = Ranges::new();
        assert!((0..MOST as u64).all(|i| ranges.note(PfnRange::new(10 * i, 10 * i + 5))));
        assert!(!ranges.note(PfnRange::new(1 << 20, 1 << 21)));
        assert_eq!(ranges.map().regions.as_slice().len(), 2 * MOST - 1);
    }
}
