//! The decision and the allocator agree: a state that is decided without doubt has the same outcome when it is rebuilt
//! and the request is made.
//!
//! The mechanisms `baseline` have Linux's rules since 4.4 for the marks, and those since 6.12 for the reserve for high
//! orders.

use framewright::request::{
    __GFP_HIGH, __GFP_NOMEMALLOC, __GFP_NORETRY, GFP_ATOMIC, GFP_DMA, GFP_DMA32, GFP_HIGHUSER_MOVABLE, GFP_KERNEL,
    GFP_NOWAIT,
};
use framewright::{Gfp, Mechanisms};
use framewright_report::decision::{Outcome, Query, decide};
use framewright_report::memory::{ListType, Memory, OrderFree, Types, Zone};
use framewright_report::report::{Asked, Kind, Report};
use framewright_report::trial::{Served, try_again};
use framewright_trace::flags::KernelVersion;
use proptest::prelude::*;

const FLAGS: [Gfp; 8] = [
    GFP_KERNEL,
    GFP_ATOMIC,
    GFP_NOWAIT,
    GFP_HIGHUSER_MOVABLE,
    Gfp(GFP_KERNEL.0 | GFP_DMA32.0 | __GFP_NORETRY.0),
    Gfp(GFP_ATOMIC.0 | GFP_DMA.0),
    Gfp(GFP_ATOMIC.0 | __GFP_NOMEMALLOC.0),
    Gfp(GFP_KERNEL.0 | __GFP_HIGH.0),
];

/// A list type of a row, and the number of its blocks by order.
fn orders() -> impl Strategy<Value = Vec<OrderFree>> {
    let types = [ListType::Unmovable, ListType::Movable, ListType::Reclaimable];
    let order = (0..6_u64, 0..types.len(), 0..4_u8);
    proptest::collection::vec(order, 11).prop_map(move |rows| {
        let of = |(order, (blocks, list, scarce)): (usize, (u64, usize, u8))| {
            // Large blocks are rare, or no zone would ever be short.
            let blocks = if order > 4 && scarce != 0 { 0 } else { blocks };
            let set = if blocks == 0 { Types::default() } else { Types::default().with(types[list]) };
            OrderFree { blocks, types: Some(set), by_type: None }
        };
        rows.into_iter().enumerate().map(of).collect()
    })
}

fn zone(name: &'static str) -> impl Strategy<Value = Zone> {
    (orders(), 1..600_u64, 0..300_u64).prop_map(move |(orders, min, reserve)| {
        let zone = Zone { name: name.to_owned(), orders, ..Zone::default() };
        Zone {
            free: zone.frames_in_blocks(),
            min,
            low: min + min / 4,
            high: min + min / 2,
            boost: Some(0),
            reserved_highatomic: Some(0),
            free_highatomic: Some(0),
            free_cma: Some(0),
            managed: Some(1 << 16),
            lowmem_reserve: Some(vec![0, reserve, reserve, reserve]),
            ..zone
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_engine_decides_as_the_formula(
        zones in (zone("DMA"), zone("DMA32"), zone("Normal")),
        flags in 0..FLAGS.len(),
        order in 0..11_u8,
    ) {
        let memory = Memory {
            page_size: Some(4_096),
            kernel: Some(KernelVersion::new(6, 12)),
            zones: vec![zones.0, zones.1, zones.2],
            ..Memory::default()
        };
        let mut memory = memory;
        // The zone itself and those below keep nothing from its requests.
        memory.zones[1].lowmem_reserve = memory.zones[1].lowmem_reserve.take().map(|all| vec![0, 0, all[2], all[3]]);
        memory.zones[2].lowmem_reserve = Some(vec![0; 4]);
        let report = Report { memory, asked: Some(Asked::new(FLAGS[flags], order)), ..Report::new(1, Kind::State) };
        let query = Query::of(&report).unwrap();
        let decision = decide(&report.memory, &query);
        let tried = try_again(&report.memory, &query, &decision.cases[0], "baseline", Mechanisms::BASELINE);
        let expected = decision.outcome == Outcome::Succeeds;
        for served in [&tried.best, &tried.worst] {
            match served {
                Served::Yes { .. } => prop_assert!(expected, "{served:?} but {:?}", decision),
                Served::No { why } => prop_assert!(!expected, "{why} but {:?}", decision),
                Served::Untried { why } => prop_assert!(false, "{why}"),
            }
        }
    }
}
