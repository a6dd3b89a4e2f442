//! Watermarks: the free memory that a zone must keep.
//!
//! A zone has three marks, in frames of free memory:
//!
//! | free memory | consequence |
//! |---|---|
//! | above *high* | background reclaim stops |
//! | below *low* | background reclaim runs |
//! | below *min* | only requests with a right to reserves are served |
//!
//! In addition to the mark, a zone keeps a *lowmem reserve* from requests that could have used a higher zone. Frames
//! that a request cannot use (isolated, CMA, the high-atomic reserve) do not count as free for it.
//!
//! All of this is arithmetic on arguments; nothing here reads a shared word.

use crate::policy::pcp_size::PcpSize;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Order, ZoneIdx, ZoneKind};

/// Mark that a request must not go below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mark {
    /// For requests that have waited or may not wait.
    Min,
    /// For the first attempt.
    Low,
    /// Level at which background reclaim stops.
    High,
}

impl Mark {
    /// Returns the index into a table by mark.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What a request may take beyond the ordinary (Linux: `alloc_flags`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AllocFlags {
    /// The mark to keep; ignored with `no_watermarks`.
    pub(crate) mark: Mark,
    pub(crate) no_watermarks: bool,
    /// `__GFP_HIGH`: may go down to half of the mark.
    pub(crate) high: bool,
    /// The caller cannot sleep: it may go down to three quarters of the mark.
    pub(crate) harder: bool,
    /// May use the high-atomic reserve.
    ///
    /// Above order 0 the reserve is used first; at order 0 only after all other memory is used up.
    pub(crate) highatomic: bool,
    pub(crate) cma: bool,
    /// Takes no block smaller than a pageblock from another type, where the mechanisms say so.
    pub(crate) nofragment: bool,
    /// Takes no block smaller than `stall-order` from another type.
    pub(crate) stall: bool,
    /// Uses the mark without the boost.
    pub(crate) unboosted: bool,
}

/// Free memory of a zone at one moment, in frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FreeMemory {
    pub(crate) free: u64,
    pub(crate) cma: u64,
    pub(crate) highatomic: u64,
}

/// Free memory that a request must leave in a zone, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// The mark that the request keeps, as it is in force.
    pub(crate) mark: u64,
    /// The lowmem reserve against the request's highest zone.
    pub(crate) reserve: u64,
}

/// Returns whether a zone with `memory` may serve a request of `order`.
///
/// The request must leave `kept` free. `has` returns whether a list has a block; it is called only for orders above 0.
pub(crate) fn may_take(
    order: Order,
    max_order: Order,
    memory: FreeMemory,
    kept: Kept,
    alloc_flags: AllocFlags,
    has: impl Fn(Order, MigrateType) -> bool,
) -> bool {
    is_above(order, memory, kept, alloc_flags)
        && (order.0 == 0 || order.up_to(max_order).any(|larger| has_usable(larger, alloc_flags, &has)))
}

/// Returns whether a zone with `memory` stays above its mark after a request of `order`.
///
/// The arguments are those of [`may_take`].
pub(crate) fn is_above(order: Order, memory: FreeMemory, kept: Kept, alloc_flags: AllocFlags) -> bool {
    if alloc_flags.no_watermarks {
        return true;
    }
    let mut keep = kept.mark;
    if alloc_flags.high {
        keep = keep.saturating_sub(keep / 2);
    }
    if alloc_flags.harder {
        keep = keep.saturating_sub(keep / 4);
    }
    let mut unusable = order.frames().saturating_sub(1);
    if !alloc_flags.highatomic {
        unusable = unusable.saturating_add(memory.highatomic);
    }
    if !alloc_flags.cma {
        unusable = unusable.saturating_add(memory.cma);
    }
    memory.free.saturating_sub(unusable) > keep.saturating_add(kept.reserve)
}

fn has_usable(order: Order, alloc_flags: AllocFlags, has: &impl Fn(Order, MigrateType) -> bool) -> bool {
    MigrateType::ALL.into_iter().any(|migratetype| {
        let usable = match migratetype {
            MigrateType::Cma => alloc_flags.cma,
            MigrateType::HighAtomic => alloc_flags.highatomic,
            MigrateType::Isolate => false,
            _ => true,
        };
        usable && has(order, migratetype)
    })
}

