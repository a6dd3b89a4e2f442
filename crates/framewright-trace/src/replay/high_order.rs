//! The kernel's allocated blocks of more than one frame.
//!
//! The kernel may split a block without an event. A split shows when a part is freed, allocated again or moved alone.
//! From then on the frames are objects of their own. Otherwise a later move of the first page would take unrelated
//! pages along.
//!
//! One bit for each frame in such a block answers the usual question, about a single page, without a look-up in the
//! table.

use std::collections::HashMap;

use fixedbitset::FixedBitSet;
use framewright::units::{Order, Pfn};

use super::frame_span::Span;

/// Blocks of orders above 0, by their first frame. None overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct HighOrderBlocks {
    orders: HashMap<Pfn, Order>,
    /// Frames in one of the blocks, by position in the span.
    pub(super) inside: FixedBitSet,
}

impl HighOrderBlocks {
    pub(super) fn new(span: &Span) -> HighOrderBlocks {
        HighOrderBlocks { orders: HashMap::new(), inside: FixedBitSet::with_capacity(span.len()) }
    }

    /// Adds a block, and removes those that share frames with it.
    ///
    /// A block that is not aligned to its size, which no kernel allocates, counts as single frames.
    pub(super) fn put(&mut self, span: &Span, pfn: Pfn, order: Order) {
        self.take(span, pfn, order);
        if order.0 != 0 && pfn.is_aligned(order) {
            self.orders.insert(pfn, order);
            self.inside.insert_range(span.block(pfn, order));
        }
    }

    /// Order of the block that starts at `pfn`; 0 if none does.
    pub(super) fn starting_at(&self, span: &Span, pfn: Pfn) -> Order {
        let noted = span.index(pfn).is_some_and(|index| self.inside.contains(index));
        if noted { self.orders.get(&pfn).copied().unwrap_or_default() } else { Order(0) }
    }

    /// Order of the object that the kernel moved from `old` to `new`.
    ///
    /// That of the block at `old`, or 0 if the block has been split and this is one page of it. `is_free` says whether
    /// a block of an order at `new` is free: then the whole block can have moved.
    pub(super) fn moved(&self, span: &Span, old: Pfn, new: Pfn, is_free: impl FnOnce(Order) -> bool) -> Order {
        let order = self.starting_at(span, old);
        let fits = new.is_aligned(order) && is_free(order);
        if fits || self.starting_at(span, new) == order { order } else { Order(0) }
    }

    /// Removes every block that shares a frame with this one.
    ///
    /// True if one of them is not wholly inside it, and so has been split.
    pub(super) fn take(&mut self, span: &Span, pfn: Pfn, order: Order) -> bool {
        let mut split = false;
        for index in span.block(pfn, order) {
            if !self.inside.contains(index) {
                continue;
            }
            let Some((head, size)) = self.around(span.pfn(index)) else { continue };
            self.orders.remove(&head);
            self.inside.remove_range(span.block(head, size));
            split |= head < pfn || head.add(size.frames()) > pfn.add(order.frames());
        }
        split
    }

    /// The block that a frame is part of.
    fn around(&self, pfn: Pfn) -> Option<(Pfn, Order)> {
        Order(1).up_to(Order::LIMIT).find_map(|order| {
            let head = pfn.align_down(order);
            self.orders.get(&head).filter(|&&size| size >= order).map(|&size| (head, size))
        })
    }
}

#[cfg(test)]
mod tests {
    use framewright::units::PfnRange;

    use super::*;

    #[test]
    fn blocks_are_forgotten_once_a_part_is_gone() {
        let span = Span::of([PfnRange::new(0x100, 0x200)]);
        // The block that is taken, whether that splits one, and what is left: the orders at 0x100, 0x108, 0x110.
        let table = [
            ((0x100, 3), false, [0, 2, 4]),
            ((0x100, 0), true, [0, 2, 4]),
            ((0x107, 0), true, [0, 2, 4]),
            ((0x104, 2), true, [0, 2, 4]),
            ((0x100, 4), false, [0, 0, 4]),
            ((0x100, 5), false, [0, 0, 0]),
            ((0x10c, 2), false, [3, 2, 4]),
            ((0x1ff, 0), false, [3, 2, 4]),
            ((0x500, 3), false, [3, 2, 4]),
        ];
        for ((pfn, order), split, left) in table {
            let mut high_order = HighOrderBlocks::new(&span);
            for (pfn, order) in [(0x100, 3), (0x108, 2), (0x110, 4)] {
                high_order.put(&span, Pfn(pfn), Order(order));
            }
            assert_eq!(high_order.take(&span, Pfn(pfn), Order(order)), split, "{pfn:#x} {order}");
            let orders = [0x100, 0x108, 0x110].map(|pfn| high_order.starting_at(&span, Pfn(pfn)).0);
            assert_eq!(orders, left, "{pfn:#x} {order}");
            let frames: u64 = left.iter().filter(|&&order| order != 0).map(|&order| 1 << order).sum();
            assert_eq!(high_order.inside.count_ones(..) as u64, frames, "{pfn:#x} {order}");
        }
    }

    #[test]
    fn a_block_replaces_what_it_covers() {
        let span = Span::of([PfnRange::new(0, 64)]);
        let mut high_order = HighOrderBlocks::new(&span);
        high_order.put(&span, Pfn(0), Order(4));
        high_order.put(&span, Pfn(8), Order(2));
        high_order.put(&span, Pfn(33), Order(3));
        assert_eq!([0, 8, 33].map(|pfn| high_order.starting_at(&span, Pfn(pfn)).0), [0, 2, 0]);
        assert_eq!(high_order.inside.count_ones(..), 4);
    }
}
