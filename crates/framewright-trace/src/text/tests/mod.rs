//! Tests of records, and what they share with those of malformed texts.

mod malformed;

use std::fmt::Write;

use framewright::request::{__GFP_COMP, __GFP_ZERO, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp};
use framewright::units::{CpuId, MigrateType, Order, Pfn};

use super::*;
use crate::record::{CommId, Kind};

const FREE: &str = "mm_page_free: page=00000000ca3d8483 pfn=0x105916 order=1";
const FREED: Kind = Kind::Free { pfn: Pfn(0x10_5916), order: Order(1) };

fn reader(text: &[u8], options: TextOptions) -> TextReader<&[u8]> {
    TextReader::new(text, "trace.txt", &options)
}

/// All records of a text without errors.
fn records(text: &str) -> (Vec<Record>, Quality) {
    let mut reader = reader(text.as_bytes(), TextOptions::default());
    let records = reader.by_ref().map(|record| record.unwrap_or_else(|error| panic!("{error}\nin: {text}"))).collect();
    (records, reader.quality().clone())
}

/// The event of one line of ftrace with these fields.
fn kind(event: &str) -> Kind {
    let (records, _) = records(&format!("  fio-225 [000] ..... 19.396058: {event}\n"));
    assert_eq!(records.len(), 1, "{event}");
    records[0].kind
}

/// The first error of a text.
fn error(text: &[u8], options: TextOptions) -> TraceError {
    reader(text, options).find_map(Result::err).unwrap_or_else(|| panic!("no error in {}", text.escape_ascii()))
}

