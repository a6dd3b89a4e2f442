//! `/proc/pagetypeinfo`: free blocks by order and mobility, and pageblocks by mobility.
//!
//! The file is written node by node. So the heading and each table appear once for each node with memory; a machine
//! with two such nodes has them twice. Nodes without memory are left out.

use core::fmt;

use super::source::{Source, nodes, orders, populated_of};
use crate::types::migratetype::MigrateType;
use crate::types::units::NodeId;

/// Largest number that is printed as it is; a larger one is printed as `>100000`.
///
/// Linux walks a free list to count it, and stops here. This allocator knows the number, and prints the same text.
const CAP: u64 = 100_000;

/// Prints `/proc/pagetypeinfo`.
#[derive(Clone, Copy, Debug)]
pub struct PageTypeInfo<'a, S: Source + ?Sized>(pub &'a S);

impl<S: Source + ?Sized> fmt::Display for PageTypeInfo<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pageblock = self.0.pageblock_order();
        for node in nodes(self.0) {
            if populated_of(self.0, node).next().is_none() {
                continue;
            }
            writeln!(f, "Page block order: {pageblock}")?;
            writeln!(f, "Pages per block:  {}", pageblock.frames())?;
            f.write_str("\n")?;
            self.free(f, node)?;
            self.blocks(f, node, "Number of blocks type", |zone| zone.blocks)?;
            if populated_of(self.0, node).any(|zone| zone.mixed.is_some()) {
                self.blocks(f, node, "Number of mixed blocks", |zone| zone.mixed.unwrap_or_default())?;
            }
        }
        Ok(())
    }
}

impl<S: Source + ?Sized> PageTypeInfo<'_, S> {
    fn types(&self) -> impl Iterator<Item = MigrateType> + use<S> {
        let has_cma = self.0.has_cma();
        MigrateType::ALL.into_iter().filter(move |&ty| has_cma || ty != MigrateType::Cma)
    }

    /// Prints the table of free blocks by order.
    fn free(&self, f: &mut fmt::Formatter<'_>, node: NodeId) -> fmt::Result {
        write!(f, "{:<43} ", "Free pages count per migrate type at order")?;
        for order in 0..orders(self.0) {
            write!(f, "{order:6} ")?;
        }
        f.write_str("\n")?;
        for zone in populated_of(self.0, node) {
            for ty in self.types() {
                write!(f, "Node {:4}, zone {:>8}, type {:>12} ", zone.node.0, zone.kind, ty)?;
                for by_type in zone.nr_free.iter().take(orders(self.0)) {
                    let blocks = by_type.get(ty.index()).copied().unwrap_or(0);
                    let mark = if blocks < CAP { "" } else { ">" };
                    write!(f, "{mark}{:6} ", blocks.min(CAP))?;
                }
                f.write_str("\n")?;
            }
        }
        Ok(())
    }

    /// Prints a table of pageblocks by type.
    fn blocks(
        &self,
        f: &mut fmt::Formatter<'_>,
        node: NodeId,
        title: &str,
        blocks: impl Fn(&super::snapshot::ZoneSnapshot) -> [u64; MigrateType::COUNT],
    ) -> fmt::Result {
        // The title's own blank is one of the 23 columns.
        write!(f, "\n{title:<23}")?;
        for ty in self.types() {
            write!(f, "{ty:>12} ")?;
        }
        f.write_str("\n")?;
        for zone in populated_of(self.0, node) {
            write!(f, "Node {}, zone {:>8} ", zone.node.0, zone.kind)?;
            let blocks = blocks(&zone);
            for ty in self.types() {
                write!(f, "{:12} ", blocks.get(ty.index()).copied().unwrap_or(0))?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}
