//! The rules of a fair replay, each on a trace of a few events.
//!
//! The results are seen from outside: the frames allocated at the end, and the counts of the report.

use crate::replay_synthetic::{FIRST, FRAMES, KERNEL, MOVABLE, SECOND, START, Synthetic};
use framewright::Mechanisms;
use framewright::mechanisms::FallbackPolicy;
use framewright_trace::proc::flag;
use framewright_trace::replay::{FirstTry, Knowledge, Report, Table};

/// The first frames of the second, third ... pageblock, in which nothing lies in the tests.
const A: u64 = START + 0x200;
const B: u64 = START + 0x400;
const C: u64 = START + 0x600;

fn allocated(report: &Report) -> u64 {
    report.framewright.frames["allocated"]
}

/// Troubles in a trace: unknown frees, re-allocations, blocks freed in parts, moves to
/// an allocated page.
fn seen(report: &Report) -> [u64; 4] {
    let q = &report.quality;
    [q.free_unknown, q.reallocations, q.splits, q.moves_to_allocated]
}

/// Faults, of these served; requests for huge pages; for Linux and for us.
fn faults(report: &Report) -> [[u64; 3]; 2] {
    let (l, o) = (&report.linux, &report.framewright);
    [
        [l.order9_faults, l.order9_faults_served, l.order9_requests],
        [o.order9_faults, o.order9_faults_served, o.order9_requests],
    ]
}

