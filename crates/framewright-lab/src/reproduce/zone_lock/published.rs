//! The published table, as `data/published/zone-lock.toml` has it.

use std::collections::BTreeMap;

use anyhow::bail;
use serde::{Deserialize, Serialize};

use crate::reproduce::published::{Published, is_amount, is_change, names_differ};

/// Orders of blocks, 0 to 10.
pub const ORDERS: usize = 11;

/// The published tables of the zone lock series.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ZoneLockTable {
    /// Title.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// The workload in the words of its suite.
    pub workload: String,
    /// CPUs, each with a process.
    pub cpus: usize,
    /// Memory that a process maps and unmaps.
    pub process_mib: u64,
    /// Free memory of a node when all had ended.
    pub free_gib_per_node: u64,
    /// How long it ran.
    pub seconds: u64,
    /// Kernels, the first of them the one that others are compared with.
    #[serde(rename = "row")]
    pub rows: Vec<ZoneLockRow>,
    /// Kernels with pages on LRU lists.
    pub lru: Vec<LruRow>,
    /// Small and huge pages at once.
    pub mix: Vec<MixRow>,
    /// Free blocks by order that kernels left, by zone.
    pub buddyinfo: BTreeMap<String, BTreeMap<String, [u64; ORDERS]>>,
}

/// A kernel.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ZoneLockRow {
    /// Name of the kernel, and of the preset that models it.
    pub name: String,
    /// Faults per second.
    pub performance: f64,
    /// Against the first row.
    pub change_percent: f64,
    /// Percent of CPU time spent waiting for the zone lock.
    pub zone_lock_contention_percent: f64,
    /// Percent of CPU time spent in concurrent list operations, if that was told.
    pub smp_list_add_percent: Option<f64>,
}

/// A kernel whose pages are on LRU lists.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct LruRow {
    /// As in [`ZoneLockRow`].
    pub name: String,
    /// Against the first row.
    pub change_percent: f64,
    /// Percent of CPU time spent waiting for the zone lock.
    pub zone_lock_contention_percent: f64,
    /// Percent of CPU time spent waiting for the LRU lock.
    pub lru_lock_contention_percent: f64,
}

/// A kernel under two kinds of processes at once, half of them with small pages and half with huge ones.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct MixRow {
    /// As in [`ZoneLockRow`].
    pub name: String,
    /// Pages of 4 KiB per second of those with small pages.
    pub small: f64,
    /// Pages of 4 KiB per second of those with huge pages.
    pub huge: f64,
}

impl Published for ZoneLockTable {
    const FILE: &'static str = "zone-lock.toml";
    const TEXT: &'static str = include_str!("../../../data/published/zone-lock.toml");

    fn check(&self) -> anyhow::Result<()> {
        names_differ(self.rows.iter().map(|row| &row.name))?;
        let first = self.rows.first().map_or(f64::NAN, |first| first.performance);
        for ZoneLockRow { name, performance, change_percent, .. } in &self.rows {
            is_amount(&format!("row {name}: performance"), *performance)?;
            is_change(name, *change_percent, (first, *performance))?;
        }
        for MixRow { name, small, huge } in &self.mix {
            is_amount(&format!("mix of {name}: small"), *small)?;
            is_amount(&format!("mix of {name}: huge"), *huge)?;
        }
        let names = self.lru.iter().map(|row| &row.name).chain(self.mix.iter().map(|row| &row.name));
        let names = names.chain(self.buddyinfo.keys());
        match names.into_iter().find(|name| self.row(name).is_none()) {
            Some(name) => bail!("{name} is no row's name"),
            None => Ok(()),
        }
    }
}

impl ZoneLockTable {
    /// The row of a kernel.
    pub fn row(&self, name: &str) -> Option<&ZoneLockRow> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Free blocks by order that a kernel left in all zones Normal together.
    pub fn free_blocks(&self, name: &str) -> Option<[u64; ORDERS]> {
        let zones = self.buddyinfo.get(name)?.iter().filter(|(zone, _)| zone.ends_with("zone Normal"));
        Some(zones.fold([0; ORDERS], |mut sum, (_, blocks)| {
            sum.iter_mut().zip(blocks).for_each(|(sum, blocks)| *sum += blocks);
            sum
        }))
    }
}

#[cfg(test)]
mod tests {
    use framewright::Order;
    use framewright::report::unusable_index;

    use super::*;
    use crate::reproduce::published::mistake;

    #[test]
    fn the_table_is_read() {
        let table = ZoneLockTable::built_in().unwrap();
        let names: Vec<&str> = table.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["patch1", "patch7", "patch8", "patch9", "no_merge", "no_merge+cluster_alloc"]);
        assert_eq!(table.row("patch7").unwrap().smp_list_add_percent, Some(34.66));
        // 17,820 and 44,789 single pages.
        assert_eq!(table.free_blocks("patch7").unwrap()[0], 62_609);
        let index = |name: &str| unusable_index(&table.free_blocks(name).unwrap(), Order(5));
        assert_eq!(["patch7", "patch8", "patch9", "no_merge"].map(index), [91, 220, 98, 232]);
        assert_eq!(table.free_blocks("patch1"), None);
        let total = |row: &MixRow| row.small + row.huge;
        assert_eq!(table.mix.iter().map(total).collect::<Vec<_>>(), [12_062_500.0, 8_576_063.0, 11_844_368.0]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |from, to| mistake::<ZoneLockTable>(from, to);
        assert_eq!(wrong("name = \"patch8\"", "name = \"patch7\""), "row patch7 is there twice");
        assert_eq!(wrong("performance = 2461133", "performance = 0"), "row patch7: performance is 0");
        assert_eq!(wrong("= -73.3", "= 73.3"), "row patch7: change_percent is 73.3, its numbers say -73.3");
        assert_eq!(wrong("[buddyinfo.patch7]", "[buddyinfo.patch2]"), "patch2 is no row's name");
        assert_eq!(wrong("small = 1522246", "small = 0"), "mix of patch1: small is 0");
        assert!(wrong("seconds = 180", "minutes = 3").contains("unknown field `minutes`"));
        assert!(wrong("[7, 3, 6, 5,", "[7, 3, 6,").contains("length"));
    }
}
