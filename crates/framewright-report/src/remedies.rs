//! What would have helped: single changes, each tried on the state of the report.
//!
//! A change of a sysctl acts before the request is made. So two questions are asked:
//!
//! | change | state in which it is tried |
//! |---|---|
//! | takes a reserve away, or frees memory that is free already | the report's, with the change |
//! | makes background reclaim begin earlier | the report's, with each zone at its new low mark |
//!
//! The smallest change that serves is searched for, and its cost is the frames that programs then lack, or the frames
//! of a reserve that others lose.

use framewright::request::{
    __GFP_ATOMIC, __GFP_DIRECT_RECLAIM, __GFP_DMA, __GFP_DMA32, __GFP_HIGH, __GFP_KSWAPD_RECLAIM, __GFP_THISNODE,
};
use framewright_table::figures::thousands;
use framewright_trace::flags::KernelVersion;
use serde::Serialize;

use crate::decision::{Case, MarkName, Outcome, Query, ZoneAnswer, decide};
use crate::memory::{ListType, Memory, Types, Zone};
use crate::report::{Kind, Report};

/// Whether a change would have served the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Helps {
    /// It serves the request.
    Yes,
    /// It may; the note says what it depends on.
    Perhaps,
    /// It does not.
    No,
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Remedy {
    /// The change, as `vm.min_free_kbytes=67584`.
    pub change: String,
    /// Whether it helps.
    pub helps: Helps,
    /// Frames that it costs; `None` if it costs none.
    pub cost: Option<u64>,
    /// What it costs, or why it does not help.
    pub note: String,
}

fn remedy(change: impl Into<String>, helps: Helps, cost: Option<u64>, note: impl Into<String>) -> Remedy {
    Remedy { change: change.into(), helps, cost: cost.filter(|&frames| frames > 0), note: note.into() }
}

/// Returns whether an outcome serves the request.
fn helps(outcome: Outcome) -> Helps {
    match outcome {
        Outcome::Succeeds => Helps::Yes,
        Outcome::Depends => Helps::Perhaps,
        Outcome::Fails => Helps::No,
    }
}

/// Tries every change that makes sense for the request; those that help come first.
pub fn remedies(report: &Report, query: &Query, case: &Case) -> Vec<Remedy> {
    let tried = Tried { report, memory: &report.memory, query, case };
    let mut all = Vec::new();
    all.extend(tried.smaller_order());
    all.extend(tried.compaction());
    all.extend(tried.drain());
    all.extend(tried.no_boost());
    all.extend(tried.no_highatomic());
    all.extend(tried.no_lowmem_reserve());
    if query.mark == MarkName::Min {
        all.extend(tried.more_reclaim());
        all.extend(tried.smaller_reserve());
    }
    all.extend(tried.other_flags());
    all.extend(tried.other_places());
    all.sort_by_key(|remedy| remedy.helps);
    all
}

/// A request that failed, and what is tried for it.
struct Tried<'a> {
    report: &'a Report,
    memory: &'a Memory,
    query: &'a Query,
    case: &'a Case,
}

