//! NUMA statistics: which node an allocation was meant for, which it came from, and on which node the CPU is.
//!
//! What is done at an allocation, in a zone of the node that was meant, to a CPU of that node:
//!
//! | `numa-stat` | counted | where |
//! |---|---|---|
//! | `derived` | nothing | hits and local successes are what is left of the list's own count of allocations |
//! | `events` | hit, local | in the CPU's record of the zone, two plain additions |
//! | `s8`, `s16`, `u16` | hit, local | in what the CPU keeps (`crate::Diffs`); every so often in the zone and the sum of all zones |
//! | `off` | nothing | |
//!
//! Readers add up what CPUs have, except where the mechanisms say that they see only what the zone was told. Switching the counters
//! off and on ([`crate::Allocator::set_numa_stat`]) makes all of them start at 0, without a write to what CPUs own: what they
//! had counted by then is noted, and taken off.

use crate::pcp::lists::{PcpGuard, Pcps};
use crate::pcp::pcp::Pcp;
use crate::policy::mechanisms::{NumaRead, NumaStat};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::shared::{CallCx, Shared};
use crate::stat::vmstat::{NumaItem, ZoneEvent, ZoneEvents};
use crate::stat::zone_diffs::ZoneDiffs;
use crate::types::units::{CpuId, NodeId, Order};
use crate::zone::zone::Zone;

/// Values of the NUMA counters in their order.
pub(crate) type Numa = [u64; NumaItem::COUNT];

/// Where a CPU counts in a zone: its events if it holds its lists of that zone, or else what it counts with interrupts off; and which.
pub(crate) type Teller<'e, M> = (&'e ZoneEvents<M>, bool);

/// What an allocation counts as, by somebody near a node, from a zone when another was preferred and it was some node's turn.
fn items<M: Machine>(
    near: NodeId,
    (zone, preferred): (&Zone<M>, &Zone<M>),
    turn: Option<NodeId>,
) -> [Option<NumaItem>; 3] {
    let is_hit = zone.node() == preferred.node();
    [
        Some(if is_hit { NumaItem::Hit } else { NumaItem::Miss }),
        Some(if zone.node() == near { NumaItem::Local } else { NumaItem::Other }),
        Some(NumaItem::Interleave).filter(|_| turn == Some(zone.node())),
    ]
}

impl<M: Machine> PcpGuard<'_, '_, M> {
    /// Where the CPU counts whose lists these are.
    pub(crate) fn teller(&self) -> Teller<'_, M> {
        (&self.pcp.events, true)
    }

    /// Moves this CPU's counts to the zone; the CPU is offline. `foreign` says whether it is of another node.
    pub(crate) fn fold_events(&self, foreign: bool) {
        let shared = self.cx.shared;
        let count = |event| self.pcp.event_racy(event, shared.frames.geometry.pageblock_order);
        if foreign && shared.mechanisms.numa_stat == NumaStat::Derived {
            self.zone.events.add(ZoneEvent::NumaOther, count(ZoneEvent::Allocs));
        }
        for event in ZoneEvent::ALL {
            // Not by changing what the owner counts, who may be at it: what the zone has now is noted, and taken off when read.
            let count = count(event);
            self.zone.events.add(event, count);
            self.pcp.folded.count(event, count);
        }
    }

    /// Tells the zone what the CPU keeps of its NUMA counters. Returns how many there were.
    pub(crate) fn fold_numa(&self, diffs: &ZoneDiffs<M>) -> u32 {
        self.cx.shared.stats.fold_numa(&self.zone.stat, diffs)
    }
}

