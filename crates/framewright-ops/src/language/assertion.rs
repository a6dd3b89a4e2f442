//! A number of the allocator that a list states, in a line that begins with `#!`.
//!
//! The line is checked at its place in the list. For other programs it is a comment. The sign before the number is
//! `<=`, `>=`, or `=`, which may be left out.
//!
//! | line | what is read |
//! |---|---|
//! | `#! hit 0 Normal 200` | a NUMA counter of a zone |
//! | `#! free 0 Normal >= 512`, `#! free >= 512` | frames on the buddy lists of a zone, or of all |
//! | `#! pcp 0 Normal 1 <= 64`, `#! pcp 0 Normal <= 64` | frames on one CPU's lists of a zone, or on all |
//! | `#! highatomic <= 1`, `#! highatomic 0 Normal <= 1` | pageblocks of the high-atomic reserve |
//! | `#! pageblocks Movable 0 Normal >= 3` | pageblocks of a type: of all zones, or of one |
//! | `#! vmstat pgfree >= 10` | an event counter of vmstat |
//! | `#! cached 0` | a part of the census |
//!
//! NUMA counters are `hit`, `miss`, `foreign`, `interleave`, `local` and `other`, as in zoneinfo. Parts of the census
//! are `present`, `allocated`, `cached` (per-CPU lists and depots), `isolated`, `in-flight`, `quarantined` and
//! `offline`.

use std::fmt;
use std::str::FromStr;

use framewright::report::Source;
use framewright::{Allocator, CpuId, FrameCounts, Machine, MigrateType, ZoneIdx};

use crate::language::expected::Relation;
use crate::language::outcome::Wrong;
use crate::language::row::zones;
use crate::language::words::{Reason, Words, number};

/// The beginning of the line.
pub(crate) const SIGN: &str = "#!";

/// NUMA counters by the names that zoneinfo has after `numa_`, in its order.
const NUMA: [&str; 6] = ["hit", "miss", "foreign", "interleave", "local", "other"];

/// A part of the census: its name, and how it is read.
type Part = (&'static str, fn(&FrameCounts) -> u64);

/// Parts of the census.
const CENSUS: [Part; 7] = [
    ("present", |census| census.present),
    ("allocated", |census| census.allocated),
    ("cached", |census| census.pcp),
    ("isolated", |census| census.isolated),
    ("in-flight", |census| census.in_flight),
    ("quarantined", |census| census.quarantined),
    ("offline", |census| census.offline),
];

/// Event counters of vmstat.
pub(crate) const EVENTS: [&str; 19] = [
    "pgalloc_dma",
    "pgalloc_dma32",
    "pgalloc_normal",
    "pgalloc_movable",
    "allocstall_dma",
    "allocstall_dma32",
    "allocstall_normal",
    "allocstall_movable",
    "pgfree",
    "pgmigrate_success",
    "pgmigrate_fail",
    "compact_migrate_scanned",
    "compact_free_scanned",
    "compact_stall",
    "compact_fail",
    "compact_success",
    "compact_daemon_wake",
    "compact_daemon_migrate_scanned",
    "compact_daemon_free_scanned",
];

/// What can be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quantity {
    /// A NUMA counter, by its position in zoneinfo, of a zone.
    Numa(usize, ZoneIdx),
    /// Frames on the buddy lists.
    Free(Option<ZoneIdx>),
    /// Frames on the per-CPU lists of a zone.
    Pcp(ZoneIdx, Option<CpuId>),
    /// Pageblocks of a type.
    Pageblocks(MigrateType, Option<ZoneIdx>),
    /// An event counter, by its position in a list of names.
    Event(usize),
    /// A part of the census, by its position in a list of names.
    Census(usize),
}

/// A statement about a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Assertion {
    /// What is read.
    pub quantity: Quantity,
    /// How it compares with the value.
    pub relation: Relation,
    /// The value.
    pub value: u64,
}

impl Assertion {
    /// Reads the number now; returns it, and whether the statement holds.
    ///
    /// # Errors
    /// There is no such zone, CPU or counter, or the census finds an invariant violated.
    pub(crate) fn read<M: Machine>(&self, pages: &Allocator<'_, M>) -> Result<(u64, bool), Wrong> {
        let found = self.quantity.read(pages)?;
        Ok((found, self.relation.holds(found, self.value)))
    }
}

