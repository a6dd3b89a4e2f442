//! Which list a block comes from.
//!
//! A request is served from the lists of its own type while they last. When they are empty, something of another type
//! must be used, and every choice mixes mobilities a little: an unmovable page inside a movable pageblock keeps that
//! pageblock from ever being free as a whole. The ladder, in order of increasing harm, is [`Mode`]:
//!
//! 1. *normal*: the smallest sufficient block of the own type;
//! 2. *CMA* (part of *normal* in the code): for movable requests, the memory lent by contiguous reserves (first of all
//!    while it is more than half of what is free);
//! 3. *claim*: take over a whole pageblock of another type, if at least half of it is free or compatible;
//! 4. *steal*: take one block and leave its pageblock's type alone.
//!
//! Two policies walk it. [`FallbackPolicy::Classic`] looks for the largest block of any fallback type and then decides
//! between 3 and 4 on the spot; a movable request that may not claim takes the smallest block instead. This is
//! Linux's policy of 2017 to early 2025.
//! [`FallbackPolicy::ClaimSteal`] exhausts 3 over all orders before it thinks of 4, and remembers the rung over a
//! refill. A request may ask for blocks of another type that are not small ([`Want::least`]): with `nofragment` of a pageblock at least.
//!
//! What lies free beside what was taken stays on the list of its pageblock's type ([`Hygiene::Strict`]). In Linux up to 6.9 it went to
//! the requester's list and only the type stayed ([`Hygiene::Loose`]): all of the pageblock where a claim turned out not to be worth it,
//! else the rest of the block. Later requests then meet it there and count no fallback, so that a refill of 63 pages counts one and not 63.
//! Below the pageblock order a free block's list may then be of another type that requests ask for than its pageblock; what is freed, and what
//! it merges with, goes back to the pageblock's.
//!
//! The decisions are pure functions of numbers at the foot of the file; what they decide is carried out by `buddy.rs`.

use core::cell::Cell;

use crate::buddy::buddy::Buddy;
use crate::buddy::pageblock_usage::PageblockUsage;
use crate::frame::frame::Corrupt;
use crate::policy::mechanisms::{FallbackPolicy, Hygiene};
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, Order};

/// What a request wants of a zone's lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
    /// Movable requests may use CMA's memory.
    pub(crate) cma: bool,
    /// Smallest order of a block that may be taken from another type.
    pub(crate) least: Order,
    /// Background reclaim may be woken for it.
    pub(crate) wakes: bool,
}

impl Want {
    /// Whether a block on the list of this type may serve the request at all.
    pub(crate) fn may_use(&self, migratetype: MigrateType) -> bool {
        match migratetype {
            MigrateType::Cma => self.cma,
            MigrateType::HighAtomic | MigrateType::Isolate => false,
            _ => true,
        }
    }

    /// Order of the smallest block of another type that the request may use.
    #[inline]
    fn lowest(&self) -> Order {
        self.order.max(self.least)
    }
}

/// Rung of the ladder that served last; see the module's description.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Mode {
    Normal,
    Claim,
    Steal,
}

/// A block taken from the lists of another type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fallback {
    /// The block found, before it was split.
    pub(crate) found: Frame,
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
}

/// A block for a request, and where it came from if not from its own lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) frame: Frame,
    pub(crate) fallback: Option<Fallback>,
}

/// Takes one block. `mode` is where to begin and becomes the rung that served; start with [`Mode::Normal`] under each lock.
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
    // From here on states of any blocks are looked at.
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

/// Normal and CMA rungs.
fn alloc_own<M: Machine>(buddy: &Buddy<'_, '_, M>, want: &Want) -> Result<Option<Frame>, Corrupt> {
    let cma_first = is_cma_first(buddy, want);
    if cma_first && let Some(frame) = buddy.alloc_smallest(want.order, MigrateType::Cma)? {
        return Ok(Some(frame));
    }
    if let Some(frame) = buddy.alloc_smallest(want.order, want.migratetype)? {
        return Ok(Some(frame));
    }
    if want.cma && !cma_first { buddy.alloc_smallest(want.order, MigrateType::Cma) } else { Ok(None) }
}

/// Whether CMA's memory is used before the request's own: while it is more than half of what is free.
pub(crate) fn is_cma_first<M: Machine>(buddy: &Buddy<'_, '_, M>, want: &Want) -> bool {
    let now = |word: &M::U64, change: &Cell<u64>| word.load(Ordering::Relaxed).wrapping_add(change.get());
    want.cma && now(buddy.stat.cma(), &buddy.tally.cma) > now(buddy.stat.free(), &buddy.tally.free) / 2
}

