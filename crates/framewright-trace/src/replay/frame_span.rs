//! The numbering of frames in tables with an entry for each frame of the recorded machine.
//!
//! Frames are numbered from the lowest to the highest of the machine. Nodes can lie terabytes apart, as those of
//! graphics cards do. So wide gaps between zones are left out, and so are those between the frames of a trace without
//! zones. Narrow gaps are not: a hole in a zone or below 4 GiB costs less than a check for it.

use framewright::units::{Order, Pfn, PfnRange};

use super::replay_error::ReplayError;

/// The frames from the lowest to the highest of a trace and its state, without wide gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    /// From the lowest to the highest, gaps included.
    pub(crate) range: PfnRange,
    /// The gaps, ascending. Both ends are multiples of [`Span::STEP`], so that no block is in two parts.
    gaps: Vec<PfnRange>,
}

impl Span {
    /// Bytes that the tables of a replay take for each frame, including the allocator's own.
    ///
    /// The tables for CPUs come in addition.
    pub(crate) const FRAME_BYTES: u64 = 28;
    /// The most frames that the tables can number.
    pub(super) const LIMIT: u64 = 1 << 31;
    /// Ends of gaps are multiples of the largest block.
    const STEP: Order = Order::LIMIT;
    /// The narrowest gap that is left out: 4 GiB of pages of 4 KiB.
    ///
    /// No PC has a wider gap below its end of memory.
    const GAP: u64 = 1 << 20;

    /// The frames of some ranges.
    pub(super) fn of(ranges: impl IntoIterator<Item = PfnRange>) -> Span {
        let mut ranges: Vec<PfnRange> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        ranges.sort_by_key(|range| range.start);
        let mut span = Span::default();
        for range in ranges {
            let gap = PfnRange { start: span.range.end.align_up(Span::STEP), end: range.start.align_down(Span::STEP) };
            if !span.range.is_empty() && gap.start < gap.end && gap.frames() >= Span::GAP {
                span.gaps.push(gap);
            }
            span.include(range);
        }
        span
    }

    /// Its parts between the gaps, ascending.
    pub(super) fn parts(&self) -> impl Iterator<Item = PfnRange> {
        let starts = [self.range.start].into_iter().chain(self.gaps.iter().map(|gap| gap.end));
        let ends = self.gaps.iter().map(|gap| gap.start).chain([self.range.end]);
        starts.zip(ends).map(|(start, end)| PfnRange { start, end })
    }

    /// The position of the first frame that another span with more frames has at another position.
    pub(super) fn first_difference(&self, wider: &Span) -> usize {
        let stays = |index: &usize| wider.index(self.pfn(*index)) == Some(*index);
        let starts = self.parts().filter(|part| !part.is_empty()).map(|part| self.below(part.start) as usize);
        starts.into_iter().find(|start| !stays(start)).unwrap_or(self.len())
    }