impl Tried<'_> {
    fn outcome(&self, memory: &Memory, query: &Query) -> Outcome {
        decide(memory, query).outcome
    }

    /// Returns the state after `change` of each zone that is asked.
    fn changed(&self, mut change: impl FnMut(&mut Zone)) -> Memory {
        let mut memory = self.memory.clone();
        for zone in &mut memory.zones {
            if self.case.asked().any(|asked| asked.is_of(zone)) {
                change(zone);
            }
        }
        memory
    }

    /// Returns the sum of a number over the zones that are asked.
    fn sum(&self, number: impl Fn(&Zone) -> Option<u64>) -> u64 {
        let mut sum = 0_u64;
        self.changed(|zone| sum = sum.saturating_add(number(zone).unwrap_or(0)));
        sum
    }

    fn smaller_order(&self) -> Option<Remedy> {
        let served = (0..self.query.order)
            .rev()
            .find(|&order| self.outcome(self.memory, &Query { order, ..self.query.clone() }) == Outcome::Succeeds);
        match served {
            None if self.query.order == 0 => None,
            None => Some(remedy("single pages instead (order 0)", Helps::No, None, "not even one page is served")),
            Some(0) => Some(remedy("single pages instead (order 0)", Helps::Yes, None, "no larger order is served")),
            Some(order) => Some(remedy(format!("order {order} or smaller instead"), Helps::Yes, None, "")),
        }
    }

    fn compaction(&self) -> Option<Remedy> {
        if self.query.order == 0 {
            return None;
        }
        let frames = 1_u64 << self.query.order.min(63);
        let mut blocks = 0_u64;
        for zone in self.case.asked() {
            let keeps = !matches!(zone.account.best, ZoneAnswer::Short { .. });
            let found = self.memory.zones.iter().find(|one| zone.is_of(one));
            if let Some(found) = found.filter(|_| keeps) {
                blocks = blocks.saturating_add(found.frames_in_blocks() / frames);
            }
        }
        Some(if blocks == 0 {
            remedy("compaction", Helps::No, None, "frames are missing, not blocks")
        } else {
            let note = format!(
                "at most {} blocks of order {} if all that lies between can move",
                thousands(blocks),
                self.query.order
            );
            remedy("compaction", Helps::Perhaps, None, note)
        })
    }

    fn drain(&self) -> Option<Remedy> {
        let cached = self.sum(|zone| zone.free_pcp);
        if cached == 0 {
            return None;
        }
        let memory = self.changed(|zone| {
            let frames = zone.free_pcp.unwrap_or(0);
            zone.free = zone.free.saturating_add(frames);
            if let Some(single) = zone.orders.first_mut() {
                single.blocks = single.blocks.saturating_add(frames);
            }
        });
        let outcome = self.outcome(&memory, self.query);
        let note = format!("{} frames lie there", thousands(cached));
        Some(match outcome {
            Outcome::Fails
                if self.query.order > 0 && cached >= 1 << self.query.order.min(63) && self.lacks_blocks() =>
            {
                remedy("drain per-CPU lists", Helps::Perhaps, None, note + "; whether they merge is not known")
            }
            _ => remedy("drain per-CPU lists", helps(outcome), None, note),
        })
    }

    /// Returns whether a zone keeps its mark and has no block.
    fn lacks_blocks(&self) -> bool {
        self.case.asked().any(|zone| !matches!(zone.account.best, ZoneAnswer::Short { .. }))
    }

    fn no_boost(&self) -> Option<Remedy> {
        let boost = self.sum(|zone| zone.boost);
        if boost == 0 {
            return None;
        }
        let memory = self.changed(|zone| {
            let boost = zone.boost.take().unwrap_or(0);
            for mark in [&mut zone.min, &mut zone.low, &mut zone.high] {
                *mark = mark.saturating_sub(boost);
            }
            zone.boost = Some(0);
        });
        let outcome = self.outcome(&memory, self.query);
        Some(remedy(
            "vm.watermark_boost_factor=0",
            helps(outcome),
            Some(boost),
            "marks are not raised where types were mixed",
        ))
    }

    fn no_highatomic(&self) -> Option<Remedy> {
        let held = |zone: &Zone| zone.frames_of(ListType::HighAtomic).1;
        let reserved = self.sum(|zone| zone.reserved_highatomic.or(Some(held(zone))));
        if reserved == 0 {
            return None;
        }
        let memory = self.changed(|zone| {
            (zone.reserved_highatomic, zone.free_highatomic) = (Some(0), Some(0));
            for free in &mut zone.orders {
                let freed = free.types.filter(|types| types.contains(ListType::HighAtomic));
                if let Some(types) = freed {
                    let others = types.iter().filter(|&one| one != ListType::HighAtomic);
                    free.types = Some(others.fold(Types::default().with(ListType::Movable), Types::with));
                }
                free.by_type = None;
            }
        });
        let outcome = self.outcome(&memory, self.query);
        Some(remedy(
            "no reserve for high orders",
            helps(outcome),
            Some(reserved),
            "atomic requests above order 0 lose it",
        ))
    }

    fn no_lowmem_reserve(&self) -> Option<Remedy> {
        let reserve = self.case.asked().fold(0, |sum: u64, zone| sum.saturating_add(zone.account.reserve.most));
        if reserve == 0 {
            return None;
        }
        let memory = self.changed(|zone| zone.lowmem_reserve = Some(vec![0]));
        let outcome = self.outcome(&memory, self.query);
        let helps = helps(outcome).max(Helps::Perhaps);
        let note = "lower zones serve it until they are full as well";
        Some(remedy("no vm.lowmem_reserve_ratio", helps, Some(reserve), note))
    }

    /// Earlier background reclaim: `min_free_kbytes` and `watermark_scale_factor` up.
    fn more_reclaim(&self) -> Vec<Remedy> {
        let marks = Marks::of(self.memory);
        let Some(total) = marks.total().filter(|_| self.case.outcome == Outcome::Fails) else { return Vec::new() };
        let kib = self.memory.page_kib();
        // With all zones at their new low marks, is it served?
        let kept = |change: &dyn Fn(&mut Zone)| {
            self.changed(|zone| {
                change(zone);
                zone.free = zone.free.max(zone.low);
            })
        };
        let cost = |memory: &Memory| {
            let pairs = memory.zones.iter().zip(&self.memory.zones);
            pairs.fold(0, |sum: u64, (new, old)| sum.saturating_add(new.free.saturating_sub(old.free)))
        };
        let mut tried = Vec::new();
        let managed = self.memory.zones.iter().filter_map(|zone| zone.size()).fold(0, u64::saturating_add);
        let is_served = |memory: &Memory| self.outcome(memory, self.query) == Outcome::Succeeds;
        if is_served(&kept(&|_: &mut Zone| {})) {
            let note = "reclaim had begun already, at the low mark, and did not keep up";
            return vec![remedy("a larger vm.min_free_kbytes", Helps::No, None, note)];
        }
        let by_min = |frames: u64| kept(&|zone: &mut Zone| marks.set_min(zone, frames));
        let found = smallest(total + 1, (managed / 10).max(total + 1), |frames| is_served(&by_min(frames)));
        tried.push(match found {
            Some(frames) => {
                let note = "kept free by background reclaim, if it can";
                remedy(
                    format!("vm.min_free_kbytes={}", frames * kib),
                    Helps::Perhaps,
                    Some(cost(&by_min(frames))),
                    note,
                )
            }
            None => remedy("a larger vm.min_free_kbytes", Helps::No, None, self.why_not_more()),
        });
        // The sysctl came with 4.6.
        if self.memory.kernel.is_some_and(|kernel| kernel < KernelVersion::new(4, 6)) {
            return tried;
        }
        let by_scale = |scale: u64| kept(&|zone: &mut Zone| marks.set_scale(zone, scale));
        tried.push(match smallest(11, 1_000, |scale| is_served(&by_scale(scale))) {
            Some(scale) => {
                let note = "kept free by background reclaim, if it can";
                remedy(format!("vm.watermark_scale_factor={scale}"), Helps::Perhaps, Some(cost(&by_scale(scale))), note)
            }
            None => remedy("a larger vm.watermark_scale_factor", Helps::No, None, self.why_not_more()),
        });
        tried
    }

    fn why_not_more(&self) -> &'static str {
        if self.lacks_blocks() {
            "blocks are missing, not frames"
        } else {
            "no value up to a tenth of memory serves it"
        }
    }

    /// A smaller reserve: `min_free_kbytes` down.
    fn smaller_reserve(&self) -> Option<Remedy> {
        let marks = Marks::of(self.memory);
        let total = marks.total()?;
        let smaller = |frames: u64| self.changed(|zone| marks.set_min(zone, frames));
        // Less than half of the reserve would be no advice.
        let found =
            smallest(0, total / 2, |less| self.outcome(&smaller(total - less), self.query) == Outcome::Succeeds)?;
        let change = format!("vm.min_free_kbytes={}", (total - found) * self.memory.page_kib());
        Some(remedy(change, Helps::Yes, Some(found), "a smaller reserve for later requests in need"))
    }

    fn other_flags(&self) -> Vec<Remedy> {
        let mut tried = Vec::new();
        let gfp = self.query.gfp;
        if gfp.contains(__GFP_DIRECT_RECLAIM) {
            if self.query.mark == MarkName::Min && !gfp.contains(__GFP_HIGH) {
                let gfp = gfp & !__GFP_DIRECT_RECLAIM | __GFP_HIGH | __GFP_ATOMIC | __GFP_KSWAPD_RECLAIM;
                let outcome = self.outcome(self.memory, &Query { gfp, ..self.query.clone() });
                let helps = helps(outcome);
                let note = match helps {
                    Helps::No => "not even with what is kept for interrupts",
                    _ => "uses reserves that are kept for interrupts",
                };
                tried.push(remedy("GFP_ATOMIC instead", helps, None, note));
            }
        } else {
            let waiting = gfp & !(__GFP_HIGH | __GFP_ATOMIC) | __GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM;
            let query = Query { gfp: waiting, ..self.query.clone() };
            let outcome = self.outcome(self.memory, &query);
            let cache = self.memory.file.or_else(|| Some(self.sum(|zone| zone.file))).unwrap_or(0);
            let slab =
                self.memory.slab_reclaimable.or_else(|| Some(self.sum(|zone| zone.slab_reclaimable))).unwrap_or(0);
            let reclaimable = cache.saturating_add(slab);
            let short = self.case.asked().filter_map(|zone| match zone.account.best {
                ZoneAnswer::Short { by } => Some(by),
                _ => None,
            });
            let needed = short.min().unwrap_or(0).max(1 << self.query.order.min(63));
            let note =
                format!("may sleep and reclaim; {} frames of page cache and slab are there", thousands(reclaimable));
            let helps = match outcome {
                Outcome::Succeeds => Helps::Yes,
                _ if reclaimable >= needed => Helps::Perhaps,
                _ => Helps::No,
            };
            tried.push(remedy("GFP_KERNEL instead", helps, None, note));
        }
        if self.report.kind == Kind::Failure {
            tried.push(remedy("__GFP_NOWARN", Helps::No, None, "hides the report and serves nothing"));
        }
        tried
    }

    fn other_places(&self) -> Vec<Remedy> {
        let mut tried = Vec::new();
        let gfp = self.query.gfp;
        // Zones without a line are no zones without memory.
        let printed = self.memory.zones.iter().fold(0, |sum: u64, zone| sum.saturating_add(zone.free));
        let hidden = self.memory.free.map_or(0, |all| all.saturating_sub(printed));
        let is_hidden = hidden > printed / 16 + 64;
        let elsewhere = |outcome: Outcome, note: &str| match helps(outcome) {
            Helps::No if is_hidden => {
                (Helps::Perhaps, format!("{} frames are free in zones that are not printed", thousands(hidden)))
            }
            helps => (helps, note.to_owned()),
        };
        let several = self.memory.nodes().len() > 1;
        if gfp.contains(__GFP_THISNODE) && several || self.query.nodes.is_some() && (several || is_hidden) {
            let query = Query { gfp: gfp & !__GFP_THISNODE, nodes: None, has_failed: false, ..self.query.clone() };
            let (helps, note) = elsewhere(self.outcome(self.memory, &query), "memory of another node is slower");
            tried.push(remedy("any node", helps, None, note));
        }
        if gfp.intersects(__GFP_DMA | __GFP_DMA32) {
            let query = Query { gfp: gfp & !(__GFP_DMA | __GFP_DMA32), ..self.query.clone() };
            let (helps, note) = elsewhere(self.outcome(self.memory, &query), "if the device can address it");
            tried.push(remedy("any zone", helps, None, note));
        }
        tried
    }
}

