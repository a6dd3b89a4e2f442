//! Tables with an entry for each frame of the recorded machine.

use framewright::pfn::{Order, Pfn, PfnRange};

/// Frames from the lowest to the highest that the trace or its state names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) range: PfnRange,
}

impl Span {
    /// How many frames a replay can follow: 1 TiB of 4 KiB pages; 4 bytes each.
    pub(super) const LIMIT: u64 = 1 << 28;

    /// Includes a block.
    pub(super) fn include(&mut self, block: PfnRange) {
        if self.range.is_empty() {
            self.range = block;
        } else {
            self.range = PfnRange {
                start: self.range.start.min(block.start),
                end: self.range.end.max(block.end),
            };
        }
    }

    /// Number of frames, for the size of a table.
    pub(super) fn len(&self) -> usize {
        self.range.frames() as usize
    }

    /// Position of a frame in a table; none outside of the span.
    pub(super) fn index(&self, pfn: Pfn) -> Option<usize> {
        self.range.contains(pfn).then(|| (pfn.0 - self.range.start.0) as usize)
    }

    /// The frame at a position.
    pub(super) fn pfn(&self, index: usize) -> Pfn {
        self.range.start.add(index as u64)
    }

    /// Positions of a block's frames that lie in the span.
    pub(super) fn block(&self, pfn: Pfn, order: Order) -> std::ops::Range<usize> {
        let inside = PfnRange::block(pfn, order).intersect(self.range);
        let start = inside.start.0.saturating_sub(self.range.start.0) as usize;
        start..start + inside.frames() as usize
    }
}