#[test]
fn heads_of_every_tool_are_read() {
    let micro = 19_396_058_000;
    let table = [
        // ftrace: with and without flags and thread group.
        ("             fio-225     [003] d..3.    19.396058: EV", "fio", 225, 3, micro),
        ("             fio-225     [003]    19.396058: EV", "fio", 225, 3, micro),
        ("             fio-225     (    225) [003] .N...    19.396058: EV", "fio", 225, 3, micro),
        ("             fio-225     (-------) [003] ....1    19.396058: EV", "fio", 225, 3, micro),
        ("          <idle>-0       [001] ..s1.   244.022585: EV", "<idle>", 0, 1, 244_022_585_000),
        ("           <...>-31337   [127] d.h2.   244.022585: EV", "<...>", 31337, 127, 244_022_585_000),
        ("    kworker/2:1H-137     [002] .....    19.396058: EV", "kworker/2:1H", 137, 2, micro),
        // Names that look like something else.
        (" Web Content-1234 [001] ..... 19.396058: EV", "Web Content", 1234, 1, micro),
        (" a-b-12 - 7-99 [001] ..... 19.396058: EV", "a-b-12 - 7", 99, 1, micro),
        (" x [002] y-99 [001] ..... 19.396058: EV", "x [002] y", 99, 1, micro),
        (" x-1 [002] y-99 [001] ..... 19.396058: EV", "x-1 [002] y", 99, 1, micro),
        (" (sd-pam)-99 [001] ..... 19.396058: EV", "(sd-pam)", 99, 1, micro),
        (" a: b-99 (   99) [001] 19.396058: EV", "a: b", 99, 1, micro),
        (" -99 [001] 19.396058: EV", "", 99, 1, micro),
        // trace-cmd report: nanoseconds, blanks after the name.
        ("     fio-225   [000]    19.396058123: mm_page_free:         PF", "fio", 225, 0, 19_396_058_123),
        ("     fio-225   [000] d..3.  19.396058123: mm_page_free:     PF", "fio", 225, 0, 19_396_058_123),
        // perf script: subsystem, thread or process/thread, period.
        ("fio   225 [000]    19.396058: kmem:EV", "fio", 225, 0, micro),
        ("fio   220/225 [000]    19.396058: kmem:EV", "fio", 225, 0, micro),
        ("fio   225 [000]    19.396058:          1 kmem:EV", "fio", 225, 0, micro),
        ("Web Content  220/225   [000]    19.396058012: kmem:EV", "Web Content", 225, 0, 19_396_058_012),
        ("fio-a 225 [65535] 19.4: kmem:EV", "fio-a", 225, 65535, 19_400_000_000),
        // perf script with a mark, the wall clock, modifiers.
        ("fio   225 [000] K    19.396058: kmem:EV", "fio", 225, 0, micro),
        ("fio   225 [000] 2024-11-25 03:04:05.678901    19.396058: kmem:EV", "fio", 225, 0, micro),
        (":225   225 [000]    19.396058: kmem:EV", ":225", 225, 0, micro),
        ("fio   225 [000]    19.396058: kmem:mm_page_free:k: PF", "fio", 225, 0, micro),
        // Columns between time and event.
        ("     fio-225   [000]    19.396058: (+12)    EV", "fio", 225, 0, micro),
        ("     fio-225   [000]    19.396058: (+12.5) /user.slice/a.service EV", "fio", 225, 0, micro),
        ("     fio-225   [000]    19.396058:      7 [k] +0x12 kmem:EV", "fio", 225, 0, micro),
        ("     fio-225   [000]    19.396058: system.slice: EV", "fio", 225, 0, micro),
        // trace-cmd report -l, and the latency format of ftrace: the CPU before the flags, no brackets.
        ("      fio-225     0d..3.    19.396058: EV", "fio", 225, 0, micro),
        ("  kworker-137    12....1    19.396058123: EV", "kworker", 137, 12, 19_396_058_123),
        ("Web Cont-1234    1.Ns#..    19.396058: EV", "Web Cont", 1234, 1, micro),
        ("     fio-225     3d..3.  396us+: EV", "fio", 225, 3, 396_000),
        ("     fio-225     3d.h3   396us : EV", "fio", 225, 3, 396_000),
        ("     fio-225     3d.h3   396us!: (+3) EV", "fio", 225, 3, 396_000),
        // Names that look like times, CPUs and events.
        (" a 1.5: b-99 [001] ..... 19.396058: EV", "a 1.5: b", 99, 1, micro),
        (" 0d..3.-99 [001] ..... 19.396058: EV", "0d..3.", 99, 1, micro),
        (" mm_page_free:-99 [001] ..... 19.396058: EV", "mm_page_free:", 99, 1, micro),
        (" [000]-99 [001] ..... 19.396058: EV", "[000]", 99, 1, micro),
        // Function graph with the columns for task and time.
        (" 0)   fio-225    |   1.2 us    |  /* EV */", "fio", 225, 0, 0),
        ("   19.396058 |   2)  Web Content-7 |  d..1 |             |  /* EV */", "Web Content", 7, 2, micro),
        ("   19.396058 |   3)               |  /* EV */", "<...>", 0, 3, micro),
    ];
    for (line, comm, pid, cpu, time) in table {
        let line = line.replace("EV", FREE).replace("PF", &FREE[14..]) + "\n";
        let mut reader = reader(line.as_bytes(), TextOptions::default());
        let record = reader.next().unwrap_or_else(|| panic!("nothing in {line}")).unwrap();
        assert_eq!((record.pid, record.cpu, record.time, record.kind), (pid, CpuId(cpu), time, FREED), "{line}");
        assert_eq!(reader.comms().name(record.comm), comm, "{line}");
        assert!(reader.next().is_none());
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn fields_of_every_event_are_read() {
    let alloc = |pfn, order, migratetype, gfp| Kind::Alloc { pfn, order: Order(order), migratetype, gfp };
    let (mov, unmov) = (MigrateType::Movable, MigrateType::Unmovable);
    let highuser = GFP_HIGHUSER_MOVABLE | __GFP_COMP | __GFP_ZERO;
    let page = |pfn| Some(Pfn(pfn));
    let table = [
        (
            "mm_page_alloc: page=0000000a pfn=0x106839 order=0 migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO",
            alloc(page(0x10_6839), 0, mov, highuser),
        ),
        (
            "mm_page_alloc: page=0xa pfn=970744 order=3 migratetype=0 gfp_flags=GFP_KERNEL",
            alloc(page(970_744), 3, unmov, GFP_KERNEL),
        ),
        (
            "mm_page_alloc: page=0xa pfn=1 order=9 migratetype=1 gfp_flags=0x140cca",
            alloc(page(1), 9, mov, Gfp(0x14_0cca)),
        ),
        // What perf prints when it cannot follow the kernel's format.
        (
            "mm_page_alloc: [FAILED TO PARSE] pfn=0x7b order=0 gfp_flags=1314250 migratetype=1",
            alloc(page(0x7b), 0, mov, Gfp(0x14_0dca)),
        ),
        // Vendors' fields, other order, commas.
        (
            "mm_page_alloc: nr_free=3650 gfp_flags=GFP_KERNEL, migratetype=0, order=2, pfn=0x10, page=0xa cpu=3 cold",
            alloc(page(0x10), 2, unmov, GFP_KERNEL),
        ),
        // Failed requests.
        (
            "mm_page_alloc: page=(nil) pfn=0 order=4 migratetype=0 gfp_flags=GFP_KERNEL",
            alloc(None, 4, unmov, GFP_KERNEL),
        ),
        (
            "mm_page_alloc: page=(null) pfn=0 order=4 migratetype=0 gfp_flags=GFP_KERNEL",
            alloc(None, 4, unmov, GFP_KERNEL),
        ),
        (
            "mm_page_alloc: page=0000000000000000 pfn=0x0 order=9 migratetype=0 gfp_flags=none",
            alloc(None, 9, unmov, Gfp::NONE),
        ),
        (
            "mm_page_alloc: page=0x0 pfn=18446744073709551615 order=4 migratetype=0 gfp_flags=GFP_KERNEL",
            alloc(None, 4, unmov, GFP_KERNEL),
        ),
        (
            "mm_page_alloc: pfn=0xffffffffffffffff order=4 gfp_flags=3264 migratetype=0",
            alloc(None, 4, unmov, GFP_KERNEL),
        ),
        // A machine whose frame 0 is ordinary memory, and a kernel that hides pointers.
        (
            "mm_page_alloc: page=00ab pfn=0x0 order=0 migratetype=0 gfp_flags=GFP_KERNEL",
            alloc(page(0), 0, unmov, GFP_KERNEL),
        ),
        (
            "mm_page_alloc: page=(____ptrval____) pfn=0x0 order=0 migratetype=0 gfp_flags=GFP_KERNEL",
            alloc(page(0), 0, unmov, GFP_KERNEL),
        ),
        ("mm_page_free_direct: page=ffffea pfn=1071382 order=1", FREED),
        ("kmem:mm_page_free: page=0x1 pfn=0x105916 order=1", FREED),
        ("mm_page_free_batched: page=0x1 pfn=0x7 order=0", Kind::FreeBatched { pfn: Pfn(7) }),
        ("mm_page_free_batched: page=0x1 pfn=7 order=0 cold=1", Kind::FreeBatched { pfn: Pfn(7) }),
        ("mm_pagevec_free: page=0x1 pfn=7 order=0 cold=0", Kind::FreeBatched { pfn: Pfn(7) }),
        (
            "mm_vmscan_direct_reclaim_begin: order=3 may_writepage=1 gfp_flags=GFP_KERNEL",
            Kind::ReclaimBegin { order: Order(3) },
        ),
        ("vmscan:mm_vmscan_direct_reclaim_end: nr_reclaimed=47", Kind::ReclaimEnd { reclaimed: 47 }),
        (
            "mm_page_pcpu_drain: page=0x1 pfn=0x7 order=1 migratetype=2",
            Kind::PcpuDrain { pfn: Pfn(7), order: Order(1), migratetype: MigrateType::Reclaimable },
        ),
        (
            "mm_page_alloc_zone_locked: page=0x1 pfn=0x7 order=0 migratetype=1 cpu=2 percpu_refill=1",
            Kind::AllocZoneLocked { pfn: page(7), order: Order(0), migratetype: mov, percpu_refill: true },
        ),
        (
            "mm_page_alloc_zone_locked: page=(nil) pfn=0x0 order=2 migratetype=3",
            Kind::AllocZoneLocked {
                pfn: None,
                order: Order(2),
                migratetype: MigrateType::HighAtomic,
                percpu_refill: false,
            },
        ),
        (
            "mm_page_alloc_extfrag: page=0x1 pfn=0x115c00 alloc_order=0 fallback_order=10 pageblock_order=9 \
             alloc_migratetype=0 fallback_migratetype=1 fragmenting=0 change_ownership=1",
            Kind::ExtFrag {
                pfn: Pfn(0x11_5c00),
                alloc_order: Order(0),
                fallback_order: Order(10),
                pageblock_order: Order(9),
                alloc_migratetype: unmov,
                fallback_migratetype: mov,
                fragmenting: false,
                change_ownership: true,
            },
        ),
        (
            "page_migrate: (folio_migrate_flags+0x0/0x180) new=0xffd40000047fffc0 old=0xffd40000043823c0",
            Kind::Move { old: Pfn(0x10_e08f), new: Pfn(0x11_ffff) },
        ),
        (
            "probe:page_migrate: (ffffffff8133a4b0) new=18446719884453740800 old=0xffffea0004000040",
            Kind::Move { old: Pfn(0x10_0001), new: Pfn(4) },
        ),
    ];
    for (event, expected) in table {
        assert_eq!(kind(event), expected, "{event}");
    }
}

#[test]
fn what_is_no_event_of_ours_is_counted() {
    let text = format!(
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: 100/142   #P:4\n\
         version = 7\ncpus=4\nCPU 2 is empty\n\
         fio-225 [000] ..... 19.396058: {FREE}\n\
         fio-225 [000] ..... 19.396057: <stack trace>\n => __free_pages\n => 0xffff\n\
         fio-225 [000] ..... 19.396059: sched_switch: prev_comm=fio pfn=0x7 ==> next_comm=x\n\
         fio-225 [000] ..... 19.396059: sys_enter(fd: 3)\n\
         CPU:3 [LOST 12 EVENTS]\nCPU:2 [LOST EVENTS]\nCPU:1 [33 EVENTS DROPPED]\nCPU:0 [EVENTS DROPPED]\n\
         fio 225 [000] 19.396058: PERF_RECORD_LOST lost 5\nProcessed 70 events and lost 2 chunks!\n\
         fio   225 [000]    19.396057: kmem:{FREE}\r\n\
         \tffffffff8133a4b0 __free_pages+0x0 ([kernel.kallsyms])\n\t    7f0012345678 [unknown] (/usr/bin/fio)\n\n\
         \x20 1)               |  __free_pages() {{\n\x20 1)               |    /* {FREE} */\n\x20 1)   0.123 us    |  }}\n\
         \x20------------------------------------------\n\x20 1)  fio-225  =>  fio-226\n\
         what is this?\n"
    );
    let (found, quality) = records(&text);
    assert_eq!(found.len(), 3);
    assert_eq!(found[2], Record { time: 19_396_057_000, pid: 0, comm: CommId(0), cpu: CpuId(1), kind: FREED });
    assert_eq!((quality.lost_events, quality.lost_reports), (42 + 12 + 33 + 5, 7));
    assert_eq!((quality.time_steps_back, quality.untimed), (1, 1));
    insta::assert_debug_snapshot!(
        (quality.lines, quality.skipped_lines, quality.unrecognized_lines, &quality.unknown),
        @r#"
    (
        28,
        16,
        1,
        {
            "(text without a name)": 1,
            "sched_switch": 1,
        },
    )
    "#
    );
}