/// Served here and failed by Linux, failed here and served by Linux, base pages left out.
fn parted(report: &Report) -> [u64; 3] {
    let o = &report.framewright;
    [o.served_where_linux_failed, o.failed_where_linux_served, o.base_pages_skipped]
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn objects_are_followed() {
    type Row = (&'static str, fn(&mut Synthetic), u64, [u64; 4]);
    // The events, frames allocated at the end, trouble that is reported.
    let table: &[Row] = &[
        ("a page comes and goes", |t| _ = t.alloc(A, 0, MOVABLE).free(A, 0), 0, [0; 4]),
        ("a page stays", |t| _ = t.alloc(A, 0, KERNEL), 1, [0; 4]),
        ("the free of a page left behind is dropped", |t| _ = t.alloc(A, 0, MOVABLE).moved(A, B).free(A, 0), 1, [0; 4]),
        (
            "the free where it went to frees ours",
            |t| _ = t.alloc(A, 0, MOVABLE).moved(A, B).free(A, 0).free(B, 0),
            0,
            [0; 4],
        ),
        (
            "an object moves twice, and back to where it was",
            |t| {
                _ = t
                    .alloc(A, 0, MOVABLE)
                    .moved(A, B)
                    .free(A, 0)
                    .moved(B, C)
                    .free(B, 0)
                    .moved(C, A)
                    .free(C, 0)
                    .free(A, 0)
            },
            0,
            [0; 4],
        ),
        (
            "the page left behind serves another object",
            |t| _ = t.alloc(A, 0, MOVABLE).moved(A, B).free(A, 0).alloc(A, 0, KERNEL).free(B, 0),
            1,
            [0; 4],
        ),
        (
            "it does before its free was seen",
            |t| _ = t.alloc(A, 0, MOVABLE).moved(A, B).alloc(A, 0, KERNEL).free(B, 0).free(A, 0),
            0,
            [0; 4],
        ),
        (
            "a page was allocated to move to: there are two objects",
            |t| _ = t.alloc(A, 0, MOVABLE).alloc(B, 0, MOVABLE).moved(A, B),
            2,
            [0, 0, 0, 1],
        ),
        (
            "until the old one is freed",
            |t| _ = t.alloc(A, 0, MOVABLE).alloc(B, 0, MOVABLE).moved(A, B).free(A, 0),
            1,
            [0, 0, 0, 1],
        ),
        (
            "and the new one too",
            |t| _ = t.alloc(A, 0, MOVABLE).alloc(B, 0, MOVABLE).moved(A, B).free(A, 0).free(B, 0),
            0,
            [0, 0, 0, 1],
        ),
        ("a large block moves as one", |t| _ = t.alloc(A, 3, MOVABLE).moved(A, B).free(A, 3).free(B, 3), 0, [0; 4]),
        (
            "a large block moves to one that was allocated for it",
            |t| _ = t.alloc(A, 3, MOVABLE).alloc(B, 3, MOVABLE).moved(A, B).free(A, 3).free(B, 3),
            0,
            [0, 0, 0, 1],
        ),
        (
            "one page of a large block moves to where the block would not fit",
            |t| _ = t.alloc(A, 3, MOVABLE).moved(A, B + 1).free(A, 0).free(B + 1, 0).free(A + 1, 0),
            6,
            [0; 4],
        ),
        (
            "a page inside of a large block moves",
            |t| _ = t.alloc(A, 1, MOVABLE).moved(A + 1, B).free(A + 1, 0).moved(A, C).free(A, 0).free(B, 0).free(C, 0),
            0,
            [0; 4],
        ),
        (
            "the first page of a block that was freed in part moves alone",
            |t| {
                _ = t.alloc(A, 1, MOVABLE).free(A + 1, 0).alloc(A + 1, 0, KERNEL);
                _ = t.moved(A, B).free(A, 0).free(B, 0).free(A + 1, 0);
            },
            0,
            [0, 0, 1, 0],
        ),
        (
            "a block is freed page by page",
            |t| _ = (A..A + 8).fold(t.alloc(A, 3, KERNEL), |t, pfn| t.free(pfn, 0)),
            0,
            [0, 0, 1, 0],
        ),
        ("a block is freed in parts", |t| _ = t.alloc(A, 3, KERNEL).free(A + 4, 2).free(A, 1), 2, [0, 0, 1, 0]),
        (
            "pages are freed as a block",
            |t| _ = (A..A + 8).fold(t, |t, pfn| t.alloc(pfn, 0, KERNEL)).free(A, 3),
            0,
            [0; 4],
        ),
        (
            "objects from different places are freed as a block",
            |t| {
                _ = t.alloc(B, 0, KERNEL).alloc(A, 0, KERNEL).alloc(C, 1, KERNEL).alloc(A + 1, 0, KERNEL);
                _ = t.moved(C, A + 2).moved(B, A + 1).free(C, 1).free(A, 2);
            },
            1,
            [0, 0, 0, 1],
        ),
        ("a page is freed twice", |t| _ = t.alloc(A, 0, KERNEL).free(A, 0).free(A, 0), 0, [1, 0, 0, 0]),
        (
            "a block is freed of which a part was freed",
            |t| _ = t.alloc(A, 2, KERNEL).free(A + 1, 0).free(A, 2),
            0,
            [1, 0, 1, 0],
        ),
        (
            "a page is allocated twice: what was there is forgotten",
            |t| _ = t.alloc(A, 0, KERNEL).alloc(A, 0, MOVABLE),
            1,
            [0, 1, 0, 0],
        ),
        (
            "a block covers what is in use",
            |t| _ = t.alloc(A + 1, 0, KERNEL).alloc(A + 2, 1, KERNEL).alloc(A, 3, MOVABLE),
            8,
            [0, 1, 0, 0],
        ),
        (
            "a page is allocated out of a block",
            |t| _ = t.alloc(A, 3, KERNEL).alloc(A + 3, 0, MOVABLE).free(A + 3, 0),
            7,
            [0, 1, 0, 0],
        ),
    ];
    for (what, events, left, trouble) in table {
        let mut trace = Synthetic::new();
        events(&mut trace);
        let report = trace.replay();
        assert_eq!((allocated(&report), seen(&report)), (*left, *trouble), "{what}\n{}", trace.trace);
    }
}

#[test]
fn a_fault_is_counted_once() {
    type Row = (&'static str, fn(&mut Synthetic), FirstTry, [u64; 3]);
    // Linux's events, the rule for first tries, and Linux's faults, served faults, requests.
    let table: &[Row] = &[
        ("first try served", |t| _ = t.alloc(A, 9, FIRST), FirstTry::ThisNodeNoRetry, [1, 1, 1]),
        ("second try served", |t| _ = t.alloc(0, 9, FIRST).alloc(A, 9, SECOND), FirstTry::ThisNodeNoRetry, [1, 1, 2]),
        ("both failed", |t| _ = t.alloc(0, 9, FIRST).alloc(0, 9, SECOND), FirstTry::ThisNodeNoRetry, [1, 0, 2]),
        (
            "two faults, one of them without a second try",
            |t| _ = t.alloc(0, 9, FIRST).alloc(0, 9, FIRST).alloc(A, 9, SECOND),
            FirstTry::ThisNodeNoRetry,
            [2, 1, 3],
        ),
        (
            "two tasks at a time",
            |t| {
                _ = t
                    .alloc(0, 9, FIRST)
                    .run(7, 1)
                    .alloc(0, 9, FIRST)
                    .alloc(A, 9, SECOND)
                    .run(100, 0)
                    .alloc(0, 9, SECOND)
            },
            FirstTry::ThisNodeNoRetry,
            [2, 1, 4],
        ),
        (
            "khugepaged asks without the flags",
            |t| _ = t.alloc(A, 9, FIRST).run(40, 0).alloc(B, 9, SECOND).alloc(0, 9, SECOND),
            FirstTry::ThisNodeNoRetry,
            [1, 1, 1],
        ),
        (
            "huge pages that cannot move are none of a process",
            |t| _ = t.alloc(A, 9, FIRST).alloc(B, 9, KERNEL),
            FirstTry::ThisNodeNoRetry,
            [1, 1, 1],
        ),
        (
            "an older kernel: one flag, one try",
            |t| _ = t.alloc(0, 9, "GFP_TRANSHUGE|__GFP_THISNODE").alloc(A, 9, "GFP_TRANSHUGE|__GFP_THISNODE"),
            FirstTry::ThisNode,
            [2, 1, 2],
        ),
        (
            "a kernel for one node: no flag, one try",
            |t| _ = t.alloc(0, 9, SECOND).alloc(0, 9, SECOND).alloc(A, 9, SECOND),
            FirstTry::Any,
            [3, 1, 3],
        ),
    ];
    for (what, events, rule, linux) in table {
        let mut trace = Synthetic::new();
        events(&mut trace);
        let report = trace.replay();
        assert_eq!(report.quality.first_tries, *rule, "{what}");
        assert_eq!(faults(&report)[0], *linux, "{what}");
        assert_eq!(faults(&report)[1][..1], linux[..1], "{what}: as many faults here");
    }
}

/// Base pages of a task: `count` from `pfn` on.
fn base_pages(trace: &mut Synthetic, pfn: u64, count: u64) {
    (pfn..pfn + count).for_each(|pfn| _ = trace.alloc(pfn, 0, MOVABLE));
}

#[test]
fn what_linux_failed_and_we_serve_replaces_base_pages_and_goes_with_the_last() {
    let mut trace = Synthetic::new();
    trace.alloc(0, 9, FIRST).alloc(0, 9, SECOND);
    base_pages(&mut trace, A, 600);
    // Another task's, and requests of another kind.
    trace.run(7, 1);
    base_pages(&mut trace, A + 0x300, 10);
    trace.run(100, 0).alloc(A + 0x400, 0, KERNEL).alloc(A + 0x402, 1, MOVABLE);
    let report = trace.replay();
    assert_eq!(faults(&report), [[1, 0, 2], [1, 1, 1]]);
    assert_eq!(parted(&report), [1, 0, 512]);
    assert_eq!(allocated(&report), 512 + 88 + 10 + 1 + 2);
    assert_eq!((report.linux.peak_blocks_held, report.framewright.peak_blocks_held), (0, 1));

    // The huge page stays while one of the base pages is in use, and is freed with it.
    (A..A + 511).for_each(|pfn| _ = trace.free(pfn, 0));
    let report = trace.replay();
    assert_eq!((allocated(&report), seen(&report)), (512 + 88 + 10 + 1 + 2, [0; 4]));
    assert_eq!(report.framewright.huge_pages_given_back, 0);
    trace.moved(A + 511, A + 0x600).free(A + 511, 0).free(A + 0x600, 0);
    let report = trace.replay();
    assert_eq!((allocated(&report), seen(&report)), (88 + 10 + 1 + 2, [0; 4]));
    assert_eq!((report.framewright.huge_pages_given_back, report.framewright.huge_pages_split), (1, 0));
}

#[test]
fn base_pages_are_left_out_after_the_next_try_too() {
    let mut trace = Synthetic::new();
    trace.alloc(0, 9, FIRST).alloc(0, 9, SECOND);
    base_pages(&mut trace, A, 100);
    trace.alloc(START + 0xa00, 9, FIRST);
    base_pages(&mut trace, A + 100, 50);
    let report = trace.replay();
    assert_eq!((parted(&report), allocated(&report)), ([1, 0, 150], 512 + 512));

    // Where the kernel zeroes pages that a task touches, only these are left out.
    let mut trace = Synthetic::new();
    trace.alloc(0, 9, FIRST).alloc(A, 0, MOVABLE).alloc(A + 1, 0, "GFP_HIGHUSER_MOVABLE|__GFP_ZERO");
    let report = trace.replay();
    assert_eq!((parted(&report), allocated(&report)), ([1, 0, 1], 512 + 1));

    // Base pages after a fault that failed here as well are allocated.
    let mut trace = Synthetic::new();
    trace.fragmented(0);
    trace.alloc(0, 9, FIRST).alloc(0, 9, SECOND);
    base_pages(&mut trace, A + 8, 100);
    let report = trace.replay();
    assert_eq!((parted(&report), allocated(&report)), ([0, 0, 0], 8 + 100));
    assert_eq!(faults(&report), [[1, 0, 2], [1, 0, 2]]);
}

#[test]
fn a_retry_that_we_do_not_need_is_not_made_and_counts_nothing_twice() {
    // Between the tries the task takes 100 base pages; one fault leaves out 512 at most.
    let mut trace = Synthetic::new();
    trace.alloc(0, 9, FIRST);
    base_pages(&mut trace, A, 100);
    trace.alloc(0, 9, SECOND);
    base_pages(&mut trace, A + 100, 500);
    let report = trace.replay();
    assert_eq!((faults(&report)[1], parted(&report)), ([1, 1, 1], [1, 0, 512]));
    assert_eq!(allocated(&report), 512 + 88);

    // Linux served the second try: the huge page of our first one is that object, and is freed with it.
    let mut trace = Synthetic::new();
    trace.alloc(0, 9, FIRST).alloc(A, 9, SECOND);
    let report = trace.replay();
    assert_eq!((faults(&report)[1], parted(&report), allocated(&report)), ([1, 1, 1], [0, 0, 0], 512));
    trace.free(A, 9);
    assert_eq!(allocated(&trace.replay()), 0);
}

/// Linux compacts a pageblock and serves a huge page from it; here nothing is compacted.
fn only_linux_serves(gfp: &str) -> Synthetic {
    let mut trace = Synthetic::new();
    let pages = trace.fragmented(0);
    trace.compacted(pages[1], pages[2] + 1).alloc(A, 9, gfp);
    trace
}

#[test]
fn what_linux_served_and_we_fail_is_counted_and_its_free_dropped() {
    let mut trace = only_linux_serves(FIRST);
    let report = trace.replay();
    // The second try that Linux had no need of is made here.
    assert_eq!(faults(&report), [[1, 1, 1], [1, 0, 2]]);
    assert_eq!((parted(&report), allocated(&report)), ([0, 1, 0], 8));
    assert_eq!(
        report.framewright.orders.iter().map(|row| (row.order, row.requests, row.failed)).collect::<Vec<_>>(),
        [(9, 2, 2)]
    );
    trace.free(A, 9).free(START + 0x408, 0);
    let report = trace.replay();
    assert_eq!((allocated(&report), seen(&report)), (7, [0; 4]));

    // A kernel that does not try twice, and a request that may not wait, have no second try.
    for gfp in ["GFP_TRANSHUGE|__GFP_THISNODE", "GFP_TRANSHUGE_LIGHT|__GFP_THISNODE|__GFP_NORETRY", "GFP_TRANSHUGE"] {
        assert_eq!(faults(&only_linux_serves(gfp).replay())[1], [1, 0, 1], "{gfp}");
    }
}

#[test]
fn the_second_try_goes_to_other_nodes() {
    let mut trace = Synthetic::nodes(2);
    let pages = trace.fragmented(0);
    trace.compacted(pages[1], pages[2] + 1).alloc(A, 9, FIRST);
    let report = trace.replay();
    assert_eq!((faults(&report), parted(&report)), ([[1, 1, 1], [1, 1, 2]], [0, 0, 0]));
    let nodes: Vec<_> =
        report.framewright.buddyinfo.iter().map(|zone| (zone.node, zone.free[9] + 2 * zone.free[10])).collect();
    assert_eq!(nodes, [(0, 0), (1, 7)]);
}

#[test]
fn cpus_are_on_the_node_whose_memory_they_use() {
    let mut trace = Synthetic::nodes(2);
    trace.run(1, 1);
    base_pages(&mut trace, START + FRAMES, 20);
    trace.run(2, 0);
    base_pages(&mut trace, START, 30);
    let report = trace.replay();
    assert_eq!((report.machine.nodes, report.machine.cpus), (2, 2));
    let used = |zones: &[framewright_trace::replay::ZoneBlocks]| -> Vec<u64> {
        let free = |blocks: &[u64]| blocks.iter().zip(0..).map(|(count, order)| count << order).sum::<u64>();
        zones.iter().map(|zone| FRAMES - free(&zone.free)).collect()
    };
    assert_eq!(used(&report.linux.buddyinfo), [30, 20]);
    assert_eq!(used(&report.framewright.buddyinfo), [30, 20]);
}

#[test]
fn smaller_requests_that_linux_failed_are_tried_and_given_back() {
    let mut trace = Synthetic::new();
    trace.alloc(0, 3, KERNEL).alloc(0, 0, MOVABLE).alloc(A, 2, KERNEL);
    let report = trace.replay();
    let rows = |rows: &[framewright_trace::replay::OrderRow]| -> Vec<_> {
        rows.iter().map(|row| (row.order, row.requests, row.failed)).collect()
    };
    assert_eq!(rows(&report.linux.orders), [(0, 1, 1), (2, 1, 0), (3, 1, 1)]);
    assert_eq!(rows(&report.framewright.orders), [(0, 1, 0), (2, 1, 0), (3, 1, 0)]);
    assert_eq!((allocated(&report), report.framewright.failed_smaller), (4, 0));
    // Linux compacts and serves; here it fails, like the request that Linux failed.
    let mut trace = Synthetic::new();
    trace.used_except(A, 8).flags(A + 3, 1, flag::ANON);
    trace.alloc(0, 3, KERNEL).compacted(A + 3, C).alloc(A, 3, KERNEL);
    let report = trace.replay();
    assert_eq!(rows(&report.framewright.orders), [(3, 2, 2)]);
    assert_eq!(report.framewright.failed_smaller, 1);
    assert_eq!(Vec::from_iter(&report.framewright.failed_because), [(&"no free block is large enough", &1)]);
}

#[test]
fn the_state_before_is_what_was_recorded() {
    let in_use = |report: &Report| (allocated(report), report.machine.frames, report.quality.initial_state);
    // Frames: kpageflags says which are in use, reserved, or none.
    let mut trace = Synthetic::new();
    trace.flags(START, 8, flag::RESERVED).flags(START + 8, 8, flag::NOPAGE).flags(START + 16, 100, flag::SLAB);
    trace.alloc(B, 0, KERNEL);
    let report = trace.replay();
    assert_eq!(in_use(&report), (101, FRAMES - 16, Knowledge::Frames));
    assert_eq!(report.framewright.frames["offline"], 8);

    // A page on a per-CPU list has no flag, like one in use; that it is allocated first shows what it was.
    let mut trace = Synthetic::new();
    trace.flags(A, 4, 0).alloc(A + 1, 0, MOVABLE);
    assert_eq!(allocated(&trace.replay()), 3 + 1);

    // A frame that is freed first was in use, also where the flags were read too early to show it.
    let mut trace = Synthetic::new();
    trace.free(A, 2).moved(B, C).free(B, 0);
    let report = trace.replay();
    assert_eq!((allocated(&report), seen(&report)), (1, [0; 4]));

    // Zones: zoneinfo says how many frames are in use.
    let mut trace = Synthetic::zones_only(1_000);
    trace.alloc(A, 0, KERNEL).free(B, 0);
    let report = trace.replay();
    assert_eq!(in_use(&report), (FRAMES - 1_000, FRAMES, Knowledge::Zones));

    // Flags without zones: one zone of all frames that are there.
    let mut trace = Synthetic::new();
    trace.flags(A, 100, flag::SLAB).alloc(B, 0, KERNEL);
    let folder = tempfile::tempdir().unwrap();
    trace.write(folder.path());
    std::fs::remove_file(folder.path().join("zoneinfo")).unwrap();
    let report = crate::replay_synthetic::run(folder.path(), &[]).unwrap();
    assert_eq!(in_use(&report), (101, FRAMES, Knowledge::Frames));

    // Nothing: the frames that events name, rounded to largest blocks.
    let mut trace = Synthetic::new();
    trace.alloc(A, 0, KERNEL).free(B, 0).free(C, 3);
    let folder = tempfile::tempdir().unwrap();
    trace.write(folder.path());
    let report = crate::replay_synthetic::run(&folder.path().join("trace.txt"), &[]).unwrap();
    assert_eq!(in_use(&report), (1, 2 * 1024, Knowledge::Nothing));
}

#[test]
fn losses_are_reported() {
    let text = |lines: &[&str]| {
        let mut trace = Synthetic::new();
        lines.iter().for_each(|line| _ = trace.line(line));
        let report = trace.alloc(A, 0, KERNEL).replay();
        let text = Table(&report).to_string();
        (report.quality.lost_events, report.quality.lost_reports, text.lines().nth(2).unwrap_or_default().to_owned())
    };
    let (gap, unknown) = ("CPU:1 [LOST 12 EVENTS]", "CPU:0 [LOST EVENTS]");
    assert_eq!(text(&[]), (0, 0, "  lost by the tracer: none".into()));
    assert_eq!(
        text(&[gap, gap]),
        (24, 2, "  lost by the tracer: 24, in 2 gaps: what follows a gap is DOUBTFUL".into())
    );
    let lost = "  lost by the tracer: an unknown number, in 1 gap: what follows a gap is DOUBTFUL";
    assert_eq!(text(&[unknown]), (0, 1, lost.into()));
}

#[test]
fn each_set_of_mechanisms_has_a_column() {
    let claim = Mechanisms { fallback: FallbackPolicy::ClaimSteal, ..Mechanisms::BASELINE };
    let mut trace = Synthetic::new();
    trace.alloc(A, 0, KERNEL).alloc(0, 9, FIRST);
    let report = trace.replay_under(&[claim, Mechanisms::BASELINE]);
    let names: Vec<_> = report.columns.iter().map(|column| column.mechanisms.clone()).collect();
    assert_eq!(names, [claim.to_string(), Mechanisms::BASELINE.to_string()]);
    assert_eq!(report.framewright.mechanisms, names[0]);
    let text = Table(&report).to_string();
    assert!(text.contains("Linux         ours 1         ours 2\n"), "{text}");
    // None are the default.
    assert_eq!(trace.replay_under(&[]).framewright.mechanisms, Mechanisms::DEFAULT.to_string());
}

#[test]
fn huge_pages_held_at_once_are_those_of_faults_not_yet_freed() {
    let mut trace = Synthetic::new();
    trace.alloc(A, 9, FIRST).alloc(B, 9, FIRST).free(A, 9).alloc(A, 9, FIRST);
    // Freeing a part is enough; a moved page is still held.
    trace.free(A + 5, 0).moved(B, C).free(B, 9).alloc(START + 0x800, 9, FIRST).alloc(START + 0xa00, 9, FIRST);
    let report = trace.replay();
    assert_eq!((report.linux.peak_blocks_held, report.framewright.peak_blocks_held), (3, 3));

    // Four blocks, then the other four.
    let mut trace = Synthetic::new();
    let blocks = |first: u64| (first..first + 4).map(|block| START + block * 512);
    blocks(0).for_each(|pfn| _ = trace.alloc(pfn, 9, FIRST));
    blocks(0).for_each(|pfn| _ = trace.free(pfn, 9).alloc(pfn, 9, KERNEL));
    blocks(4).for_each(|pfn| _ = trace.alloc(pfn, 9, FIRST));
    let report = trace.replay();
    assert_eq!((report.linux.peak_blocks_held, report.framewright.peak_blocks_held), (4, 4));
}
