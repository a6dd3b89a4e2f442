//! Background work: what a node's kswapd does each time it is woken, and its kcompactd (`compaction.rs`).
//!
//! Somebody found a zone below its low mark, or mixed mobilities and raised the marks (`watermark_boost.rs`), and woke the node's thread. The thread calls
//! `Allocator::balance`, which has memory freed by the embedder ([`Machine::reclaim`]) until a zone of the node is above its
//! high mark and has a block of the order that was asked for. Where mobilities are kept apart by force, only memory counts that a movable request
//! may use; or where it cannot be moved, only whole free pageblocks. Who is to free what, and what must not be, is the embedder's
//! business: the core only says how many frames, and how hard to look.
//!
//! While a zone is boosted, so is the high mark that it is held against: the run frees as much as any would until a zone of the node is above that. If one
//! is so from the start, the boost is worked off *gently*: nothing is written out for it, and it ends as soon as a round brings
//! nothing. In the end the marks come down by what they were raised when the run began (others may have raised them since), and background
//! compaction is woken.
//!
//! Every loop has a bound: a run that gets nowhere ends, and says so.

use crate::policy::mechanisms::Nofragment;
use crate::policy::watermark::Mark;
use crate::seam::machine::{Machine, Need, Ordering, Waiter, Word};
use crate::stat::zone_stat::Background;
use crate::types::request::GFP_KERNEL;
use crate::types::units::{NodeId, Order, ZoneIdx, ZoneKind};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Rounds of a run, whatever they bring.
const MAX_ROUNDS: u32 = 1_024;
/// While a boost is worked off, priorities fall no further than by this.
const GENTLE: u32 = 2;
/// Least number of frames wanted from a zone at a time.
const LEAST: u64 = 32;

/// What a run of background reclaim did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Balanced {
    /// Frames that were freed.
    pub frames: u64,
    /// Rounds that it took.
    pub rounds: u32,
    /// Frames that the marks came down by: the boost that was worked off, or given up.
    pub boost: u64,
    /// Whether a zone of the node is above its high mark now and has a block of the order asked for.
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
            // Enough was freed for a block of the order; to make it of that is compaction's business (Linux: `compact_gap`).
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
                self.see_freed(node);
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
        // What a boost is worked off for is whole pageblocks.
        let wants_pageblocks = boosted != 0 || self.shared.mechanisms.nofragment == Nofragment::Enforced;
        if wants_pageblocks || order != Order(0) {
            let pageblock = self.shared.frames.geometry.pageblock_order;
            let wanted = if wants_pageblocks { order.max(pageblock) } else { order };
            self.zones_of(node).for_each(|zone| zone.stat.ask(Background::Compaction, wanted));
            self.shared.machine.wake(Waiter::Kcompactd(node));
        }
        run
    }

    /// Gives the high-atomic reserves of a node back that are idle after a run.
    fn unreserve_idle(&self, node: NodeId, run: &Balanced) {
        let pageblock = self.shared.frames.geometry.pageblock_order.frames();
        for zone in self.zones_of(node) {
            // Asked in any case, so that the next run hears of the time since this one.
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

    /// What a round shall free: the high marks of all zones.
    fn wanted(&self, node: NodeId) -> u64 {
        self.zones_of(node).map(|zone| zone.stat.mark(Mark::High).max(LEAST)).fold(0, u64::saturating_add)
    }

    /// Whether a zone of the node has as much free memory as its high mark says, boosted if it is, and a block of the order, for requests that
    /// can use any of its zones: what the others keep from these does not count. A node without memory has enough.
    fn is_balanced(&self, node: NodeId, order: Order) -> bool {
        let enforced = self.shared.mechanisms.nofragment == Nofragment::Enforced;
        let highest = self.zones_of(node).map(|zone| zone.kind()).max().unwrap_or_default();
        let has_enough = |zone: &Zone<M>| {
            let reserve = zone.reserve.get(highest.index()).copied().unwrap_or(0);
            let free = match (enforced, self.compacts()) {
                (false, _) => {
                    let memory = zone.stat.memory_racy(&self.shared.stats, zone.idx);
                    // What is in reserve is free for few: those it is not would find the zone below its marks for good.
                    memory.free.saturating_sub(memory.highatomic)
                }
                // Making whole pageblocks of what is free is compaction's business.
                (true, true) => self.free_unmixed(zone),
                (true, false) => self.free_in_pageblocks(zone),
            };
            free > zone.stat.mark(Mark::High).saturating_add(reserve) && (order.0 == 0 || self.has_block(zone, order))
        };
        let mut zones = self.zones_of(node).peekable();
        zones.peek().is_none() || zones.any(has_enough)
    }

    /// Lets the node's zones see what was freed on this CPU.
    fn see_freed(&self, node: NodeId) {
        if let Some(cpu) = self.pinned(|cx| cx.cpu) {
            self.drain_cpu(cpu);
        }
        self.zones_of(node).for_each(|zone| {
            self.drain_depot(zone);
        });
    }
}
