//! Fallback: the choice of the list that serves a request.
//!
//! A request is served from the lists of its own type while they last. When they are empty, a block of another type
//! must be used. Every such choice mixes mobilities a little: an unmovable page inside a movable pageblock keeps that
//! pageblock from ever being free as a whole. The ladder, in order of increasing harm, is [`Mode`]:
//!
//! | rung | block used |
//! |---|---|
//! | 1 *normal* | the smallest sufficient block of the own type |
//! | 2 *CMA* (part of *normal* in the code) | for movable requests: memory lent by contiguous reserves |
//! | 3 *claim* | a whole pageblock of another type, if at least half of it is free or compatible |
//! | 4 *steal* | one block of another type; its pageblock keeps that type |
//!
//! CMA memory is used first while it is more than half of the free memory.
//!
//! Two policies use the ladder:
//!
//! - [`FallbackPolicy::Classic`] finds the largest block of any fallback type, and then decides between 3 and 4. A
//!   movable request that may not claim takes the smallest block instead. This is Linux's policy of 2017 to early 2025.
//! - [`FallbackPolicy::ClaimSteal`] tries 3 at all orders before 4, and remembers the rung during a refill.
//!
//! A request may refuse small blocks of another type ([`Want::least`]): with `nofragment` it takes at least a
//! pageblock.
//!
//! The free remainder of a stolen block stays on the list of its pageblock's type ([`Hygiene::Strict`]). In Linux up to
//! 6.9 it was moved to the requester's list, and only the type stayed ([`Hygiene::Loose`]). Where a claim was not worth
//! it, that was the whole pageblock; otherwise it was the rest of the block. Later requests then find these blocks on
//! their own list and count no fallback. A refill of 63 pages counts one fallback instead of 63. Below the pageblock
//! order, a free block's list may then differ from its pageblock's type; both are types that requests ask for. A block
//! that is freed, with all that it merges with, is put on the list of its pageblock's type.
//!
//! The decisions are pure functions of numbers at the end of the file; `buddy.rs` executes them.

use core::cell::Cell;

use crate::buddy::buddy::{Buddy, Halves};
use crate::buddy::pageblock_usage::PageblockUsage;
use crate::frame::frame::Corrupt;
use crate::policy::mechanisms::{FallbackPolicy, Hygiene};
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::types::counts::FrameCount;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, FrameRange, Order};

/// Requirements of a request on a zone's lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
    /// Whether CMA memory may be used; movable requests may.
    pub(crate) cma: bool,
    /// Smallest order of a block that may be taken from another type.
    pub(crate) least: Order,
    /// Whether background reclaim may be woken for the request.
    pub(crate) wakes: bool,
}

impl Want {
    /// Returns whether the request may use a block on the list of this type.
    pub(crate) fn may_use(&self, migratetype: MigrateType) -> bool {
        match migratetype {
            MigrateType::Cma => self.cma,
            MigrateType::HighAtomic | MigrateType::Isolate => false,
            _ => true,
        }
    }

    /// Returns the order of the smallest block of another type that the request may use.
    #[inline]
    fn lowest(&self) -> Order {
        self.order.max(self.least)
    }
}

/// Rung of the ladder that served last; the description of this module explains them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Mode {
    Normal,
    Claim,
    Steal,
}

/// Block taken from the lists of another type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fallback {
    /// The block found, before it was split.
    pub(crate) found: Frame,
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
}

/// Block for a request, with its origin if it is a fallback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) frame: Frame,
    pub(crate) fallback: Option<Fallback>,
}

/// Takes one block for a request, if there is one.
///
/// `mode` is the rung to begin with, and becomes the rung that served. Each lock section starts with [`Mode::Normal`].
pub(crate) fn alloc<M: Machine>(
    buddy: &Buddy<'_, '_, M>,
    want: &Want,
    policy: FallbackPolicy,
    mode: &mut Mode,
) -> Result<Option<Taken>, Corrupt> {
    let own = |frame| Taken { frame, fallback: None };
    if *mode < Mode::Steal {
        *mode = Mode::Normal;
        if let Some(frame) = alloc_own(buddy, want)? {
            return Ok(Some(own(frame)));
        }
    }
    if !M::FEATURES.mobility {
        return Ok(None);
    }
    // From here on, states of arbitrary blocks are read.
    buddy.clusters.settle();
    match policy {
        FallbackPolicy::Classic => classic(buddy, want),
        FallbackPolicy::ClaimSteal => {
            if *mode < Mode::Steal {
                *mode = Mode::Claim;
                if let Some(taken) = claim(buddy, want)? {
                    return Ok(Some(taken));
                }
            }
            *mode = Mode::Steal;
            steal_smallest(buddy, want)
        }
    }
}

