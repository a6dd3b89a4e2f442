//! Reserves for high-order requests that may not wait, as Linux has them from 6.12 on.

use framewright::report::Source;
use framewright::request::{__GFP_NOMEMALLOC, GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT};
use framewright::watermark::Marks;
use framewright::watermark::highatomic_limit;
use framewright::{MigrateType, NodeId, Order, Pfn, Region, ZoneIdx, ZoneKind};
use framewright_ops::session::{Session, with_session};
use framewright_ops::{Handle, Op, Shape, Terms};

use super::play_all;

const NORMAL: ZoneIdx = ZoneIdx::of(NodeId(0), ZoneKind::Normal);

/// Pageblocks in reserve for high orders, of all zones.
fn highatomic(session: &Session<'_>) -> u64 {
    let pages = session.pages();
    let nodes = (0..pages.nodes()).map(|node| NodeId(node as u8));
    let zones = nodes.flat_map(|node| ZoneKind::ALL.map(|kind| ZoneIdx::of(node, kind)));
    zones.filter_map(|zone| pages.zone(zone)).map(|zone| zone.blocks[MigrateType::HighAtomic.index()]).sum()
}

/// One gibibyte of which every pageblock has a block of order 3 free, 4,096 frames in all: between the low and the min
/// mark. Then `bursts` requests of `order`, each followed by `after`.
fn scattered(mechanisms: &str, order: u8, bursts: u32, after: &str) -> String {
    let mut text = format!(
        "max-order 10\npageblock-order 9\nmemory 0x100000..0x140000 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n\
         mechanisms {mechanisms}\nmarks 0 Normal 1024 3000 4000\n"
    );
    for pageblock in 0..512_u64 {
        let start = 0x10_0000 + pageblock * 512;
        // A quarter of the pageblocks is full.
        let free = if pageblock % 4 == 3 { 0 } else { 8 };
        text += &format!("a{} = alloc-range {:#x}..{:#x} GFP_KERNEL\n", pageblock + 1, start + free, start + 512);
    }
    for burst in 0..bursts {
        let name = 513 + burst;
        text +=
            &format!("a{name} = alloc order {order} GFP_ATOMIC -> served\n{}\n", after.replace("@", &name.to_string()));
    }
    text
}

#[test]
fn reserve_does_not_creep() {
    let free = "free a@";
    let cases = [
        ("linux-6.1", scattered("linux-6.1", 2, 40, free)),
        ("default, lists drained in between", scattered("default", 2, 40, "free a@\ndrain all")),
        ("default", scattered("default", 2, 40, free)),
        ("order 1", scattered("linux-6.1", 1, 80, free)),
        ("order 3", scattered("default", 3, 40, "free a@\ndrain all")),
        ("two CPUs in turn", scattered("default", 2, 20, "free a@\nrun-on 1\ndrain cpu 0\nrun-on 0")),
        ("freed by the other CPU", scattered("linux-6.1", 2, 40, "run-on 1\nfree a@\nrun-on 0")),
        ("lists are busy", scattered("default", 2, 40, "free a@\nfault PcpBusy 1")),
        (
            "two held at a time",
            scattered("linux-6.1", 2, 1, "")
                + &(0..40)
                    .map(|i| {
                        format!(
                            "a{} = alloc order 2 GFP_ATOMIC -> served\nfree a{}\n",
                            600 + i,
                            if i == 0 { 513 } else { 599 + i }
                        )
                    })
                    .collect::<String>(),
        ),
    ];
    play_all(cases.map(|(name, text)| (name, text + "#! highatomic<=1\n#! highatomic>=1")));
}

/// 128 MiB without huge pages: a pageblock is 64 MiB. One small atomic request under pressure, then memory comes free.
const SAMA5: &str = "max-order 14\npageblock-order 14\nmemory 0x20000..0x28000 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                     mechanisms default\na1 = alloc-range 0x20000..0x24000 GFP_KERNEL\n\
                     a2 = alloc-range 0x24000..0x25000 GFP_KERNEL\na3 = alloc-range 0x25000..0x27e70 GFP_KERNEL\n\
                     a4 = alloc order 2 GFP_ATOMIC -> served\n#! highatomic=0\nfree a4\nfree a3\nfree a2\n\
                     a5 = bulk 15000 order 0 GFP_NOWAIT -> >=15000";

/// 100 pageblocks of 32 frames, of which one may be in reserve, with marks so high that every request is served below
/// the low mark.
const HUNDRED: &str = "max-order 6\npageblock-order 5\nmemory 0x0..0xc80 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                       marks 0 Normal 0 100000 100000\n";

