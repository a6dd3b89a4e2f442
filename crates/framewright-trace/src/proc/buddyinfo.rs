//! `/proc/buddyinfo`: free blocks by order, with a row for each zone and a number for each order.
//!
//! This file, `pagetypeinfo` and `kpageflags` are read one after the other from a running kernel. So they agree only
//! up to a few blocks; [`BuddyInfo::differences`] says which.

use std::fmt;

use framewright::units::Order;

use super::parse::{for_lines, numbers, zone_head};
use crate::error::{ProcFault, Result, TraceError};

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
    /// Reads the file's text, called `file` in messages.
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

    /// The numbers that `self` and `other` disagree on.
    ///
    /// A zone that only one of them has counts as one without free
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
