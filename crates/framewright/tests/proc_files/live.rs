//! The files of the kernel that runs the tests, byte for byte.
//!
//! The strict readers take each file apart into a state, which is then printed again; a difference is a fault of our
//! layout. One file by itself can be compared on a running machine. Sums across two files need a machine that stands
//! still. They are compared if one file reads equally before and after the other, in a bounded number of tries.
//!
//! Our layout is that of Linux 6.1. Changes of later kernels are in [`LATER`], and the owners of vmstat's other lines
//! in [`OTHERS`]. A line in neither fails, because a person has to look at it. A file that cannot be read here is not
//! compared, and the test prints that past the harness, which would swallow it.

use std::fs;
use std::io::{ErrorKind, Write};

use framewright::report::{
    BuddyInfo, NodeNumaStat, NodeVmStat, NumaCounters, PageTypeInfo, VmStat, ZoneInfo, ZoneSnapshot,
};
use framewright::units::{NodeId, ZoneIdx, ZoneKind};

use crate::recorded::{Counters, Recorded, events, index_of, zones};
use crate::{is_ours, strict};

/// Lines of zoneinfo and vmstat that are younger than Linux 6.1: their beginnings, now and in 6.1.
///
/// The second is absent if 6.1 had no such line. Counters at the place of our counters of others are not listed.
const LATER: [(&str, Option<&str>); 8] = [
    ("      nr_unaccepted ", None),
    ("nr_unaccepted ", None),
    ("        promo    ", None),
    ("              high_min: ", None),
    ("              high_max: ", None),
    // Wider, to stand above the two new ones.
    ("              count:    ", Some("              count: ")),
    ("              high:     ", Some("              high:  ")),
    ("              batch:    ", Some("              batch: ")),
];

/// How names begin that other subsystems have among the events of vmstat.
const OTHERS: &[&str] = &[
    // Writeback and the memory map, which have levels there.
    "nr_dirty_",
    "nr_memmap_",
    "nr_unstable",
    // Reading, writing, faults and reclaim.
    "pgpg",
    "psw",
    "pgskip_",
    "pgactivate",
    "pgdeactivate",
    "pglazyfree",
    "pgfault",
    "pgmajfault",
    "pgrefill",
    "pgreuse",
    "pgsteal_",
    "pgscan_",
    "pgdemote_",
    "pgpromote_",
    "pgrotated",
    "pginodesteal",
    "zone_reclaim_",
    "slabs_scanned",
    "kswapd_",
    "drop_",
    "oom_kill",
    "unevictable_pgs_",
    "workingset_",
    // Moving pages between nodes by their use.
    "numa_pte_",
    "numa_huge_",
    "numa_hint_",
    "numa_pages_",
    "numa_task_",
    // Huge pages, contiguous ranges, and memory lent to virtual machines.
    "thp_",
    "htlb_",
    "cma_",
    "balloon_",
    // Swap, merging of equal pages, page tables, and locks of mappings.
    "swap_",
    "swpin_",
    "swpout_",
    "ksm_",
    "cow_",
    "zsw",
    "direct_map_",
    "nr_tlb_",
    "vma_lock_",
    "vmap",
    "kstack_",
];

/// Readings in search of two that are equal. Where nothing else runs, the first or second try succeeds.
const TRIES: usize = 50;

/// Disagreements between two files at moments at which neither changed, before they are believed.
const DISAGREEMENTS: usize = 3;

/// Says something where it is seen even if the test passes.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "\nproc_files: {text}");
}

/// A file's text; none, and said so, if it cannot be had here.
fn read(path: &str) -> Option<String> {
    match fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            say(&format!("NOT COMPARED with this machine: {path}: {error}"));
            None
        }
        Err(error) => panic!("{path}: {error}"),
    }
}

