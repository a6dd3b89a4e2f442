//! Memory map: translation of page frame numbers to descriptors, and back.
//!
//! Descriptors are numbered densely, in *sections* of the largest block's size (`frame.rs`). A *run* is a stretch of
//! consecutive sections with memory; most machines have one to four. Within a run, the numbers of a frame and of its
//! descriptor differ by the run's *offset*. Offsets never fall from one run to the next. Three tables hold them:
//!
//! | table | found by | value | bytes |
//! |---|---|---|---|
//! | `sections` | frame number `>> grain` | the offset of the run, or [`NOWHERE`] | 8 for each entry |
//! | `bases` | descriptor `>> max_order` | the offset of its run | 8 for each section with memory |
//! | `runs` | binary search | the start and end of a run | 16 for each run |
//!
//! The table `sections` spans all sections, from the first one with memory on. Its entry holds an offset if one run
//! covers the whole entry. A translation is one load from a table and one addition, wherever the memory lies.
//! [`NOWHERE`] needs no branch of its own: a frame number minus that offset is above all descriptors. Every reader of a
//! descriptor checks the bound anyway.
//!
//! An entry of `sections` covers one section, unless memory is very sparse. Where the table would take more than a byte
//! for each frame, an entry covers several sections (`grain`). Where a run begins or ends inside such an entry, its
//! frames are found by binary search.
//!
//! Rejected:
//! - A subtraction for the first run and the tables for all others: it made memory above the first hole slower.
//! - The last run used, remembered for each CPU: it costs more than the table even where it is right.
//! - The offset of each zone: zones have holes.
//!
//! `docs/decisions/0022-one-table-for-every-map.md` has the numbers.

use crate::types::units::{Frame, Order, Pfn, PfnRange};

/// Offset of an entry that no run covers.
///
/// Every frame number of an entry, minus this, is above 2⁶².
pub(crate) const NOWHERE: u64 = 1 << 63;

/// Stretch of consecutive sections with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// Number of the first frame, and its descriptor.
    pub(crate) pfn: Pfn,
    pub(crate) first: u32,
    /// Number of frames; at most [`Frame::LIMIT`].
    pub(crate) frames: u32,
}

impl Run {
    /// Returns the difference between a frame's number and its descriptor.
    pub(crate) const fn offset(self) -> u64 {
        self.pfn.0.wrapping_sub(self.first as u64)
    }
}

/// Map of memory; the description of this module explains it.
#[derive(Clone, Copy)]
pub(crate) struct Map<'a> {
    /// First frame of the first section.
    base: u64,
    /// Binary logarithm of the frames that an entry of `sections` covers.
    grain: u8,
    max_order: Order,
    sections: &'a [u64],
    bases: &'a [u64],
    runs: &'a [Run],
}

