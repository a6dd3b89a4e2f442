//! The zones of a request: their free memory, the part that had to stay free, and whether a block was left.
//!
//! The rules are those of the core's watermarks and zone lists, applied to a snapshot.

use std::collections::BTreeMap;

use framewright::Request;
use framewright::machine::Machine;
use framewright::report::{Source, ZoneSnapshot};
use framewright::request::{__GFP_ATOMIC, __GFP_HIGH, __GFP_THISNODE};
use framewright::units::{MigrateType, NodeId, Order, ZoneIdx, ZoneKind};
use serde::Serialize;

use super::page_owner::MOBILITIES;
use crate::replay::{Pages, RecordedMachine};

/// A zone just before or after a request.
#[derive(Clone, Debug, Serialize)]
pub struct ZoneThen {
    #[serde(skip)]
    pub(super) idx: ZoneIdx,
    /// The node, by the kernel's number.
    pub node: u32,
    /// The zone's name.
    pub zone: &'static str,
    /// Free frames.
    pub free: u64,
    /// Frames that must stay free at a first try.
    ///
    /// These are the low mark with the boost, the reserve that the zone keeps from such a request, and free frames
    /// that the request may not use.
    pub keeps_low: u64,
    /// Like `keeps_low` at a second try, with the min mark.
    pub keeps_min: u64,
    /// The part of the marks that is boost.
    pub boost: u64,
    /// Free blocks by mobility and order, for mobilities that have any.
    pub blocks: BTreeMap<&'static str, Vec<u64>>,
    /// Whether the zone could serve the request.
    pub verdict: Verdict,
}

/// Whether a zone could serve a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Too little is free, even for a second try.
    BelowMin,
    /// Enough is free, but no block is large enough.
    TooSmall,
    /// Only lists of other mobilities have blocks that are large enough.
    OtherMobility,
    /// There is a block, but too little is free for a first try.
    BelowLow,
    /// There is a block on the request's own list.
    HasBlock,
}

/// The zones that a request may use, in their order.
///
/// The CPU's node comes first, then the other nodes in turn; of each node the highest zone first. Nodes have Linux's
/// numbers if `machine` is given.
pub(super) fn zonelist(pages: &Pages<'_>, machine: Option<&RecordedMachine>, request: &Request) -> Vec<ZoneThen> {
    let (near, nodes) = (pages.machine().near().index(), pages.nodes());
    let asked = if request.gfp.contains(__GFP_THISNODE) { 1 } else { nodes };
    let nodes = (0..asked).map(|turn| NodeId(((near + turn) % nodes.max(1)) as u8));
    let kinds = || ZoneKind::ALL.into_iter().rev().filter(|&kind| kind <= request.gfp.highest_zone());
    let zones = nodes.flat_map(|node| kinds().map(move |kind| ZoneIdx::of(node, kind)));
    let snapshots = zones.filter_map(|zone| pages.zone(zone)).filter(ZoneSnapshot::is_populated);
    let then = |zone: ZoneSnapshot| ZoneThen {
        node: machine.map_or(zone.node.0.into(), |machine| machine.zones.linux(zone.node)),
        ..ZoneThen::of(&zone, request, pages.geometry().max_order)
    };
    snapshots.map(then).collect()
}

impl ZoneThen {
    fn of(zone: &ZoneSnapshot, request: &Request, max_order: Order) -> ZoneThen {
        let reserve = zone.protection.get(request.gfp.highest_zone().index()).copied().unwrap_or(0);
        // `__GFP_HIGH` and `__GFP_ATOMIC` lower the min mark.
        let mut min = zone.min.saturating_add(zone.boost);
        if request.gfp.contains(__GFP_HIGH) {
            min -= min / 2;
        }
        if request.gfp.contains(__GFP_ATOMIC) {
            min -= min / 4;
        }
        // Free frames that such a request may not use.
        let mut withheld = 0;
        if !request.gfp.contains(__GFP_ATOMIC) {
            withheld += frames_of(zone, MigrateType::HighAtomic);
        }
        if request.gfp.migratetype() != MigrateType::Movable {
            withheld += frames_of(zone, MigrateType::Cma);
        }
        let kept = reserve.saturating_add(withheld);
        let counts = |migratetype: MigrateType| {
            let rows = zone.nr_free.iter().take(max_order.index() + 1);
            let counts: Vec<u64> = rows.map(|row| row.get(migratetype.index()).copied().unwrap_or(0)).collect();
            counts.iter().any(|&count| count != 0).then_some((migratetype.name(), counts))
        };
        let mut then = ZoneThen {
            idx: ZoneIdx::of(zone.node, zone.kind),
            node: zone.node.0.into(),
            zone: zone.kind.name(),
            free: zone.free,
            keeps_low: zone.low.saturating_add(zone.boost).saturating_add(kept),
            keeps_min: min.saturating_add(kept),
            boost: zone.boost,
            blocks: MigrateType::ALL.into_iter().filter_map(counts).collect(),
            verdict: Verdict::HasBlock,
        };
        then.verdict = then.judge(request);
        then
    }

    fn judge(&self, request: &Request) -> Verdict {
        let has = |migratetype: MigrateType| {
            let blocks = self.blocks.get(migratetype.name());
            blocks.is_some_and(|blocks| blocks.iter().skip(request.order.index()).any(|&count| count != 0))
        };
        let usable = self.free.saturating_sub(request.order.frames() - 1);
        if usable <= self.keeps_min {
            Verdict::BelowMin
        } else if !MOBILITIES.into_iter().any(has) {
            Verdict::TooSmall
        } else if !has(request.gfp.migratetype()) {
            Verdict::OtherMobility
        } else if usable <= self.keeps_low {
            Verdict::BelowLow
        } else {
            Verdict::HasBlock
        }
    }

    /// Free frames above the min mark.
    pub(super) fn spare(&self) -> u64 {
        self.free.saturating_sub(self.keeps_min)
    }

    /// Order of the largest free block, if the request may have one at all.
    pub(super) fn largest(&self) -> Option<u8> {
        let orders = self.blocks.values().filter_map(|blocks| blocks.iter().rposition(|&count| count != 0));
        orders.max().filter(|_| self.verdict != Verdict::BelowMin).map(|order| order as u8)
    }
}

/// Free frames on the lists of a mobility.
fn frames_of(zone: &ZoneSnapshot, migratetype: MigrateType) -> u64 {
    let blocks = zone.nr_free.iter().zip(0..).filter_map(|(row, order)| Some((row.get(migratetype.index())?, order)));
    blocks.map(|(count, order)| count << order).fold(0, u64::saturating_add)
}