/// A file with counters of zones, as Linux 6.1 would have printed it.
///
/// None, with a note, if the kernel has other kinds of zones than ours, or lacks the NUMA counters.
fn read_counters(path: &str) -> Option<String> {
    let zoneinfo = read("/proc/zoneinfo")?;
    let kinds = ZoneKind::ALL.map(ZoneKind::name).into_iter().chain(["Device"]);
    let has = |kind: &str| zoneinfo.lines().any(|line| line.starts_with("Node") && line.ends_with(&format!(" {kind}")));
    let zones = zoneinfo.lines().filter(|line| line.starts_with("Node 0,")).count();
    if kinds.take(zones).all(has) && zones >= ZoneKind::COUNT && zoneinfo.contains("numa_hit ") {
        return read(path).map(|text| as_in_6_1(&text));
    }
    say(&format!("NOT COMPARED with this machine: {path}: its kernel has other zones, or no NUMA counters"));
    None
}

/// The nodes that the machine shows.
fn node_numbers() -> Vec<u8> {
    let folder = fs::read_dir("/sys/devices/system/node").into_iter().flatten();
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut nodes: Vec<u8> = names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    nodes.sort_unstable();
    nodes
}

/// Compares whole texts, and names the first line that differs.
#[track_caller]
fn assert_same_bytes(what: &str, ours: &str, linux: &str) {
    for (at, (ours, linux)) in ours.lines().zip(linux.lines()).enumerate() {
        assert_eq!(ours, linux, "{what}, line {}: ours on the left", at + 1);
    }
    assert_eq!(ours, linux, "{what}: ours on the left");
}

