//! Tables with an entry for each frame of the recorded machine.

use framewright::pfn::{Order, Pfn, PfnRange};

use super::ReplayError;

/// Frames from the lowest to the highest that the trace or its state names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) range: PfnRange,
}

impl Span {
    /// Bytes that the tables of a replay take for each frame, the allocator's own among them; those for CPUs come on top.
    pub(crate) const FRAME_BYTES: u64 = 28;
    /// How many frames the tables can number.
    const LIMIT: u64 = 1 << 31;

    /// Whether tables for all of its frames fit into `bytes`.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.range.frames() <= Span::LIMIT && self.bytes(0) <= bytes
    }

    /// Bytes that tables for all of its frames take, with so many more for each.
    pub(crate) fn bytes(&self, more: u64) -> u64 {
        self.range.frames().saturating_mul(Span::FRAME_BYTES + more)
    }

    /// That its tables would take more than they may.
    pub(super) fn too_large(&self, file: &str, bytes: u64, limit: u64) -> ReplayError {
        let PfnRange { start: first, end } = self.range;
        ReplayError::TooLarge { file: file.to_owned(), first, last: Pfn(end.0.saturating_sub(1)), bytes, limit }
    }

    /// Includes a block.
    pub(crate) fn include(&mut self, block: PfnRange) {
        if self.range.is_empty() {
            self.range = block;
        } else if !block.is_empty() {
            self.range = PfnRange { start: self.range.start.min(block.start), end: self.range.end.max(block.end) };
        }
    }

    /// Whether all frames of a block are in the span.
    pub(crate) fn covers(&self, block: PfnRange) -> bool {
        self.range.start <= block.start && block.end <= self.range.end
    }

    /// Number of frames, for the size of a table.
    pub(crate) fn len(&self) -> usize {
        self.range.frames() as usize
    }

    /// Position of a frame in a table; none outside of the span.
    pub(crate) fn index(&self, pfn: Pfn) -> Option<usize> {
        self.range.contains(pfn).then(|| (pfn.0 - self.range.start.0) as usize)
    }

    /// The frame at a position.
    pub(crate) fn pfn(&self, index: usize) -> Pfn {
        self.range.start.add(index as u64)
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
        let start = (inside.start.0 - self.range.start.0) as usize;
        start..start + inside.frames() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_inside() {
        let span = Span { range: PfnRange::new(100, 200) };
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