impl<M: Machine> Pcps<'_, M> {
    /// Counts an allocation, where whoever may count there says ([`Teller`]).
    #[inline]
    pub(crate) fn count_numa(
        &self,
        cx: CallCx<'_, '_, M>,
        (zone, preferred): (&Zone<M>, &Zone<M>),
        turn: Option<NodeId>,
        (events, holds_lists): Teller<'_, M>,
    ) {
        let is_hit = zone.node() == preferred.node();
        let items = items(cx.node, (zone, preferred), turn);
        let kind = cx.shared.mechanisms.numa_stat;
        if kind.has_differentials() {
            let (stats, idx) = (&cx.shared.stats, zone.idx);
            if !stats.is_counting() {
                return;
            }
            let kept = stats.diffs(cx.cpu, idx).filter(|_| holds_lists);
            items.into_iter().flatten().for_each(|item| stats.count_numa(&zone.stat, item, kept));
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

    /// Counts an allocation by whoever is near a node, in words that all CPUs share: one's own may be in the middle of a change.
    pub(crate) fn count_shared(
        &self,
        shared: &Shared<'_, M>,
        near: NodeId,
        (zone, preferred): (&Zone<M>, &Zone<M>),
        (order, turn): (Order, Option<NodeId>),
    ) {
        zone.events.add(ZoneEvent::Allocs, 1);
        zone.events.add(ZoneEvent::AllocFrames, order.frames());
        let (kind, stats) = (shared.mechanisms.numa_stat, &shared.stats);
        // What others derive has to be counted here: these allocations are no CPU's.
        let is_counted = |item: &NumaItem| match kind {
            NumaStat::Off => false,
            NumaStat::Derived => !matches!(item, NumaItem::Hit | NumaItem::Local),
            _ => stats.is_counting(),
        };
        let count = |zone: &Zone<M>, item| match kind.has_differentials() {
            true => stats.count_numa(&zone.stat, item, None),
            false => zone.events.add(ZoneEvent::of(item), 1),
        };
        items(near, (zone, preferred), turn)
            .into_iter()
            .flatten()
            .filter(is_counted)
            .for_each(|item| count(zone, item));
        if zone.node() != preferred.node() && is_counted(&NumaItem::Foreign) {
            count(preferred, NumaItem::Foreign);
        }
    }

    /// A zone's counter, summed over all CPUs. Exact at a quiescent point.
    pub(crate) fn event_racy(&self, shared: &Shared<'_, M>, zone: &Zone<M>, event: ZoneEvent) -> u64 {
        let order = shared.frames.geometry.pageblock_order;
        self.sum(shared, zone, zone.events.get(event), |_, pcp| pcp.event_racy(event, order))
    }

    /// The sum over all CPUs of what `count` says of each.
    fn sum(&self, shared: &Shared<'_, M>, zone: &Zone<M>, start: u64, count: impl Fn(usize, &Pcp<M>) -> u64) -> u64 {
        let records =
            (0..shared.cpus.len()).filter_map(|cpu| Some((cpu, self.record(CpuId(cpu as u16), zone.idx.index())?)));
        records.fold(start, |sum, (cpu, pcp)| sum.wrapping_add(count(cpu, pcp)))
    }

    /// A zone's NUMA counters since boot, whether they were switched off in between or not.
    pub(crate) fn numa_ever(&self, shared: &Shared<'_, M>, zone: &Zone<M>) -> Numa {
        let event = |event| self.event_racy(shared, zone, event);
        match shared.mechanisms.numa_stat {
            NumaStat::Off => Numa::default(),
            NumaStat::Events => NumaItem::ALL.map(|item| event(ZoneEvent::of(item))),
            NumaStat::Derived => {
                let [allocs, miss] = [ZoneEvent::Allocs, ZoneEvent::NumaMiss].map(event);
                let [foreign, interleave] = [ZoneEvent::NumaForeign, ZoneEvent::NumaInterleave].map(event);
                let order = shared.frames.geometry.pageblock_order;
                let is_far = |cpu: usize| shared.cpus.get(cpu).is_some_and(|cpu| cpu.node != zone.node());
                // Of a CPU of another node all allocations; of those that are gone, what was noted.
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

    /// A zone's NUMA counters as readers get them.
    pub(crate) fn numa_of(&self, shared: &Shared<'_, M>, zone: &Zone<M>) -> Numa {
        if !shared.stats.is_counting() {
            return Numa::default();
        }
        let mechanisms = &shared.mechanisms;
        let told_only = mechanisms.numa_read == NumaRead::ZoneOnly && mechanisms.numa_stat.has_differentials();
        let ever = if told_only { None } else { Some(self.numa_ever(shared, zone)) };
        NumaItem::ALL.map(|item| {
            let told = || zone.stat.numa(item).load(Ordering::Relaxed);
            let ever = ever.and_then(|ever| ever.get(item as usize).copied()).unwrap_or_else(told);
            since(ever, zone.stat.numa_since(item))
        })
    }
}

/// The sums of all zones' NUMA counters as they were told, without what CPUs keep; none where nobody is told.
pub(crate) fn numa_told<M: Machine>(shared: &Shared<'_, M>) -> Option<Numa> {
    let stats = &shared.stats;
    let sum = |item| Some(since(stats.numa(item)?.load(Ordering::Relaxed), stats.numa_since(item)?));
    let sums = || if stats.is_counting() { NumaItem::ALL.map(|item| sum(item).unwrap_or(0)) } else { Numa::default() };
    shared.mechanisms.numa_stat.has_differentials().then(sums)
}

/// What was counted since the counters were switched on. What CPUs tell late may make it negative for a moment.
fn since<M: Word<u64>>(ever: u64, start: &M) -> u64 {
    let count = ever.wrapping_sub(start.load(Ordering::Relaxed));
    if (count as i64) < 0 { 0 } else { count }
}
