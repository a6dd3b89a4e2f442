//! Pageblocks that are read one part at a time, for sources where reading all of them takes longer than a sample may.

use framewright::units::PfnRange;

use super::map::{Block, BlockKind, Map};
use super::sample::Sample;

/// Pageblocks of a part.
const PART: u64 = 64;

/// All pageblocks, each part as of its last reading.
#[derive(Default)]
pub struct PageblockSweep {
    parts: Vec<SweepPart>,
    /// The part that is to be read next.
    next: usize,
}

/// Some pageblocks of a zone.
struct SweepPart {
    zone: u16,
    range: PfnRange,
    /// When it was read; none if not yet.
    read: Option<f64>,
    blocks: Vec<Block>,
}

impl PageblockSweep {
    /// The pageblocks of the sample's zones. As many parts are read as it takes until `is_enough`, which is told how
    /// many frames were read, and whether the next part has been read before; one part at least. `read` gives the
    /// pageblocks of a range, which begins or ends in the middle of one where a zone does.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn look<E>(
        &mut self,
        sample: &Sample,
        mut read: impl FnMut(PfnRange) -> Result<Vec<Block>, E>,
        mut is_enough: impl FnMut(u64, bool) -> bool,
    ) -> Result<Map, E> {
        let pageblock = 1_u64 << sample.pageblock.0;
        self.fit(sample, pageblock);
        let mut frames = 0;
        for _ in 0..self.parts.len() {
            self.next %= self.parts.len();
            let part = &mut self.parts[self.next];
            if frames != 0 && is_enough(frames, part.read.is_some()) {
                break;
            }
            part.blocks = read(part.range)?;
            part.blocks.iter_mut().for_each(|block| block.zone = Some(part.zone));
            part.read = Some(sample.at);
            frames += part.range.frames();
            self.next += 1;
        }
        let oldest = self.parts.iter().filter_map(|part| part.read).fold(sample.at, f64::min);
        let blocks: Vec<Block> = self.parts.iter().flat_map(|part| part.blocks.iter().copied()).collect();
        Ok(Map { pageblock, blocks, by_content: false, age: sample.at - oldest })
    }

    /// Makes the parts those of the sample's zones; readings are kept if the parts stay equal.
    fn fit(&mut self, sample: &Sample, pageblock: u64) {
        let of = |(zone, range): (u16, PfnRange)| {
            let (first, end) = (range.start.0 / pageblock * pageblock, range.end.0);
            (first..end).step_by((PART * pageblock) as usize).map(move |start| {
                let range = PfnRange::new(start.max(range.start.0), (start + PART * pageblock).min(end));
                let unread = Block { zone: Some(zone), kind: BlockKind::Unread, frames: 0, used: 0 };
                SweepPart { zone, range, read: None, blocks: pageblocks(range, pageblock).map(|_| unread).collect() }
            })
        };
        let zones = (0..).zip(sample.zones.iter().map(|zone| zone.range));
        let parts: Vec<SweepPart> = zones.flat_map(of).collect();
        let same = |(a, b): (&SweepPart, &SweepPart)| (a.zone, a.range) == (b.zone, b.range);
        if parts.len() != self.parts.len() || !parts.iter().zip(&self.parts).all(same) {
            self.parts = parts;
        }
    }
}

/// The pageblocks, or what there is of them, in a range.
pub fn pageblocks(range: PfnRange, pageblock: u64) -> impl Iterator<Item = PfnRange> {
    let first = range.start.0 / pageblock.max(1) * pageblock;
    (first..range.end.0)
        .step_by(pageblock.max(1) as usize)
        .map(move |start| PfnRange::new(start.max(range.start.0), (start + pageblock).min(range.end.0)))
}
