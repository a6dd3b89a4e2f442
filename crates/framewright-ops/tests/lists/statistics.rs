//! The statistics' mechanisms, one by one: when a CPU adds its counts to the zone, which reader sees them before, and
//! where they go when it goes offline.

use std::cell::Cell;

use framewright::report::{NodeVmStat, NumaCounters, Source, VmStat, ZoneInfo};
use framewright::units::{NodeId, ZoneIdx, ZoneKind};
use framewright::{Allocator, Config, CpuId, Layout, Mechanisms, Pfn, Region};
use framewright_ops::{Op, Session, Shape, generate, with_session};
use framewright_rt::{Solo, Storage};

/// Two nodes of 1,024 frames, a CPU on each.
fn shape(mechanisms: &str) -> Shape {
    let regions = [Region::usable(0x10_0000, 0x10_0400, 0), Region::usable(0x10_0400, 0x10_0800, 1)];
    let mechanisms = Mechanisms::parse(mechanisms).unwrap();
    Shape { mechanisms, ..Shape::new(&regions, &[NodeId(0), NodeId(1)]) }
}

fn play(mechanisms: &str, body: impl FnOnce(&Session<'_>)) {
    with_session(&shape(mechanisms), |session| {
        body(session);
        session.check()?;
        session.check_frames()
    })
    .unwrap();
}

/// Carries out lines of operations.
fn perform(session: &Session<'_>, lines: &str) {
    for line in lines.lines() {
        session.perform(&line.trim().parse::<Op>().unwrap()).unwrap();
    }
}

/// Allocates pages, on a node or on the CPU's own.
fn allocate(session: &Session<'_>, pages: std::ops::Range<u32>, on: &str) {
    for name in pages {
        perform(session, &format!("a{name} = alloc order 0 GFP_KERNEL{on}"));
    }
}

fn zone(session: &Session<'_>, node: u8) -> NumaCounters {
    session.pages().zone(ZoneIdx::of(NodeId(node), ZoneKind::Normal)).unwrap().numa
}

/// A line of vmstat.
fn vmstat(session: &Session<'_>, name: &str) -> u64 {
    let text = VmStat(session.pages()).to_string();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_zone_is_told_when_a_cpu_has_more_than_the_threshold() {
    // Before the third patch readers see nothing else; with a sign half a threshold is told in advance.
    for (mechanisms, told) in [("numa-threshold-4", 7), ("numa-patch2,numa-threshold=4", 5)] {
        play(mechanisms, |session| {
            allocate(session, 0..4, "");
            assert_eq!((zone(session, 0).hit, vmstat(session, "numa_hit")), (0, 0), "{mechanisms}");
            allocate(session, 4..5, "");
            assert_eq!((zone(session, 0).hit, zone(session, 0).local), (told, told), "{mechanisms}");
            assert_eq!(vmstat(session, "numa_hit"), told);
            assert!(session.pages().needs_refresh(CpuId(0)) || told == 5);
            perform(session, "refresh 0");
            assert_eq!((zone(session, 0).hit, vmstat(session, "numa_local")), (5, 5), "{mechanisms}");
        });
    }
}

#[test]
fn a_zones_readers_see_what_cpus_keep_and_the_sum_of_all_does_not() {
    play("numa-patch3", |session| {
        allocate(session, 0..3, "");
        allocate(session, 3..5, " on 1");
        assert_eq!((zone(session, 0).hit, zone(session, 1).hit, zone(session, 1).other), (3, 2, 2));
        assert_eq!(vmstat(session, "numa_hit"), 0);
        perform(session, "refresh 0");
        assert_eq!(vmstat(session, "numa_hit"), 5);
    });
}

#[test]
fn a_cpu_that_stops_leaves_its_counts() {
    for mechanisms in ["numa-base", "numa-patch3", "baseline", "default", "numa-threshold-30000"] {
        play(mechanisms, |session| {
            allocate(session, 0..3, "");
            perform(session, "run-on 1\noffline-cpu 0");
            assert_eq!((zone(session, 0).hit, zone(session, 0).local), (3, 3), "{mechanisms}");
            let cpus = ZoneInfo(session.pages()).to_string().matches("cpu: 0").count();
            assert!(cpus == 0 && !session.pages().is_online(CpuId(0)), "{mechanisms}");
            perform(session, "online-cpu 0\nrun-on 0");
            allocate(session, 3..4, "");
            perform(session, "refresh 0");
            assert_eq!(zone(session, 0).hit, 4, "{mechanisms}");
        });
    }
}

#[test]
fn counters_that_are_switched_on_again_begin_at_0() {
    for mechanisms in ["numa-base", "numa-patch3", "baseline", "default"] {
        play(mechanisms, |session| {
            allocate(session, 0..3, "");
            perform(session, "numa-stat off");
            allocate(session, 3..5, "");
            assert_eq!((zone(session, 0), vmstat(session, "numa_hit")), (NumaCounters::default(), 0), "{mechanisms}");
            perform(session, "numa-stat on");
            assert_eq!(zone(session, 0), NumaCounters::default(), "{mechanisms}");
            allocate(session, 5..7, "");
            perform(session, "refresh 0");
            assert_eq!((zone(session, 0).hit, zone(session, 0).local), (2, 2), "{mechanisms}");
        });
    }
    play("numa-off", |session| {
        assert!(!session.pages().set_numa_stat(true));
    });
}

#[test]
fn misses_are_foreign_elsewhere() {
    for mechanisms in ["numa-base", "numa-patch3", "baseline", "default", "numa-threshold-256"] {
        play(mechanisms, |session| {
            // More than node 0 has.
            allocate(session, 0..1_100, "");
            perform(session, "refresh 0");
            let [near, far] = [0, 1].map(|node| zone(session, node));
            assert!(far.miss != 0 && far.hit == 0, "{mechanisms}: {far:?}");
            assert_eq!((near.hit + far.miss, near.foreign, far.other), (1_100, far.miss, far.miss), "{mechanisms}");
        });
    }
}

#[test]
fn numa_lines_stand_where_each_kernel_had_them() {
    let lines = |mechanisms: &str| {
        let mut text = String::new();
        play(mechanisms, |session| text = ZoneInfo(session.pages()).to_string());
        let at = |name: &str| text.find(name).unwrap();
        (at("nr_free_cma") < at("numa_hit"), text.contains("vm stats threshold: 4"))
    };
    assert_eq!(lines("numa-base"), (false, true));
    assert_eq!(lines("numa-patch1"), (true, true));
    assert_eq!(lines("default"), (true, false));
}

/// A node with a zone of 4 MiB and one of 128 MiB, and one without memory, all with counters of the embedder's.
fn counting(mechanisms: &str) -> Shape {
    let regions = [Region::usable(0, 0x400, 0), Region::usable(0x1000, 0x9000, 0)];
    let mechanisms = Mechanisms::parse(mechanisms).unwrap();
    let dma32_end = Pfn(0x1000);
    let shape = Shape::new(&regions, &[NodeId(0), NodeId(1)]);
    Shape { zone_counters: 1, node_counters: 2, mechanisms, dma32_end, ..shape }
}

/// How often a CPU counts until it tells.
fn period(session: &Session<'_>, counter: &str) -> usize {
    let told = (1..200).find(|_| {
        perform(session, &format!("count {counter} by 1"));
        !session.pages().needs_refresh(CpuId(0))
    });
    told.unwrap()
}

#[test]
fn a_node_is_told_when_a_cpu_has_more_than_the_largest_threshold_of_its_zones() {
    with_session(&counting("zone-stat=differentials"), |session| {
        let periods =
            ["zone 0 DMA 0", "zone 0 Normal 0", "node 0 1", "node 1 1"].map(|counter| period(session, counter));
        assert_eq!(periods, [5, 9, 9, 2]);
        // Short memory is a matter of zones.
        session.pages().set_pressure(NodeId(0), true);
        assert_eq!(period(session, "node 0 1"), 9);
        session.check().map(drop)
    })
    .unwrap();
    with_session(&counting("default"), |session| {
        assert_eq!(["zone 0 Normal 0", "node 0 1"].map(|counter| period(session, counter)), [1, 1]);
        session.check().map(drop)
    })
    .unwrap();
}

#[test]
fn a_nodes_readers_see_what_cpus_keep_and_nothing_below_0() {
    with_session(&counting("zone-stat=differentials"), |session| {
        perform(session, "count node 0 0 by 3\nrun-on 1\ncount node 0 0 by -2\ncount node 1 1 by -7");
        assert_eq!((vmstat(session, "nr_mapped"), vmstat(session, "nr_queued")), (1, 0));
        assert_eq!(session.pages().node_counter(NodeId(1), 0), Some(("nr_mapped", 0)));
        assert_eq!(
            (session.pages().node_counter(NodeId(2), 0), session.pages().node_counter(NodeId(0), 2)),
            (None, None)
        );
        // A CPU that goes offline adds its counts, and counts that it makes later still count.
        assert!(session.pages().needs_refresh(CpuId(1)));
        perform(session, "run-on 0\noffline-cpu 1");
        assert!(!session.pages().needs_refresh(CpuId(1)) && session.pages().needs_refresh(CpuId(0)));
        perform(session, "run-on 1\ncount node 0 0 by 1\ncount node 1 1 by 9");
        assert_eq!((vmstat(session, "nr_mapped"), vmstat(session, "nr_queued")), (2, 2));
        assert!(!session.pages().count_in_node(NodeId(2), 0, 1) && !session.pages().count_in_node(NodeId(0), 2, 1));
        session.check().map(drop)
    })
    .unwrap();
}

#[test]
fn counters_of_nodes_stand_where_linux_has_its_own() {
    with_session(&counting("default"), |session| {
        perform(
            session,
            "count node 0 0 by 3\ncount node 0 1 by 4\ncount zone 0 DMA 0 by 5\ncount zone 0 Normal 0 by 6",
        );
        let zoneinfo = ZoneInfo(session.pages()).to_string();
        let lines = zoneinfo.lines().filter(|line| {
            ["Node", "  per-node", "      nr_mapped", "      nr_queued", "      nr_staged"]
                .iter()
                .any(|start| line.starts_with(start))
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
        Node 0, zone      DMA
          per-node stats
              nr_mapped    3
              nr_queued    4
              nr_staged    5
        Node 0, zone    DMA32
        Node 0, zone   Normal
              nr_staged    6
        Node 0, zone  Movable
        Node 1, zone      DMA
        Node 1, zone    DMA32
        Node 1, zone   Normal
        Node 1, zone  Movable
        ");
        let node = NodeVmStat { source: session.pages(), node: NodeId(0) }.to_string();
        insta::assert_snapshot!(node, @"
        nr_free_pages 33792
        nr_staged 11
        nr_free_cma 0
        numa_hit 0
        numa_miss 0
        numa_foreign 0
        numa_interleave 0
        numa_local 0
        numa_other 0
        nr_mapped 3
        nr_queued 4
        ");
        session.check().map(drop)
    })
    .unwrap();
}

#[test]
fn an_embedder_may_have_only_so_many_counters() {
    const NAMES: &[&str] = &["nr"; 49];
    let refusal = |zone_counters, node_counters| {
        let (shape, storage) = (shape("default"), &mut Storage::new(&Layout::default()));
        let config = Config { zone_counters, node_counters, ..shape.config() };
        let solo = Solo::new(&shape.cpus);
        Allocator::boot(solo, &config, storage.parts()).err().map(|error| error.to_string())
    };
    let most = |zone: usize, node: usize| refusal(&NAMES[..zone], &NAMES[..node]);
    assert!(most(14, 48).unwrap().contains("the memory for"), "those are not too many");
    let too_many = [most(15, 0), most(0, 49)].map(Option::unwrap);
    assert_eq!(too_many[0], "15 counters of the embedder's are more than the 14 that a zone has room for");
    assert_eq!(too_many[1], "49 counters of the embedder's are more than the 48 that a node has room for");
}

/// Frames on the lists of CPU 0, of a node's zone.
fn cached(session: &Session<'_>, node: u8) -> u64 {
    session.pages().pcp(ZoneIdx::of(NodeId(node), ZoneKind::Normal), CpuId(0)).unwrap().count
}

#[test]
fn the_third_refresh_empties_lists_of_other_nodes() {
    for mechanisms in ["baseline", "default", "numa-patch3,zone-stat=differentials", "depot=off,numa-stat=off"] {
        play(mechanisms, |session| {
            allocate(session, 0..3, " on 1");
            allocate(session, 3..6, "");
            perform(session, "free a0\nfree a1\nfree a3");
            let (near, far) = (cached(session, 0), cached(session, 1));
            assert!(near != 0 && far != 0, "{mechanisms}");
            let refresh = || {
                let did = session.pages().refresh_statistics(CpuId(0));
                (did.drained, did.waiting)
            };
            assert_eq!(
                [refresh(), refresh(), refresh(), refresh()],
                [(0, 1), (0, 1), (far, 0), (0, 0)],
                "{mechanisms}"
            );
            assert_eq!((cached(session, 0), cached(session, 1)), (near, 0), "{mechanisms}");
            // In use again.
            perform(session, "free a2");
            assert!(session.pages().needs_refresh(CpuId(0)));
            assert_eq!([refresh(), refresh()], [(0, 1), (0, 1)], "{mechanisms}");
            allocate(session, 6..7, " on 1");
            perform(session, "free a6");
            let far = cached(session, 1);
            assert_eq!([refresh(), refresh(), refresh()], [(0, 1), (0, 1), (far, 0)], "{mechanisms}");
            assert!(!session.pages().needs_refresh(CpuId(0)), "{mechanisms}");
        });
    }
}

#[test]
fn idle_cpus_hold_nothing_of_other_nodes_whatever_they_did() {
    let held = Cell::new(0);
    for seed in 0..400 {
        let scenario = generate::scenario(seed);
        let result = with_session(&scenario.shape, |session| {
            scenario.steps.iter().try_for_each(|step| session.perform(&step.op).map(drop))?;
            let cpus = (0..session.pages().cpus()).map(|cpu| CpuId(cpu as u16));
            for cpu in cpus.chain([CpuId(u16::MAX)]) {
                held.set(held.get() + session.cached(cpu)[1]);
                // Each is judged: what a CPU has of its own node stays.
                (0..3).try_for_each(|_| session.perform(&Op::Refresh(cpu)).map(drop))?;
                let rest = (session.cached(cpu)[1], session.pages().needs_refresh(cpu));
                assert_eq!(rest, (0, false), "seed {seed}, CPU {}", cpu.0);
            }
            session.check()?;
            session.check_frames()
        });
        assert_eq!(result, Ok(()), "seed {seed}");
    }
    assert!(held.get() > 1_000, "the scenarios leave {} frames with CPUs of other nodes", held.get());
}
