//! Observes the machine; no CPU is charged for it.

use framewright::report::Source;
use framewright::{FrameState, MigrateType, Pfn, Region};
use framewright_ops::zones;

use super::kernel::Kernel;
use super::lists::Use;
use super::outcome::{Block, FioOutcome, PAGEBLOCK, Phase, Sample, Tally};
use crate::engine::here;
use crate::engine::world::between_steps;
use crate::model::{MS, Ps};
use crate::report::LockReport;

impl Kernel<'_> {
    /// Returns the machine's free frames.
    pub(super) fn free_frames(&self) -> u64 {
        between_steps(|| zones(self.pages.nodes()).map(|zone| self.pages.free_frames(zone)).sum())
    }

    /// Takes a sample now and then.
    pub(super) fn sample(&self, ticks: u64) {
        let often = self.with(|memory| 1 + memory.tally.samples.len() as u64 / 100);
        if ticks.is_multiple_of(often) {
            self.note(here::clock());
        }
    }

    /// Takes a sample now.
    fn note(&self, now: Ps) {
        let free = self.free_frames();
        self.with(|memory| {
            let sizes = (0..self.pages.nodes()).map(|node| memory.lists.sizes(node));
            let [inactive, active] = sizes.fold([0, 0], |all, one| [all[0] + one[0], all[1] + one[1]]);
            let sample = Sample {
                ms: now / MS,
                events: memory.tally.events.total(),
                free,
                dirty: memory.dirty + memory.writeback,
                inactive,
                active,
                unmovable_slab: memory.caches.frames[0],
                reclaimable_slab: memory.caches.frames[1],
            };
            memory.tally.samples.push(sample);
        });
    }

    /// Returns what happened in a phase that has just ended. No CPU runs.
    pub(super) fn phase(
        &self,
        name: &'static str,
        (now, seconds): (Ps, f64),
        before: &Tally,
        regions: &[Region],
    ) -> Phase {
        self.note(now);
        let blocks = self.blocks(regions);
        self.with(|memory| Phase {
            name,
            seconds,
            pages: memory.tally.pages - before.pages,
            events: memory.tally.events.since(&before.events),
            faults: memory.tally.faults(before),
            blocks,
            objects: memory.caches.objects.to_vec(),
            slab: memory.caches.frames,
        })
    }

    /// Returns all pageblocks.
    fn blocks(&self, regions: &[Region]) -> Vec<Block> {
        let starts =
            regions.iter().flat_map(|region| (region.range.start.0..region.range.end.0).step_by(1 << PAGEBLOCK));
        let of = |start: u64| {
            let migratetype = self.pages.pageblock_type(Pfn(start)).unwrap_or(MigrateType::Isolate);
            let mut block = Block { migratetype: migratetype.index() as u8, ..Block::default() };
            for pfn in start..start + (1 << PAGEBLOCK) {
                match self.pages.state_of(Pfn(pfn)) {
                    FrameState::Free(..) | FrameState::Pcp(..) => block.free += 1,
                    FrameState::Allocated(head, _) if self.can_move(head) => block.movable += 1,
                    _ => block.fixed += 1,
                }
            }
            block
        };
        starts.map(of).collect()
    }

    fn can_move(&self, head: Pfn) -> bool {
        self.with(|memory| memory.lists.page(memory.lists.frame(head.0)).used != Use::Other)
    }

    /// Returns the result of the run.
    pub(super) fn outcome(&self, phases: Vec<Phase>, locks: Vec<LockReport>, work: (u64, u64)) -> FioOutcome {
        let moves = self.pages.events();
        self.with(|memory| FioOutcome {
            phases,
            faults: memory.tally.faults(&Tally::default()),
            events: memory.tally.events,
            samples: std::mem::take(&mut memory.tally.samples),
            kswapd: memory.tally.kswapd,
            direct: memory.tally.direct,
            shrunk: memory.tally.shrunk,
            refaults: memory.files.refaults,
            retries: memory.tally.retries,
            counters: self.pages.counters(),
            moves,
            locks,
            accesses: work.0,
            switches: work.1,
        })
    }
}
