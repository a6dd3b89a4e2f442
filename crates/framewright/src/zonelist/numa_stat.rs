//! NUMA statistics: the node that an allocation preferred, the node that served it, and the node of the CPU.
//!
//! This is counted for an allocation by a CPU from a zone of its own node, when the request preferred that node:
//!
//! | `numa-stat` | counted | where |
//! |---|---|---|
//! | `derived` | nothing | hits and local successes are derived from the list's own count of allocations |
//! | `events` | hit, local | in the CPU's record of the zone, two plain additions |
//! | `s8`, `s16`, `u16` | hit, local | in the CPU's [`ZoneDiffs`]; at times in the zone and in the sum of all zones |
//! | `off` | nothing | |
//!
//! Readers add up the counts of all CPUs, unless the mechanisms say that readers see only the counts reported to the
//! zone.
//!
//! Switching the counters off and on ([`crate::Allocator::set_numa_stat`]) makes all of them start at 0. It writes
//! nothing that a CPU owns: the counts so far are recorded and subtracted.

use crate::pcp::pcp::Pcp;
use crate::pcp::pcp_guard::{PcpGuard, Pcps};
use crate::policy::mechanisms::{NumaRead, NumaStat};
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::shared::{CallCx, Shared};
use crate::stat::vmstat::{NumaItem, ZoneEvent, ZoneEvents};
use crate::stat::zone_diffs::ZoneDiffs;
use crate::types::units::{CpuId, NodeId, Order};
use crate::zone::zone::Zone;

/// Values of the NUMA counters, in the order of [`NumaItem::ALL`].
pub(crate) type Numa = [u64; NumaItem::COUNT];

/// The zone that serves a request, and the zone that the request preferred.
pub(crate) struct ServedFrom<'z, M: Machine> {
    pub(crate) zone: &'z Zone<M>,
    pub(crate) preferred: &'z Zone<M>,
}

// Not derived: a derived impl would require `M: Copy`.
impl<M: Machine> Clone for ServedFrom<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for ServedFrom<'_, M> {}

impl<M: Machine> ServedFrom<'_, M> {
    /// Whether the zone is of the preferred node.
    fn is_hit(self) -> bool {
        self.zone.node() == self.preferred.node()
    }
}

/// The words in which a CPU counts what it does in a zone.
pub(crate) struct Counted<'e, M: Machine> {
    pub(crate) events: &'e ZoneEvents<M>,
    /// Whether these are the counts of lists that the CPU holds.
    ///
    /// If not, they are written with interrupts off.
    pub(crate) holds_lists: bool,
}

impl<'e, M: Machine> Counted<'e, M> {
    /// Returns the counts of what a CPU does without its lists.
    ///
    /// Context: interrupts off.
    pub(crate) fn aside(pcp: &'e Pcp<M>) -> Self {
        Counted { events: &pcp.aside, holds_lists: false }
    }
}

/// Returns the counters to which an allocation adds.
///
/// `near` is the node of the caller. `from` names the zone that served and the preferred one. `turn` is the node whose
/// turn it was.
fn items<M: Machine>(near: NodeId, from: ServedFrom<'_, M>, turn: Option<NodeId>) -> [Option<NumaItem>; 3] {
    let zone = from.zone;
    [
        Some(if from.is_hit() { NumaItem::Hit } else { NumaItem::Miss }),
        Some(if zone.node() == near { NumaItem::Local } else { NumaItem::Other }),
        Some(NumaItem::Interleave).filter(|_| turn == Some(zone.node())),
    ]
}