/// Three marks of a zone, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// See [`Mark::Min`].
    pub min: u64,
    /// See [`Mark::Low`].
    pub low: u64,
    /// See [`Mark::High`].
    pub high: u64,
}

impl Marks {
    /// Returns the mark of this kind.
    pub const fn get(&self, mark: Mark) -> u64 {
        match mark {
            Mark::Min => self.min,
            Mark::Low => self.low,
            Mark::High => self.high,
        }
    }

    /// Returns the marks by Linux's formula.
    ///
    /// `min` is the zone's share of `min_free_frames`, by managed frames. The gap between the marks is a quarter of
    /// `min` or `scale` ten-thousandths of the zone, whichever is more. The formula is made for whole machines; a small
    /// zone keeps no more than an eighth.
    pub fn compute(min_free_frames: u64, managed: u64, total_managed: u64, scale: u64) -> Marks {
        let min = share_of(min_free_frames, managed, total_managed);
        let gap = (min / 4).max(managed.saturating_mul(scale) / 10_000);
        let most = managed / 8;
        Marks {
            min: min.min(most / 2),
            low: min.saturating_add(gap).min(most.saturating_mul(3) / 4),
            high: min.saturating_add(gap.saturating_mul(2)).min(most),
        }
    }
}

/// Returns the default of `min_free_kbytes`, in KiB.
///
/// It is four times the square root of memory in KiB, from 128 to 262,144.
pub fn min_free_kbytes(managed_kib: u64) -> u64 {
    square_root(managed_kib.saturating_mul(16)).clamp(128, 262_144)
}

/// Returns the square root, rounded down.
///
/// Bit by bit. The standard library's is faster and twelve times as long; this is called once.
fn square_root(number: u64) -> u64 {
    (0..32).rev().map(|bit| 1_u64 << bit).fold(0, |root, bit| {
        let next = root | bit;
        if next.wrapping_mul(next) <= number { next } else { root }
    })
}

/// Returns `amount * part / whole`, rounded down; 0 if `whole` is 0.
///
/// Bit by bit: the product may need 128 bits, whose division is a long function of the compiler's library.
fn share_of(amount: u64, part: u64, whole: u64) -> u64 {
    let (Some(times), Some(part)) = (part.checked_div(whole), part.checked_rem(whole)) else { return 0 };
    // Of the product of `part` and the bits so far: the quotient and the rest.
    let (mut quotient, mut rest) = (0_u64, 0_u64);
    for bit in (0..u64::BITS).rev() {
        quotient = quotient.wrapping_mul(2);
        for more in [rest, if amount >> bit & 1 == 0 { 0 } else { part }] {
            let room = whole.wrapping_sub(rest);
            let is_over = more >= room;
            quotient = quotient.wrapping_add(u64::from(is_over));
            rest = if is_over { more.wrapping_sub(room) } else { rest.wrapping_add(more) };
        }
    }
    amount.wrapping_mul(times).wrapping_add(quotient)
}

/// Returns the frames that a zone of kind `below` keeps from requests for higher zones.
///
/// It is the memory in the zones between, divided by the zone's ratio: 256 for DMA and DMA32, 32 for Normal. These are
/// Linux's defaults.
pub fn lowmem_reserve(below: ZoneKind, managed_between: u64) -> u64 {
    match below {
        ZoneKind::Dma | ZoneKind::Dma32 => managed_between / 256,
        ZoneKind::Normal => managed_between / 32,
        ZoneKind::Movable => 0,
    }
}

/// Largest threshold of a zone's or node's counters.
pub(crate) const MOST_THRESHOLD: u8 = 125;

/// Returns the count that a CPU may keep before it adds it to the zone.
///
/// It grows with the number of CPUs, because each update disturbs them. It grows with the zone, because an error
/// matters less in a large zone. Linux's formula: twice the bits of the number of CPUs, times one more than the bits of
/// the zone's size in units of 128 MiB; at most 125.
pub fn stat_threshold(cpus: u64, managed: u64, page_shift: u8) -> u8 {
    let bits = |number: u64| u64::from(64_u32.saturating_sub(number.leading_zeros()));
    let units = managed >> 27_u32.saturating_sub(u32::from(page_shift));
    let threshold = bits(cpus).saturating_mul(2).saturating_mul(bits(units).saturating_add(1));
    threshold.clamp(1, u64::from(MOST_THRESHOLD)) as u8
}