    /// Whether tables for all of its frames fit into `bytes`.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.frames() <= Span::LIMIT && self.bytes(0) <= bytes
    }

    /// Bytes that tables for all frames take, with `more` additional bytes for each.
    pub(crate) fn bytes(&self, more: u64) -> u64 {
        self.frames().saturating_mul(Span::FRAME_BYTES + more)
    }

    /// The error of tables that exceed the memory limit or the frames that they can number.
    pub(super) fn too_large(&self, file: &str, bytes: u64, limit: u64) -> ReplayError {
        let (file, PfnRange { start: first, end }) = (file.to_owned(), self.range);
        let last = Pfn(end.0.saturating_sub(1));
        if self.frames() > Span::LIMIT {
            return ReplayError::TooManyFrames { file, first, last, frames: self.frames(), limit: Span::LIMIT };
        }
        ReplayError::TooLarge { file, first, last, bytes, limit }
    }

    /// Includes a block, which is in no gap.
    pub(crate) fn include(&mut self, block: PfnRange) {
        if self.range.is_empty() {
            self.range = block;
        } else if !block.is_empty() {
            self.range = PfnRange { start: self.range.start.min(block.start), end: self.range.end.max(block.end) };
        }
    }

    /// Whether all frames of a block are in the span.
    pub(crate) fn covers(&self, block: PfnRange) -> bool {
        let inside = self.range.start <= block.start && block.end <= self.range.end;
        inside && self.gaps.iter().all(|gap| gap.intersect(block).is_empty())
    }

    /// Number of frames.
    pub(crate) fn frames(&self) -> u64 {
        self.below(self.range.end)
    }

    /// Number of frames, for the size of a table.
    pub(crate) fn len(&self) -> usize {
        self.frames() as usize
    }

    /// Number of frames of the span below `pfn`.
    fn below(&self, pfn: Pfn) -> u64 {
        let within = |pfn: Pfn| pfn.max(self.range.start).min(self.range.end);
        let gaps = self.gaps.iter().take_while(|gap| gap.start < pfn);
        let left_out: u64 = gaps.map(|gap| gap.end.min(pfn).0 - gap.start.0).sum();
        within(pfn).0 - self.range.start.0 - left_out
    }

    /// Position of a frame in a table; none outside of the span.
    pub(crate) fn index(&self, pfn: Pfn) -> Option<usize> {
        let inside = self.range.contains(pfn) && !self.gaps.iter().any(|gap| gap.contains(pfn));
        inside.then(|| self.below(pfn) as usize)
    }

    /// The frame at a position.
    pub(crate) fn pfn(&self, index: usize) -> Pfn {
        let mut pfn = self.range.start.add(index as u64);
        for gap in &self.gaps {
            if gap.start > pfn {
                break;
            }
            pfn = pfn.add(gap.frames());
        }
        pfn
    }

    /// Positions of a block's frames that lie in the span.
    pub(crate) fn block(&self, pfn: Pfn, order: Order) -> std::ops::Range<usize> {
        self.positions(PfnRange::block(pfn, order))
    }

    /// Positions of a range's frames that lie in the span; empty if none do.
    pub(crate) fn positions(&self, range: PfnRange) -> std::ops::Range<usize> {
        let inside = range.intersect(self.range);
        if inside.is_empty() {
            return 0..0;
        }
        self.below(inside.start) as usize..self.below(inside.end) as usize
    }

    /// Number of pageblocks that the span reaches into.
    pub(crate) fn pageblocks(&self, order: Order) -> usize {
        let last = self.range.end.0.checked_sub(1).filter(|_| !self.range.is_empty());
        last.map_or(0, |last| self.pageblock(Pfn(last), order) + 1)
    }

    /// Position of the pageblock around `pfn` in a table; beyond its end for a gap.
    pub(crate) fn pageblock(&self, pfn: Pfn, order: Order) -> usize {
        if self.gaps.iter().any(|gap| gap.contains(pfn)) {
            return usize::MAX;
        }
        let lead = self.range.start.0 - self.range.start.align_down(order).0;
        ((self.below(pfn) + lead) >> order.0) as usize
    }

    /// The first frame of the pageblock at a position.
    pub(crate) fn pageblock_start(&self, index: usize, order: Order) -> Pfn {
        let lead = self.range.start.0 - self.range.start.align_down(order).0;
        self.pfn(((index << order.0) as u64).saturating_sub(lead) as usize).align_down(order)
    }
}

