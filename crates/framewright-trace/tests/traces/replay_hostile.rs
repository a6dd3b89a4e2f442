//! Traces that no kernel recorded: a clear error, or they are followed; within the limit of memory either way.

use std::fs;
use std::io::BufWriter;
use std::path::Path;

use crate::replay_synthetic::{FIRST, FRAMES, KERNEL, MOVABLE, START, Synthetic, run};
use framewright::units::{CpuId, Order, Pfn};
use framewright_trace::fwt::CompactWriter;
use framewright_trace::proc::{KPageFlags, flag};
use framewright_trace::record::{CommId, Comms, Kind, Quality, Record};
use framewright_trace::replay::{ReplayError, ReplayOptions, Report, ZoneBlocks, replay};
use framewright_trace::state::InitialState;
use proptest::prelude::*;

/// Replays a recording of which `change` has changed zoneinfo.
fn with_zoneinfo(trace: &Synthetic, change: impl Fn(String) -> String) -> Result<Report, ReplayError> {
    let folder = tempfile::tempdir().unwrap();
    trace.write(folder.path());
    fs::write(folder.path().join("zoneinfo"), change(trace.zoneinfo())).unwrap();
    run(folder.path(), &[])
}

/// The message without the folder.
fn message(error: &ReplayError) -> String {
    let text = error.to_string();
    text.split_once(": ").map_or(text.clone(), |(_, message)| message.to_owned())
}

#[test]
fn machines_that_cannot_be_are_refused() {
    let line = |field: &str, value: &str| {
        let (field, value) = (field.to_owned(), value.to_owned());
        move |text: String| -> String {
            let change = |line: &str| {
                if line.trim().starts_with(&field) { format!("{field} {value}\n") } else { format!("{line}\n") }
            };
            text.lines().map(change).collect()
        }
    };
    let table: &[(&str, &str)] = &[
        ("spanned", "1152921504606846976"),
        ("spanned", "18446744073709551615"),
        ("spanned", "1125899906842624"),
        ("start_pfn:", "18446744073709551615"),
        ("start_pfn:", "4503599627370496"),
        ("start_pfn:", "0"),
        ("unknown_field", "0"),
        ("Node 0, zone", "X"),
        ("Node 0, zone", "Device"),
        ("cpu:", "4294967295"),
        ("cpu:", "65535"),
        ("high:", "18446744073709551615"),
        ("batch:", "18446744073709551615"),
        ("count:", "18446744073709551615"),
        ("pages free", "18446744073709551615"),
        ("min", "18446744073709551615"),
        ("present", "18446744073709551615"),
        ("protection:", "(18446744073709551615)"),
    ];
    let mut found = String::new();
    for with_flags in [true, false] {
        let mut trace = if with_flags { Synthetic::new() } else { Synthetic::zones_only(7) };
        trace.alloc(START, 0, KERNEL);
        for (field, value) in table {
            let result = match with_zoneinfo(&trace, line(field, value)) {
                Ok(report) => format!("followed, {} frames", report.machine.frames),
                Err(error) => message(&error),
            };
            found += &format!("{field} {value}: {result}\n");
        }
        found += "\n";
    }
    insta::assert_snapshot!(found);
}

