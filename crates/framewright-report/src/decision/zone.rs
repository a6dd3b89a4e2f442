//! The decision about one zone: does it keep its mark, and has it a block?

use serde::Serialize;

use super::rules::{Rights, Rules};
use crate::memory::{ListType, OrderFree, Types, Zone};

/// A number that a report prints, or the bounds of one that it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Bounds {
    /// The least that it can be.
    pub least: u64,
    /// The most that it can be.
    pub most: u64,
}

impl Bounds {
    /// Returns the bounds of a known number.
    pub const fn exact(number: u64) -> Bounds {
        Bounds { least: number, most: number }
    }

    /// Returns whether the number is known.
    pub const fn is_exact(self) -> bool {
        self.least == self.most
    }
}

/// Which mark counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkName {
    /// The last try of the slow path.
    Min,
    /// The last try before the OOM killer acts.
    High,
}

/// The question to a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    pub(crate) rules: Rules,
    pub(crate) rights: Rights,
    pub(crate) mark: MarkName,
    pub(crate) order: u8,
    /// Frames that requests of this kind must leave.
    pub(crate) reserve: Bounds,
}

/// What a zone answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum ZoneAnswer {
    /// It serves the request from a block of this order.
    Serves {
        /// Order of the smallest block that the request may take.
        block: u8,
    },
    /// It lacks frames to keep its mark.
    Short {
        /// Frames that are missing.
        by: u64,
    },
    /// It lacks frames in blocks of a larger order (before 4.4).
    ShortOfOrder {
        /// The order from which on there is too little.
        order: u8,
        /// Frames that are missing.
        by: u64,
    },
    /// It keeps its mark, but has no block of the order that the request may take.
    NoBlock,
}

impl ZoneAnswer {
    /// Returns whether the zone serves the request.
    pub const fn serves(self) -> bool {
        matches!(self, ZoneAnswer::Serves { .. })
    }
}

/// The account of one zone. All sizes are in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Account {
    /// Free frames.
    pub free: u64,
    /// Of a block of the order, the frames after the first, which must not count.
    pub of_the_block: u64,
    /// Frames of the reserve for high orders that do not count.
    pub highatomic: Bounds,
    /// Frames of contiguous memory areas that do not count.
    pub cma: Bounds,
    /// The mark.
    pub mark: u64,
    /// The part of the mark that the request must leave.
    pub keep: u64,
    /// The frames left to requests that cannot use a higher zone.
    pub reserve: Bounds,
    /// The answer if everything unknown is in the request's favour.
    pub best: ZoneAnswer,
    /// The answer if everything unknown is against it.
    pub worst: ZoneAnswer,
}

/// Decides about one zone.
pub(crate) fn account(zone: &Zone, question: &Question) -> Account {
    let Question { rules, rights, order, .. } = *question;
    let mark = match question.mark {
        MarkName::Min if rights.ignores_boost => unboosted(zone),
        MarkName::Min => zone.min,
        MarkName::High => zone.high,
    };
    let highatomic = if rights.counts_highatomic { Bounds::default() } else { highatomic(zone, rules) };
    let cma = if rights.takes_cma { Bounds::default() } else { cma(zone, rules) };
    let mut account = Account {
        free: zone.free,
        of_the_block: (1 << order.min(63)) - 1,
        highatomic,
        cma,
        mark,
        keep: if rights.no_watermarks { 0 } else { rights.keep(mark) },
        reserve: if rights.no_watermarks { Bounds::default() } else { question.reserve },
        best: ZoneAnswer::NoBlock,
        worst: ZoneAnswer::NoBlock,
    };
    account.best = answer(zone, question, &account, true);
    account.worst = answer(zone, question, &account, false);
    account
}

/// Returns the min mark of a zone without its boost, or the most that it can be where the boost is not printed (before
/// 5.16): the distance of the marks, which no boost changes, is at least a quarter of it.
fn unboosted(zone: &Zone) -> u64 {
    let distance = zone.low.saturating_sub(zone.min);
    let most = zone.min.min(distance.saturating_mul(4).saturating_add(3));
    zone.boost.map_or(most, |boost| zone.min.saturating_sub(boost))
}

fn answer(zone: &Zone, question: &Question, account: &Account, is_best: bool) -> ZoneAnswer {
    let choose = |bounds: Bounds| if is_best { bounds.least } else { bounds.most };
    let Question { rules, rights, order, .. } = *question;
    let signed = |frames: u64| i128::from(frames);
    if !rights.no_watermarks {
        let counted = signed(account.free) - signed(account.of_the_block);
        let usable = counted - signed(choose(account.highatomic)) - signed(choose(account.cma));
        let lacking = signed(account.keep) + signed(choose(account.reserve)) + 1 - usable;
        if lacking > 0 {
            return ZoneAnswer::Short { by: lacking as u64 };
        }
        if rules.loops() {
            let left_out = if rules.loop_leaves_cma_out() { choose(account.cma) } else { 0 };
            let (mut left, mut keep) = (counted - signed(left_out), signed(account.keep));
            for (smaller, free) in zone.orders.iter().enumerate().take(usize::from(order)) {
                left -= signed(free.blocks.saturating_mul(1 << smaller.min(63)));
                keep /= 2;
                if left <= keep {
                    return ZoneAnswer::ShortOfOrder { order: smaller as u8 + 1, by: (keep + 1 - left) as u64 };
                }
            }
        }
    }
    // The lists are printed after the counters. For one frame, the counter decides where the lists are empty by then.
    let lists_are_late = order == 0 && !rights.no_watermarks && zone.free > 0 && zone.frames_in_blocks() == 0;
    match block(zone, rights, order) {
        Some(block) => ZoneAnswer::Serves { block },
        None if lists_are_late && is_best => ZoneAnswer::Serves { block: 0 },
        None => ZoneAnswer::NoBlock,
    }
}