/// Returns the threshold while memory is short.
///
/// All CPUs together may then keep no more than the difference between the min and the low mark.
pub fn pressure_threshold(cpus: u64, marks: Marks) -> u8 {
    let share = marks.low.saturating_sub(marks.min).checked_div(cpus).unwrap_or(0);
    share.clamp(1, u64::from(MOST_THRESHOLD)) as u8
}

/// Returns the threshold of a node's counters: the largest of its zones with memory.
///
/// That is Linux's rule. It stays while memory is short, because no watermark reads these counters. On a node without
/// memory a CPU keeps at most 1.
pub(crate) fn node_threshold(zones: impl Iterator<Item = u8>) -> u8 {
    zones.max().unwrap_or(1)
}

/// Returns the level below which a zone's free count is too inexact for watermarks.
///
/// Below it, the counts that CPUs keep must be added. The result is 0 if all CPUs together cannot keep more than the
/// difference between the min and the low mark.
pub fn drift_mark(cpus: u64, threshold: u8, marks: Marks) -> u64 {
    let drift = cpus.saturating_mul(u64::from(threshold));
    if drift > marks.low.saturating_sub(marks.min) { marks.high.saturating_add(drift) } else { 0 }
}

/// Returns the limit of a zone's reserve for high-order requests that may not wait.
///
/// It is a hundredth of the zone, in frames, rounded up to whole pageblocks. It is 0 where a hundredth is less than a
/// pageblock. Linux's rule from 6.12 on.
pub const fn highatomic_limit(managed: u64, pageblock_order: Order) -> u64 {
    let share = managed / 100;
    if share < pageblock_order.frames() {
        return 0;
    }
    share.saturating_add(pageblock_order.mask()) & !pageblock_order.mask()
}

/// Smallest number of pageblocks of a zone that can be boosted.
///
/// A smaller zone could never get above its marks again.
const BOOSTED_PAGEBLOCKS: u64 = 4;

/// What limits the boost of a zone's marks; all in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BoostedZone {
    /// Frames that the zone manages.
    pub(crate) managed: u64,
    /// The high mark without a boost.
    pub(crate) high: u64,
    /// Frames in a pageblock.
    pub(crate) pageblock: u64,
}

/// Returns the boost of a zone's marks after mobilities were mixed, in frames.
///
/// `boost` rises by `by` frames, up to `factor` ten-thousandths of the high mark or a pageblock, whichever is more.
/// `None` if the marks do not rise: the zone is too small, or has no marks yet. Linux's rule.
pub(crate) fn raised_boost(boost: u64, by: u64, factor: u32, zone: BoostedZone) -> Option<u64> {
    let BoostedZone { managed, high, pageblock } = zone;
    let most = boost_cap(factor, high, pageblock)?;
    let is_large = managed >= pageblock.saturating_mul(BOOSTED_PAGEBLOCKS);
    is_large.then(|| boost.saturating_add(by).min(most))
}

/// Returns the largest boost; `None` if boosts are off or the zone has no marks.
pub(crate) fn boost_cap(factor: u32, high: u64, pageblock: u64) -> Option<u64> {
    let share = high.saturating_mul(u64::from(factor)) / 10_000;
    (share != 0).then(|| share.max(pageblock))
}

