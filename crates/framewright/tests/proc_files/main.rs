//! The `/proc` files, compared with those of a recorded kernel and of the one that runs the tests.
//!
//! The recorded one is Linux 6.1 with 4 CPUs and one node of 1 GiB. Strict readers read the files back.

mod live;
mod numa_split;
mod recorded;
mod strict;

use std::fmt::{self, Display, Write};

use framewright::report::{
    BuddyInfo, COUNTER_LIMIT, ExtfragIndex, NodeNumaStat, NodeSnapshot, NodeVmStat, NumaCounters, PageTypeInfo,
    PcpSnapshot, Source, UnusableIndex, VmEvents, VmStat, ZoneInfo, ZoneSnapshot,
};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneIdx, ZoneKind};
use recorded::{Recorded, recorded};

const BUDDYINFO: &str = include_str!("../fixtures/linux-6.1-buddyinfo.txt");
const PAGETYPEINFO: &str = include_str!("../fixtures/linux-6.1-pagetypeinfo.txt");
const ZONEINFO: &str = include_str!("../fixtures/linux-6.1-zoneinfo.txt");
const VMSTAT: &str = include_str!("../fixtures/linux-6.1-vmstat.txt");

fn linux_whole() -> Recorded {
    recorded(PAGETYPEINFO, ZONEINFO, VMSTAT).expect("the recorded files are well-formed")
}

fn linux() -> Recorded {
    linux_whole().own()
}

/// Compares line by line, so that a failure names the line.
#[track_caller]
fn assert_same_lines(ours: &str, linux: impl IntoIterator<Item = &'static str>) {
    let mut ours = ours.lines();
    for (at, line) in linux.into_iter().enumerate() {
        assert_eq!(ours.next(), Some(line), "line {}", at + 1);
    }
    assert_eq!(ours.next(), None, "more lines than Linux has");
}

/// Whether a counter of Linux's zoneinfo or vmstat is one that a page allocator has.
fn is_ours(name: &str) -> bool {
    let names = ["nr_free_pages", "nr_free_cma", "pgfree", "pageoutrun", "pgmigrate_success", "pgmigrate_fail"];
    let numa = ["hit", "miss", "foreign", "interleave", "local", "other"];
    names.contains(&name)
        || name.strip_prefix("numa_").is_some_and(|rest| numa.contains(&rest))
        || ["pgalloc_", "allocstall_", "compact_"].iter().any(|prefix| name.starts_with(prefix))
}

#[test]
fn buddyinfo_is_linuxs() {
    assert_eq!(BuddyInfo(&linux()).to_string(), BUDDYINFO);
}

#[test]
fn pagetypeinfo_is_linuxs() {
    assert_eq!(PageTypeInfo(&linux()).to_string(), PAGETYPEINFO);
}

#[test]
fn zoneinfo_is_linuxs_without_counters_of_others() {
    // Counters stand six blanks in; all other lines are ours.
    let ours = |line: &&str| match line.strip_prefix("      ") {
        Some(counter) if !counter.starts_with(' ') => is_ours(counter.split(' ').next().unwrap_or_default()),
        _ => true,
    };
    let text = ZoneInfo(&linux()).to_string();
    assert_same_lines(&text, ZONEINFO.lines().filter(ours));
    assert!(text.ends_with(")\n"));
}

#[test]
fn zoneinfo_is_linuxs_with_counters_of_others() {
    assert_eq!(ZoneInfo(&linux_whole()).to_string(), ZONEINFO);
}

#[test]
fn vmstat_is_linuxs_without_counters_of_others() {
    let mut state = linux();
    // vmstat was read some milliseconds after zoneinfo; the requests in between went to the Normal zone.
    for zone in state.zones.iter_mut().filter(|zone| zone.kind == ZoneKind::Normal) {
        zone.numa.hit += 76_738 - (1 + 3 + 76_493);
        zone.numa.local += 76_738 - (1 + 3 + 76_493);
    }
    let ours = |line: &&str| line.split(' ').next().is_some_and(is_ours);
    assert_same_lines(&VmStat(&state).to_string(), VMSTAT.lines().filter(ours));
}