/// Returns the smallest number of `from..=to` for which `holds`, if it holds for `to` and stays so once it does.
fn smallest(from: u64, to: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if from > to || !holds(to) {
        return None;
    }
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

/// How the marks of the zones follow from `min_free_kbytes` and `watermark_scale_factor`.
///
/// Linux shares `min_free_kbytes` out by the managed frames of the zones below HighMem and Movable. The distance of the
/// marks is a quarter of min, or `watermark_scale_factor` ten-thousandths of the zone, whichever is more.
struct Marks {
    /// Sum of the min marks, boosts left out.
    total: u64,
}

/// A zone whose min mark has a formula of its own.
fn is_apart(zone: &Zone) -> bool {
    matches!(zone.name.as_str(), "HighMem" | "Movable" | "Device")
}

fn base(zone: &Zone) -> u64 {
    zone.min.saturating_sub(zone.boost.unwrap_or(0))
}

impl Marks {
    fn of(memory: &Memory) -> Marks {
        let zones = memory.zones.iter().filter(|zone| !is_apart(zone));
        Marks { total: zones.map(base).fold(0, u64::saturating_add) }
    }

    /// Returns the sum of the min marks; `None` if all are 0.
    fn total(&self) -> Option<u64> {
        Some(self.total).filter(|&total| total > 0)
    }

    /// Sets the marks of a zone as another `min_free_kbytes` would, given in frames.
    fn set_min(&self, zone: &mut Zone, frames: u64) {
        if is_apart(zone) || self.total == 0 {
            return;
        }
        let (old, gap) = (base(zone), zone.low.saturating_sub(zone.min));
        let by_scale = if gap > old / 4 { gap } else { 0 };
        // The mark that is printed was rounded down, and is rounded up here: never too little.
        let min = ((u128::from(old) + 1) * u128::from(frames)).div_ceil(u128::from(self.total)) as u64;
        place(zone, min, (min / 4).max(by_scale));
    }

    /// Sets the marks of a zone as another `watermark_scale_factor` would.
    fn set_scale(&self, zone: &mut Zone, scale: u64) {
        let managed = zone.size().unwrap_or(0);
        let gap = zone.low.saturating_sub(zone.min).max(managed.saturating_mul(scale) / 10_000);
        place(zone, base(zone), gap);
    }
}

fn place(zone: &mut Zone, min: u64, gap: u64) {
    let boost = zone.boost.unwrap_or(0);
    zone.min = min.saturating_add(boost);
    zone.low = zone.min.saturating_add(gap);
    zone.high = zone.low.saturating_add(gap);
}