/// Sizes of one zone that replace the computed sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// The zone to change.
    pub zone: ZoneIdx,
    /// Watermarks of the zone, in frames.
    pub marks: Option<Marks>,
    /// Frames kept from requests, by their highest zone (`protection` in zoneinfo).
    pub reserve: Option<[u64; ZoneKind::COUNT]>,
    /// Sizes of its per-CPU lists.
    pub pcp: Option<PcpSize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zones of the recorded Linux 6.1 (1 GiB, 4 CPUs).
    ///
    /// The fields are: managed, min, low, high, batch, pcp high.
    const RECORDED: [(u64, [u64; 3], [u32; 2]); 3] = [
        (3_840, [186, 232, 278], [1, 58]),
        (36_915, [1_789, 2_236, 2_683], [7, 559]),
        (191_382, [9_278, 11_597, 13_916], [63, 2_899]),
    ];

    #[test]
    fn formulas_give_what_linux_printed() {
        let total = RECORDED.iter().map(|zone| zone.0).sum();
        for (managed, [min, low, high], [batch, pcp_high]) in RECORDED {
            let marks = Marks::compute(11_254, managed, total, 10);
            assert_eq!(marks, Marks { min, low, high });
            assert_eq!(PcpSize::compute(managed, low, 4, 12), PcpSize { batch, high: pcp_high });
        }
        assert_eq!(lowmem_reserve(ZoneKind::Dma32, 191_382), 747);
        assert_eq!(min_free_kbytes(16 << 20), 16_384);
        assert_eq!(min_free_kbytes(1), 128);
        assert_eq!(Marks::compute(5, 0, 0, 10), Marks::default());
    }

    #[test]
    fn reserves_are_a_hundredth_in_whole_pageblocks() {
        let limit = |managed| highatomic_limit(managed, Order(9));
        let limits = [0, 51_199, 51_200, 51_300, 102_400, u64::MAX].map(limit);
        assert_eq!(limits, [0, 0, 512, 1_024, 1_024, (u64::MAX / 100 + 512) & !511]);
    }

    #[test]
    fn counters_of_a_node_follow_its_largest_zone() {
        assert_eq!([&[][..], &[0], &[3, 125, 7]].map(|zones| node_threshold(zones.iter().copied())), [1, 0, 125]);
    }

    #[test]
    fn shares_and_roots_are_exact() {
        let numbers = [0, 1, 2, 3, 7, 64, 10_000, 11_254, (1 << 20) - 1, 1 << 32, (1 << 52) + 5, 1 << 63, u64::MAX];
        for (amount, part, whole) in
            numbers.iter().flat_map(|a| numbers.iter().flat_map(|b| numbers.map(|c| (*a, *b, c))))
        {
            let product = u128::from(amount) * u128::from(part);
            let expected = product.checked_div(u128::from(whole)).unwrap_or(0) as u64;
            assert_eq!(share_of(amount, part, whole), expected, "{amount} * {part} / {whole}");
        }
        for number in numbers
            .into_iter()
            .flat_map(|number| [number, number.isqrt().pow(2), number.isqrt().pow(2).saturating_sub(1)])
        {
            assert_eq!(square_root(number), number.isqrt());
        }
    }

    #[test]
    fn thresholds_grow_with_cpus_and_memory() {
        // "vm stats threshold" of the three zones of the recorded Linux 6.1, 4 CPUs. DMA32 printed 6, because its
        // threshold was computed before the last of its memory was handed over.
        let recorded = RECORDED.map(|(managed, ..)| stat_threshold(4, managed, 12));
        assert_eq!(recorded, [6, 12, 24]);
        assert_eq!(stat_threshold(0, 0, 12), 1, "without CPUs");
        // 88 CPUs and 63 GiB a node: the 125 of the table numa-stats.
        assert_eq!(stat_threshold(88, 63 << 18, 12), 125);
        assert_eq!((stat_threshold(1, 0, 12), stat_threshold(u64::MAX, u64::MAX, 12)), (2, 125));
        assert_eq!((node_threshold(recorded.into_iter()), node_threshold([].into_iter())), (24, 1));
        let marks = Marks { min: 1_000, low: 1_250, high: 1_500 };
        assert_eq!(
            (pressure_threshold(4, marks), pressure_threshold(88, marks), pressure_threshold(0, marks)),
            (62, 2, 1)
        );
        assert_eq!((drift_mark(88, 125, marks), drift_mark(2, 125, marks)), (12_500, 0));
    }

    /// The documents' formula, in whole pageblocks.
    ///
    /// None below a hundred pageblocks; then one for each hundred that the zone has begun.
    #[test]
    fn highatomic_reserve_is_a_hundredth_of_the_zone() {
        for order in [Order(0), Order(1), Order(4), Order(9), Order(14), Order(18)] {
            let pageblock = order.frames();
            for pageblocks in 2..=4_096_u64 {
                for managed in
                    [pageblocks * pageblock, pageblocks * pageblock + pageblock / 2, pageblocks * pageblock - 1]
                {
                    let limit = highatomic_limit(managed, order);
                    let whole = if managed / 100 < pageblock { 0 } else { (managed / 100).div_ceil(pageblock) };
                    assert_eq!(limit, whole * pageblock, "{managed} frames, pageblocks of order {order}");
                    assert_eq!(limit == 0, managed < 100 * pageblock);
                    assert!(limit == 0 || limit - pageblock < managed / 100 && managed / 100 <= limit);
                }
            }
        }
        assert_eq!(highatomic_limit(0, Order(9)), 0);
    }

    fn alloc_flags(mark: Mark) -> AllocFlags {
        AllocFlags {
            mark,
            no_watermarks: false,
            high: false,
            harder: false,
            highatomic: false,
            cma: false,
            nofragment: false,
            stall: false,
            unboosted: false,
        }
    }

    #[test]
    fn marks_reserves_and_rights() {
        let memory = FreeMemory { free: 1_000, cma: 100, highatomic: 50 };
        let none = |_: Order, _| false;
        let take = |mark, reserve, alloc_flags| {
            may_take(Order(0), Order(10), memory, Kept { mark, reserve }, alloc_flags, none)
        };
        let plain = alloc_flags(Mark::Min);
        assert!(take(849, 0, plain));
        assert!(!take(850, 0, plain), "CMA and the high-atomic reserve are not counted");
        assert!(!take(800, 50, plain), "the lowmem reserve counts on top");
        assert!(take(850, 0, AllocFlags { cma: true, ..plain }));
        assert!(take(1_132, 0, AllocFlags { harder: true, ..plain }));
        assert!(!take(1_134, 0, AllocFlags { harder: true, ..plain }), "the reserve is not counted for it");
        assert!(take(850, 0, AllocFlags { highatomic: true, ..plain }));
        assert!(take(1_698, 0, AllocFlags { high: true, ..plain }));
        assert!(!take(1_700, 0, AllocFlags { high: true, ..plain }));
        assert!(take(u64::MAX, 0, AllocFlags { no_watermarks: true, ..plain }));
    }

    #[test]
    fn large_orders_need_a_block() {
        let memory = FreeMemory { free: 1_000, cma: 0, highatomic: 0 };
        let take = |alloc_flags, migratetype| {
            let kept = Kept { mark: 10, reserve: 0 };
            may_take(Order(4), Order(10), memory, kept, alloc_flags, |order, mt| order == Order(6) && mt == migratetype)
        };
        let plain = alloc_flags(Mark::Low);
        assert!(take(plain, MigrateType::Reclaimable));
        assert!(
            !take(plain, MigrateType::HighAtomic)
                && take(AllocFlags { highatomic: true, ..plain }, MigrateType::HighAtomic)
        );
        assert!(!take(plain, MigrateType::Cma) && take(AllocFlags { cma: true, ..plain }, MigrateType::Cma));
        assert!(!take(plain, MigrateType::Isolate));
    }

    #[test]
    fn boosts_rise_by_pageblocks_up_to_a_share_of_the_high_mark() {
        for (boost, by, factor, (managed, high, pageblock), expected) in [
            (0, 512, 15_000, (200_000, 10_000, 512), Some(512)),
            (14_900, 512, 15_000, (200_000, 10_000, 512), Some(15_000)),
            // At least one pageblock.
            (0, 512, 15_000, (200_000, 100, 512), Some(512)),
            (512, 512, 15_000, (200_000, 100, 512), Some(512)),
            // Switched off; without marks, as early at boot; zones of three pageblocks and of four.
            (0, 512, 0, (200_000, 10_000, 512), None),
            (0, 512, 15_000, (200_000, 0, 512), None),
            (0, 512, 15_000, (1_536, 100, 512), None),
            (0, 512, 15_000, (2_048, 100, 512), Some(512)),
            (0, u64::MAX, 1_000_000, (u64::MAX, u64::MAX, 512), Some(u64::MAX / 10_000)),
        ] {
            let zone = BoostedZone { managed, high, pageblock };
            assert_eq!(raised_boost(boost, by, factor, zone), expected, "{boost} {by} {factor} {zone:?}");
        }
    }
}