#[test]
fn counters_of_others_are_summed_in_vmstat() {
    let name = |text: &str| text.to_string();
    let idx = |node, kind| ZoneIdx::of(NodeId(node), kind);
    let state = Recorded {
        // The zones need not agree on how many there are, nor does one without memory need any.
        zone_counters: vec![
            (idx(0, ZoneKind::Dma32), vec![(name("nr_mlock"), 3)]),
            (idx(0, ZoneKind::Normal), vec![(name("nr_mlock"), 4), (name("nr_zspages"), 1)]),
            (idx(12, ZoneKind::Normal), vec![(name("nr_mlock"), u64::MAX)]),
        ],
        node_counters: vec![(NodeId(0), vec![(name("nr_dirty"), 7)]), (NodeId(12), vec![(name("nr_dirty"), 9)])],
        global_numa: Some(NumaCounters { hit: 29, ..NumaCounters::default() }),
        ..four_nodes()
    };
    let lines = |text: String| text.lines().map(str::to_string).collect::<Vec<_>>();
    let node = |node| lines(NodeVmStat { source: &state, node: NodeId(node) }.to_string());
    let node0 = ["nr_mlock 7", "nr_zspages 1", "nr_free_cma 6", "numa_hit 20", "numa_miss 1", "numa_foreign 2"];
    assert_eq!(node(0)[1..7], node0);
    assert_eq!(node(0)[7..], ["numa_interleave 8", "numa_local 18", "numa_other 3", "nr_dirty 7"]);
    assert_eq!(node(2)[1..3], ["nr_free_cma 0", "numa_hit 0"]);
    assert_eq!(node(1), [""; 0]);
    let all = lines(VmStat(&state).to_string());
    assert_eq!(all[1..5], [&format!("nr_mlock {}", u64::MAX), "nr_zspages 1", "nr_free_cma 9", "numa_hit 29"]);
    assert_eq!(all[10..12], ["nr_dirty 16", "pgalloc_dma 32"]);
    let zoneinfo = ZoneInfo(&state).to_string();
    assert!(
        zoneinfo.contains("Node 12, zone   Normal\n  per-node stats\n      nr_dirty     9\n  pages free"),
        "{zoneinfo}"
    );
}

#[test]
fn scores_of_the_recorded_zones() {
    assert_eq!(
        UnusableIndex(&linux()).to_string(),
        "Node 0, zone      DMA 0.000 0.000 0.000 0.000 0.000 0.000 0.008 0.025 0.058 0.058 0.193 \n\
         Node 0, zone    DMA32 0.000 0.000 0.000 0.001 0.003 0.006 0.012 0.026 0.051 0.093 0.150 \n\
         Node 0, zone   Normal 0.000 0.000 0.000 0.000 0.000 0.000 0.001 0.001 0.003 0.003 0.007 \n"
    );
    let mut state = linux();
    assert!(ExtfragIndex(&state).to_string().lines().all(|line| line.ends_with("-1.000 -1.000 ")));
    for zone in &mut state.zones {
        zone.nr_free = ZoneSnapshot::default().nr_free;
    }
    state.zones[0].nr_free[1][0] = 1;
    state.zones[1].nr_free[0][1] = 1000;
    assert_eq!(
        ExtfragIndex(&state).to_string(),
        "Node 0, zone      DMA -1.000 -1.000  0.-500  0.-250  0.-125  0.-62  0.-31  0.-15  0.-07  0.-03  0.-01 \n\
         Node 0, zone    DMA32 -1.000  0.499  0.749  0.874  0.937  0.968  0.984  0.992  0.996  0.998  0.999 \n\
         Node 0, zone   Normal  0.000  0.000  0.000  0.000  0.000  0.000  0.000  0.000  0.000  0.000  0.000 \n"
    );
}

/// A machine with four nodes and three CPUs, one of them offline.
///
/// One node has two zones, one is offline, one has no memory, and one has one zone.
fn four_nodes() -> Recorded {
    let mut state = Recorded {
        max_order: Order(13),
        has_cma: true,
        has_device_zone: false,
        zones: Vec::new(),
        pcps: Vec::new(),
        ..linux()
    };
    for node in [0, 2, 12].map(NodeId) {
        for kind in ZoneKind::ALL {
            let has_memory = matches!((node.0, kind), (0, ZoneKind::Dma32) | (0 | 12, ZoneKind::Normal));
            let present = if has_memory { 1 << 18 } else { 0 };
            state.zones.push(ZoneSnapshot { node, kind, present, ..ZoneSnapshot::default() });
            for cpu in [0, 2].map(CpuId) {
                let pcp = PcpSnapshot { cpu, count: 5, high: 60, batch: 7 };
                state.pcps.push((ZoneIdx::of(node, kind), pcp));
            }
        }
    }
    for (at, zone) in state.zones.iter_mut().filter(|zone| zone.is_populated()).enumerate() {
        let at = at as u64;
        zone.start_pfn = Pfn(at << 20);
        zone.nr_free[0] = [99_999, 100_000, 1_234_567, 0, 3, at];
        zone.nr_free[13] = [0, 1, 0, 0, 0, 0];
        zone.free = zone.free_by_order().iter().zip(0..).map(|(blocks, order)| blocks << order).sum();
        zone.blocks = [1, 2, 3, 4, 5, at];
        zone.numa = NumaCounters { hit: 10, miss: at, foreign: 1, interleave: 4, local: 9, other: 1 + at };
        (zone.boost, zone.min, zone.low, zone.high, zone.cma, zone.free_cma) = (100, 10, 20, 30, 640, 3);
        zone.protection = [0, 0, 0, 77];
        zone.stat_threshold = 42;
        zone.unreclaimable = at == 2;
    }
    state
}