#[test]
fn zones_are_checked_against_each_other() {
    let mut found = String::new();
    let table: &[(u32, &'static str, u64, u64)] = &[
        (0, "Normal", START + FRAMES, 100),
        (0, "DMA", START + FRAMES - 1, 100),
        (1, "Normal", START, 1),
        (64, "Normal", START + FRAMES, 100),
        (300, "Normal", START + FRAMES, 100),
        (63, "Normal", START + FRAMES, 100),
        // Kinds in another order than their addresses.
        (0, "DMA", START + FRAMES, 1 << 12),
        (0, "Movable", 0, 1 << 12),
        (0, "HighMem", START + FRAMES, 1 << 12),
    ];
    for &(node, name, start, frames) in table {
        let mut trace = Synthetic::new();
        trace.zones.push(crate::replay_synthetic::Zone { node, name, start, frames, free: frames });
        trace.alloc(START, 0, KERNEL).alloc(START + 1, 0, MOVABLE);
        let result = match with_zoneinfo(&trace, |text| text) {
            Ok(report) => format!("followed, {} frames, {} nodes", report.machine.frames, report.machine.nodes),
            Err(error) => message(&error),
        };
        found += &format!("node {node} zone {name} {start:#x}+{frames:#x}: {result}\n");
    }
    insta::assert_snapshot!(found);
}

#[test]
fn frames_far_away_are_refused_or_followed() {
    let text = |events: &dyn Fn(&mut Synthetic)| {
        let mut trace = Synthetic::new();
        events(&mut trace);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("trace.txt"), &trace.trace).unwrap();
        match run(folder.path(), &[]) {
            Ok(report) => format!("followed, {} frames", report.machine.frames),
            Err(error) => message(&error),
        }
    };
    let last = (1 << 52) - 1;
    type Row<'a> = (&'a str, &'a dyn Fn(&mut Synthetic));
    let table: [Row<'_>; 9] = [
        ("2^50 alone", &|t| _ = t.alloc(1 << 50, 0, KERNEL)),
        ("2^50 and 1", &|t| _ = t.alloc(1, 0, KERNEL).free(1 << 50, 0)),
        ("the last frame", &|t| _ = t.alloc(last, 0, KERNEL).free(last, 0)),
        ("behind the last frame", &|t| _ = t.alloc(last, 1, KERNEL)),
        ("order 18", &|t| _ = t.alloc(1 << 18, 18, KERNEL).free(1 << 18, 18)),
        ("order 18, not aligned", &|t| _ = t.alloc(12_345, 18, KERNEL).free(12_345, 18)),
        ("all over 1 GiB", &|t| (0..64).for_each(|i| _ = t.alloc(1 + i * 4_099, 12, KERNEL))),
        ("downwards", &|t| (0..8).for_each(|i| _ = t.free((10 - i) << 18, 3))),
        ("from 2^37 on", &|t| _ = t.alloc(1, 0, KERNEL).alloc(1 << 37, 0, KERNEL)),
    ];
    let found: String = table.iter().map(|(what, events)| format!("{what}: {}\n", text(events))).collect();
    insta::assert_snapshot!(found);

    // Again in a known machine.
    let table: [&dyn Fn(&mut Synthetic); 4] = [
        &|t| _ = t.alloc(START - 1, 0, KERNEL),
        &|t| _ = t.alloc(START, 0, KERNEL).free(START + FRAMES - 4, 3),
        &|t| _ = t.moved(START, 1 << 21),
        &|t| _ = t.alloc(last, 18, KERNEL),
    ];
    let error = |events: &&dyn Fn(&mut Synthetic)| {
        let mut trace = Synthetic::new();
        events(&mut trace);
        message(&trace.error())
    };
    insta::assert_snapshot!(table.iter().map(error).collect::<Vec<_>>().join("\n"));
}

/// Writes a compact trace of one allocation in a machine with these runs of flags.
fn compact(path: &Path, runs: impl IntoIterator<Item = (u64, u64)>, record: Record) {
    let mut flags = KPageFlags::default();
    runs.into_iter().for_each(|(frames, bits)| flags.push(frames, bits).unwrap());
    let mut state = InitialState::default();
    state.kpageflags = Some(flags);
    let file = BufWriter::new(fs::File::create(path).unwrap());
    let mut writer = CompactWriter::new(file, &state).unwrap();
    let mut quality = Quality::default();
    let comms = Comms::new();
    writer.push(record, &comms).unwrap();
    quality.by_kind[record.kind.index()] += 1;
    writer.finish(&comms, &quality).unwrap();
}

fn free(pfn: u64, cpu: u16) -> Record {
    let kind = Kind::Free { pfn: Pfn(pfn), order: Order(0) };
    Record { time: 0, pid: 0, comm: CommId(0), cpu: CpuId(cpu), kind }
}

