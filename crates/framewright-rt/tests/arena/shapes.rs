//! Arenas of all shapes: whatever is asked for is refused by a value, or built and usable to the last frame.

use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::watermark::PcpSize;
use framewright::{NodeId, Pfn, PfnRange, Request};
use framewright_rt::{Arena, ArenaBuilder, Backing, CpuMode, Pages, Placement};
use proptest::prelude::*;

/// A size: whole pages or pageblocks mostly, anything else as well.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0_u64..12).prop_map(|blocks| blocks << 21),
        3 => (0_u64..3_000).prop_map(|pages| pages << 12),
        1 => any::<u64>(),
    ]
}

prop_compose! {
    fn builder()(
        nodes in prop::collection::vec(bytes(), 0..4),
        page_shift in prop_oneof![8 => Just(12_u32), 1 => 10_u32..=32],
        max_order in prop::option::weighted(0.3, 0_u8..=20),
        first_pfn in prop_oneof![3 => Just(0_u64), 1 => (0_u64..1 << 20).prop_map(|block| block << 14), 1 => any::<u64>()],
        movable in prop_oneof![3 => Just(0_u64), 2 => bytes()],
        min_free in prop_oneof![3 => Just(0_u64), 1 => bytes()],
        cpus in prop::option::of(0_usize..9),
        pcp in prop::option::of((any::<u32>(), any::<u32>())),
        memfd in any::<bool>(),
        per_cpu in any::<bool>(),
    ) -> ArenaBuilder {
        let mut builder = nodes.into_iter().fold(Arena::builder().without_background(), |builder, bytes| builder.node(bytes, Placement::Anywhere));
        builder = builder.page(1 << page_shift).first_pfn(first_pfn).movable(movable).min_free(min_free);
        builder = builder.backing(if memfd { Backing::Memfd } else { Backing::Private });
        builder = builder.cpu_mode(if per_cpu { CpuMode::PerCpu } else { CpuMode::Lease });
        if let Some(order) = max_order {
            builder = builder.max_order(order);
        }
        if let Some(cpus) = cpus {
            builder = builder.cpus(cpus);
        }
        match pcp {
            // Smaller than that, because lists of millions of entries take long.
            Some((batch, high)) => builder.pcp(PcpSize { batch: batch >> 12, high: high >> 16 }),
            None => builder,
        }
    }
}

/// Allocates everything in the largest blocks there are, then frees it.
fn use_up(arena: &Arena, min_free: bool) {
    let mut held: Vec<Pages<'_>> = Vec::new();
    for order in (0..=arena.report().max_order.0).rev() {
        held.extend(std::iter::from_fn(|| arena.alloc(&Request::new(GFP_HIGHUSER_MOVABLE, order)).ok()));
    }
    let mut ranges: Vec<PfnRange> = held.iter().map(Pages::frames).collect();
    ranges.sort_by_key(|range| range.start);
    assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
    let taken: u64 = ranges.iter().map(|range| range.frames()).sum();
    assert!(min_free || taken == arena.frames().frames(), "{taken} frames of {:?}", arena.frames());
    for pages in &mut held {
        let last = pages.len() - 1;
        (pages[0], pages[last]) = (1, 2);
        assert!(arena.frames().contains(pages.pfn()) && arena.pfn_of(&raw const pages[last]).is_some());
        assert!(pages.address().as_ptr().addr().is_multiple_of(pages.len()));
    }
    drop(held);
    assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_for_is_refused_or_works(builder in builder()) {
        match builder.clone().build() {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(arena) => {
                prop_assert!(!arena.report().to_string().is_empty());
                prop_assert_eq!(arena.address(Pfn(u64::MAX)), None);
                prop_assert!(arena.machine_node_of(arena.frames().start).unwrap_or_default() <= Some(NodeId(63)));
                let min_free = !format!("{builder:?}").contains("min_free: 0,");
                // An arena larger than the machine's memory is not touched.
                if arena.report().bytes <= 64 << 20 {
                    use_up(&arena, min_free);
                }
            }
        }
    }
}