#[test]
fn pagetypeinfo_repeats_its_tables_for_each_node_with_memory() {
    let mut state = four_nodes();
    (state.max_order, state.zones[2].mixed) = (Order(1), Some([9, 8, 7, 6, 5, 4]));
    state.zones[1].present = 0;
    state.zones.truncate(8);
    // A count that Linux stops at makes its column wider.
    let node0 = [
        "Page block order: 9",
        "Pages per block:  512",
        "",
        "Free pages count per migrate type at order       0      1 ",
        "Node    0, zone   Normal, type    Unmovable  99999      0 ",
        "Node    0, zone   Normal, type      Movable >100000      0 ",
        "Node    0, zone   Normal, type  Reclaimable >100000      0 ",
        "Node    0, zone   Normal, type   HighAtomic      0      0 ",
        "Node    0, zone   Normal, type          CMA      3      0 ",
        "Node    0, zone   Normal, type      Isolate      1      0 ",
        "",
        "Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic          CMA      Isolate ",
        "Node 0, zone   Normal            1            2            3            4            5            1 ",
        "",
        "Number of mixed blocks    Unmovable      Movable  Reclaimable   HighAtomic          CMA      Isolate ",
        "Node 0, zone   Normal            9            8            7            6            5            4 ",
    ];
    assert_same_lines(&PageTypeInfo(&state).to_string(), node0);

    let nodes = strict::pagetypeinfo(&PageTypeInfo(&four_nodes()).to_string()).expect("two nodes");
    let of = |node: &strict::PageTypes| node.free.iter().map(|row| row.node).collect::<Vec<_>>();
    assert_eq!((nodes.len(), of(&nodes[0]), of(&nodes[1])), (2, vec![0; 12], vec![12; 6]));
}

#[test]
fn zoneinfo_skips_what_is_offline_and_adds_the_boost() {
    let text = ZoneInfo(&four_nodes()).to_string();
    let node2_dma = "Node 2, zone      DMA\n  pages free     0\n        boost    0\n";
    assert!(text.contains(node2_dma), "a node without memory is shown, without node stats:\n{text}");
    let zones = strict::zoneinfo(&text).expect("well-formed");
    let heads: Vec<_> = zones.iter().map(|zone| (zone.node, &*zone.name, zone.node_counters.is_some())).collect();
    let node = |node, first| ["DMA", "DMA32", "Normal", "Movable"].map(|name| (node, name, name == first));
    assert_eq!(heads, [node(0, "DMA32"), node(2, ""), node(12, "Normal")].concat());
    let normal = &zones[10];
    let shown = ["boost", "min", "low", "high", "cma", "nr_free_cma", "node_unreclaimable", "start_pfn"];
    assert_eq!(shown.map(|name| normal.value(name)), [100, 110, 120, 130, 640, 3, 1, 2 << 20]);
    assert_eq!(normal.protection, [0, 0, 0, 77]);
    assert_eq!(normal.pagesets, [[0, 5, 60, 7, 42], [2, 5, 60, 7, 42]]);
}

#[test]
fn numastat_and_vmstat_are_sums_over_zones() {
    let state = four_nodes();
    let numastat = |node| NodeNumaStat { source: &state, node: NodeId(node) }.to_string();
    let node0 = "numa_hit 20\nnuma_miss 1\nnuma_foreign 2\ninterleave_hit 8\nlocal_node 18\nother_node 3\n";
    let node2 = "numa_hit 0\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 0\nother_node 0\n";
    assert_eq!([0, 1, 2].map(numastat), [node0, "", node2]);
    assert_eq!(NodeSnapshot::of(&state, NodeId(1)), None);
    let node = NodeSnapshot::of(&state, NodeId(0)).expect("online");
    assert_eq!((node.node, node.present), (NodeId(0), 2 << 18));

    let vmstat = strict::vmstat(&VmStat(&state).to_string()).expect("well-formed");
    let free = state.zones.iter().map(|zone| zone.free).sum();
    let expected =
        [("nr_free_pages", free), ("nr_free_cma", 9), ("numa_hit", 30), ("numa_miss", 3), ("numa_foreign", 3)];
    for (have, (name, value)) in vmstat.iter().zip(expected) {
        assert_eq!((&*have.0, have.1), (name, value));
    }
    assert!(!vmstat.iter().any(|(name, _)| name.ends_with("_device")));
}