#[test]
fn no_event_of_ours_is_taken_for_another() {
    let head = "fio-225 [000] ..... 19.396058:";
    // A user's text may look like a line of a trace; any other line with an event's name in it cannot be read.
    for note in ["tracing_mark_write", "bprint", "bpf_trace_printk", "print"] {
        let (found, quality) = records(&format!("{head} {note}: {FREE}\n"));
        assert_eq!((found.len(), quality.unknown_events()), (0, 1), "{note}");
    }
    for (line, is_buried) in [
        (format!("{head} sched_switch: {FREE}"), true),
        (format!("{head} a column: {FREE}"), false),
        (format!("{head} a b c d e f g h i j k {FREE}"), true),
        (format!("fio-225 19.396058: {FREE}"), false),
        (format!("fio 225 19.396058: kmem:{FREE}"), false),
        (format!("fio 1234 0 d..3. 00000000 00000001 [0000abcd] 0.123ms (+0.001ms): {FREE}"), false),
        ("     0.000 fio/225 kmem:mm_page_free(page: 0x1, pfn: 7, order: 1)".to_owned(), false),
        (format!("version {FREE}"), false),
        (format!("=> {FREE}"), false),
        (format!("ffffffff8133a4b0 {FREE}"), false),
    ] {
        let text = format!("{head} {FREE}\n{line}\n");
        let mut reader = reader(text.as_bytes(), TextOptions::default());
        let first = reader.next().map(Result::unwrap).map(|record| record.kind);
        assert_eq!(first, Some(FREED));
        match (is_buried, reader.next()) {
            (true, Some(Err(error))) => {
                assert!(error.to_string().contains("fields of another event"), "{line}: {error}")
            }
            (false, Some(Err(error))) => {
                assert!(error.to_string().contains("there is no `task-pid"), "{line}: {error}")
            }
            (false, Some(Ok(record))) => assert_eq!(record.kind, FREED, "{line}"),
            (_, other) => panic!("{line}: {other:?}"),
        }
    }
    // Functions of the same names are no events.
    for line in [
        " => mm_page_free",
        "\tffffffff8133a4b0 __traceiter_mm_page_alloc+0x3a ([kernel.kallsyms])",
        "trace_mm_page_free: x",
    ] {
        assert_eq!(records(&format!("{head} {FREE}\n{line}\n")).0.len(), 1, "{line}");
    }
}