impl<M: Machine> PcpGuard<'_, '_, M> {
    /// Returns the words in which the CPU of these lists counts.
    pub(crate) fn counted(&self) -> Counted<'_, M> {
        Counted { events: &self.pcp.events, holds_lists: true }
    }

    /// Adds the counts of this CPU, which is offline, to the zone.
    ///
    /// `foreign`: the CPU is of another node.
    pub(crate) fn fold_events(&self, foreign: bool) {
        let shared = self.cx.shared;
        let count = |event| self.pcp.event_racy(event, shared.frames.geometry.pageblock_order);
        if foreign && shared.mechanisms().numa_stat == NumaStat::Derived {
            self.zone.events.add(ZoneEvent::NumaOther, count(ZoneEvent::Allocs));
        }
        for event in ZoneEvent::ALL {
            // The owner may still be counting, so its counts are not changed. The amount that the zone has taken over
            // is recorded, and subtracted when they are read.
            let count = count(event);
            self.zone.events.add(event, count);
            self.pcp.folded.count(event, count);
        }
    }

    /// Reports to the zone what the CPU keeps of its NUMA counters; returns their number.
    pub(crate) fn fold_numa(&self, diffs: &ZoneDiffs<M>) -> u32 {
        self.cx.shared.stats.fold_numa(&self.zone.stat, diffs)
    }
}