/// A zoneinfo or vmstat as Linux 6.1 would have printed it.
fn as_in_6_1(text: &str) -> String {
    let line = |line: &str| {
        let change = LATER.iter().find_map(|&(now, then)| Some((line.strip_prefix(now)?, then)));
        match change {
            None => format!("{line}\n"),
            Some((_, None)) => String::new(),
            Some((value, Some(then))) => format!("{then}{value}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// A state of one zone that has the counters of a vmstat.
///
/// `nr_free_pages` comes first and the NUMA counters after the zone's others. Then come those of the node until an
/// event, or the end.
fn of_vmstat(node: NodeId, lines: &[(String, u64)], is_event: impl Fn(&str) -> bool) -> Recorded {
    let value = |name: &str| lines.iter().find(|(have, _)| have == name).map_or(0, |&(_, value)| value);
    let numa = |name: &str| value(&format!("numa_{name}"));
    let is_free = |name: &str| name == "nr_free_pages" || name == "nr_free_cma";
    let is_numa = |name: &str| NumaCounters::default().named().iter().any(|&(ours, _)| ours == name);
    let end = lines.iter().position(|(name, _)| is_event(name)).unwrap_or(lines.len());
    let at = lines[..end].iter().position(|(name, _)| is_numa(name)).unwrap_or(end);
    let others = |part: &[(String, u64)]| -> Counters {
        part.iter().filter(|(name, _)| !is_free(name) && !is_numa(name)).cloned().collect()
    };
    let zone = ZoneSnapshot {
        node,
        present: 1,
        free: value("nr_free_pages"),
        free_cma: value("nr_free_cma"),
        numa: NumaCounters {
            hit: numa("hit"),
            miss: numa("miss"),
            foreign: numa("foreign"),
            interleave: numa("interleave"),
            local: numa("local"),
            other: numa("other"),
        },
        ..ZoneSnapshot::default()
    };
    Recorded {
        has_device_zone: value_is_there(lines, "pgalloc_device"),
        zones: vec![zone],
        zone_counters: vec![(ZoneIdx::of(node, zone.kind), others(&lines[..at]))],
        node_counters: vec![(node, others(&lines[at..end]))],
        events: events(lines),
        ..Recorded::default()
    }
}

fn value_is_there(lines: &[(String, u64)], name: &str) -> bool {
    lines.iter().any(|(have, _)| have == name)
}

/// Whether vmstat's events begin with this line.
///
/// The first are those of writeback, whose numbers no node has.
fn is_first_event(name: &str) -> bool {
    name == "nr_dirty_threshold" || name.starts_with("nr_memmap_") || name == "pgpgin"
}

/// The lines of vmstat without those that others have among the events.
fn own_lines(vmstat: &str) -> String {
    let mut is_behind = false;
    let mut text = String::new();
    for line in vmstat.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        is_behind |= is_first_event(name);
        // Some names that we have begin like others'.
        let is_others = is_behind && !is_ours(name);
        if !is_others {
            text.extend([line, "\n"]);
        } else if !OTHERS.iter().any(|others| name.starts_with(others)) {
            panic!("/proc/vmstat: {name:?} is unknown: is it a counter of a page allocator, or one for OTHERS?");
        }
    }
    text
}

/// A node's numastat as a state.
fn of_numastat(node: NodeId, numastat: &str) -> Recorded {
    let lines = strict::vmstat(numastat).expect("numastat");
    let value = |name: &str| lines.iter().find(|(have, _)| have == name).expect(name).1;
    let numa = NumaCounters {
        hit: value("numa_hit"),
        miss: value("numa_miss"),
        foreign: value("numa_foreign"),
        interleave: value("interleave_hit"),
        local: value("local_node"),
        other: value("other_node"),
    };
    Recorded { zones: vec![ZoneSnapshot { node, present: 1, numa, ..ZoneSnapshot::default() }], ..Recorded::default() }
}

/// Buddyinfo as a state in which all blocks are of one mobility.
fn of_buddyinfo(buddyinfo: &str) -> Recorded {
    let rows = strict::buddyinfo(buddyinfo).expect("buddyinfo");
    let mut state = Recorded { max_order: rows[0].max_order(), ..Recorded::default() };
    for row in &rows {
        let mut zone = zone_of(row);
        for (by_type, &count) in zone.nr_free.iter_mut().zip(&row.counts) {
            by_type[0] = count;
        }
        state.zones.push(zone);
    }
    state
}

/// Pagetypeinfo as a state.
fn of_pagetypeinfo(pagetypeinfo: &str) -> Recorded {
    let mut state = Recorded::default();
    for node in strict::pagetypeinfo(pagetypeinfo).expect("pagetypeinfo") {
        if let Some(unknown) = node.types.iter().find(|ty| index_of(ty).is_none()) {
            panic!("/proc/pagetypeinfo: mobility {unknown:?} is unknown");
        }
        state.zones.extend(node.blocks.iter().map(zone_of));
    }
    state.add_page_types(pagetypeinfo).expect("pagetypeinfo");
    state
}

/// The zone of a line, with memory and nothing else.
fn zone_of(row: &strict::Row) -> ZoneSnapshot {
    let kind = ZoneKind::ALL.into_iter().find(|kind| kind.name() == row.zone);
    let kind = kind.unwrap_or_else(|| panic!("a zone {:?} is unknown", row.zone));
    ZoneSnapshot { node: NodeId(row.node as u8), kind, present: 1, ..ZoneSnapshot::default() }
}

#[test]
fn buddyinfo_of_this_machine() {
    let Some(text) = read("/proc/buddyinfo") else { return };
    assert_same_bytes("/proc/buddyinfo", &BuddyInfo(&of_buddyinfo(&text)).to_string(), &text);
}

#[test]
fn pagetypeinfo_of_this_machine() {
    let Some(text) = read("/proc/pagetypeinfo") else { return };
    assert_same_bytes("/proc/pagetypeinfo", &PageTypeInfo(&of_pagetypeinfo(&text)).to_string(), &text);
}

#[test]
fn zoneinfo_of_this_machine() {
    let Some(text) = read_counters("/proc/zoneinfo") else { return };
    assert_same_bytes("/proc/zoneinfo", &ZoneInfo(&zones(&text).expect("zoneinfo")).to_string(), &text);
}

#[test]
fn vmstat_of_this_machine() {
    let Some(text) = read_counters("/proc/vmstat") else { return };
    let lines = strict::vmstat(&text).expect("vmstat");
    let state = of_vmstat(NodeId(0), &lines, is_first_event);
    assert_same_bytes("/proc/vmstat", &VmStat(&state).to_string(), &own_lines(&text));
}

#[test]
fn files_of_this_machines_nodes() {
    for node in node_numbers() {
        let file = |name| format!("/sys/devices/system/node/node{node}/{name}");
        let id = NodeId(node);
        if let Some(text) = read_counters(&file("numastat")) {
            let state = of_numastat(id, &text);
            assert_same_bytes(&file("numastat"), &NodeNumaStat { source: &state, node: id }.to_string(), &text);
        }
        if let Some(text) = read_counters(&file("vmstat")) {
            let state = of_vmstat(id, &strict::vmstat(&text).expect("vmstat"), |_| false);
            assert_same_bytes(&file("vmstat"), &NodeVmStat { source: &state, node: id }.to_string(), &text);
        }
    }
}

/// Compares two files, `of_both` of their texts: our output, and Linux's.
///
/// Nothing may have changed between them, so the second is read between two equal readings of the first. Even then
/// Linux may be adding a CPU's share of a counter. So one agreement decides, and it takes several disagreements to
/// fail. If there is neither, the machine did not stand still, and the test prints that.
#[track_caller]
fn compare_sums(first: &str, second: &str, of_both: impl Fn(&str, &str) -> [String; 2]) {
    let Some(mut before) = read_counters(first) else { return };
    let mut disagreements = 0;
    for _ in 0..TRIES {
        let (Some(between), Some(after)) = (read_counters(second), read_counters(first)) else { return };
        if before == after {
            let [ours, linux] = of_both(&before, &between);
            if ours == linux {
                return;
            }
            disagreements += 1;
            if disagreements == DISAGREEMENTS {
                assert_same_bytes(&format!("{second} from {first}"), &ours, &linux);
            }
        }
        before = after;
    }
    say(&format!("NOT COMPARED with this machine: {second} with {first}, which changed from reading to reading"));
}

#[test]
fn buddyinfo_is_the_sum_of_this_machines_pagetypeinfo() {
    compare_sums("/proc/buddyinfo", "/proc/pagetypeinfo", |buddyinfo, pagetypeinfo| {
        // Past 100,000 blocks pagetypeinfo stops counting, and there is no sum.
        let ours = BuddyInfo(&of_pagetypeinfo(pagetypeinfo)).to_string();
        [ours, buddyinfo.to_string()].map(|text| if pagetypeinfo.contains('>') { String::new() } else { text })
    });
}

#[test]
fn vmstat_is_the_sum_of_this_machines_zoneinfo() {
    compare_sums("/proc/zoneinfo", "/proc/vmstat", |zoneinfo, vmstat| {
        let is_counter = |line: &&str| !is_first_event(line.split(' ').next().unwrap_or_default());
        let linux: Vec<&str> = vmstat.split_inclusive('\n').take_while(is_counter).collect();
        let ours = VmStat(&zones(zoneinfo).expect("zoneinfo")).to_string();
        [ours.split_inclusive('\n').take(linux.len()).collect(), linux.concat()]
    });
}

#[test]
fn files_of_nodes_are_sums_of_this_machines_zoneinfo() {
    for number in node_numbers() {
        let file = |name| format!("/sys/devices/system/node/node{number}/{name}");
        let (node, state) = (NodeId(number), |zoneinfo: &str| zones(zoneinfo).expect("zoneinfo"));
        compare_sums("/proc/zoneinfo", &file("numastat"), |zoneinfo, numastat| {
            [NodeNumaStat { source: &state(zoneinfo), node }.to_string(), numastat.to_string()]
        });
        compare_sums("/proc/zoneinfo", &file("vmstat"), |zoneinfo, vmstat| {
            [NodeVmStat { source: &state(zoneinfo), node }.to_string(), vmstat.to_string()]
        });
    }
}

#[test]
fn what_differs_is_found() {
    let fails = |vmstat: &'static str| std::panic::catch_unwind(|| own_lines(vmstat)).is_err();
    assert!(!fails("nr_anything 1\npgpgin 2\nthp_anything 3\n"));
    assert!(fails("nr_anything 1\npgpgin 2\nanything 3\n"));
    let younger = "  pages free     7\n        promo    3\n              count:    5\n              high_max: 9\n";
    assert_eq!(as_in_6_1(younger), "  pages free     7\n              count: 5\n");
    let differs = |ours: &'static str| std::panic::catch_unwind(|| assert_same_bytes("", ours, "a  7 \n")).is_err();
    assert!(["a 7 \n", "a  7\n", "a  7 ", "a  7 \n\n", ""].into_iter().all(differs) && !differs("a  7 \n"));
}
