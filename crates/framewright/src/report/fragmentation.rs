//! Two scores of external fragmentation, and the debugfs files that show them.
//!
//! Both use only the number of free blocks of each order, in a zone or in any other set of blocks. Both measure against
//! a request of one order.
//!
//! | score | question | 0 | 1000 |
//! |---|---|---|---|
//! | unusable index | which share is too small? | all could serve the request | none could, or nothing is free |
//! | fragmentation index | if it fails, why? | near 0: lack of memory | near 1000: free memory is in pieces |
//!
//! The **unusable index** is the share of the free memory that lies in blocks too small for the request. It is defined
//! at any time, and falls as the supply of large blocks rises. It is the one to plot.
//!
//! The **fragmentation index** says what helps: near 0 reclaim does, near 1000 compaction does. If the request would
//! succeed it has no meaning, and is -1000. Otherwise, with `n` free blocks of `f` frames together, and a request of
//! `r` frames, it is 1 - (1 + f/r)/n. That compares the number of blocks that the free memory would be in if it were
//! whole with the number that it is in. Linux compares the index with `vm.extfrag_threshold`, 500.
//!
//! Both are in thousandths, because floating point may be unavailable. They are exact below 2^54 free frames, and
//! saturate above.

use core::fmt;

use super::source::{Source, orders, populated};
use crate::types::units::Order;

/// Free blocks, measured by what a request of one order could use of them.
struct Supply {
    /// Frames in all blocks.
    frames: u64,
    /// Of `frames`, those in blocks smaller than the request.
    too_small: u64,
    /// Blocks of any size.
    blocks: u64,
    /// Whether any block is large enough.
    is_enough: bool,
}

impl Supply {
    fn of(nr_free: &[u64], request: Order) -> Supply {
        let mut supply = Supply { frames: 0, too_small: 0, blocks: 0, is_enough: false };
        for (order, &blocks) in (0..64).map(Order).zip(nr_free) {
            let frames = blocks.saturating_mul(order.frames());
            supply.frames = supply.frames.saturating_add(frames);
            supply.blocks = supply.blocks.saturating_add(blocks);
            if order < request {
                supply.too_small = supply.too_small.saturating_add(frames);
            } else {
                supply.is_enough |= blocks != 0;
            }
        }
        supply
    }
}

/// Returns the share of free memory in blocks too small for `order`.
///
/// In thousandths: 0 to 1000; 1000 if nothing is free. `nr_free`: numbers of free blocks by order.
pub fn unusable_index(nr_free: &[u64], order: Order) -> u32 {
    let supply = Supply::of(nr_free, order);
    let index = supply.too_small.saturating_mul(1000).checked_div(supply.frames).unwrap_or(1000);
    u32::try_from(index.min(1000)).unwrap_or(1000)
}

/// Returns why a request of `order` would fail, in thousandths.
///
/// | value | meaning |
/// |---|---|
/// | towards 0 | lack of memory |
/// | 0 | nothing is free |
/// | towards 1000 | fragmentation |
/// | -1000 | it would not fail |
///
/// `nr_free`: numbers of free blocks by order. With only one or two blocks, Linux's formula leaves its range and falls
/// to -500; so does this one.
pub fn fragmentation_index(nr_free: &[u64], order: Order) -> i32 {
    let supply = Supply::of(nr_free, order);
    if supply.blocks == 0 {
        return 0;
    }
    if supply.is_enough {
        return -1000;
    }
    let wanted = supply.frames.saturating_mul(1000).checked_div(order.frames()).unwrap_or(0);
    let per_block = wanted.saturating_add(1000).checked_div(supply.blocks).unwrap_or(0);
    // All blocks are smaller than the request, so each has at most half of a request: at most 1500.
    1000 - i32::try_from(per_block.min(1500)).unwrap_or(1500)
}

/// Prints debugfs's `extfrag/unusable_index`.
///
/// [`unusable_index`] by order for each zone with memory.
#[derive(Clone, Copy, Debug)]
pub struct UnusableIndex<'a, S: Source + ?Sized>(pub &'a S);

impl<S: Source + ?Sized> fmt::Display for UnusableIndex<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        by_order(f, self.0, |f, nr_free, order| {
            let index = unusable_index(nr_free, order);
            write!(f, "{}.{:03} ", index / 1000, index % 1000)
        })
    }
}

