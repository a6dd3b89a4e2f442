//! The owner of each frame, as a replay's tracepoints tell.
//!
//! For each frame it has the record whose request the frame serves, and that request's mobility. For each pageblock it
//! has the number of frames in use by mobility, and the time with any. Frames on a CPU's list are free and have no
//! owner.

use std::collections::BTreeMap;

use framewright::event::Event;
use framewright::units::{MigrateType, Order, Pfn, PfnRange};

use crate::replay::{Pages, RecordedMachine, Span};

/// Mobilities that requests have; their indices come first ([`MigrateType::index`]).
pub(super) const MOBILITIES: [MigrateType; 3] =
    [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];

/// The owner of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Owner {
    /// Number of the record of the request, from 1; 0 for frames in use when recording began.
    pub(super) record: u64,
    /// Mobility of the request.
    pub(super) mobility: MigrateType,
}

/// The first frame of each owner, and the number of its frames.
pub(super) type OwnedFrames = BTreeMap<Owner, (Pfn, u64)>;

/// A frame's owner in a word: 0 if it is free.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OwnerWord(u64);

impl OwnerWord {
    const FREE: OwnerWord = OwnerWord(0);

    fn of(owner: Owner) -> OwnerWord {
        OwnerWord(owner.record << 2 | (owner.mobility.index() as u64 + 1))
    }

    fn owner(self) -> Option<Owner> {
        let mobility = MOBILITIES.get((self.0 & 3).checked_sub(1)? as usize)?;
        Some(Owner { record: self.0 >> 2, mobility: *mobility })
    }
}

/// A point of a replay, or the difference of two.
///
/// It has the time of the trace in nanoseconds, and the number of huge requests that failed up to then.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Moment {
    pub(super) time: u64,
    pub(super) failed: u64,
}

impl Moment {
    /// The difference to `earlier`. Times may step back a little.
    pub(super) fn since(self, earlier: Moment) -> Moment {
        Moment { time: self.time.saturating_sub(earlier.time), failed: self.failed.saturating_sub(earlier.failed) }
    }
}

/// A pageblock's frames in use by one mobility.
#[derive(Clone, Copy, Default)]
pub(super) struct Presence {
    pub(super) frames: u64,
    /// Time since which there has been one, or of the last one's end.
    pub(super) since: Moment,
    /// Total time with any before that.
    before: Moment,
}

impl Presence {
    /// Total time with any up to now.
    pub(super) fn total(&self, now: Moment) -> Moment {
        let here = if self.frames == 0 { Moment::default() } else { now.since(self.since) };
        Moment { time: self.before.time + here.time, failed: self.before.failed + here.failed }
    }

    fn change(&mut self, by: i64, now: Moment) {
        let frames = self.frames.saturating_add_signed(by);
        if (frames == 0) != (self.frames == 0) {
            self.before = self.total(now);
            self.since = now;
        }
        self.frames = frames;
    }
}

/// A pageblock.
#[derive(Clone, Copy, Default)]
pub(super) struct Pageblock {
    /// Frames that the allocator has.
    pub(super) memory: u64,
    in_use: [Presence; MOBILITIES.len()],
}

impl Pageblock {
    pub(super) fn of(&self, mobility: MigrateType) -> Presence {
        self.in_use.get(mobility.index()).copied().unwrap_or_default()
    }

    /// Frames in use.
    pub(super) fn used(&self) -> u64 {
        self.in_use.iter().map(|presence| presence.frames).sum()
    }

    /// Frames in use that cannot be moved.
    pub(super) fn pinned(&self) -> u64 {
        self.used() - self.of(MigrateType::Movable).frames
    }
}

/// The owners of all frames, and totals by pageblock.
pub(super) struct PageOwners {
    span: Span,
    pub(super) order: Order,
    words: Vec<OwnerWord>,
    /// From the span's first pageblock on.
    pageblocks: Vec<Pageblock>,
    pub(super) now: Moment,
}

impl PageOwners {
    /// Bytes for each frame, rounded up.
    pub(super) const fn frame_bytes(pageblock_order: Order) -> u64 {
        (size_of::<OwnerWord>() + (size_of::<Pageblock>() >> pageblock_order.0)) as u64 + 1
    }

    pub(super) fn new(span: Span, machine: &RecordedMachine) -> PageOwners {
        let order = machine.pageblock_order;
        let mut owners = PageOwners {
            order,
            words: vec![OwnerWord::FREE; span.len()],
            pageblocks: vec![Pageblock::default(); span.pageblocks(order)],
            now: Moment::default(),
            span,
        };
        for region in machine.regions.iter().filter(|region| region.usable) {
            let mut start = region.range.start;
            while start < region.range.end {
                let part = PfnRange::block(start.align_down(order), order).intersect(region.range);
                if let Some(pageblock) = owners.at(start) {
                    pageblock.memory += part.frames();
                }
                start = part.end;
            }
        }
        owners
    }

