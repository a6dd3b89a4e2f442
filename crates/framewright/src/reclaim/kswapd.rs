//! Background reclaim: what a node's kswapd does each time it is woken. (kcompactd: `compaction.rs`.)
//!
//! A request wakes the node's thread in two cases. It found a zone below its low mark, or it mixed mobilities and
//! raised the marks (`watermark_boost.rs`). The thread calls `Allocator::balance`. The embedder then frees memory
//! ([`Machine::reclaim`]). It does so until a zone of the node is above its high mark and has a block of the order
//! asked for. The core only says how many frames to free and how hard to look. The embedder decides which memory is
//! freed, and which must not be.
//!
//! Which memory counts as free:
//!
//! | mechanisms | what counts |
//! |---|---|
//! | mobilities may mix | all free memory but the high-atomic reserve |
//! | mobilities are kept apart by force, blocks can be moved | memory that a movable request may use |
//! | mobilities are kept apart by force, blocks cannot be moved | whole free pageblocks |
//!
//! While a zone is boosted, its high mark is too. Then the run frees until a zone of the node is above the boosted
//! mark. If one is above it from the start, the boost is worked off *gently*: nothing is written out for it. Such a run
//! ends as soon as a round frees nothing. At the end the marks fall by the boost that they had when the run began,
//! because other requests may have raised them since. Then background compaction is woken.
//!
//! Cost: every loop has a bound. A run without progress ends, and reports that.

use crate::policy::watermark::Mark;
use crate::seam::machine::{Machine, Need, Ordering, Waiter, Word};
use crate::stat::zone_stat::Background;
use crate::types::request::GFP_KERNEL;
use crate::types::units::{NodeId, Order, ZoneIdx, ZoneKind};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Largest number of rounds of a run, whatever they free.
const MAX_ROUNDS: u32 = 1_024;
/// While a boost is worked off, the priority falls by no more than this.
const GENTLE: u32 = 2;
/// Least number of frames wanted from a zone at a time.
const LEAST: u64 = 32;

/// Result of a run of background reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Balanced {
    /// Frames that were freed.
    pub frames: u64,
    /// Rounds that it needed.
    pub rounds: u32,
    /// Frames by which the marks fell: the boost that was worked off, or given up.
    pub boost: u64,
    /// Whether a zone of the node now has enough free memory.
    ///
    /// It is above its high mark and has a block of the order asked for.
    pub is_balanced: bool,
}

impl<'a, M: Machine> World<'a, M> {
    pub(crate) fn balance(&self, node: NodeId) -> Balanced {
        let order = self.zones_of(node).map(|zone| zone.stat.take_asked(Background::Reclaim)).max().unwrap_or_default();
        let boosts = ZoneKind::ALL.map(|kind| self.zone(ZoneIdx::of(node, kind)).map_or(0, |zone| zone.stat.boost()));
        let boosted = boosts.into_iter().fold(0, u64::saturating_add);
        let mut run = Balanced { boost: boosted, ..Balanced::default() };
        let (mut budget, mut priority) = (boosted, Need::LIGHTEST);
        while run.rounds < MAX_ROUNDS && priority != 0 {
            // Enough was freed for a block of the order. Compaction must make the block from it (Linux: `compact_gap`).
            let still = if run.frames >= order.frames().saturating_mul(2) { Order(0) } else { order };
            run.is_balanced = self.is_balanced(node, still);
            if budget == 0 && run.is_balanced {
                break;
            }
            if budget != 0 && !run.is_balanced {
                (budget, priority) = (0, Need::LIGHTEST);
            }
            let gentle = budget != 0;
            let frames = if gentle { budget } else { self.wanted(node) };
            let need = Need { node, order, gfp: GFP_KERNEL, attempt: run.rounds, frames, priority, gentle };
            let freed = self.shared.machine.reclaim(&need).frames;
            run.rounds = run.rounds.saturating_add(1);
            run.frames = run.frames.saturating_add(freed);
            if freed != 0 {
                self.see_freed(self.zones_of(node));
                self.shared.machine.wake(Waiter::Allocation(node));
            }
            budget = budget.saturating_sub(freed);
            if gentle && freed == 0 {
                break;
            }
            let is_least = gentle && priority <= Need::LIGHTEST.saturating_sub(GENTLE);
            if freed < frames && !is_least {
                priority = priority.saturating_sub(1);
            }
        }
        run.is_balanced = self.is_balanced(node, order);
        self.unreserve_idle(node, &run);
        for (kind, boost) in ZoneKind::ALL.into_iter().zip(boosts).filter(|(_, boost)| *boost != 0) {
            if let Some(zone) = self.zone(ZoneIdx::of(node, kind)) {
                self.pinned(|cx| zone.lock(cx).zone.stat.lower_boost(boost));
            }
        }
        // A boost is worked off to get whole pageblocks.
        let wants_pageblocks = boosted != 0 || self.shared.mechanisms().mixes_last();
        if wants_pageblocks || order != Order(0) {
            let pageblock = self.shared.frames.geometry.pageblock_order;
            let wanted = if wants_pageblocks { order.max(pageblock) } else { order };
            self.zones_of(node).for_each(|zone| zone.stat.ask(Background::Compaction, wanted));
            self.shared.machine.wake(Waiter::Kcompactd(node));
        }
        run
    }

    /// Releases the high-atomic reserves of a node that are idle after a run.
    fn unreserve_idle(&self, node: NodeId, run: &Balanced) {
        let pageblock = self.shared.frames.geometry.pageblock_order.frames();
        for zone in self.zones_of(node) {
            // Asked in any case, so that the next run learns of the time since this one.
            let was_used = zone.was_highatomic_used();
            if !run.is_balanced || (was_used && run.rounds != 0) {
                continue;
            }
            for _ in 0..zone.highatomic_reserved.load(Ordering::Relaxed).checked_div(pageblock).unwrap_or(0) {
                if self.pinned(|cx| zone.lock(cx).unreserve_idle()) != Some(true) {
                    break;
                }
            }
        }
    }

    /// Returns the frames that a round must free: the high marks of all zones.
    fn wanted(&self, node: NodeId) -> u64 {
        self.zones_of(node).map(|zone| zone.stat.mark(Mark::High).max(LEAST)).fold(0, u64::saturating_add)
    }

    /// Returns whether a zone of the node has enough memory and such a block.
    ///
    /// Enough is the high mark, with its boost if any, for requests that can use any zone of the node. The memory that
    /// a zone reserves from such requests does not count. A node without memory has enough.
    fn is_balanced(&self, node: NodeId, order: Order) -> bool {
        let enforced = self.shared.mechanisms().mixes_last();
        let highest = self.zones_of(node).map(|zone| zone.kind()).max().unwrap_or_default();
        let has_enough = |zone: &Zone<M>| {
            let reserve = zone.reserve.get(highest.index()).copied().unwrap_or(0);
            let free = match (enforced, self.compacts()) {
                (false, _) => {
                    let memory = zone.stat.memory_racy(&self.shared.stats, zone.idx);
                    // Few requests may use the reserve. If it counted, all others would find the zone below its marks
                    // for good.
                    memory.free.saturating_sub(memory.highatomic)
                }
                // Making whole pageblocks of free memory is the task of compaction.
                (true, true) => self.free_unmixed(zone),
                (true, false) => self.free_in_pageblocks(zone),
            };
            free > zone.stat.mark(Mark::High).saturating_add(reserve) && (order.0 == 0 || self.has_block(zone, order))
        };
        let mut zones = self.zones_of(node).peekable();
        zones.peek().is_none() || zones.any(has_enough)
    }
}