impl Quantity {
    /// Returns the name of each kind, for tests and for errors.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        let census = CENSUS.iter().map(|(name, _)| *name);
        NUMA.into_iter().chain(["free", "pcp", "highatomic", "pageblocks", "vmstat"]).chain(census)
    }

    fn read<M: Machine>(self, pages: &Allocator<'_, M>) -> Result<u64, Wrong> {
        let snapshot = |zone: ZoneIdx| pages.zone(zone).ok_or_else(|| "there is no such zone".to_owned());
        let sum = |zone: Option<ZoneIdx>, of: &dyn Fn(ZoneIdx) -> Result<u64, Wrong>| match zone {
            Some(zone) => of(zone),
            None => zones(pages.nodes())
                .filter(|&zone| pages.zone(zone).is_some())
                .try_fold(0_u64, |sum, zone| Ok(sum.saturating_add(of(zone)?))),
        };
        match self {
            Quantity::Numa(counter, zone) => Ok(snapshot(zone)?.numa.named()[counter].1),
            Quantity::Free(zone) => sum(zone, &|zone| Ok(snapshot(zone)?.free)),
            Quantity::Pcp(zone, Some(cpu)) => {
                snapshot(zone)?;
                pages.pcp(zone, cpu).map(|pcp| pcp.count).ok_or_else(|| "there is no such CPU online".into())
            }
            Quantity::Pcp(zone, None) => {
                snapshot(zone)?;
                let pcps = (0..pages.cpus()).filter_map(|cpu| pages.pcp(zone, CpuId(cpu as u16)));
                Ok(pcps.map(|pcp| pcp.count).sum())
            }
            Quantity::Pageblocks(kind, zone) => sum(zone, &|zone| Ok(snapshot(zone)?.blocks[kind.index()])),
            Quantity::Event(event) => {
                let found = pages.events().named().find(|(name, _)| *name == EVENTS[event]).map(|(_, count)| count);
                found.ok_or_else(|| "these mechanisms keep no such counter".into())
            }
            Quantity::Census(part) => {
                pages.validate().map(|census| CENSUS[part].1(&census)).map_err(|violation| violation.to_string())
            }
        }
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Assertion { quantity, relation, value } = self;
        write!(f, "{SIGN} {quantity} ")?;
        if *relation == Relation::Equal { write!(f, "{value}") } else { write!(f, "{relation} {value}") }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |f: &mut fmt::Formatter<'_>, zone: Option<ZoneIdx>| match zone {
            Some(zone) => write!(f, " {} {}", zone.node().0, zone.kind()),
            None => Ok(()),
        };
        match *self {
            Quantity::Numa(counter, zone) => f.write_str(NUMA[counter]).and_then(|()| of(f, Some(zone))),
            Quantity::Free(zone) => f.write_str("free").and_then(|()| of(f, zone)),
            Quantity::Pcp(zone, cpu) => {
                f.write_str("pcp").and_then(|()| of(f, Some(zone)))?;
                cpu.map_or(Ok(()), |cpu| write!(f, " {}", cpu.0))
            }
            Quantity::Pageblocks(MigrateType::HighAtomic, zone) => f.write_str("highatomic").and_then(|()| of(f, zone)),
            Quantity::Pageblocks(kind, zone) => write!(f, "pageblocks {kind}").and_then(|()| of(f, zone)),
            Quantity::Event(event) => write!(f, "vmstat {}", EVENTS[event]),
            Quantity::Census(part) => f.write_str(CENSUS[part].0),
        }
    }
}

impl FromStr for Assertion {
    type Err = Reason;

    /// Reads the text after `#!`.
    fn from_str(text: &str) -> Result<Assertion, Reason> {
        let text = text.trim();
        let sign = Relation::SIGNS.iter().find_map(|(sign, relation)| Some((*relation, text.split_once(sign)?)));
        let (relation, (what, value)) = match sign {
            Some(signed) => signed,
            None => (Relation::Equal, text.rsplit_once(char::is_whitespace).unwrap_or((text, ""))),
        };
        let quantity = quantity(&mut Words::new(what))?;
        let value = match value.trim() {
            "" => return Err("the line ends where a number should be".into()),
            value => number(value).ok_or_else(|| format!("`{value}` where a number should be"))?,
        };
        Ok(Assertion { quantity, relation, value })
    }
}

fn quantity(words: &mut Words<'_>) -> Result<Quantity, Reason> {
    let zone = |words: &mut Words<'_>| words.peek().is_some().then(|| words.zone()).transpose();
    let word = words.word("what is asserted")?;
    let quantity = match word {
        "free" => Quantity::Free(zone(words)?),
        "pcp" => {
            let zone = words.zone()?;
            Quantity::Pcp(zone, words.peek().is_some().then(|| words.cpu()).transpose()?)
        }
        "highatomic" => Quantity::Pageblocks(MigrateType::HighAtomic, zone(words)?),
        "pageblocks" => Quantity::Pageblocks(words.migratetype()?, zone(words)?),
        "vmstat" => {
            let name = words.word("a counter of vmstat")?;
            let found = EVENTS.iter().position(|event| *event == name);
            Quantity::Event(found.ok_or_else(|| format!("`{name}` is no event of vmstat"))?)
        }
        word => {
            let numa = NUMA.iter().position(|counter| *counter == word);
            let census = CENSUS.iter().position(|(part, _)| *part == word);
            match (numa, census) {
                (Some(counter), _) => Quantity::Numa(counter, words.zone()?),
                (None, Some(part)) => Quantity::Census(part),
                (None, None) => {
                    let known: Vec<&str> = Quantity::kinds().collect();
                    return Err(format!("`{word}` is nothing to assert; there are {}", known.join(", ")));
                }
            }
        }
    };
    words.end()?;
    Ok(quantity)
}
