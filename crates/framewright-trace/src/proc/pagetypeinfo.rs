//! `/proc/pagetypeinfo`: free blocks by mobility and order, and pageblocks by mobility.
//!
//! The first table has a row for each zone and mobility with a number for each order. It stops counting at 100,000
//! blocks and marks the number with `>`. The second table has the number of pageblocks of each mobility.

use framewright::units::{MigrateType, Order};

use super::parse::{for_lines, migratetype, numbers, zone_head};
use crate::error::{ProcFault, ProcResult, Result, TraceError};

/// Free blocks and pageblocks by mobility.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageTypeInfo {
    /// Order of a pageblock.
    pub pageblock_order: Order,
    /// Free blocks.
    pub free: Vec<PageTypeRow>,
    /// Pageblocks.
    pub pageblocks: Vec<PageblockRow>,
}

/// Free blocks of one mobility in one zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageTypeRow {
    /// The zone's node.
    pub node: u32,
    /// The zone's name.
    pub zone: String,
    /// Mobility of the blocks.
    pub migratetype: MigrateType,
    /// Number of free blocks by order.
    pub free: Vec<u64>,
    /// Whether the kernel stopped counting, so that at least one number is too small.
    pub is_capped: bool,
}

/// Pageblocks of one zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageblockRow {
    /// The zone's node.
    pub node: u32,
    /// The zone's name.
    pub zone: String,
    /// Number of pageblocks by [`MigrateType::index`].
    pub count: [u64; MigrateType::COUNT],
}

#[derive(Clone, PartialEq, Eq)]
enum TableKind {
    Preamble,
    Free,
    Pageblocks(Vec<MigrateType>),
    Other,
}

impl PageTypeInfo {
    /// Reads the file's text, called `file` in messages.
    ///
    /// # Errors
    /// The line that is malformed.
    pub fn parse(text: &str, file: &str) -> Result<PageTypeInfo> {
        let mut info = PageTypeInfo::default();
        let mut table = TableKind::Preamble;
        for_lines(text, file, |line| match zone_head(line) {
            Some(head) => info.row(&table, head?),
            None => info.heading(&mut table, line.trim()),
        })?;
        for (is_empty, what) in [(info.free.is_empty(), "free block"), (info.pageblocks.is_empty(), "pageblock")] {
            if is_empty {
                return Err(TraceError::new(file, ProcFault::Empty(what)));
            }
        }
        Ok(info)
    }

    /// Number of pageblocks of a mobility in all zones.
    pub fn pageblocks_of(&self, migratetype: MigrateType) -> u64 {
        self.pageblocks.iter().map(|row| row.count[migratetype.index()]).sum()
    }

    fn heading(&mut self, table: &mut TableKind, line: &str) -> ProcResult<()> {
        if let Some(order) = line.strip_prefix("Page block order:") {
            let order = order.trim();
            let parsed = order.parse().ok().filter(|&order| order <= Order::LIMIT.0);
            self.pageblock_order = parsed.map(Order).ok_or_else(|| ProcFault::expected("an order up to 18", order))?;
        } else if line.starts_with("Pages per block:") {
            // Follows from the order.
        } else if line.starts_with("Free pages count per migrate type") {
            *table = TableKind::Free;
        } else if let Some(types) = line.strip_prefix("Number of blocks type") {
            *table = TableKind::Pageblocks(types.split_whitespace().map(migratetype).collect::<ProcResult<_>>()?);
        } else if line.starts_with("Number of mixed blocks") {
            *table = TableKind::Other;
        } else {
            return Err(ProcFault::expected("a zone's row or a table's heading", line));
        }
        Ok(())
    }

    fn row(&mut self, table: &TableKind, (node, zone, rest): (u32, &str, &str)) -> ProcResult<()> {
        let zone = zone.to_owned();
        match table {
            TableKind::Preamble => return Err(ProcFault::expected("a table's heading before the rows", "Node")),
            TableKind::Other => {}
            TableKind::Free => {
                let typed = rest.trim_start_matches(',').trim_start().strip_prefix("type").map(str::trim_start);
                let (name, counts) = typed
                    .and_then(|rest| rest.split_once(char::is_whitespace))
                    .ok_or_else(|| ProcFault::expected("`, type NAME` and numbers", rest))?;
                let free = numbers(&counts.replace('>', " "), self.free.first().map(|row| row.free.len()))?;
                let (migratetype, is_capped) = (migratetype(name)?, counts.contains('>'));
                self.free.push(PageTypeRow { node, zone, migratetype, free, is_capped });
            }
            TableKind::Pageblocks(types) => {
                let mut count = [0; MigrateType::COUNT];
                for (migratetype, blocks) in types.iter().zip(numbers(rest, Some(types.len()))?) {
                    count[migratetype.index()] = blocks;
                }
                self.pageblocks.push(PageblockRow { node, zone, count });
            }
        }
        Ok(())
    }
}