#[test]
fn fields_that_a_tool_leaves_out_are_worked_out() {
    let ext_frag = |order: u8, rest: &str, options: TextOptions| {
        let text = format!(
            "fio 225 [000] 19.4: kmem:mm_page_alloc_extfrag: [FAILED TO PARSE] pfn=0x7 alloc_order=0 fallback_order={order} \
             alloc_migratetype=0 fallback_migratetype=1 {rest} change_ownership=0\n"
        );
        let record = reader(text.as_bytes(), options).next().unwrap().unwrap();
        let Kind::ExtFrag { pageblock_order, fragmenting, .. } = record.kind else { panic!("{record:?}") };
        (pageblock_order.0, fragmenting)
    };
    let usual = TextOptions::default();
    let large = TextOptions { pageblock_order: Some(Order(13)), ..usual };
    assert_eq!(ext_frag(8, "", usual), (9, true));
    assert_eq!(ext_frag(9, "", usual), (9, false));
    assert_eq!(ext_frag(9, "", large), (13, true));
    assert_eq!(ext_frag(9, "pageblock_order=0", large), (13, true));
    assert_eq!(ext_frag(9, "pageblock_order=10 fragmenting=0", large), (10, false), "the event's own word");
}

#[test]
fn a_header_tells_the_kernel_of_raw_flags() {
    let line = "fio-225 [000] 19.4: mm_page_alloc: page=0xa pfn=7 order=0 migratetype=0 gfp_flags=0x14000c0\n";
    let gfp = |text: &str, options| match reader(text.as_bytes(), options).next() {
        Some(Ok(Record { kind: Kind::Alloc { gfp, .. }, .. })) => Ok(gfp),
        Some(Err(error)) => Err(error.to_string()),
        other => panic!("{other:?}"),
    };
    for header in [
        "# os release : 4.15.0-108-generic",
        "# Linux version 4.14.3 (a@b)",
        "# uname: Linux x 4.12.0 #1",
        "# irqsoff latency trace v1.1.5 on 4.10.0",
    ] {
        assert_eq!(gfp(&format!("{header}\n{line}"), TextOptions::default()), Ok(GFP_KERNEL), "{header}");
    }
    let told = TextOptions { kernels: Kernels::of("4.17".parse().unwrap()), ..TextOptions::default() };
    assert_eq!(gfp(line, told), Ok(GFP_KERNEL));
    assert_eq!(gfp(&format!("# os release : 4.4.0\n{line}"), told), Ok(GFP_KERNEL), "what the user says counts");
    insta::assert_snapshot!(gfp(line, TextOptions::default()).unwrap_err(), @"trace.txt:1: gfp_flags=0x14000c0 cannot be read without the kernel's version: 0x1400000 of it is not the same in Linux 2.6.31 to before 4.18, 5.14 and later");
    let lenient = TextOptions { lenient: true, ..TextOptions::default() };
    let mut reader = reader(line.as_bytes(), lenient);
    assert!(reader.next().unwrap().is_ok());
    assert_eq!(reader.quality().unknown_flags, [("0x1400000".to_owned(), 1)].into());
}