#[test]
fn reserve_is_no_larger_than_the_zone_allows() {
    let one_less = HUNDRED.replace("0xc80", "0xc60");
    let on = |machine: &str, ops: &str| format!("{machine}{ops}");
    let cases = [
        ("a zone of two pageblocks", SAMA5.to_owned()),
        (
            "99 pageblocks",
            on(
                &one_less,
                "a1 = alloc order 2 GFP_ATOMIC -> served\na2 = alloc order 4 GFP_ATOMIC -> served\n#! highatomic=0",
            ),
        ),
        (
            "100 pageblocks",
            on(
                HUNDRED,
                "a1 = alloc order 2 GFP_ATOMIC -> served\n#! highatomic=1\n\
          a2 = bulk 20 order 4 GFP_ATOMIC -> served\n#! highatomic=1",
            ),
        ),
        (
            "a whole pageblock, and more than one",
            on(
                HUNDRED,
                "a1 = alloc order 6 GFP_ATOMIC -> served\n#! highatomic=0\n\
          a2 = alloc order 5 GFP_ATOMIC -> served\n#! highatomic=1",
            ),
        ),
        (
            "the zone shrinks below a hundred",
            on(
                HUNDRED,
                "a1 = alloc order 2 GFP_ATOMIC -> served\n#! highatomic=1\n\
          take-offline 0xc60..0xc80\n#! highatomic=0",
            ),
        ),
        (
            "taken with a range and given back",
            on(
                HUNDRED,
                "a1 = alloc order 2 GFP_ATOMIC -> 0x0\n#! highatomic=1\n\
          a2 = alloc-range 0x8..0x40 GFP_KERNEL -> ok\nfree a2\n#! highatomic=1",
            ),
        ),
    ];
    play_all(cases);
}

#[test]
fn order_0_may_use_the_reserve_in_need() {
    // All but the pageblock in reserve is in use.
    let full = format!(
        "{}type 0x0 HighAtomic\na1 = alloc-range 0x20..0xc80 GFP_KERNEL\n",
        HUNDRED.replace("100000 100000", "0 0")
    );
    let on = |ops: &str| format!("{full}{ops}");
    let cases = [
        ("atomic", on("a2 = alloc order 0 GFP_ATOMIC -> served\n#! highatomic=1")),
        (
            "no wait",
            on(
                "a2 = bulk 32 order 0 GFP_NOWAIT -> >=32\na3 = alloc order 0 GFP_NOWAIT -> out of memory for a request that must not wait",
            ),
        ),
        (
            "no wait, several frames",
            on("a2 = alloc order 1 GFP_NOWAIT -> out of memory for a request that must not wait"),
        ),
        (
            "without reserves",
            on("a2 = alloc order 0 GFP_ATOMIC|__GFP_NOMEMALLOC -> out of memory for a request that must not wait"),
        ),
        (
            "below a limit",
            on(
                "a2 = alloc order 0 GFP_NOWAIT below 0x10 -> served\na3 = alloc order 2 GFP_ATOMIC below 0x10 -> served",
            ),
        ),
        ("one that may wait has it given back", on("a2 = alloc order 0 GFP_KERNEL -> served\n#! highatomic=0")),
        ("one that may wait, and wants several", on("a2 = alloc order 4 GFP_KERNEL -> served\n#! highatomic=0")),
        (
            "two reserves, of which the second serves",
            format!(
                "{}type 0x0 HighAtomic\ntype 0x20 HighAtomic\n\
          a1 = alloc-range 0x40..0xc80 GFP_KERNEL\na2 = alloc-range 0x1..0x20 GFP_KERNEL\n\
          a3 = alloc order 5 GFP_KERNEL -> served\n#! highatomic=1",
                HUNDRED.replace("100000 100000", "0 0")
            ),
        ),
        (
            "not while there is other memory",
            format!(
                "{}type 0x0 HighAtomic\na1 = bulk 3168 order 0 GFP_NOWAIT -> >=3168\n\
          expect Node 0, zone Normal, type HighAtomic 0 0 0 0 0 1",
                HUNDRED.replace("100000 100000", "0 0")
            ),
        ),
        (
            "the marks hold",
            format!(
                "{}type 0x0 HighAtomic\na1 = alloc-range 0x20..0xc80 GFP_KERNEL\n\
          a2 = bulk 100 order 0 GFP_NOWAIT -> 12 blocks\na3 = bulk 100 order 0 GFP_ATOMIC -> 12 blocks",
                HUNDRED.replace("0 100000 100000", "20 20 20")
            ),
        ),
    ];
    play_all(cases);
}