impl<'a> Map<'a> {
    /// Fills the tables from the runs, which are in ascending order.
    pub(crate) fn new(
        grain: u8,
        max_order: Order,
        sections: &'a mut [u64],
        bases: &'a mut [u64],
        runs: &'a [Run],
    ) -> Map<'a> {
        let base = runs.first().map_or(0, |run| run.pfn.0);
        sections.fill(NOWHERE);
        let mut rest = &mut *bases;
        for run in runs {
            let (start, end) = (run.pfn.0.wrapping_sub(base), run.pfn.add(run.frames.into()).0.wrapping_sub(base));
            let whole = start.div_ceil(1 << grain) as usize..(end >> grain) as usize;
            sections.get_mut(whole).unwrap_or_default().fill(run.offset());
            let slots = (run.frames >> max_order.0) as usize;
            let (own, others) = rest.split_at_mut_checked(slots).unwrap_or_default();
            own.fill(run.offset());
            rest = others;
        }
        Map { base, grain, max_order, sections, bases, runs }
    }

    /// Returns a frame's descriptor, or a number that no descriptor has.
    ///
    /// The latter means: no memory, or a frame that only [`Map::run_of`] finds.
    #[inline(always)]
    pub(crate) fn index(&self, pfn: Pfn) -> Option<u64> {
        let entry = usize::try_from(pfn.0.wrapping_sub(self.base) >> self.grain).ok()?;
        self.sections.get(entry).map(|offset| pfn.0.wrapping_sub(*offset))
    }

    /// Returns a frame's descriptor; `None` outside every section with memory.
    #[inline]
    pub(crate) fn frame(&self, pfn: Pfn) -> Option<Frame> {
        match self.index(pfn)? {
            index if index < Frame::LIMIT => Some(Frame(index as u32)),
            _ if self.grain == self.max_order.0 => None,
            _ => self.run_of(pfn).map(|run| Frame(pfn.0.wrapping_sub(run.offset()) as u32)),
        }
    }

    /// Returns the frame of a descriptor; `u64::MAX` for a descriptor that does not exist.
    #[inline(always)]
    pub(crate) fn pfn(&self, frame: Frame) -> Pfn {
        match self.bases.get((frame.0 >> self.max_order.0) as usize) {
            Some(offset) => Pfn(offset.wrapping_add(frame.0.into())),
            None => Map::nowhere(),
        }
    }

    /// Out of line, so that the caller prepares no registers for it.
    #[cold]
    #[inline(never)]
    fn nowhere() -> Pfn {
        Pfn(u64::MAX)
    }

    /// Returns all runs, in ascending order.
    pub(crate) const fn runs(&self) -> &'a [Run] {
        self.runs
    }

    /// Returns the run that contains a frame.
    pub(crate) fn run_of(&self, pfn: Pfn) -> Option<Run> {
        let after = self.runs.partition_point(|run| run.pfn <= pfn);
        let run = *self.runs.get(after.checked_sub(1)?)?;
        (pfn.0.wrapping_sub(run.pfn.0) < run.frames.into()).then_some(run)
    }

    /// Returns the run that contains a descriptor.
    pub(crate) fn run_at(&self, frame: Frame) -> Option<Run> {
        let after = self.runs.partition_point(|run| run.first <= frame.0);
        let run = *self.runs.get(after.checked_sub(1)?)?;
        (frame.0.wrapping_sub(run.first) < run.frames).then_some(run)
    }

    /// Returns the first frame, at or after `pfn`, in a section with memory.
    pub(crate) fn next(&self, pfn: Pfn) -> Option<Pfn> {
        let next = self.runs.partition_point(|run| run.pfn.add(run.frames.into()) <= pfn);
        self.runs.get(next).map(|run| run.pfn.max(pfn))
    }

    /// Returns all frame numbers from the first section with memory to the last.
    pub(crate) fn span(&self) -> PfnRange {
        let end = self.runs.last().map_or(Pfn(0), |run| run.pfn.add(run.frames.into()));
        PfnRange { start: Pfn(self.base), end }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Runs of sections of 16 frames, as `(first section, sections)`.
    fn runs(of: &[(u64, u32)]) -> Vec<Run> {
        let mut first = 0;
        let place = |&(section, sections): &(u64, u32)| {
            let run = Run { pfn: Pfn(section << 4), first, frames: sections << 4 };
            first += run.frames;
            run
        };
        of.iter().map(place).collect()
    }

    #[test]
    fn every_frame_has_its_descriptor_and_no_other_number_has_one() {
        let maps: [&[(u64, u32)]; 6] = [
            &[(0, 4)],
            &[(3, 1), (5, 2), (9, 4)],
            &[(7, 3), (40, 1), (43, 8)],
            &[(0, 2), (1 << 36, 3)],
            &[(1 << 30, 5), (1 << 40, 5), ((1 << 48) - 8, 8)],
            &[((1 << 48) - 9, 1), ((1 << 48) - 4, 4)],
        ];
        for of in maps {
            let runs = runs(of);
            let span = (of.last().unwrap().0 + u64::from(of.last().unwrap().1) - of[0].0) << 4;
            for grain in 4..52 {
                let entries = span.div_ceil(1 << grain);
                if entries > 1 << 16 {
                    continue;
                }
                let (mut sections, mut bases) = (vec![7; entries as usize], vec![7; 64]);
                let map = Map::new(grain, Order(4), &mut sections, &mut bases, &runs);
                let mut expected = 0;
                for run in &runs {
                    let end = run.pfn.0 + u64::from(run.frames);
                    for pfn in (run.pfn.0..end).map(Pfn) {
                        let frame = Frame(expected);
                        expected += 1;
                        assert_eq!((map.frame(pfn), map.pfn(frame)), (Some(frame), pfn), "{of:?}, grain {grain}");
                        assert_eq!((map.run_of(pfn), map.run_at(frame)), (Some(*run), Some(*run)));
                        assert_eq!(map.next(pfn), Some(pfn));
                    }
                }
                let inside = |pfn: u64| runs.iter().any(|run| pfn.wrapping_sub(run.pfn.0) < run.frames.into());
                let near = runs.iter().flat_map(|run| [run.pfn.0, run.pfn.0 + u64::from(run.frames)]);
                let odd = [0, 1 << 40, NOWHERE, NOWHERE - 1, NOWHERE | runs[0].pfn.0, u64::MAX, u64::MAX - 15];
                for pfn in
                    near.chain(odd).flat_map(|pfn| (0..40).map(move |more| pfn.wrapping_add(more).wrapping_sub(20)))
                {
                    assert_eq!(map.frame(Pfn(pfn)).is_some(), inside(pfn), "{of:?}, grain {grain}: {pfn:#x}");
                    assert_eq!(map.run_of(Pfn(pfn)).is_some(), inside(pfn));
                    let next = runs.iter().find(|run| pfn < run.pfn.0 + u64::from(run.frames));
                    assert_eq!(map.next(Pfn(pfn)), next.map(|run| run.pfn.max(Pfn(pfn))));
                }
                assert_eq!((map.pfn(Frame(64 << 4)), map.run_at(Frame(expected))), (Pfn(u64::MAX), None));
            }
        }
    }
}