/// Rungs *normal* and *CMA*: takes a block of the own type, or of CMA memory.
fn alloc_own<M: Machine>(buddy: &Buddy<'_, '_, M>, want: &Want) -> Result<Option<Frame>, Corrupt> {
    let cma_first = is_cma_first(buddy, want);
    if cma_first && let Some(frame) = buddy.alloc_smallest(want.order, MigrateType::Cma)? {
        return Ok(Some(frame));
    }
    if let Some(frame) = buddy.alloc_smallest(want.order, want.migratetype)? {
        return Ok(Some(frame));
    }
    if M::FEATURES.mobility && want.cma && !cma_first {
        buddy.alloc_smallest(want.order, MigrateType::Cma)
    } else {
        Ok(None)
    }
}

/// Returns whether CMA memory is used before the request's own type.
///
/// It is used first while it is more than half of the free memory.
pub(crate) fn is_cma_first<M: Machine>(buddy: &Buddy<'_, '_, M>, want: &Want) -> bool {
    let now = |word: &M::U64, change: &Cell<u64>| word.load(Ordering::Relaxed).wrapping_add(change.get());
    M::FEATURES.mobility
        && want.cma
        && now(buddy.stat.cma(), &buddy.tally.cma) > now(buddy.stat.free(), &buddy.tally.free) / 2
}

/// Takes the smallest block of the own type that has at least the request's order.
///
/// The block is taken whole, unless it has more than `most` frames.
pub(crate) fn alloc_part<M: Machine>(
    buddy: &Buddy<'_, '_, M>,
    want: &Want,
    most: FrameCount,
) -> Result<Option<(Frame, Order)>, Corrupt> {
    if is_cma_first(buddy, want) {
        return Ok(None);
    }
    buddy.step(Step::TakeSmallest);
    let largest = Order(most.0.checked_ilog2().unwrap_or(0) as u8).max(want.order).min(buddy.max_order());
    for order in want.order.up_to(largest) {
        buddy.step(Step::TakeList);
        if let Some(frame) = buddy.lists.first(order, want.migratetype) {
            buddy.remove(frame, order, want.migratetype)?;
            return Ok(Some((frame, order)));
        }
    }
    let taken = buddy.alloc_smallest(largest, want.migratetype)?;
    Ok(taken.map(|frame| (frame, largest)))
}

fn classic<M: Machine>(buddy: &Buddy<'_, '_, M>, want: &Want) -> Result<Option<Taken>, Corrupt> {
    let lowest = want.lowest();
    for order in lowest.up_to(buddy.max_order()).rev() {
        let Some(migratetype) = first_fallback(buddy, order, want.migratetype) else { continue };
        let whole = may_claim(order, want.migratetype, buddy.pageblock_order());
        if !whole && want.migratetype == MigrateType::Movable && order > want.order {
            return steal_smallest(buddy, want);
        }
        let Some(found) = buddy.lists.first(order, migratetype) else { continue };
        let fallback = Fallback { found, order, migratetype };
        if whole && let Some(frame) = try_claim(buddy, fallback, want)? {
            return Ok(Some(Taken { frame, fallback: Some(fallback) }));
        }
        return alloc_single(buddy, fallback, want).map(Some);
    }
    Ok(None)
}

fn claim<M: Machine>(buddy: &Buddy<'_, '_, M>, want: &Want) -> Result<Option<Taken>, Corrupt> {
    let lowest = want.lowest();
    for order in lowest.up_to(buddy.max_order()).rev() {
        if !may_claim(order, want.migratetype, buddy.pageblock_order()) {
            break;
        }
        let Some(migratetype) = first_fallback(buddy, order, want.migratetype) else { continue };
        let Some(found) = buddy.lists.first(order, migratetype) else { continue };
        let fallback = Fallback { found, order, migratetype };
        if let Some(frame) = try_claim(buddy, fallback, want)? {
            return Ok(Some(Taken { frame, fallback: Some(fallback) }));
        }
    }
    Ok(None)
}

fn steal_smallest<M: Machine>(buddy: &Buddy<'_, '_, M>, want: &Want) -> Result<Option<Taken>, Corrupt> {
    for order in want.lowest().up_to(buddy.max_order()) {
        let Some(migratetype) = first_fallback(buddy, order, want.migratetype) else { continue };
        let Some(found) = buddy.lists.first(order, migratetype) else { continue };
        return alloc_single(buddy, Fallback { found, order, migratetype }, want).map(Some);
    }
    Ok(None)
}

/// Takes only the block found; its pageblock keeps its type.
fn alloc_single<M: Machine>(buddy: &Buddy<'_, '_, M>, from: Fallback, want: &Want) -> Result<Taken, Corrupt> {
    let rest = if is_loose(buddy) { want.migratetype } else { from.migratetype };
    buddy.remove(from.found, from.order, from.migratetype)?;
    buddy.carve(Halves::after_first(from.found, from.order, want.order), rest);
    Ok(Taken { frame: from.found, fallback: Some(from) })
}