/// Takes the smallest block of the own type of at least the request's order; whole, unless it is of more than `most` frames.
pub(crate) fn alloc_part<M: Machine>(
    buddy: &Buddy<'_, '_, M>,
    want: &Want,
    most: u64,
) -> Result<Option<(Frame, Order)>, Corrupt> {
    if is_cma_first(buddy, want) {
        return Ok(None);
    }
    buddy.step(Step::TakeSmallest);
    let largest = Order(most.checked_ilog2().unwrap_or(0) as u8).max(want.order).min(buddy.max_order());
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

/// Takes the block alone.
fn alloc_single<M: Machine>(buddy: &Buddy<'_, '_, M>, from: Fallback, want: &Want) -> Result<Taken, Corrupt> {
    let rest = if is_loose(buddy) { want.migratetype } else { from.migratetype };
    buddy.remove(from.found, from.order, from.migratetype)?;
    buddy.carve(from.found, from.order, (from.found, want.order), rest);
    Ok(Taken { frame: from.found, fallback: Some(from) })
}

/// Takes over the pageblock (or pageblocks) of the block found and serves the request from it, if worth it.
fn try_claim<M: Machine>(buddy: &Buddy<'_, '_, M>, from: Fallback, want: &Want) -> Result<Option<Frame>, Corrupt> {
    if from.order >= buddy.pageblock_order() {
        buddy.remove(from.found, from.order, from.migratetype)?;
        buddy.frames().retag(from.found, from.order, want.migratetype);
        buddy.carve(from.found, from.order, (from.found, want.order), want.migratetype);
        return Ok(Some(from.found));
    }
    let order = buddy.pageblock_order();
    let start = from.found.align_down(order);
    let census = PageblockUsage::of(buddy.shared, (start, start.add(order.frames())));
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
    buddy.shared.mechanisms.hygiene == Hygiene::Loose
}

/// The first type in the request's fallback order that has a block of `order`.
fn first_fallback<M: Machine>(buddy: &Buddy<'_, '_, M>, order: Order, want: MigrateType) -> Option<MigrateType> {
    fallback_order(want).iter().copied().find(|&migratetype| {
        buddy.step(Step::Fallback);
        buddy.has(order, migratetype)
    })
}

impl PageblockUsage {
    /// The half rule: a pageblock changes its type when at least half of its memory is free or of the new kind anyway.
    fn worth_claiming(self, want: MigrateType, from: MigrateType) -> bool {
        let alike = match (want, from) {
            (MigrateType::Movable, _) => self.movable,
            // In a movable pageblock, what is not movable is one of the requester's kind, or nearly.
            (_, MigrateType::Movable) => self.cached.saturating_add(self.other),
            _ => 0,
        };
        self.free.saturating_add(alike) >= self.memory() / 2
    }
}

/// Types whose lists may serve a request, the least harmful first.
const fn fallback_order(want: MigrateType) -> &'static [MigrateType] {
    match want {
        MigrateType::Unmovable => &[MigrateType::Reclaimable, MigrateType::Movable],
        MigrateType::Movable => &[MigrateType::Reclaimable, MigrateType::Unmovable],
        MigrateType::Reclaimable => &[MigrateType::Unmovable, MigrateType::Movable],
        _ => &[],
    }
}

/// Whether taking over the pageblock of a free block of `order` is worth a look. A movable request takes over only
/// for a large gain: a movable page in an unmovable pageblock can be moved away later. An unmovable or
/// reclaimable one always tries, because what it leaves in a movable pageblock stays.
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
        let census = |free, movable, other| PageblockUsage { free, movable, cached: 0, other };
        for (census, want, from, expected) in [
            (census(256, 256, 0), MigrateType::Unmovable, MigrateType::Movable, true),
            (census(255, 257, 0), MigrateType::Unmovable, MigrateType::Movable, false),
            (census(100, 256, 156), MigrateType::Unmovable, MigrateType::Movable, true),
            (census(100, 156, 256), MigrateType::Movable, MigrateType::Unmovable, true),
            (census(100, 155, 257), MigrateType::Movable, MigrateType::Unmovable, false),
            (census(200, 0, 312), MigrateType::Unmovable, MigrateType::Reclaimable, false),
            // Half a hole: what counts is the memory.
            (census(128, 128, 0), MigrateType::Unmovable, MigrateType::Movable, true),
        ] {
            assert_eq!(census.worth_claiming(want, from), expected, "{census:?} {want} from {from}");
        }
    }
}
