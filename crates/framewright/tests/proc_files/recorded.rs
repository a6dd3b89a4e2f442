//! An allocator's state taken from files that a kernel printed.

use framewright::report::{NumaCounters, PcpSnapshot, Source, VmEvents, ZoneSnapshot};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneIdx, ZoneKind};

use crate::strict;

/// Names and values of counters.
pub(crate) type Counters = Vec<(String, u64)>;

/// A state to print; zones and per-CPU lists that are not in the tables do not exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    pub max_order: Order,
    pub pageblock_order: Order,
    pub has_cma: bool,
    pub has_device_zone: bool,
    pub zones: Vec<ZoneSnapshot>,
    pub pcps: Vec<(ZoneIdx, PcpSnapshot)>,
    pub events: VmEvents,
    pub zone_counters: Vec<(ZoneIdx, Counters)>,
    pub node_counters: Vec<(NodeId, Counters)>,
    pub global_numa: Option<NumaCounters>,
    pub numa_before_cma: bool,
}

fn counter<K: PartialEq>(tables: &[(K, Counters)], of: K, index: usize) -> Option<(&str, u64)> {
    let (_, counters) = tables.iter().find(|(key, _)| *key == of)?;
    counters.get(index).map(|(name, count)| (&**name, *count))
}

impl Source for Recorded {
    fn max_order(&self) -> Order {
        self.max_order
    }

    fn pageblock_order(&self) -> Order {
        self.pageblock_order
    }

    fn has_cma(&self) -> bool {
        self.has_cma
    }

    fn has_device_zone(&self) -> bool {
        self.has_device_zone
    }

    fn nr_nodes(&self) -> usize {
        self.zones.iter().map(|zone| zone.node.index() + 1).max().unwrap_or(0)
    }

    fn nr_cpus(&self) -> usize {
        self.pcps.iter().map(|(_, pcp)| pcp.cpu.index() + 1).max().unwrap_or(0)
    }

    fn zone(&self, idx: ZoneIdx) -> Option<ZoneSnapshot> {
        self.zones.iter().find(|zone| ZoneIdx::of(zone.node, zone.kind) == idx).copied()
    }

    fn pcp(&self, idx: ZoneIdx, cpu: CpuId) -> Option<PcpSnapshot> {
        self.pcps.iter().find(|(zone, pcp)| (*zone, pcp.cpu) == (idx, cpu)).map(|&(_, pcp)| pcp)
    }

    fn events(&self) -> VmEvents {
        self.events
    }

    fn zone_counter(&self, zone: ZoneIdx, index: usize) -> Option<(&str, u64)> {
        counter(&self.zone_counters, zone, index)
    }

    fn node_counter(&self, node: NodeId, index: usize) -> Option<(&str, u64)> {
        counter(&self.node_counters, node, index)
    }

    fn global_numa(&self) -> Option<NumaCounters> {
        self.global_numa
    }

    fn numa_before_cma(&self) -> bool {
        self.numa_before_cma
    }
}

/// Pagetypeinfo, zoneinfo and vmstat of a kernel as a state.
pub(crate) fn recorded(pagetypeinfo: &str, zoneinfo: &str, vmstat: &str) -> Result<Recorded, String> {
    let mut recorded = zones(zoneinfo)?;
    recorded.add_page_types(pagetypeinfo)?;
    recorded.events = events(&strict::vmstat(vmstat)?);
    Ok(recorded)
}

/// Zoneinfo as a state: all but the free lists and the events.
pub(crate) fn zones(zoneinfo: &str) -> Result<Recorded, String> {
    let mut recorded = Recorded::default();
    for zone in strict::zoneinfo(zoneinfo)? {
        let Some(kind) = ZoneKind::ALL.into_iter().find(|kind| kind.name() == zone.name) else {
            recorded.has_device_zone |= zone.name == "Device";
            continue;
        };
        let snapshot = snapshot(&zone, kind);
        let idx = ZoneIdx::of(snapshot.node, kind);
        recorded.zones.push(snapshot);
        recorded.zone_counters.push((idx, zone.counters_of_others()));
        recorded.node_counters.extend(zone.node_counters.map(|counters| (snapshot.node, counters)));
        let pcp = |&[cpu, count, high, batch, _]: &[u64; 5]| PcpSnapshot { cpu: CpuId(cpu as u16), count, high, batch };
        recorded.pcps.extend(zone.pagesets.iter().map(|pageset| (idx, pcp(pageset))));
    }
    Ok(recorded)
}