impl<M: Machine> Pcps<'_, M> {
    /// Counts an allocation in the given words.
    #[inline]
    pub(crate) fn count_numa(
        &self,
        cx: CallCx<'_, '_, M>,
        from: ServedFrom<'_, M>,
        turn: Option<NodeId>,
        counted: Counted<'_, M>,
    ) {
        let ServedFrom { zone, preferred } = from;
        let Counted { events, holds_lists } = counted;
        let is_hit = from.is_hit();
        let items = items(cx.node, from, turn);
        let kind = cx.shared.mechanisms().numa_stat;
        if kind.has_differentials() {
            let (stats, idx) = (&cx.shared.stats, zone.idx);
            if !stats.is_counting() {
                return;
            }
            let kept = stats.diffs(cx.cpu, idx).filter(|_| holds_lists);
            for item in items.into_iter().flatten() {
                cx.shared.machine.step(Step::NumaCount);
                stats.count_numa(&zone.stat, item, kept);
            }
            if !is_hit {
                stats.count_numa(&preferred.stat, NumaItem::Foreign, None);
            }
            return;
        }
        let is_counted = |item: &NumaItem| match kind {
            NumaStat::Off => false,
            NumaStat::Derived => matches!(item, NumaItem::Miss | NumaItem::Interleave),
            _ => cx.shared.stats.is_counting(),
        };
        items.into_iter().flatten().filter(is_counted).for_each(|item| events.count(ZoneEvent::of(item), 1));
        if !is_hit
            && is_counted(&NumaItem::Miss)
            && let Some(record) = self.record(cx.cpu, preferred.idx.index())
        {
            let _irq = cx.shared.machine.irq_save();
            record.aside.count(ZoneEvent::NumaForeign, 1);
        }
    }

    /// Counts an allocation by a caller near a node, in words that all CPUs share.
    ///
    /// The caller's own words may be in the middle of a change.
    pub(crate) fn count_shared(
        &self,
        shared: &Shared<'_, M>,
        near: NodeId,
        from: ServedFrom<'_, M>,
        order: Order,
        turn: Option<NodeId>,
    ) {
        let ServedFrom { zone, preferred } = from;
        zone.events.add(ZoneEvent::Allocs, 1);
        zone.events.add(ZoneEvent::AllocFrames, order.frames());
        let (kind, stats) = (shared.mechanisms().numa_stat, &shared.stats);
        // Items that are derived elsewhere are counted here: these allocations belong to no CPU.
        let is_counted = |item: &NumaItem| match kind {
            NumaStat::Off => false,
            NumaStat::Derived => !matches!(item, NumaItem::Hit | NumaItem::Local),
            _ => stats.is_counting(),
        };
        let count = |zone: &Zone<M>, item| match kind.has_differentials() {
            true => stats.count_numa(&zone.stat, item, None),
            false => zone.events.add(ZoneEvent::of(item), 1),
        };
        items(near, from, turn).into_iter().flatten().filter(is_counted).for_each(|item| count(zone, item));
        if zone.node() != preferred.node() && is_counted(&NumaItem::Foreign) {
            count(preferred, NumaItem::Foreign);
        }
    }

    /// Returns a zone's counter, summed over all CPUs.
    ///
    /// Exact at a quiescent point.
    pub(crate) fn event_racy(&self, shared: &Shared<'_, M>, zone: &Zone<M>, event: ZoneEvent) -> u64 {
        let order = shared.frames.geometry.pageblock_order;
        self.sum(shared, zone, zone.events.get(event), |_, pcp| pcp.event_racy(event, order))
    }

    /// Returns `start` plus the sum of `count` over all CPUs.
    fn sum(&self, shared: &Shared<'_, M>, zone: &Zone<M>, start: u64, count: impl Fn(usize, &Pcp<M>) -> u64) -> u64 {
        let records =
            (0..shared.cpus.len()).filter_map(|cpu| Some((cpu, self.record(CpuId(cpu as u16), zone.idx.index())?)));
        records.fold(start, |sum, (cpu, pcp)| sum.wrapping_add(count(cpu, pcp)))
    }

    /// Returns a zone's NUMA counters since boot, including times when they were switched off.
    pub(crate) fn numa_ever(&self, shared: &Shared<'_, M>, zone: &Zone<M>) -> Numa {
        let event = |event| self.event_racy(shared, zone, event);
        match shared.mechanisms().numa_stat {
            NumaStat::Off => Numa::default(),
            NumaStat::Events => NumaItem::ALL.map(|item| event(ZoneEvent::of(item))),
            NumaStat::Derived => {
                let [allocs, miss] = [ZoneEvent::Allocs, ZoneEvent::NumaMiss].map(event);
                let [foreign, interleave] = [ZoneEvent::NumaForeign, ZoneEvent::NumaInterleave].map(event);
                let order = shared.frames.geometry.pageblock_order;
                let is_far = |cpu: usize| shared.cpus.get(cpu).is_some_and(|cpu| cpu.node != zone.node());
                // All allocations of CPUs of other nodes; for CPUs that are gone, the recorded number.
                let other = self.sum(shared, zone, zone.events.get(ZoneEvent::NumaOther), |cpu, pcp| {
                    if is_far(cpu) { pcp.event_racy(ZoneEvent::Allocs, order) } else { 0 }
                });
                [allocs.wrapping_sub(miss), miss, foreign, interleave, allocs.wrapping_sub(other), other]
            }
            NumaStat::S8 | NumaStat::S16 | NumaStat::U16 => NumaItem::ALL.map(|item| {
                let kept = shared.stats.of_zone(zone.idx).map(|diffs| diffs.numa_kept(item) as u64);
                kept.fold(zone.stat.numa(item).load(Ordering::Relaxed), u64::wrapping_add)
            }),
        }
    }

    /// Returns a zone's NUMA counters as readers see them.
    pub(crate) fn numa_of(&self, shared: &Shared<'_, M>, zone: &Zone<M>) -> Numa {
        if !shared.stats.is_counting() {
            return Numa::default();
        }
        let mechanisms = shared.mechanisms();
        let told_only = mechanisms.numa_read == NumaRead::ZoneOnly && mechanisms.numa_stat.has_differentials();
        let ever = if told_only { None } else { Some(self.numa_ever(shared, zone)) };
        NumaItem::ALL.map(|item| {
            let told = || zone.stat.numa(item).load(Ordering::Relaxed);
            let ever = ever.and_then(|ever| ever.get(item as usize).copied()).unwrap_or_else(told);
            since(ever, zone.stat.numa_since(item))
        })
    }
}

/// Returns the reported sums of all zones' NUMA counters, without what CPUs keep.
///
/// `None` where counts are not reported.
pub(crate) fn numa_told<M: Machine>(shared: &Shared<'_, M>) -> Option<Numa> {
    let stats = &shared.stats;
    let sum = |item| Some(since(stats.numa(item)?.load(Ordering::Relaxed), stats.numa_since(item)?));
    let sums = || if stats.is_counting() { NumaItem::ALL.map(|item| sum(item).unwrap_or(0)) } else { Numa::default() };
    shared.mechanisms().numa_stat.has_differentials().then(sums)
}

/// Returns what was counted since the counters were switched on.
///
/// Late reports of CPUs may make the difference negative for a moment; it then reads as 0.
fn since<M: Word<u64>>(ever: u64, start: &M) -> u64 {
    let count = ever.wrapping_sub(start.load(Ordering::Relaxed));
    if (count as i64) < 0 { 0 } else { count }
}