#[test]
fn vmstat_leaves_out_counters_that_nobody_keeps() {
    let events = VmEvents { pgalloc: [1, 2, 3, 4], pgfree: 5, compact_stall: Some(0), ..VmEvents::default() };
    let text = VmStat(&Recorded { zones: Vec::new(), events, ..linux() }).to_string();
    let expected = "\
nr_free_pages 0
nr_free_cma 0
numa_hit 0
numa_miss 0
numa_foreign 0
numa_interleave 0
numa_local 0
numa_other 0
pgalloc_dma 1
pgalloc_dma32 2
pgalloc_normal 3
pgalloc_movable 4
pgalloc_device 0
pgfree 5
compact_stall 0
";
    assert_eq!(text, expected);
}

#[test]
fn strict_readers_get_back_what_was_printed() {
    for (name, state) in [("linux", linux()), ("four nodes", four_nodes())] {
        let columns = state.max_order.index() + 1;
        let buddies = strict::buddyinfo(&BuddyInfo(&state).to_string()).expect(name);
        let nodes = strict::pagetypeinfo(&PageTypeInfo(&state).to_string()).expect(name);
        let (free, blocks): (Vec<_>, Vec<_>) = nodes.into_iter().map(|node| (node.free, node.blocks)).unzip();
        let (mut free, mut blocks) = (free.concat().into_iter(), blocks.concat().into_iter());
        let types = MigrateType::ALL.into_iter().filter(|&ty| state.has_cma || ty != MigrateType::Cma);
        let populated: Vec<_> = state.zones.iter().filter(|zone| zone.is_populated()).collect();
        assert_eq!(buddies.len(), populated.len(), "{name}");
        for (zone, row) in populated.into_iter().zip(&buddies) {
            let head = (u64::from(zone.node.0), zone.kind.name());
            assert_eq!((row.node, &*row.zone), head, "{name}");
            assert_eq!(row.counts, zone.free_by_order()[..columns], "{name}");
            for ty in types.clone() {
                let row = free.next().expect("a line for each type");
                assert_eq!((row.node, &*row.zone, row.ty.as_deref()), (head.0, head.1, Some(ty.name())), "{name}");
                let lists = &zone.nr_free[..columns];
                let capped: Vec<_> = lists.iter().map(|by_type| by_type[ty.index()].min(100_000)).collect();
                assert_eq!(row.counts, capped, "{name}");
            }
            let row = blocks.next().expect("a line for each zone");
            let counts: Vec<_> = types.clone().map(|ty| zone.blocks[ty.index()]).collect();
            assert_eq!((row.node, &*row.zone, row.counts), (head.0, head.1, counts), "{name}");
        }
        assert_eq!((free.next(), blocks.next()), (None, None), "{name}");

        let text = (PageTypeInfo(&state).to_string(), ZoneInfo(&state).to_string(), VmStat(&state).to_string());
        let again = recorded(&text.0, &text.1, &text.2).expect(name);
        assert_eq!(
            ZoneInfo(&Recorded { has_device_zone: state.has_device_zone, ..again }).to_string(),
            text.1,
            "{name}"
        );
    }
}

#[test]
fn strict_readers_refuse_what_is_malformed() {
    let uneven = "Node 0, zone      DMA      0      1 \nNode 0, zone   Normal      0 \n";
    for text in [uneven, "Node 0, zone DMA x \n", "Node 0 zone\n", "zone DMA, Node 0 1 2\n"] {
        assert!(strict::buddyinfo(text).is_err(), "{text:?}");
    }
    for damage in
        [("type ", "kind "), ("Pages per", "Frames per"), ("     10 \n", "     \n"), ("Number of b", "Amount of b")]
    {
        assert!(strict::pagetypeinfo(&PAGETYPEINFO.replacen(damage.0, damage.1, 1)).is_err(), "{damage:?}");
    }
    for damage in
        [("Node 0", "node 0"), ("(0, 122", "0, 122"), ("3808", "38x08"), ("    cpu: 0\n", ""), (", zone", " zone")]
    {
        assert!(strict::zoneinfo(&ZONEINFO.replacen(damage.0, damage.1, 1)).is_err(), "{damage:?}");
    }
    for text in ["nr_free_pages\n", "nr_free_pages  7\n", "nr_free_pages -7\n"] {
        assert!(strict::vmstat(text).is_err(), "{text:?}");
    }
}

