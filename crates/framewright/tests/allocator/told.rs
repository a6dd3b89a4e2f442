//! What an allocator tells its machine of free memory and of the types of pageblocks, summed up as an embedder does.

use std::collections::BTreeMap;

use framewright::machine::{FreeChange, Machine};
use framewright::report::Source;
use framewright::units::{MigrateType, Order, Pfn, ZoneIdx};
use framewright::{Allocator, NodeId, ZoneKind};

/// The sums of all changes so far, and the types told so far.
#[derive(Default)]
pub(crate) struct Told {
    free: BTreeMap<usize, FreeChange>,
    types: BTreeMap<u64, MigrateType>,
    changes: u64,
    retyped: u64,
}

impl Told {
    pub(crate) fn free_changed(&mut self, zone: ZoneIdx, change: FreeChange) {
        assert_ne!(change, FreeChange::default(), "a change that is none");
        let sum = self.free.entry(zone.index()).or_default();
        sum.free += change.free;
        sum.cma += change.cma;
        sum.highatomic += change.highatomic;
        self.changes += 1;
    }

    pub(crate) fn retyped(&mut self, pfn: Pfn, migratetype: MigrateType) {
        self.types.insert(pfn.0, migratetype);
        self.retyped += 1;
    }

    /// How many changes of memory and of types were told.
    pub(crate) fn count(&self) -> (u64, u64) {
        (self.changes, self.retyped)
    }

    /// Asks for the types of the pageblocks that begin at `starts`, as an embedder does once after boot.
    pub(crate) fn begin<M: Machine>(&mut self, pages: &Allocator<'_, M>, starts: impl Iterator<Item = Pfn>) {
        let types = starts.filter_map(|start| Some((start.0, pages.pageblock_type(start)?)));
        self.types = types.collect();
    }

    /// Fails unless the sums are what the allocator counts itself, in its counters and on its lists.
    pub(crate) fn check_free<M: Machine>(&self, pages: &Allocator<'_, M>, case: &str) {
        for zone in all_zones(pages) {
            let sums = self.free.get(&zone.index()).copied().unwrap_or_default();
            let memory = pages.zone_memory(zone).unwrap();
            let counted = (memory.free as i64, memory.free_cma as i64);
            assert_eq!((sums.free, sums.cma), counted, "{case}: {zone:?}");
            let orders = || Order(0).up_to(pages.geometry().max_order);
            let listed = |mt| orders().map(|order| (pages.free_blocks(zone, order, mt) << order.0) as i64).sum();
            assert_eq!(
                (sums.cma, sums.highatomic),
                (listed(MigrateType::Cma), listed(MigrateType::HighAtomic)),
                "{case}"
            );
        }
    }

    /// Fails unless each pageblock has the type that was told last.
    pub(crate) fn check_types<M: Machine>(&self, pages: &Allocator<'_, M>, case: &str) {
        for (&start, &told) in &self.types {
            assert_eq!(pages.pageblock_type(Pfn(start)), Some(told), "{case}: pageblock at {start:#x}");
        }
    }
}

/// Every zone of an allocator, with memory or without.
pub(crate) fn all_zones<M: Machine>(pages: &Allocator<'_, M>) -> impl Iterator<Item = ZoneIdx> + use<M> {
    let nodes = (0..pages.nr_nodes()).map(|node| NodeId(node as u8));
    nodes.flat_map(|node| ZoneKind::ALL.map(|kind| ZoneIdx::of(node, kind)))
}