impl Recorded {
    /// Adds the free lists of pagetypeinfo to the zones.
    pub(crate) fn add_page_types(&mut self, pagetypeinfo: &str) -> Result<(), String> {
        let nodes = strict::pagetypeinfo(pagetypeinfo)?;
        let first = nodes.first().ok_or("no node")?;
        self.max_order = first.free.first().map_or(Order(0), strict::Row::max_order);
        self.pageblock_order = Order(first.pageblock_order as u8);
        self.has_cma = first.types.iter().any(|ty| ty == "CMA");
        for zone in &mut self.zones {
            for node in &nodes {
                add_free_lists(zone, node);
            }
        }
        Ok(())
    }

    /// The state without the counters of others.
    pub(crate) fn own(self) -> Recorded {
        Recorded { zone_counters: Vec::new(), node_counters: Vec::new(), ..self }
    }
}

fn snapshot(zone: &strict::Zone, kind: ZoneKind) -> ZoneSnapshot {
    let mut protection = [0; ZoneKind::COUNT];
    protection.copy_from_slice(&zone.protection[..ZoneKind::COUNT]);
    let boost = zone.value("boost");
    ZoneSnapshot {
        node: NodeId(zone.node as u8),
        kind,
        start_pfn: Pfn(zone.value("start_pfn")),
        spanned: zone.value("spanned"),
        present: zone.value("present"),
        managed: zone.value("managed"),
        cma: zone.value("cma"),
        free: zone.value("free"),
        free_cma: zone.value("nr_free_cma"),
        boost,
        min: zone.value("min") - boost,
        low: zone.value("low") - boost,
        high: zone.value("high") - boost,
        protection,
        numa: NumaCounters {
            hit: zone.value("numa_hit"),
            miss: zone.value("numa_miss"),
            foreign: zone.value("numa_foreign"),
            interleave: zone.value("numa_interleave"),
            local: zone.value("numa_local"),
            other: zone.value("numa_other"),
        },
        stat_threshold: zone.pagesets.first().map_or(0, |pageset| pageset[4] as u32),
        unreclaimable: zone.value("node_unreclaimable") != 0,
        ..ZoneSnapshot::default()
    }
}

fn add_free_lists(snapshot: &mut ZoneSnapshot, node: &strict::PageTypes) {
    let (id, name) = (u64::from(snapshot.node.0), snapshot.kind.name());
    for row in node.free.iter().filter(|row| row.node == id && row.zone == name) {
        let Some(ty) = row.ty.as_deref().and_then(index_of) else { continue };
        for (by_type, &count) in snapshot.nr_free.iter_mut().zip(&row.counts) {
            by_type[ty] = count;
        }
    }
    let by_type = |row: &strict::Row| {
        let mut blocks = [0; MigrateType::COUNT];
        for (ty, &count) in node.types.iter().zip(&row.counts) {
            if let Some(ty) = index_of(ty) {
                blocks[ty] = count;
            }
        }
        blocks
    };
    let mine = |rows: &[strict::Row]| rows.iter().find(|row| row.node == id && row.zone == name).map(by_type);
    snapshot.blocks = mine(&node.blocks).unwrap_or(snapshot.blocks);
    snapshot.mixed = node.mixed.as_deref().and_then(mine).or(snapshot.mixed);
}

/// Where a mobility of that name stands in tables.
pub(crate) fn index_of(name: &str) -> Option<usize> {
    MigrateType::ALL.iter().position(|ty| ty.name() == name)
}

pub(crate) fn events(vmstat: &[(String, u64)]) -> VmEvents {
    let value = |name: &str| vmstat.iter().find(|(have, _)| have == name).map(|&(_, value)| value);
    let by_kind = |event: &str| {
        let values = ["dma", "dma32", "normal", "movable"].map(|kind| value(&format!("{event}_{kind}")));
        values[0].map(|_| values.map(Option::unwrap_or_default))
    };
    VmEvents {
        pgalloc: by_kind("pgalloc").unwrap_or_default(),
        allocstall: by_kind("allocstall"),
        pgfree: value("pgfree").unwrap_or_default(),
        pageoutrun: value("pageoutrun"),
        pgmigrate_success: value("pgmigrate_success"),
        pgmigrate_fail: value("pgmigrate_fail"),
        compact_migrate_scanned: value("compact_migrate_scanned"),
        compact_free_scanned: value("compact_free_scanned"),
        compact_isolated: value("compact_isolated"),
        compact_stall: value("compact_stall"),
        compact_fail: value("compact_fail"),
        compact_success: value("compact_success"),
        compact_daemon_wake: value("compact_daemon_wake"),
        compact_daemon_migrate_scanned: value("compact_daemon_migrate_scanned"),
        compact_daemon_free_scanned: value("compact_daemon_free_scanned"),
    }
}