/// A source that lies about everything.
struct Liar;

impl Source for Liar {
    fn max_order(&self) -> Order {
        Order(255)
    }

    fn pageblock_order(&self) -> Order {
        Order(255)
    }

    fn has_cma(&self) -> bool {
        true
    }

    fn nr_nodes(&self) -> usize {
        usize::MAX
    }

    fn nr_cpus(&self) -> usize {
        usize::MAX
    }

    fn zone(&self, _: ZoneIdx) -> Option<ZoneSnapshot> {
        let most = u64::MAX;
        Some(ZoneSnapshot {
            node: NodeId(255),
            present: most,
            free: most,
            boost: most,
            min: most,
            nr_free: [[most; MigrateType::COUNT]; Order::COUNT],
            mixed: Some([most; MigrateType::COUNT]),
            numa: NumaCounters { hit: most, ..NumaCounters::default() },
            ..ZoneSnapshot::default()
        })
    }

    fn pcp(&self, _: ZoneIdx, cpu: CpuId) -> Option<PcpSnapshot> {
        cpu.0.is_multiple_of(5000).then_some(PcpSnapshot { cpu: CpuId(u16::MAX), count: u64::MAX, high: 0, batch: 0 })
    }

    fn events(&self) -> VmEvents {
        VmEvents { pgfree: u64::MAX, ..VmEvents::default() }
    }

    fn zone_counter(&self, _: ZoneIdx, _: usize) -> Option<(&str, u64)> {
        Some(("nr_without_end", u64::MAX))
    }

    fn node_counter(&self, _: NodeId, _: usize) -> Option<(&str, u64)> {
        Some(("nr_endless", u64::MAX))
    }
}

#[test]
fn any_answer_of_a_source_is_printed() {
    let source: &dyn Source = &Liar;
    assert_eq!(BuddyInfo(source).to_string().lines().count(), NodeId::LIMIT * ZoneKind::COUNT);
    let zones = strict::zoneinfo(&ZoneInfo(source).to_string()).expect("well-formed");
    assert_eq!((zones.len(), zones[255].pagesets.len(), zones[255].value("min")), (256, 14, u64::MAX));
    let nodes = strict::pagetypeinfo(&PageTypeInfo(source).to_string()).expect("well-formed");
    assert_eq!((nodes.len(), nodes[0].pages_per_block, nodes[0].free[0].counts.len()), (64, 0, Order::COUNT));
    assert!(VmStat(source).to_string().starts_with(&format!("nr_free_pages {}\n", u64::MAX)));
    for scores in [UnusableIndex(source).to_string(), ExtfragIndex(source).to_string()] {
        assert_eq!(scores.lines().count(), NodeId::LIMIT * ZoneKind::COUNT);
    }
    assert!(NodeNumaStat { source, node: NodeId(255) }.to_string().starts_with("numa_hit"));
    let lines = NodeVmStat { source, node: NodeId(255) }.to_string();
    assert_eq!(lines.lines().count(), 8 + 2 * COUNTER_LIMIT);
    assert!(lines.ends_with(&format!("nr_endless {}\n", u64::MAX)));
}

/// A file that fails one write, and takes all others.
struct Failing {
    before: usize,
}

impl Write for Failing {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        let fails = self.before == 0;
        self.before = self.before.wrapping_sub(1);
        if fails { Err(fmt::Error) } else { Ok(()) }
    }
}

/// No part of a file is left out without an error: each write fails in turn.
#[test]
fn a_write_that_fails_is_an_error() {
    let state = four_nodes();
    let node = NodeId(0);
    let files: [&dyn Display; 8] = [
        &BuddyInfo(&state),
        &PageTypeInfo(&state),
        &UnusableIndex(&state),
        &ExtfragIndex(&state),
        &ZoneInfo(&state),
        &VmStat(&state),
        &NodeVmStat { source: &state, node },
        &NodeNumaStat { source: &state, node },
    ];
    for (at, file) in files.into_iter().enumerate() {
        let mut all = Failing { before: usize::MAX };
        write!(all, "{file}").unwrap();
        let writes = usize::MAX - all.before;
        let passed = (0..writes).find(|&before| write!(Failing { before }, "{file}").is_ok());
        assert_eq!(passed, None, "file {at}: of {writes} writes, one that failed was no error");
    }
}
