//! The statistics' mechanisms, one by one: when a CPU tells the zone, who sees what it keeps, and what goes to where when it stops.

use framewright::pfn::{NodeId, ZoneIdx, ZoneKind};
use framewright::report::{NumaCounters, Source, VmStat, ZoneInfo};
use framewright::{CpuId, Mechanisms, Region};
use framewright_ops::{Op, Session, Shape, with_session};

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

/// Allocates so many pages, on a node or wherever the CPU is.
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
