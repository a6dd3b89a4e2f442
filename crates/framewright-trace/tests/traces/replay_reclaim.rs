//! Reclaim in a replay: what is reclaimed early, when a huge page is split, and which failures remain.

use crate::replay_synthetic::{FIRST, MOVABLE, SECOND, START, Synthetic};
use framewright::Mechanisms;
use framewright_trace::replay::{Column, Table};

/// The first frames of the second and third pageblock.
const A: u64 = START + 0x200;
const B: u64 = START + 0x400;

/// Linux fails a huge page that is served here, from the two free pageblocks. Then another task wants 100 base pages.
/// One pageblock is page cache, which `frees` frees last.
fn short_here(frees: impl FnOnce(&mut Synthetic)) -> Synthetic {
    let mut trace = Synthetic::new();
    trace.used_except(A, 1024);
    trace.within(5, "cat", |t| (B..B + 512).for_each(|pfn| _ = t.alloc(pfn, 0, MOVABLE)));
    trace.alloc(0, 9, FIRST);
    trace.within(6, "redis", |t| (A..A + 100).for_each(|pfn| _ = t.alloc(pfn, 0, MOVABLE)));
    frees(&mut trace);
    trace
}

fn free_all(trace: &mut Synthetic) {
    (B..B + 512).for_each(|pfn| _ = trace.free(pfn, 0));
}

/// Failures of smaller requests, huge pages that were split, and pages that were reclaimed early.
fn counts(column: &Column) -> [u64; 3] {
    [column.failed_smaller, column.huge_pages_split, column.reclaimed_early]
}

#[test]
fn what_reclaim_frees_in_linux_may_be_reclaimed_early() {
    type Frees = fn(&mut Synthetic);
    // Who frees the page cache, and whether it is known to be reclaimable.
    let table: [(&str, Frees, bool); 4] = [
        ("kswapd", |t| _ = t.within(40, "kswapd0", free_all), true),
        (
            "a request that reclaims",
            |t| {
                _ = t.within(8, "cc1", |t| {
                    t.event("mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL");
                    free_all(t);
                    t.event("mm_vmscan_direct_reclaim_end: nr_reclaimed=512");
                })
            },
            true,
        ),
        ("its user", |t| _ = t.within(5, "cat", free_all), false),
        ("nobody", |_| {}, false),
    ];
    for (what, frees, known) in table {
        let report = short_here(frees).replay_under(&[Mechanisms::DEFAULT, Mechanisms::BASELINE]);
        assert_eq!((report.linux.reclaimed, report.linux.reclaimed_known), if known { (512, 512) } else { (0, 0) });
        for column in &report.columns {
            let [failed, split, early] = counts(column);
            // What Linux did not reclaim is not reclaimed: the huge page gives its unused pages.
            assert_eq!((failed, split), (0, u64::from(!known)), "{what}: {column:?}");
            assert!(if known { (100..300).contains(&early) } else { early == 0 }, "{what}: {early}");
            assert_eq!(column.reclaimed_earlier_s.is_some(), known, "{what}");
            assert_eq!((column.served_where_linux_failed, column.failed_where_linux_served), (1, 0), "{what}");
            // The bounds.
            let (nothing, all) = (&column.nothing_reclaimed, &column.all_reclaimed_at_once);
            assert!(nothing.failed_smaller >= 100 && nothing.reclaimed_early == 0, "{what}: {nothing:?}");
            let kept = if known { "reclaimable memory is kept" } else { "huge pages gained here are kept" };
            assert_eq!(nothing.failed_because.get(kept), Some(&nothing.failed_smaller), "{what}: {nothing:?}");
            assert_eq!((all.failed_smaller, all.reclaimed_early), (0, if known { 512 } else { 0 }), "{what}");
        }
        // What was reclaimed early is freed once.
        let left = if what == "nobody" { 512 } else { 0 };
        let huge = if known { 512 } else { 0 };
        let used = report.linux.buddyinfo.iter().flat_map(|zone| zone.free.iter().zip(0..));
        let free: u64 = used.map(|(blocks, order)| blocks << order).sum();
        assert_eq!(report.framewright.frames["allocated"], 4096 - 1024 + 100 + left + huge, "{what}");
        assert_eq!(free, 1024 - 100 - left, "{what}");
    }
}

#[test]
fn base_pages_in_a_split_huge_page_stay_where_they_are() {
    let mut trace = Synthetic::new();
    trace.used_except(A, 1024);
    trace.within(5, "cat", |t| (B..B + 512).for_each(|pfn| _ = t.alloc(pfn, 0, MOVABLE)));
    trace.alloc(0, 9, FIRST);
    (A..A + 10).for_each(|pfn| _ = trace.alloc(pfn, 0, MOVABLE));
    trace.within(6, "redis", |t| (A + 10..A + 512).for_each(|pfn| _ = t.alloc(pfn, 0, MOVABLE)));
    let report = trace.replay();
    let used = 4096 - 1024;
    assert_eq!((counts(&report.framewright), report.framewright.frames["allocated"]), ([0, 1, 0], used + 1024));
    // Then they are pages like others.
    (A..A + 10).for_each(|pfn| _ = trace.free(pfn, 0));
    let report = trace.replay();
    assert_eq!((counts(&report.framewright), report.framewright.frames["allocated"]), ([0, 1, 0], used + 1014));
    assert_eq!(report.framewright.huge_pages_given_back, 0);
}

#[test]
fn a_thread_that_reclaims_gets_the_reserves_and_others_fail_with_a_reason() {
    let mut trace = Synthetic::new();
    trace.min = 64;
    trace.used_except(A, 128);
    (A..A + 60).for_each(|pfn| _ = trace.alloc(pfn, 0, MOVABLE));
    trace.within(40, "kswapd0", |t| (A + 60..A + 80).for_each(|pfn| _ = t.alloc(pfn, 0, MOVABLE)));
    let report = trace.replay_under(&[Mechanisms::DEFAULT]);
    assert_eq!(report.framewright.failed_smaller, 0, "{:?}", report.framewright);

    trace.alloc(A + 80, 0, MOVABLE);
    let report = trace.replay_under(&[Mechanisms::DEFAULT]);
    let reasons = Vec::from_iter(&report.framewright.failed_because);
    assert_eq!(reasons, [(&"free memory is at the watermark, as in Linux", &1)]);
    let text = Table(&report).to_string();
    let row = text.lines().find(|line| line.contains("tries that failed")).unwrap();
    assert_eq!(row.split_whitespace().last(), Some("1"), "{text}");
}

#[test]
fn a_fault_whose_huge_page_was_split_before_its_retry_is_counted_once() {
    let mut trace = Synthetic::new();
    trace.used_except(A, 512).alloc(0, 9, FIRST);
    trace.within(6, "redis", |t| _ = t.alloc(A, 0, MOVABLE));
    // The free of that page was lost. Linux serves the retry; here the page is still in use.
    trace.alloc(A, 9, SECOND);
    let report = trace.replay();
    let ours = &report.framewright;
    assert_eq!((ours.order9_faults_served, ours.served_where_linux_failed, ours.failed_where_linux_served), (1, 0, 0));
    assert_eq!((ours.huge_pages_split, report.linux.order9_faults_served), (1, 1));
}