/// Returns the order of the smallest block that the request may take.
///
/// Without a list of blocks, a request for one frame finds one, and a larger one is given the benefit of the doubt.
fn block(zone: &Zone, rights: Rights, order: u8) -> Option<u8> {
    if zone.orders.is_empty() {
        return Some(order);
    }
    let found = zone
        .orders
        .iter()
        .enumerate()
        .skip(usize::from(order))
        .find(|(_, free)| free.blocks > 0 && free.types.is_none_or(|types| usable(types, rights).next().is_some()));
    found.map(|(order, _)| order as u8)
}

/// Returns those of `types` that the request may take.
pub(crate) fn usable(types: Types, rights: Rights) -> impl Iterator<Item = ListType> {
    types.iter().filter(move |one| match one {
        ListType::HighAtomic => rights.takes_highatomic,
        ListType::Cma => rights.takes_cma,
        ListType::Isolate => false,
        ListType::Unmovable | ListType::Movable | ListType::Reclaimable | ListType::Reserve => true,
    })
}

/// Frames of the smallest pageblock that kernels with such a reserve have: order 9.
const PAGEBLOCK: u64 = 512;

/// Returns the frames of the reserve for high orders that do not count as free.
fn highatomic(zone: &Zone, rules: Rules) -> Bounds {
    if !rules.knows_highatomic() {
        return Bounds::default();
    }
    let (least, most) = zone.frames_of(ListType::HighAtomic);
    let holds = |free: &OrderFree| free.types.is_some_and(|types| types.contains(ListType::HighAtomic));
    let is_reserved = zone.orders.iter().any(holds);
    // The reserve grows by pageblocks while it is at most a hundredth of the zone and one pageblock.
    let managed = zone.size().unwrap_or(0);
    let limit = managed / 100 + 2 * PAGEBLOCK;
    if rules.counts_free_highatomic() {
        // 6.12 to 6.14 print only the whole reserve.
        let most = most.min(zone.reserved_highatomic.unwrap_or(limit)).max(least);
        return zone.free_highatomic.map_or(Bounds { least, most }, Bounds::exact);
    }
    // A zone with one block of it has a pageblock at least.
    let least = if is_reserved { least.max(PAGEBLOCK) } else { least };
    zone.reserved_highatomic.map_or(Bounds { least, most: limit.max(least) }, Bounds::exact)
}

/// Returns the free frames of contiguous memory areas.
fn cma(zone: &Zone, rules: Rules) -> Bounds {
    if !rules.knows_cma() {
        return Bounds::default();
    }
    let (least, most) = zone.frames_of(ListType::Cma);
    let has_letters = zone.orders.iter().any(|order| order.types.is_some());
    zone.free_cma.map_or(if has_letters { Bounds { least, most } } else { Bounds::default() }, Bounds::exact)
}

#[cfg(test)]
mod tests {
    use framewright::request::{GFP_ATOMIC, GFP_KERNEL};
    use framewright_trace::flags::KernelVersion;

    use super::*;

    fn question(kernel: (u32, u32), gfp: framewright::Gfp, order: u8) -> Question {
        let rules = Rules::of(KernelVersion::new(kernel.0, kernel.1));
        let rights = Rights::of(rules, gfp, order, false);
        Question { rules, rights, mark: MarkName::Min, order, reserve: Bounds::default() }
    }

    #[test]
    fn a_boost_that_is_not_printed_is_bounded() {
        // The base mark is 1,000, and 512 frames of boost are not printed.
        let zone = Zone { free: 500, min: 1_512, low: 1_762, high: 2_012, ..Zone::default() };
        let account = account(&zone, &question((5, 10), GFP_ATOMIC, 0));
        assert_eq!((account.mark, account.best.serves()), (1_003, true));
    }

    #[test]
    fn the_free_reserve_of_6_12_is_within_the_whole() {
        let both = Types::default().with(ListType::Movable).with(ListType::HighAtomic);
        let orders = vec![OrderFree { blocks: 900, types: Some(both), by_type: None }];
        let zone =
            Zone { free: 900, reserved_highatomic: Some(512), managed: Some(1 << 20), orders, ..Zone::default() };
        let account = account(&zone, &question((6, 12), GFP_KERNEL, 0));
        assert_eq!(account.highatomic, Bounds { least: 1, most: 512 });
    }
}