/// Claims the pageblock of the block found, if worth it, and takes a block there.
///
/// A block may cover several pageblocks; all of them are claimed.
fn try_claim<M: Machine>(buddy: &Buddy<'_, '_, M>, from: Fallback, want: &Want) -> Result<Option<Frame>, Corrupt> {
    if from.order >= buddy.pageblock_order() {
        buddy.remove(from.found, from.order, from.migratetype)?;
        buddy.frames().retag(&buddy.shared.machine, from.found, from.order, want.migratetype);
        buddy.carve(Halves::after_first(from.found, from.order, want.order), want.migratetype);
        return Ok(Some(from.found));
    }
    let order = buddy.pageblock_order();
    let start = from.found.align_down(order);
    let census = PageblockUsage::of(buddy.shared, FrameRange::block(start, order));
    if census.worth_claiming(want.migratetype, buddy.frames().pageblock(start).migratetype()) {
        buddy.retype_pageblock(start, want.migratetype)?;
    } else if is_loose(buddy) {
        buddy.relist(start, want.migratetype)?;
    } else {
        return Ok(None);
    }
    buddy.alloc_smallest(want.order, want.migratetype)
}

fn is_loose<M: Machine>(buddy: &Buddy<'_, '_, M>) -> bool {
    buddy.shared.mechanisms().hygiene == Hygiene::Loose
}

/// Returns the first type in the request's fallback order that has a block of `order`.
fn first_fallback<M: Machine>(buddy: &Buddy<'_, '_, M>, order: Order, want: MigrateType) -> Option<MigrateType> {
    fallback_order(want).iter().copied().find(|&migratetype| {
        buddy.step(Step::Fallback);
        buddy.has(order, migratetype)
    })
}

impl PageblockUsage {
    /// Returns whether at least half of a pageblock is free or of the new kind.
    ///
    /// Only its memory counts, not its holes.
    ///
    /// This half rule decides whether the pageblock changes its type.
    fn worth_claiming(self, want: MigrateType, from: MigrateType) -> bool {
        let alike = match (want, from) {
            (MigrateType::Movable, _) => self.movable,
            // In a movable pageblock, every block that is not movable is of the requester's kind, or nearly.
            (_, MigrateType::Movable) => self.cached.plus(self.other),
            _ => FrameCount::ZERO,
        };
        self.free.plus(alike) >= self.memory().half()
    }
}

/// Returns the types whose lists may serve a request, the least harmful first.
const fn fallback_order(want: MigrateType) -> &'static [MigrateType] {
    match want {
        MigrateType::Unmovable => &[MigrateType::Reclaimable, MigrateType::Movable],
        MigrateType::Movable => &[MigrateType::Reclaimable, MigrateType::Unmovable],
        MigrateType::Reclaimable => &[MigrateType::Unmovable, MigrateType::Movable],
        _ => &[],
    }
}

/// Returns whether claiming the pageblock of a free block of `order` is worth a check.
///
/// A movable request claims only for a large gain: a movable page in an unmovable pageblock can be moved away later. An
/// unmovable or reclaimable request always tries, because its page would stay in a movable pageblock.
fn may_claim(order: Order, want: MigrateType, pageblock_order: Order) -> bool {
    order >= pageblock_order
        || order.0 >= pageblock_order.0 / 2
        || matches!(want, MigrateType::Unmovable | MigrateType::Reclaimable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movable_requests_claim_only_for_a_large_gain() {
        let pageblock = Order(9);
        for (order, want, expected) in [
            (9, MigrateType::Movable, true),
            (4, MigrateType::Movable, true),
            (3, MigrateType::Movable, false),
            (0, MigrateType::Unmovable, true),
            (0, MigrateType::Reclaimable, true),
        ] {
            assert_eq!(may_claim(Order(order), want, pageblock), expected, "order {order}, {want}");
        }
    }

    #[test]
    fn half_of_a_pageblock_decides() {
        let census = |free, movable, other| {
            let [free, movable, other] = [free, movable, other].map(FrameCount);
            PageblockUsage { free, movable, cached: FrameCount::ZERO, other }
        };
        for (census, want, from, expected) in [
            (census(256, 256, 0), MigrateType::Unmovable, MigrateType::Movable, true),
            (census(255, 257, 0), MigrateType::Unmovable, MigrateType::Movable, false),
            (census(100, 256, 156), MigrateType::Unmovable, MigrateType::Movable, true),
            (census(100, 156, 256), MigrateType::Movable, MigrateType::Unmovable, true),
            (census(100, 155, 257), MigrateType::Movable, MigrateType::Unmovable, false),
            (census(200, 0, 312), MigrateType::Unmovable, MigrateType::Reclaimable, false),
            // Half of the pageblock is a hole: only the memory counts.
            (census(128, 128, 0), MigrateType::Unmovable, MigrateType::Movable, true),
        ] {
            assert_eq!(census.worth_claiming(want, from), expected, "{census:?} {want} from {from}");
        }
    }
}