#[test]
fn numbers_of_mobilities_are_found_out() {
    let old = Some(Numbering::ReclaimableFirst);
    let new = Some(Numbering::MovableFirst);
    let (movable, reclaimable) = (MigrateType::Movable, MigrateType::Reclaimable);
    let event = |body: &str| format!("fio-225 [000] ..... 19.396058: {body}\n");
    let alloc =
        |mt: u8, gfp: &str| event(&format!("mm_page_alloc: page=0xa pfn=1 order=0 migratetype={mt} gfp_flags={gfp}"));
    let drain = event("mm_page_pcpu_drain: page=0x1 pfn=0x7 order=1 migratetype=1");
    let user = |mt| alloc(mt, "GFP_HIGHUSER_MOVABLE");
    let slab = |mt| alloc(mt, "GFP_NOFS|__GFP_RECLAIMABLE");
    let table: Vec<(Option<Numbering>, String, MigrateType)> = vec![
        (None, drain.clone(), movable),
        (old, drain.clone(), reclaimable),
        (None, user(1) + &drain, movable),
        (None, user(2) + &drain, reclaimable),
        (None, slab(2) + &drain, movable),
        (None, slab(1) + &drain, reclaimable),
        (None, alloc(2, "0xca") + &drain, reclaimable),
        (None, alloc(0, "GFP_KERNEL") + &slab(1) + &drain, reclaimable),
        (old, user(1) + &drain, reclaimable),
        (new, user(2) + &drain, movable),
        (None, format!("# irqsoff latency trace v1.1.5 on 3.10.0-rc3+\n{drain}"), reclaimable),
        (None, format!("# os release : 4.4.0\n{drain}"), movable),
        (new, format!("# os release : 2.6.32\n{drain}"), movable),
    ];
    for (numbering, text, expected) in table {
        let records: Vec<_> = reader(text.as_bytes(), TextOptions { numbering, ..TextOptions::default() }).collect();
        let Some(Ok(Record { kind: Kind::PcpuDrain { migratetype, .. }, .. })) = records.last() else {
            panic!("{records:?} for {text}")
        };
        assert_eq!(*migratetype, expected, "{text}");
    }
    for (text, fault) in [
        (drain.clone() + &user(2), LineFault::Numbering),
        (user(1) + &user(2), LineFault::Contradiction { value: 2, gfp: GFP_HIGHUSER_MOVABLE }),
        (user(6), LineFault::Migratetype(6)),
    ] {
        let error = error(text.as_bytes(), TextOptions::default());
        assert!(matches!(error.reason(), Reason::Line(found) if *found == fault), "{error}");
    }
}