#[test]
fn flags_of_any_number_of_frames_are_refused_or_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.fwt");
    let limit = KPageFlags::FRAME_LIMIT;
    let alternating = |count: u64| (0..count).map(|i| (1, if i % 2 == 0 { flag::RESERVED } else { flag::BUDDY }));
    type Runs = Vec<(u64, u64)>;
    let table: [(&str, Runs, u64); 7] = [
        ("all memory", vec![(limit, 0)], 1),
        ("all memory is free", vec![(limit, flag::BUDDY)], 1),
        ("holes cost nothing", vec![(limit - 1024, flag::NOPAGE), (1024, 0)], limit - 1),
        ("nothing but holes", vec![(limit, flag::NOPAGE)], 1 << 30),
        ("nothing but reserved memory", vec![(1024, flag::RESERVED)], 5),
        ("every second frame is reserved", alternating(1 << 17).collect(), 5),
        ("in too many pieces", alternating(1 << 19).collect(), 5),
    ];
    let mut found = String::new();
    for (what, runs, pfn) in table {
        compact(&path, runs, free(pfn, 0));
        let result = match run(&path, &[]) {
            Ok(report) => format!("followed, {} frames", report.machine.frames),
            Err(error) => error.to_string().replace(&path.display().to_string(), "trace.fwt"),
        };
        found += &format!("{what}: {result}\n");
    }
    insta::assert_snapshot!(found);
}

/// Frames that lie far apart, and in any order, take tables for what is around them alone.
#[test]
fn traces_with_frames_far_apart_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    let gib = |count: u64| count << 18;
    let places = [gib(380), 0x1000, gib(7_000), gib(381), gib(2), 0x1001, gib(379), gib(1 << 20)];
    let mut trace = Synthetic::new();
    for (number, pfn) in places.into_iter().enumerate() {
        trace.alloc(pfn, 0, if number % 2 == 0 { MOVABLE } else { KERNEL });
    }
    for pfn in places.into_iter().rev().skip(1) {
        trace.free(pfn, 0);
    }
    fs::write(&path, &trace.trace).unwrap();
    let options = ReplayOptions { memory_limit: 1 << 30, ..ReplayOptions::default() };
    let report = replay(&path, &options, &[], &mut |_, _| {}).unwrap();
    assert!(report.framewright.pages_conserved && report.framewright.frees_refused == 0);
    // One frame is in use at the end, in both columns; narrow gaps are memory, wide ones are not.
    let free = |zones: &[ZoneBlocks]| -> u64 {
        zones.iter().flat_map(|zone| zone.free.iter().zip(0..)).map(|(blocks, order)| blocks << order).sum()
    };
    let [linux, ours] = [&report.linux.buddyinfo, &report.framewright.buddyinfo].map(|zones| free(zones));
    assert_eq!((linux, ours), (report.machine.frames - 1, report.machine.frames - 1));
    assert!(report.machine.frames < gib(12), "{}", report.machine.frames);
}

#[test]
fn tables_for_cpus_count_towards_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.fwt");
    let result = |cpu, memory_limit| {
        compact(&path, [(4096, flag::SLAB)], free(1, cpu));
        let options = ReplayOptions { memory_limit, ..ReplayOptions::default() };
        replay(&path, &options, &[], &mut |_, _| {}).map(|report| report.machine.cpus)
    };
    assert_eq!(result(999, 1 << 30).unwrap(), 1_000);
    assert!(matches!(result(999, 1 << 18), Err(ReplayError::TooLarge { bytes, .. }) if bytes > 1 << 18));
    assert!(matches!(result(0, 4096 * 28 - 1), Err(ReplayError::TooLarge { bytes: 114_688, .. })));
    // The text form has no CPU above 65,535, and the allocator none of that number.
    let error = result(65_535, 1 << 34).unwrap_err();
    assert!(matches!(error, ReplayError::TooLarge { .. } | ReplayError::Boot(_)), "{error}");
}

