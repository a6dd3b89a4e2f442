//! Traces of kernels and tools other than the one that the shipped trace is of, with what is right for each.

use std::fs;
use std::path::{Path, PathBuf};

use framewright_trace::flags::Kernels;
use framewright_trace::replay::{ReplayError, ReplayOptions, Report, Table, replay};
use framewright_trace::text::TextOptions;
use framewright_trace::{Trace, convert};

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(name)
}

fn replayed(path: &Path) -> Report {
    replay(path, &ReplayOptions::default(), &[], &mut |_, _| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// Events that were read, events of other kinds, requests that only Linux served.
fn counts(report: &Report) -> [u64; 3] {
    [report.quality.events, report.quality.unknown_events, report.framewright.failed_smaller]
}

#[test]
fn flag_names_without_underscores_are_read() {
    for (name, events) in [("old-flag-names.txt", 7), ("old-flag-names-each.txt", 20)] {
        let report = replayed(&recorded(name));
        assert_eq!(counts(&report)[..2], [events, 0], "{name}");
    }
}

#[test]
fn raw_flags_mean_what_the_kernels_names_mean() {
    let mut failed = Vec::new();
    for flags in ["GFP_ATOMIC", "0x820"] {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(recorded("raw-flags/zoneinfo"), folder.path().join("zoneinfo")).unwrap();
        let line = |i: u64| {
            let pfn = 0x1fc18 + i;
            format!(
                "  irq/24-eth0-100 [000] ..s1. 1.{i:06}: mm_page_alloc: page=0xffffea000 pfn={pfn:#x} order=0 \
                 migratetype=0 gfp_flags={flags}\n"
            )
        };
        fs::write(folder.path().join("trace.txt"), (0..600).map(line).collect::<String>()).unwrap();
        failed.push(counts(&replayed(folder.path())));
    }
    assert_eq!(failed, [[600, 0, 0]; 2]);
}

#[test]
fn the_events_own_pageblock_order_is_used() {
    for name in ["arm64-64k.txt", "arm64-64k-with-pagetypeinfo"] {
        let report = replayed(&recorded(name));
        let linux = &report.linux;
        let faults = [linux.order9_faults, linux.order9_faults_served, linux.extfrag_fragmenting];
        assert_eq!((faults, report.machine.pageblock_order), ([2, 1, 1], 13), "{name}");
    }
}

#[test]
fn columns_between_time_and_event_are_passed_over() {
    assert_eq!(counts(&replayed(&recorded("ts-diff.txt"))), [4, 0, 0]);
}

#[test]
fn requests_with_a_vendors_flag_are_kept_when_lenient() {
    let path = recorded("vendor-flag.txt");
    let strict = Trace::open(&path).unwrap().next().unwrap().unwrap_err();
    assert!(strict.to_string().contains("__GFP_CMA"), "{strict}");
    let lenient = TextOptions { lenient: true, ..TextOptions::default() };
    let mut trace = Trace::open_with(&path, &lenient).unwrap();
    assert_eq!(trace.by_ref().map(Result::unwrap).count(), 2);
    assert_eq!(trace.quality().malformed_lines, 0);
}

#[test]
fn what_was_left_out_is_told_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (text, compact) = (recorded("vendor-flag.txt"), folder.path().join("vendor-flag.fwt"));
    let lenient = TextOptions { lenient: true, ..TextOptions::default() };
    convert(&text, &compact, &lenient).unwrap();
    let options = ReplayOptions { text: lenient, ..ReplayOptions::default() };
    for path in [text, compact] {
        let report = replay(&path, &options, &[], &mut |_, _| ()).unwrap();
        assert_eq!(report.quality.unknown_flags, [("__GFP_CMA".to_owned(), 1)].into());
        assert_eq!(report.quality.free_unknown, 0, "the free has its request");
        let shown = Table(&report).to_string();
        assert!(shown.contains("flags that are not known here, left out of their requests: __GFP_CMA 1\n"), "{shown}");
    }
}

/// A folder with a trace of raw flags, and what else is named.
fn with_files(lines: &[&str], files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let line = |(i, rest): (usize, &&str)| {
        let kind = rest.split(' ').next().unwrap_or_default();
        let pfn = 100 + i;
        match kind {
            "extfrag" => format!(
                "  sh-1 [000] .... 1.{i:06}: mm_page_alloc_extfrag: page=f00 pfn={pfn} alloc_order=0 fallback_order=4 \
                 {} alloc_migratetype=0 fallback_migratetype=1 fragmenting=1 change_ownership=0\n",
                &rest[8..]
            ),
            _ => format!("  sh-1 [000] .... 1.{i:06}: mm_page_alloc: page=f00 pfn={pfn} order=0 {rest}\n"),
        }
    };
    fs::write(folder.path().join("trace.txt"), lines.iter().enumerate().map(line).collect::<String>()).unwrap();
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    folder
}

#[test]
fn the_version_of_raw_flags_comes_from_wherever_it_is_told() {
    // GFP_KERNEL of 4.10 to 4.17.
    let raw = ["migratetype=0 gfp_flags=0x14000c0"];
    for (name, text) in [
        ("version", "Linux version 4.15.0-108-generic (a@b) (gcc version 7.5.0) #109 SMP\n"),
        ("version.txt", "4.12\n"),
        ("osrelease", "4.17.0-rc1\n"),
        ("uname", "Linux host 4.14.3 #1 SMP x86_64 GNU/Linux\n"),
    ] {
        assert_eq!(counts(&replayed(with_files(&raw, &[(name, text)]).path()))[0], 1, "{name}");
    }
    let told = TextOptions { kernels: Kernels::of("4.13".parse().unwrap()), ..TextOptions::default() };
    let options = ReplayOptions { text: told, ..ReplayOptions::default() };
    let folder = with_files(&raw, &[]);
    assert_eq!(replay(folder.path(), &options, &[], &mut |_, _| ()).unwrap().quality.events, 1);
    let error = replay(folder.path(), &ReplayOptions::default(), &[], &mut |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("0x1400000 of it is not the same in Linux"), "{error}");
    // A later request that only a kernel before 4.4 can have made tells of the first.
    let folder = with_files(&["migratetype=0 gfp_flags=0x4200d0", "migratetype=2 gfp_flags=0x280da"], &[]);
    assert_eq!(counts(&replayed(folder.path())), [2, 0, 0]);
    let folder = with_files(&raw, &[("version", "of no kernel\n")]);
    assert!(Trace::open(folder.path()).err().unwrap().to_string().contains("no kernel's version"));
}

#[test]
fn an_order_of_pageblocks_that_contradicts_itself_is_refused() {
    let alloc = "migratetype=0 gfp_flags=GFP_KERNEL";
    for (orders, refused) in [([13, 13], false), ([9, 9], false), ([9, 13], true), ([13, 9], true), ([1, 2], true)] {
        let fallbacks = orders.map(|order| format!("extfrag pageblock_order={order}"));
        let folder = with_files(&[alloc, &fallbacks[0], alloc, &fallbacks[1]], &[]);
        match replay(folder.path(), &ReplayOptions::default(), &[], &mut |_, _| ()) {
            Ok(report) => assert_eq!((report.machine.pageblock_order, refused), (orders[0], false)),
            Err(ReplayError::Pageblock { event: 4, said, known, .. }) if refused => {
                assert_eq!([known.0, said.0], orders);
            }
            Err(error) => panic!("{orders:?}: {error}"),
        }
    }
}

/// zoneinfo of zones as node, name, start, spanned, present; without `start_pfn` if it is none.
fn zoneinfo(zones: &[(u32, &str, Option<u64>, u64, u64)]) -> String {
    let zone = |&(node, name, start, spanned, present): &(u32, &str, Option<u64>, u64, u64)| {
        let start = start.map_or(String::new(), |start| format!("  start_pfn:           {start}\n"));
        format!(
            "Node {node}, zone {name:>8}\n  pages free     {present}\n        min      0\n        low      0\n        high     0\n        \
             spanned  {spanned}\n        present  {present}\n        managed  {present}\n  pagesets\n    cpu: 0\n              count: 0\n              \
             high:  0\n              batch: 1\n{start}"
        )
    };
    zones.iter().map(zone).collect()
}

#[test]
fn machines_of_any_shape_are_followed() {
    type Zones<'a> = &'a [(u32, &'a str, Option<u64>, u64, u64)];
    let far = 1 << 40;
    // Zones; the frames, nodes, and the nodes' numbers in the report.
    let table: [(Zones<'_>, u64, usize, &[u32]); 10] = [
        (&[(3, "Normal", Some(0), 4096, 4096)], 4096, 1, &[3]),
        (&[(0, "DMA", Some(0), 0, 0), (0, "Normal", Some(0), 4096, 4096)], 4096, 1, &[0]),
        // Without a start, with one, and where other memory is.
        (&[(0, "Normal", Some(0), 4096, 4096), (0, "Movable", None, 4096, 0)], 4096, 1, &[0]),
        (&[(0, "Normal", Some(0), 4096, 4096), (1, "Normal", Some(9999), 4096, 0)], 4096, 1, &[0]),
        (&[(0, "Normal", Some(0), 4096, 4096), (0, "Device", Some(0), 4096, 4096)], 4096, 1, &[0]),
        // Gaps in the numbers, in any order; more than a byte.
        (&[(7, "Normal", Some(0), 4096, 4096), (2, "Normal", Some(4096), 4096, 4096)], 8192, 2, &[2, 7]),
        (&[(0, "Normal", Some(0), 4096, 4096), (1023, "Movable", Some(far), 4096, 4096)], 8192, 2, &[0, 1023]),
        // One inside of the other, in turns, and a movable zone inside of its node's.
        (&[(0, "Normal", Some(0), 8192, 4096), (9, "Normal", Some(2048), 4096, 4096)], 8192, 2, &[0, 9]),
        (&[(0, "Normal", Some(0), 6144, 4096), (1, "Normal", Some(2048), 6144, 4096)], 8192, 2, &[0, 1]),
        (&[(0, "Normal", Some(0), 8192, 4096), (0, "Movable", Some(2048), 4096, 4096)], 8192, 1, &[0]),
    ];
    for (zones, frames, nodes, numbers) in table {
        let text = zoneinfo(zones);
        let folder = with_files(&["migratetype=0 gfp_flags=GFP_KERNEL"], &[("zoneinfo", &text)]);
        let report = replayed(folder.path());
        let found = (counts(&report), report.machine.frames, report.machine.nodes);
        assert_eq!(found, ([1, 0, 0], frames, nodes), "{text}");
        for zones in [&report.linux.buddyinfo, &report.framewright.buddyinfo] {
            let mut found: Vec<u32> = zones.iter().map(|zone| zone.node).collect();
            found.dedup();
            assert_eq!(found, numbers, "{text}");
        }
        numbers.iter().for_each(|node| {
            let shown = format!("Node {node:>4}, zone");
            assert!(report.framewright.pagetypeinfo.contains(&shown), "{}", report.framewright.pagetypeinfo);
        });
        assert!(report.framewright.pages_conserved);
    }
}

#[test]
fn limits_of_this_program_are_called_so() {
    let message = |zones: &[(u32, &str, Option<u64>, u64, u64)], options: &ReplayOptions| {
        let folder = with_files(&["migratetype=0 gfp_flags=GFP_KERNEL"], &[("zoneinfo", &zoneinfo(zones))]);
        replay(folder.path(), options, &[], &mut |_, _| ()).unwrap_err().to_string()
    };
    let many: Vec<_> = (0..65).map(|i| (i, "Normal", Some(u64::from(i) * 1024), 1024, 1024)).collect();
    let usual = ReplayOptions::default();
    assert!(message(&many, &usual).contains("65 nodes with memory; this program cannot follow more than 64"));
    // However much memory it may take.
    let large = [(0, "Normal", Some(0), 1 << 40, 1 << 40)];
    let all = ReplayOptions { memory_limit: u64::MAX, ..usual };
    assert!(message(&large, &all).contains("larger than this program can follow: 2147483648 frames"));
}

#[test]
fn a_zone_without_present_frames_is_no_zone() {
    assert_eq!(counts(&replayed(&recorded("zone-spanned-not-present"))), [2, 0, 0]);
}

#[test]
fn nodes_inside_of_another_nodes_span_are_followed() {
    let report = replayed(&recorded("nodes-interleaved"));
    assert_eq!((counts(&report), report.machine.nodes, report.machine.frames), ([3, 0, 0], 2, 65_536));
}

#[test]
fn high_node_numbers_are_followed() {
    let report = replayed(&recorded("node-252"));
    assert_eq!((counts(&report), report.machine.nodes, report.machine.frames), ([2, 0, 0], 3, 196_608));
}