#[test]
fn idle_reserve_is_given_back() {
    let on = |ops: &str| format!("{}{ops}", HUNDRED.replace("0 100000 100000", "64 128 192"));
    // 100 frames are free: between the min and the low mark.
    let short = "a1 = alloc-range 0x64..0xc80 GFP_KERNEL\na2 = alloc order 2 GFP_ATOMIC -> served\n#! highatomic=1\n";
    let cases = [
        ("memory is short", on(&format!("{short}balance 0\n#! highatomic=1"))),
        (
            "memory came free, and there was nothing to do",
            on(&format!("{short}free a2\nfree a1\nbalance 0\n#! highatomic=0")),
        ),
        ("what is in use there stays where it is", on(&format!("{short}free a1\nbalance 0\n#! highatomic=0\nfree a2"))),
        (
            "a run that had to free memory keeps it while it is used",
            on(&format!("{short}on-reclaim free 1\nbalance 0\n#! highatomic=1\nbalance 0\n#! highatomic=0")),
        ),
        (
            "free memory in reserve does not balance a node",
            format!(
                "{}type 0x0 HighAtomic\na1 = alloc-range 0x20..0x60 GFP_KERNEL\n\
          a2 = alloc-range 0x60..0x80 GFP_KERNEL\na3 = alloc-range 0xa0..0xc80 GFP_KERNEL\non-reclaim free 1\nbalance 0\n\
          a4 = bulk 80 order 0 GFP_NOWAIT|__GFP_NOMEMALLOC -> >=80",
                HUNDRED.replace("0 100000 100000", "10 20 40")
            ),
        ),
    ];
    play_all(cases);
}

/// Requests of orders that no per-CPU list keeps, held, until the zone has no more: the reserve grows to what the
/// documents say, and no further.
#[test]
fn reserve_grows_to_the_documented_limit_in_zones_of_any_size() {
    for pageblocks in (2..=4_096_u64).filter(|&n| n < 8 || n.is_power_of_two() || n % 97 == 3 || n % 1000 < 2) {
        let frames = pageblocks * 32 + pageblocks % 7;
        let mut shape = Shape::new(&[Region::usable(0, frames, 0)], &[NodeId(0)]);
        (shape.geometry.max_order, shape.geometry.pageblock_order) = (Order(6), Order(5));
        (shape.dma_end, shape.dma32_end) = (Pfn(0), Pfn(0));
        shape.tuning_mut(NORMAL).marks = Some(Marks { min: 0, low: 1 << 40, high: 1 << 40 });
        let limit = highatomic_limit(frames, Order(5)) / 32;
        with_session(&shape, |session| {
            let terms = Terms::new(GFP_ATOMIC);
            for name in 0..(limit as u32 + 3) * 2 {
                session.perform(&Op::Alloc { name: Handle(name), order: Order(4), terms })?;
                assert!(highatomic(session) <= limit, "{pageblocks} pageblocks, {} in reserve", highatomic(session));
            }
            assert_eq!(highatomic(session), limit, "{pageblocks} pageblocks");
            assert_eq!(limit, if frames < 3_200 { 0 } else { (frames / 100).div_ceil(32) });
            session.check().map(drop)
        })
        .unwrap();
    }
}

/// Free memory of the reserve counts only for requests that may use it, at any marks.
#[test]
fn free_memory_in_reserve_counts_for_those_that_may_use_it() {
    let served = |gfp, min: u64, reserved: u64| {
        let mut shape = Shape::new(&[Region::usable(0, 0xc80, 0)], &[NodeId(0)]);
        (shape.geometry.max_order, shape.geometry.pageblock_order) = (Order(6), Order(5));
        (shape.dma_end, shape.dma32_end) = (Pfn(0), Pfn(0));
        shape.tuning_mut(NORMAL).marks = Some(Marks { min, low: min, high: min });
        let count = |session: &Session<'_>| {
            for pageblock in 0..reserved {
                session.perform(&Op::SetType { pfn: Pfn(pageblock * 32), migratetype: MigrateType::HighAtomic })?;
            }
            let range = framewright::PfnRange::new(0x100, 0xc80);
            session.perform(&Op::AllocRange { name: Handle(1), range, gfp: GFP_KERNEL })?;
            let terms = Terms::new(gfp);
            session.perform(&Op::Bulk { name: Handle(2), count: 4096, order: Order(0), terms })?;
            Ok(256 - session.pages().zone(NORMAL).map_or(0, |zone| zone.free))
        };
        with_session(&shape, count).unwrap()
    };
    for min in [0, 1, 31, 64, 100, 255] {
        for reserved in 0..=4 {
            let left = 256 - reserved * 32;
            assert_eq!(
                served(GFP_NOWAIT | __GFP_NOMEMALLOC, min, reserved),
                left.saturating_sub(min),
                "{min} {reserved}"
            );
            assert_eq!(served(GFP_NOWAIT, min, reserved), 256 - min, "{min} {reserved}");
        }
    }
}