#[test]
fn addresses_of_descriptors_are_refused_when_in_doubt() {
    let line = |old: u64| format!("fio-225 [000] ..... 19.4: page_migrate: (x) new=0xffd4000000000040 old={old:#x}\n");
    let given = |base| TextOptions { vmemmap: Some(base), ..TextOptions::default() };
    let up_to = |end| TextOptions { end_pfn: Some(Pfn(end)), ..TextOptions::default() };
    let usual = TextOptions::default();
    let old = |text: &str, options| match reader(text.as_bytes(), options).next() {
        Some(Ok(Record { kind: Kind::Move { old, new: Pfn(1) }, .. })) => Ok(old.0),
        Some(Err(error)) => Err(error.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(old(&line(0xffd4_0000_0400_0000), usual), Ok(0x10_0000));
    assert_eq!(old(&line(0xffd4_0000_0400_0000), up_to(0x10_0001)), Ok(0x10_0000));
    assert_eq!(old(&line(0xffd4_0080_0000_0000), given(0xffd4_0000_0000_0000)), Ok(0x2_0000_0000));
    let mut errors = String::new();
    for (address, options) in [
        (0xffd4_0000_0400_0000, up_to(0x10_0000)),
        (0xffd4_0080_0000_0000, usual),
        (0xffd4_0000_0400_0001, usual),
        (0xffff_f512_0400_0000, usual),
        (0x10, usual),
        (0xffd3_0000_0000_0000, given(0xffd4_0000_0000_0000)),
    ] {
        writeln!(errors, "{}", old(&line(address), options).unwrap_err()).unwrap();
    }
    insta::assert_snapshot!(errors, @"
    trace.txt:1: 0xffd4000004000000 would be the page descriptor of frame 0x100000, above all others (they end at 0x100000); say where frame 0's is
    trace.txt:1: 0xffd4008000000000 would be the page descriptor of frame 0x200000000, above all others (they end at 0x100001); say where frame 0's is
    trace.txt:1: 0xffd4000004000001 is not the address of a page descriptor: not a multiple of 64 above 0xffd4000000000000
    trace.txt:1: 0xfffff51204000000 is in no table of page descriptors at one of the usual addresses (the kernel randomises them unless booted with nokaslr); say where frame 0's is
    trace.txt:1: 0x10 is in no table of page descriptors at one of the usual addresses (the kernel randomises them unless booted with nokaslr); say where frame 0's is
    trace.txt:1: 0xffd3000000000000 is not the address of a page descriptor: not a multiple of 64 above 0xffd4000000000000
    ");
}