#[test]
fn orders_of_pageblocks_and_blocks_may_be_any_that_linux_has() {
    let mut trace = Synthetic::new();
    trace.alloc(START, 4, MOVABLE).alloc(START + 16, 9, FIRST).free(START, 4);
    let folder = tempfile::tempdir().unwrap();
    for pageblock_order in [0, 1, 4, 9, 10, 18] {
        for orders in [1, 5, 11, 19] {
            trace.write(folder.path());
            let counts = vec!["1"; orders].join(" ");
            fs::write(folder.path().join("buddyinfo"), format!("Node 0, zone Normal {counts}\n")).unwrap();
            let pagetypeinfo = format!(
                "Page block order: {pageblock_order}\nFree pages count per migrate type at order\n\
                 Node 0, zone Normal, type Unmovable {counts}\nNumber of blocks type Unmovable Movable Reclaimable\n\
                 Node 0, zone Normal 99999999999 1 18446744073709551615\n"
            );
            fs::write(folder.path().join("pagetypeinfo"), pagetypeinfo).unwrap();
            let report = run(folder.path(), &[]).unwrap();
            let expected = if pageblock_order == 0 { 9 } else { pageblock_order };
            assert_eq!(report.machine.pageblock_order, expected, "{pageblock_order} {orders}");
            assert!(report.framewright.pages_conserved);
        }
    }
}

#[test]
#[cfg(unix)]
fn what_cannot_be_read_twice_is_refused() {
    let error = run(Path::new("/dev/null"), &[]).unwrap_err();
    assert_eq!(error.to_string(), "/dev/null is no file; a replay reads its trace more than once");

    // A file that grows meanwhile.
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Synthetic::new();
    (0..70_000).for_each(|i| _ = trace.alloc(START + i % FRAMES, 0, KERNEL));
    trace.write(folder.path());
    let path = folder.path().join("trace.txt");
    let mut shorter = Some(Synthetic::new().alloc(START, 0, KERNEL).trace.clone());
    let result = replay(folder.path(), &ReplayOptions::default(), &[], &mut |_, _| {
        if let Some(shorter) = shorter.take() {
            fs::write(&path, shorter).unwrap();
        }
    });
    // How much of it the first pass had read is the buffer's business.
    assert!(matches!(result, Err(ReplayError::Changed { .. } | ReplayError::Trace(_))), "{result:?}");
}

/// Something that may be in a trace, sense or nonsense.
#[derive(Clone, Copy, Debug)]
enum Op {
    Alloc(u32, u16, Option<u64>, u8, &'static str),
    Free(u64, u8),
    Move(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let gfp = prop::sample::select(vec![
        KERNEL,
        MOVABLE,
        FIRST,
        "GFP_TRANSHUGE",
        "GFP_KERNEL|__GFP_RECLAIMABLE",
        "GFP_ATOMIC",
    ]);
    // Few frames, so that blocks meet.
    let pfn = || (0..48_u64).prop_map(|i| START + (i % 16) + (i / 16) * 0x200);
    let order = || prop_oneof![4 => Just(0_u8), 2 => 1..5_u8, 1 => Just(9), 1 => Just(10)];
    prop_oneof![
        4 => (1..4_u32, 0..3_u16, prop::option::weighted(0.8, pfn()), order(), gfp)
            .prop_map(|(task, cpu, pfn, order, gfp)| Op::Alloc(task, cpu, pfn, order, gfp)),
        3 => (pfn(), order()).prop_map(|(pfn, order)| Op::Free(pfn, order)),
        2 => (pfn(), pfn()).prop_map(|(old, new)| Op::Move(old, new)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever the events, no free of ours is refused and no page is lost; [`Synthetic::replay`] checks both.
    #[test]
    fn any_events_are_followed(ops in prop::collection::vec(op(), 1..60), known in 0..3) {
        let mut trace = if known == 0 { Synthetic::zones_only(2_000) } else { Synthetic::new() };
        if known == 1 {
            trace.fragmented(0);
        }
        for op in ops {
            match op {
                Op::Alloc(task, cpu, pfn, order, gfp) => {
                    trace.run(task, cpu).alloc(pfn.unwrap_or(0), order, gfp);
                }
                Op::Free(pfn, order) => _ = trace.free(pfn, order),
                Op::Move(old, new) => _ = trace.moved(old, new),
            }
        }
        let report = trace.replay();
        prop_assert_eq!(report.linux.order9_faults, report.framewright.order9_faults);
        prop_assert!(report.framewright.base_pages_skipped <= 512 * report.linux.order9_faults);
        prop_assert!(report.framewright.served_where_linux_failed + report.linux.order9_faults_served
            == report.framewright.order9_faults_served + report.framewright.failed_where_linux_served);
    }
}
