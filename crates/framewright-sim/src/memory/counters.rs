//! Transfers of lines, counted by the word that was touched.
//!
//! In a region with fields, each line has counters for every four bytes, made at its first transfer. A long array has
//! one set of counters in all.

use crate::memory::arena::Region;
use crate::memory::directory::{Access, Line, Served, Source};
use crate::model::Ps;

/// Counted places of a line.
pub(crate) const PLACES: usize = 16;

/// Transfers, and the time they took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Count {
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) rmws: u64,
    pub(crate) near: u64,
    pub(crate) far: u64,
    pub(crate) memory: u64,
    pub(crate) queued: Ps,
    pub(crate) moving: Ps,
}

impl Count {
    fn note(&mut self, access: Access, served: &Served, now: Ps) {
        match access {
            Access::Load => self.loads += 1,
            Access::Store | Access::Release => self.stores += 1,
            Access::Rmw => self.rmws += 1,
        }
        match served.source {
            Source::Own => {}
            Source::Near => self.near += 1,
            Source::Far => self.far += 1,
            Source::Memory => self.memory += 1,
        }
        self.queued += served.start - now;
        self.moving += served.done - served.start;
    }
}

/// Four bytes of a line; `offset` is that of the first in the region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) region: u16,
    pub(crate) offset: usize,
    pub(crate) count: Count,
}

/// Counters of all regions.
pub(crate) struct Counters {
    regions: Vec<(usize, bool, Count)>,
    lines: Vec<[Place; PLACES]>,
}

impl Counters {
    pub(crate) fn new(regions: &[Region]) -> Counters {
        let regions = regions.iter().map(|region| (region.start, region.detailed, Count::default())).collect();
        Counters { regions, lines: Vec::new() }
    }

    /// Counts a request for a line.
    ///
    /// It was made at `now`, for the word at this offset of the arena.
    pub(crate) fn count(
        &mut self,
        line: &mut Line,
        (region, offset): (u16, usize),
        access: Access,
        served: &Served,
        now: Ps,
    ) {
        let (start, detailed, whole) = &mut self.regions[usize::from(region)];
        if !*detailed {
            whole.note(access, served, now);
            return;
        }
        if line.counters == 0 {
            let first = (offset - *start) & !63;
            let place = |i| Place { region, offset: first + i * 4, count: Count::default() };
            self.lines.push(std::array::from_fn(place));
            line.counters = self.lines.len() as u32;
        }
        self.lines[line.counters as usize - 1][offset >> 2 & (PLACES - 1)].count.note(access, served, now);
    }

    /// Returns the counters of lines in regions with fields.
    pub(crate) fn lines(&self) -> &[[Place; PLACES]] {
        &self.lines
    }

    /// Returns the counters of regions without fields, by their number.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = (usize, &Count)> {
        self.regions.iter().enumerate().filter(|(_, (_, detailed, _))| !detailed).map(|(i, (_, _, count))| (i, count))
    }
}