/// Joins frames that follow each other; each run ends where the next frame is another one.
pub(super) fn runs(frames: impl Iterator<Item = Pfn>) -> impl Iterator<Item = PfnRange> {
    let mut frames = frames.peekable();
    std::iter::from_fn(move || {
        let mut run = PfnRange::block(frames.next()?, Order(0));
        while let Some(next) = frames.next_if_eq(&run.end) {
            run.end = next.add(1);
        }
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_inside() {
        let span = Span { range: PfnRange::new(100, 200), ..Span::default() };
        let table = [
            (PfnRange::new(100, 200), 0..100),
            (PfnRange::new(90, 110), 0..10),
            (PfnRange::new(190, 300), 90..100),
            (PfnRange::new(0, u64::MAX), 0..100),
            (PfnRange::new(0, 100), 0..0),
            (PfnRange::new(200, 300), 0..0),
            (PfnRange::new(150, 150), 0..0),
            (PfnRange::new(u64::MAX, u64::MAX), 0..0),
        ];
        for (range, positions) in table {
            assert_eq!(span.positions(range), positions, "{range}");
        }
        assert_eq!((span.index(Pfn(99)), span.index(Pfn(100)), span.index(Pfn(200))), (None, Some(0), None));
    }

    #[test]
    fn wide_gaps_are_left_out() {
        let far = 1 << 40;
        let span = Span::of([
            PfnRange::new(far + 5, far + 1000),
            PfnRange::new(100, 1 << 18),
            PfnRange::new(1 << 18, (1 << 18) + 7),
            PfnRange::new(1 << 20, (1 << 20) + 9),
        ]);
        // The first gap is narrow, and the second one starts and ends at a multiple of the largest block.
        let low = (1 << 20) + (1 << 18) - 100;
        assert_eq!((span.range, span.frames()), (PfnRange::new(100, far + 1000), low + 1000));
        let table = [
            (100, Some(0)),
            (99, None),
            ((1 << 20) + 8, Some((1 << 20) - 92)),
            ((1 << 20) + (1 << 18) - 1, Some(low - 1)),
            ((1 << 20) + (1 << 18), None),
            (far - 1, None),
            (far, Some(low)),
            (far + 999, Some(low + 999)),
            (far + 1000, None),
        ];
        for (pfn, index) in table {
            assert_eq!(span.index(Pfn(pfn)), index.map(|index| index as usize), "{pfn:#x}");
            assert!(index.is_none_or(|index| span.pfn(index as usize) == Pfn(pfn)), "{pfn:#x}");
            assert_eq!(span.covers(PfnRange::new(pfn, pfn + 1)), index.is_some(), "{pfn:#x}");
        }
        let low = low as usize;
        assert_eq!(span.positions(PfnRange::new(0, far + 3)), 0..low + 3);
        assert_eq!(span.positions(PfnRange::new(1 << 30, far)), low..low);
        assert!(!span.covers(PfnRange::new(100, far + 1)));
        let order = Order(9);
        assert_eq!((span.pageblock(Pfn(0), order), span.pageblock(Pfn(100), order)), (0, 0));
        for pageblock in 0..span.pageblocks(order) {
            let start = span.pageblock_start(pageblock, order);
            assert_eq!(span.pageblock(start.max(Pfn(100)), order), pageblock);
        }
        assert_eq!(span.pageblock_start(span.pageblocks(order) - 1, order), Pfn(far + 512));
        assert!(span.pageblock(Pfn(1 << 30), order) > span.pageblocks(order));
    }

    /// Wherever a span grows, its frames move by as many from there on.
    #[test]
    fn a_span_grows_at_one_place() {
        let step = 1 << 18;
        let of = |steps: &[u64]| Span::of(steps.iter().map(|&at| PfnRange::new(at * step, (at + 1) * step)));
        let far = [[3, 4, 100, 1_000].as_slice(), &[3, 4, 100, 104, 1_000], &[0, 100], &[100]];
        for steps in far {
            for new in [0, 2, 5, 6, 50, 99, 101, 103, 500, 999, 1_001, 2_000] {
                let (old, mut all) = (of(steps), [steps, &[new]].concat());
                all.sort_unstable();
                all.dedup();
                let wider = of(&all);
                let (at, shift) = (old.first_difference(&wider), wider.len() - old.len());
                for (index, pfn) in (0..old.len()).step_by(step as usize / 2).map(|index| (index, old.pfn(index))) {
                    let moved = if index < at { index } else { index + shift };
                    assert_eq!(wider.index(pfn), Some(moved), "{steps:?} and {new}: {pfn}");
                }
                let parts: u64 = wider.parts().map(|part| part.frames()).sum();
                assert_eq!(parts, wider.frames());
            }
        }
        assert_eq!((Span::default().first_difference(&of(&[7])), of(&[7]).len()), (0, step as usize));
    }

    #[test]
    fn spans_grow_and_have_a_price() {
        let mut span = Span::default();
        span.include(PfnRange::new(50, 60));
        span.include(PfnRange::new(7, 7));
        span.include(PfnRange::new(10, 11));
        assert_eq!(span.range, PfnRange::new(10, 60));
        assert!(span.covers(PfnRange::new(10, 60)) && !span.covers(PfnRange::new(9, 60)));
        assert!(span.fits(50 * Span::FRAME_BYTES) && !span.fits(50 * Span::FRAME_BYTES - 1));
        span.include(PfnRange::new(0, u64::MAX));
        assert!(!span.fits(u64::MAX));
    }
}
