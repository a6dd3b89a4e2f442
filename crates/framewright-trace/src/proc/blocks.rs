//! `/proc/buddyinfo` and `/proc/pagetypeinfo`: free blocks by order, and pageblocks by mobility.
//!
//! Both have a row for each zone with a number for each order. `pagetypeinfo` splits the free blocks by mobility and
//! says in a second table how many pageblocks have which. Its first table stops counting at 100,000 blocks and marks
//! the number with `>`.
//!
//! The two files are read one after the other from a running kernel, so that they agree with each other, and with
//! `kpageflags`, only up to a few blocks; [`BuddyInfo::differences`] says which.

use std::fmt;

use framewright::units::{MigrateType, Order};

use super::{Parsed, ProcFault, for_lines, migratetype, number, zone_head};
use crate::error::{Result, TraceError};

/// Free blocks of all zones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BuddyInfo {
    /// The zones in the file's order.
    pub rows: Vec<BuddyRow>,
}

/// Free blocks of one zone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BuddyRow {
    /// The zone's node.
    pub node: u32,
    /// The zone's name.
    pub zone: String,
    /// Number of free blocks by order.
    pub free: Vec<u64>,
}

impl BuddyRow {
    /// Free frames in the blocks.
    pub fn frames(&self) -> u64 {
        self.free.iter().zip(0..64).fold(0, |sum, (&blocks, order)| sum.wrapping_add(blocks << order))
    }
}

/// A number of `buddyinfo` that two sources disagree on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuddyDifference {
    /// The zone's node.
    pub node: u32,
    /// The zone's name.
    pub zone: String,
    /// Order of the blocks.
    pub order: Order,
    /// Number in the one source.
    pub ours: u64,
    /// Number in the other source.
    pub theirs: u64,
}

impl fmt::Display for BuddyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BuddyDifference { node, zone, order, ours, theirs } = self;
        write!(f, "node {node}, zone {zone}, order {order}: {ours} against {theirs}")
    }
}

impl BuddyInfo {
    /// Reads the file's text; messages call it `file`.
    ///
    /// # Errors
    /// The line that is malformed.
    pub fn parse(text: &str, file: &str) -> Result<BuddyInfo> {
        let mut rows: Vec<BuddyRow> = Vec::new();
        for_lines(text, file, |line| {
            let head = zone_head(line).unwrap_or_else(|| Err(ProcFault::expected("`Node N, zone NAME`", line)));
            let (node, zone, rest) = head?;
            let free = numbers(rest, rows.first().map(|row| row.free.len()))?;
            rows.push(BuddyRow { node, zone: zone.to_owned(), free });
            Ok(())
        })?;
        if rows.is_empty() {
            return Err(TraceError::new(file, ProcFault::Empty("zone")));
        }
        Ok(BuddyInfo { rows })
    }

    /// The largest order that the file has a column for.
    pub fn max_order(&self) -> Order {
        // A row has at least one number, at most as many as there are orders.
        Order(self.rows.first().map_or(0, |row| row.free.len().saturating_sub(1).min(63)) as u8)
    }

    /// The row of a zone.
    pub fn row(&self, node: u32, zone: &str) -> Option<&BuddyRow> {
        self.rows.iter().find(|row| row.node == node && row.zone == zone)
    }

    /// Free frames in all blocks.
    pub fn frames(&self) -> u64 {
        self.rows.iter().map(BuddyRow::frames).sum()
    }

    /// The numbers that `self` and `other` disagree on. A zone that only one of them has counts as one without free
    /// blocks in the other.
    pub fn differences(&self, other: &BuddyInfo) -> Vec<BuddyDifference> {
        let only_theirs = other.rows.iter().filter(|row| self.row(row.node, &row.zone).is_none());
        let mut found = Vec::new();
        for row in self.rows.iter().chain(only_theirs) {
            let blocks = |info: &BuddyInfo, order: usize| {
                info.row(row.node, &row.zone).and_then(|row| row.free.get(order)).copied().unwrap_or(0)
            };
            for order in 0..=self.max_order().max(other.max_order()).0 {
                let (ours, theirs) = (blocks(self, order.into()), blocks(other, order.into()));
                if ours != theirs {
                    let (node, zone) = (row.node, row.zone.clone());
                    found.push(BuddyDifference { node, zone, order: Order(order), ours, theirs });
                }
            }
        }
        found
    }
}

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
enum Table {
    Preamble,
    Free,
    Pageblocks(Vec<MigrateType>),
    Other,
}

impl PageTypeInfo {
    /// Reads the file's text; messages call it `file`.
    ///
    /// # Errors
    /// The line that is malformed.
    pub fn parse(text: &str, file: &str) -> Result<PageTypeInfo> {
        let mut info = PageTypeInfo::default();
        let mut table = Table::Preamble;
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

    fn heading(&mut self, table: &mut Table, line: &str) -> Parsed<()> {
        if let Some(order) = line.strip_prefix("Page block order:") {
            let order = order.trim();
            let parsed = order.parse().ok().filter(|&order| order <= Order::LIMIT.0);
            self.pageblock_order = parsed.map(Order).ok_or_else(|| ProcFault::expected("an order up to 18", order))?;
        } else if line.starts_with("Pages per block:") {
            // Follows from the order.
        } else if line.starts_with("Free pages count per migrate type") {
            *table = Table::Free;
        } else if let Some(types) = line.strip_prefix("Number of blocks type") {
            *table = Table::Pageblocks(types.split_whitespace().map(migratetype).collect::<Parsed<_>>()?);
        } else if line.starts_with("Number of mixed blocks") {
            *table = Table::Other;
        } else {
            return Err(ProcFault::expected("a zone's row or a table's heading", line));
        }
        Ok(())
    }

    fn row(&mut self, table: &Table, (node, zone, rest): (u32, &str, &str)) -> Parsed<()> {
        let zone = zone.to_owned();
        match table {
            Table::Preamble => return Err(ProcFault::expected("a table's heading before the rows", "Node")),
            Table::Other => {}
            Table::Free => {
                let typed = rest.trim_start_matches(',').trim_start().strip_prefix("type").map(str::trim_start);
                let (name, counts) = typed
                    .and_then(|rest| rest.split_once(char::is_whitespace))
                    .ok_or_else(|| ProcFault::expected("`, type NAME` and numbers", rest))?;
                let free = numbers(&counts.replace('>', " "), self.free.first().map(|row| row.free.len()))?;
                let (migratetype, is_capped) = (migratetype(name)?, counts.contains('>'));
                self.free.push(PageTypeRow { node, zone, migratetype, free, is_capped });
            }
            Table::Pageblocks(types) => {
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

/// The numbers of a row, as many as the rows before have.
fn numbers(text: &str, expected: Option<usize>) -> Parsed<Vec<u64>> {
    let numbers = text.split_whitespace().map(number).collect::<Parsed<Vec<_>>>()?;
    match expected {
        Some(expected) if expected != numbers.len() => Err(ProcFault::Columns { expected, found: numbers.len() }),
        None if numbers.is_empty() || numbers.len() > Order::COUNT => {
            Err(ProcFault::expected("a number for each of up to 19 orders", text))
        }
        _ => Ok(numbers),
    }
}