    /// Sets the owners of the frames that are in use before the first record.
    pub(super) fn set_up(&mut self, machine: &RecordedMachine, pages: &Pages<'_>) {
        use framewright::FrameState::Allocated;
        for (pfn, movable) in machine.used().filter(|&(pfn, _)| matches!(pages.state_of(pfn), Allocated(..))) {
            let mobility = if movable { MigrateType::Movable } else { MigrateType::Unmovable };
            self.write(pfn, OwnerWord::of(Owner { record: 0, mobility }));
        }
    }

    /// Updates the owners by a tracepoint that `record` led to.
    pub(super) fn hear(&mut self, event: &Event, record: u64) {
        let (block, cell) = match *event {
            Event::PageAlloc { pfn: Some(pfn), order, migratetype: mobility, .. } => {
                (PfnRange::block(pfn, order), OwnerWord::of(Owner { record, mobility }))
            }
            Event::PageFree { pfn, order } => (PfnRange::block(pfn, order), OwnerWord::FREE),
            _ => return,
        };
        (block.start.0..block.end.0).for_each(|pfn| self.write(Pfn(pfn), cell));
    }

    /// Copies the owners of a block to the block that it moves to. Another event frees the old block.
    pub(super) fn moves(&mut self, from: Pfn, to: Pfn, order: Order) {
        for offset in 0..order.frames() {
            if let Some(&cell) = self.span.index(from.add(offset)).and_then(|index| self.words.get(index)) {
                self.write(to.add(offset), cell);
            }
        }
    }

    fn write(&mut self, pfn: Pfn, new: OwnerWord) {
        let Some(cell) = self.span.index(pfn).and_then(|index| self.words.get_mut(index)) else { return };
        let old = std::mem::replace(cell, new);
        let now = self.now;
        let Some(pageblock) = self.at(pfn) else { return };
        for (owner, by) in [(old.owner(), -1), (new.owner(), 1)] {
            if let Some(presence) = owner.and_then(|owner| pageblock.in_use.get_mut(owner.mobility.index())) {
                presence.change(by, now);
            }
        }
    }

    fn at(&mut self, pfn: Pfn) -> Option<&mut Pageblock> {
        self.pageblocks.get_mut(self.span.pageblock(pfn, self.order))
    }

    /// The pageblock around a frame.
    pub(super) fn pageblock(&self, pfn: Pfn) -> Pageblock {
        self.pageblocks.get(self.span.pageblock(pfn, self.order)).copied().unwrap_or_default()
    }

    /// All pageblocks with memory, by their first frames.
    pub(super) fn pageblocks(&self) -> impl Iterator<Item = (Pfn, Pageblock)> {
        let all = self.pageblocks.iter().enumerate().filter(|(_, pageblock)| pageblock.memory != 0);
        all.map(|(i, pageblock)| (self.span.pageblock_start(i, self.order), *pageblock))
    }

    /// The owners of the frames of the pageblock around `pfn`.
    pub(super) fn holders(&self, pfn: Pfn) -> impl Iterator<Item = (Pfn, Owner)> {
        let frames = self.span.block(pfn.align_down(self.order), self.order);
        frames.filter_map(|index| Some((self.span.pfn(index), self.words.get(index)?.owner()?)))
    }

    /// The frames of each owner in some pageblocks.
    pub(super) fn held(&self, pageblocks: impl IntoIterator<Item = Pfn>) -> OwnedFrames {
        let mut held = OwnedFrames::new();
        for (pfn, owner) in pageblocks.into_iter().flat_map(|pageblock| self.holders(pageblock)) {
            held.entry(owner).or_insert((pfn, 0)).1 += 1;
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_adds_up_the_times_when_something_was_there() {
        let at = |time, failed| Moment { time, failed };
        let mut presence = Presence::default();
        for (by, now, frames, total) in [
            (1, at(10, 1), 1, at(0, 0)),
            (2, at(20, 2), 3, at(10, 1)),
            (-3, at(30, 4), 0, at(20, 3)),
            (-1, at(35, 5), 0, at(20, 3)),
            (1, at(50, 9), 1, at(20, 3)),
            (0, at(45, 9), 1, at(20, 3)),
            (0, at(60, 9), 1, at(30, 3)),
        ] {
            presence.change(by, now);
            assert_eq!((presence.frames, presence.total(now)), (frames, total), "{by} at {now:?}");
        }
    }

    #[test]
    fn a_cell_is_free_or_has_a_holder() {
        assert_eq!(OwnerWord::FREE.owner(), None);
        for mobility in MOBILITIES {
            for record in [0, 1, 1 << 40] {
                let owner = Owner { record, mobility };
                assert_eq!(OwnerWord::of(owner).owner(), Some(owner));
            }
        }
    }
}