/// Prints debugfs's `extfrag/extfrag_index`.
///
/// [`fragmentation_index`] by order for each zone with memory. Columns are a blank wider than those of
/// [`UnusableIndex`] since Linux 5.16. Linux prints the whole part and the thousandths each with its sign, so that -500
/// thousandths is ` 0.-500`; so does this.
#[derive(Clone, Copy, Debug)]
pub struct ExtfragIndex<'a, S: Source + ?Sized>(pub &'a S);

impl<S: Source + ?Sized> fmt::Display for ExtfragIndex<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        by_order(f, self.0, |f, nr_free, order| {
            let index = fragmentation_index(nr_free, order);
            write!(f, "{:2}.{:03} ", index / 1000, index % 1000)
        })
    }
}

fn by_order<S: Source + ?Sized>(
    f: &mut fmt::Formatter<'_>,
    source: &S,
    column: impl Fn(&mut fmt::Formatter<'_>, &[u64], Order) -> fmt::Result,
) -> fmt::Result {
    for zone in populated(source) {
        write!(f, "Node {}, zone {:>8} ", zone.node.0, zone.kind)?;
        let nr_free = zone.free_by_order();
        for order in (0..=Order::LIMIT.0).map(Order).take(orders(source)) {
            column(f, &nr_free, order)?;
        }
        f.write_str("\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free blocks by order, the order asked for, and both indices.
    const CASES: &[(&[u64], u8, u32, i32)] = &[
        // Nothing free: all of it is unusable, and the failure is due to lack of memory.
        (&[], 0, 1000, 0),
        (&[0, 0, 0], 2, 1000, 0),
        // Every block serves a request of order 0.
        (&[1], 0, 0, -1000),
        (&[7, 3, 1], 0, 0, -1000),
        // 8 frames, 4 of them in blocks of order 2.
        (&[2, 1, 1], 1, 250, -1000),
        (&[2, 1, 1], 2, 500, -1000),
        // None large enough: 1000 - (1000 + 8 * 1000 / 8) / 4.
        (&[2, 1, 1], 3, 1000, 500),
        // Many small pieces.
        (&[1000], 9, 1000, 998),
        // One block, of half a request or of almost nothing of it.
        (&[0, 1], 2, 1000, -500),
        (&[1], 10, 1000, 0),
        (&[1], 9, 1000, -1),
        // Printed by a kernel for a zone of 1983 single frames.
        (&[1983], 1, 1000, 500),
        (&[1983], 2, 1000, 750),
        (&[1983], 5, 1000, 969),
        (&[1983], 10, 1000, 999),
        // Zone Normal of a 1 GiB machine at the start of a huge page load.
        (&[1, 2, 1, 2, 1, 3, 0, 3, 0, 1, 131], 9, 3, -1000),
        (&[1, 2, 1, 2, 1, 3, 0, 3, 0, 1, 131], 10, 7, -1000),
    ];

    #[test]
    fn indices_of_free_lists() {
        for &(nr_free, order, unusable, fragmentation) in CASES {
            assert_eq!(unusable_index(nr_free, Order(order)), unusable, "unusable, {nr_free:?} order {order}");
            assert_eq!(fragmentation_index(nr_free, Order(order)), fragmentation, "why, {nr_free:?} order {order}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_stay_in_range() {
        let many: &[&[u64]] = &[&[u64::MAX], &[u64::MAX; 3], &[u64::MAX; 64], &[1; 70], &[0; 70], &[u64::MAX, 0, 1]];
        for nr_free in many {
            for order in [0, 1, 2, 18, 63, 64, 70, 255].map(Order) {
                assert!(unusable_index(nr_free, order) <= 1000, "{nr_free:?} order {order}");
                assert!((-1000..=1000).contains(&fragmentation_index(nr_free, order)), "{nr_free:?} order {order}");
            }
        }
    }

    #[test]
    fn unusable_share_never_falls_with_the_order() {
        let nr_free = [9, 4, 0, 7, 1, 0, 0, 2, 0, 1, 3];
        let mut last = 0;
        for order in Order(0).up_to(Order(12)) {
            let index = unusable_index(&nr_free, order);
            assert!(last <= index && index <= 1000);
            last = index;
        }
        assert_eq!(last, 1000);
    }
}
