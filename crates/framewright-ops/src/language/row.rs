//! The contents of free lists, a row at a time.
//!
//! A row has the form of a line of `/proc/pagetypeinfo`: free blocks of one zone and type, a column for each order from
//! 0 on. Columns left out at the end are 0. A second form gives the frames on one CPU's lists of a zone, as in
//! zoneinfo. A third gives the type of a pageblock, and a fourth the frames that a zone's marks are raised by.
//!
//! ```text
//! Node 0, zone Normal, type Movable 0 1 0 2
//! Node 0, zone Normal, cpu 1 count 4
//! pageblock 0x400 Reclaimable
//! Node 0, zone Normal, boost 512
//! ```

use std::fmt;

use framewright::report::Source;
use framewright::{Allocator, CpuId, Machine, MigrateType, NodeId, Order, Pfn, ZoneIdx, ZoneKind};

/// One line about an allocator's state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "the fields are the words of the forms above")]
pub enum Row {
    /// Free blocks of a zone and type by order, without zeros at the end.
    Free { zone: ZoneIdx, migratetype: MigrateType, blocks: Vec<u64> },
    /// Frames on one CPU's lists of a zone.
    Pcp { zone: ZoneIdx, cpu: CpuId, count: u64 },
    /// Boost of a zone's marks.
    Boost { zone: ZoneIdx, frames: u64 },
    /// Type of a pageblock.
    Pageblock { pfn: Pfn, migratetype: MigrateType },
}

impl Row {
    /// Returns the row as it is in `pages`; `None` if there is no such zone or pageblock.
    pub fn observe<M: Machine>(&self, pages: &Allocator<'_, M>) -> Option<Row> {
        match *self {
            Row::Free { zone, migratetype, .. } => Row::free(pages, zone, migratetype),
            Row::Pcp { zone, cpu, .. } => {
                let count = pages.pcp(zone, cpu)?.count;
                Some(Row::Pcp { zone, cpu, count })
            }
            Row::Boost { zone, .. } => Some(Row::Boost { zone, frames: pages.zone(zone)?.boost }),
            Row::Pageblock { pfn, .. } => {
                let migratetype = pages.pageblock_type(pfn)?;
                Some(Row::Pageblock { pfn, migratetype })
            }
        }
    }

    fn free<M: Machine>(pages: &Allocator<'_, M>, zone: ZoneIdx, migratetype: MigrateType) -> Option<Row> {
        let snapshot = pages.zone(zone).filter(|zone| zone.is_populated())?;
        let mut blocks: Vec<u64> = snapshot.nr_free.iter().map(|by_type| by_type[migratetype.index()]).collect();
        trim(&mut blocks);
        Some(Row::Free { zone, migratetype, blocks })
    }

    /// Returns every row of free blocks, per-CPU frames and boosts that is not all zeros, by zone.
    pub fn all<M: Machine>(pages: &Allocator<'_, M>) -> Vec<Row> {
        let mut rows = Vec::new();
        for zone in zones(pages.nodes()) {
            let free = MigrateType::ALL.into_iter().filter_map(|migratetype| Row::free(pages, zone, migratetype));
            rows.extend(free.filter(|row| !row.is_zero()));
            let pcps = (0..pages.cpus()).filter_map(|cpu| {
                let row = Row::Pcp { zone, cpu: CpuId(cpu as u16), count: 0 };
                row.observe(pages).filter(|row| !row.is_zero())
            });
            rows.extend(pcps);
            let boost = Row::Boost { zone, frames: 0 }.observe(pages);
            rows.extend(boost.filter(|row| !row.is_zero()));
        }
        rows
    }

    /// Returns whether the row is all zeros.
    pub fn is_zero(&self) -> bool {
        match self {
            Row::Free { blocks, .. } => blocks.is_empty(),
            Row::Pcp { count, .. } => *count == 0,
            Row::Boost { frames, .. } => *frames == 0,
            Row::Pageblock { .. } => false,
        }
    }
}

/// Returns every zone of `nodes` nodes, whether or not it has memory.
pub fn zones(nodes: usize) -> impl Iterator<Item = ZoneIdx> + Clone {
    (0..nodes).flat_map(|node| ZoneKind::ALL.into_iter().map(move |kind| ZoneIdx::of(NodeId(node as u8), kind)))
}

/// Removes zeros at the end.
pub(crate) fn trim(blocks: &mut Vec<u64>) {
    while blocks.last() == Some(&0) {
        blocks.pop();
    }
}

/// Most columns of a row.
pub(crate) const COLUMNS: usize = Order::COUNT;

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Row::Free { zone, migratetype, blocks } => {
                write!(f, "Node {}, zone {}, type {migratetype}", zone.node().0, zone.kind())?;
                blocks.iter().try_for_each(|blocks| write!(f, " {blocks}"))
            }
            Row::Pcp { zone, cpu, count } => {
                write!(f, "Node {}, zone {}, cpu {} count {count}", zone.node().0, zone.kind(), cpu.0)
            }
            Row::Boost { zone, frames } => {
                write!(f, "Node {}, zone {}, boost {frames}", zone.node().0, zone.kind())
            }
            Row::Pageblock { pfn, migratetype } => write!(f, "pageblock {pfn} {migratetype}"),
        }
    }
}
