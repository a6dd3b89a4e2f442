//! Names of a CPU's lists: which orders and mobilities have one.

use crate::types::migratetype::MigrateType;
use crate::types::units::Order;

/// Number of small orders: orders 0 to 3 have per-CPU lists.
///
/// The pageblock order has them as well. Above order 3, a request costs more than a list saves.
pub(crate) const SMALL_ORDERS: usize = 4;
/// Rings of the small orders, by order and then by type.
pub(crate) const SMALL_RINGS: usize = SMALL_ORDERS * MigrateType::PCP_COUNT;
/// Rings of the small orders, then two for huge pages: movable and not.
pub(crate) const RINGS: usize = SMALL_RINGS + 2;

/// One of a CPU's lists: an order, and a mobility that requests can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RingId {
    pub(crate) index: usize,
    pub(crate) order: Order,
}

impl RingId {
    /// Returns the ring for an order and type.
    ///
    /// `None` if such blocks are not kept per CPU.
    #[inline]
    pub(crate) const fn of(order: Order, migratetype: MigrateType, pageblock_order: Order) -> Option<RingId> {
        match migratetype.pcp_index() {
            Some(lists) => RingId::with_lists(order, lists, pageblock_order),
            None => None,
        }
    }

    /// Like [`RingId::of`], with the number of the lists instead of the type.
    ///
    /// `MigrateType::pcp_index` returns that number.
    #[inline(always)]
    pub(crate) const fn with_lists(order: Order, lists: usize, pageblock_order: Order) -> Option<RingId> {
        if order.0 == pageblock_order.0 && order.index() >= SMALL_ORDERS {
            let movable = (lists == MigrateType::Movable.index()) as usize;
            return Some(RingId { index: SMALL_RINGS + movable, order });
        }
        if order.index() < SMALL_ORDERS && lists < MigrateType::PCP_COUNT {
            Some(RingId { index: order.index() * MigrateType::PCP_COUNT + lists, order })
        } else {
            None
        }
    }

    /// Returns the number among the rings for huge pages; `None` for a small order.
    #[inline(always)]
    pub(crate) const fn huge(self) -> Option<usize> {
        self.index.checked_sub(SMALL_RINGS)
    }

    /// Returns the number of the lists of this ring, which is of a small order.
    #[inline(always)]
    pub(crate) const fn lists(self) -> usize {
        self.index % MigrateType::PCP_COUNT
    }

    /// Like [`RingId::lists`], without a division, for the fast path.
    ///
    /// For a ring of huge pages the result is no such number.
    #[inline(always)]
    pub(crate) const fn small_lists(self) -> usize {
        self.index.wrapping_sub(self.order.index().wrapping_mul(MigrateType::PCP_COUNT))
    }

    /// Returns every ring that a geometry has.
    pub(crate) fn all(pageblock_order: Order) -> impl Iterator<Item = RingId> {
        (0..RINGS).filter_map(move |index| RingId::nth(index, pageblock_order))
    }

    /// Returns the ring with this index.
    ///
    /// `None` beyond the last ring, and for huge pages where a geometry keeps none per CPU.
    #[inline]
    pub(crate) fn nth(index: usize, pageblock_order: Order) -> Option<RingId> {
        let huge = (SMALL_RINGS..RINGS).contains(&index) && pageblock_order.index() >= SMALL_ORDERS;
        if huge { Some(RingId { index, order: pageblock_order }) } else { RingId::small_nth(index) }
    }

    /// Returns the ring of a small order with this index.
    pub(crate) const fn small_nth(index: usize) -> Option<RingId> {
        let order = Order((index / MigrateType::PCP_COUNT) as u8);
        if index < SMALL_RINGS { Some(RingId { index, order }) } else { None }
    }

    /// Returns the entries that the ring needs for `frames` frames.
    ///
    /// At least two refills, rounded to a power of two.
    #[inline]
    pub(crate) fn capacity(self, frames: u32) -> u32 {
        (frames >> self.order.0.min(31)).clamp(4, 1 << 25).next_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_without_lists_have_no_ring() {
        for order in [Order(0), Order(3)] {
            assert!(RingId::with_lists(order, MigrateType::PCP_COUNT - 1, Order(9)).is_some());
            assert_eq!(RingId::with_lists(order, MigrateType::PCP_COUNT, Order(9)), None);
        }
    }

    #[test]
    fn rings_hold_the_largest_high() {
        let [page, block] = [Order(0), Order(9)].map(|order| RingId::with_lists(order, 1, Order(9)).unwrap());
        let entries = |ring: RingId| [0, 65, 1 << 24, u32::MAX].map(|frames| ring.capacity(frames));
        assert_eq!(entries(page), [4, 128, 1 << 24, 1 << 25]);
        assert_eq!(entries(block), [4, 4, 1 << 15, 1 << 23]);
    }
}
