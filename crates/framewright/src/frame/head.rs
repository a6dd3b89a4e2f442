//! Head byte of a block that is allocated or on a per-CPU list.

use crate::types::units::Order;

/// Head byte of an allocated or per-CPU block; `frame.rs` documents its array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head(pub(crate) u8);

// Bits: 0-4 order, 5 allocated, 6 movable, 7 on a per-CPU list; 5 and 7: allocated, and being freed.
impl Head {
    pub(crate) const NONE: Head = Head(0);
    const ORDER: u8 = 0x1f;
    const ALLOCATED: u8 = 0x20;
    const MOVABLE: u8 = 0x40;
    pub(crate) const PCP: u8 = 0x80;

    pub(crate) const fn allocated(order: Order, movable: bool) -> Head {
        Head(order.0 & Head::ORDER | Head::ALLOCATED | if movable { Head::MOVABLE } else { 0 })
    }

    pub(crate) const fn pcp(order: Order) -> Head {
        Head(order.0 & Head::ORDER | Head::PCP)
    }

    /// Returns the head of an allocated block that only the running call may free.
    pub(crate) const fn going(order: Order) -> Head {
        Head(Head::allocated(order, false).0 | Head::PCP)
    }

    pub(crate) const fn order(self) -> Order {
        Order(self.0 & Head::ORDER)
    }

    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn is_allocated(self) -> bool {
        self.0 & Head::ALLOCATED != 0
    }

    /// Returns whether an allocated block of exactly this order starts here.
    ///
    /// False for an order that no head can have.
    pub(crate) const fn is_allocated_of(self, order: Order) -> bool {
        order.0 <= Head::ORDER && self.0 & !Head::MOVABLE == Head::allocated(order, false).0
    }

    /// Like [`Head::is_allocated_of`], for an order of less than 32; for others the result is arbitrary.
    #[inline(always)]
    pub(crate) const fn is_allocated_of_small(self, order: Order) -> bool {
        self.0 & !Head::MOVABLE == order.0 | Head::ALLOCATED
    }

    /// Like [`Head::pcp`], for an order of less than 32; for others the result is arbitrary.
    #[inline(always)]
    pub(crate) const fn pcp_of_small(order: Order) -> Head {
        Head(order.0 | Head::PCP)
    }

    pub(crate) const fn is_movable(self) -> bool {
        self.0 & !Head::ORDER == Head::ALLOCATED | Head::MOVABLE
    }

    /// Returns whether the block is being freed, so that no other free can succeed.
    pub(crate) const fn is_going(self) -> bool {
        self.0 & (Head::PCP | Head::ALLOCATED) == Head::PCP | Head::ALLOCATED
    }

    pub(crate) const fn is_pcp(self) -> bool {
        self.0 & (Head::PCP | Head::ALLOCATED) == Head::PCP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_bytes_tell_blocks_apart() {
        let head = Head::allocated(Order(9), true);
        assert!(head.is_allocated() && head.is_movable() && !head.is_pcp());
        assert!(head.is_allocated_of(Order(9)) && !head.is_allocated_of(Order(8)));
        assert!(!Head::pcp(Order(9)).is_allocated_of(Order(9)));
        assert!(!Head::NONE.is_allocated_of(Order(0)) && Head::NONE.is_none());
        let going = Head::going(Order(9));
        assert!(going.is_going() && going.order() == Order(9) && !going.is_allocated_of(Order(9)) && !going.is_pcp());
    }
}
