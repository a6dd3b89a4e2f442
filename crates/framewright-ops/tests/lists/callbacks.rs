//! Reclaim and migration callbacks that fail, lie, free memory, and call the allocator themselves.
//!
//! Whatever they do: nothing is lost, every answer is right, and a request asks a bounded number of times.

use framewright_ops::session::with_session;
use framewright_ops::{Outcome, Report, Scenario, run};

/// 64 frames, all of them in use: half movable.
const FULL: &str = "
    max-order 4
    pageblock-order 2
    memory 0x0..0x40 node 0
    cpus 0
    dma-end 0x0
    dma32-end 0x0
    marks 0 Normal 0 0 0
    a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE
    a2 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE
    a3 = alloc-range 0x20..0x40 GFP_KERNEL
    split a1 order 1
    split a2 order 0
";

fn report(text: &str) -> Report {
    let scenario: Scenario = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(&scenario).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn reclaim_is_asked_a_bounded_number_of_times() {
    const OUT: &str = "out of memory: every allowed zone is at its watermark";
    // What the callback does, the request, what comes of it, how often it is asked: at each priority, until that freed
    // what is wanted.
    let cases = [
        ("fail", "order 0 GFP_KERNEL", OUT, 13),
        ("lie", "order 0 GFP_KERNEL", OUT, 208),
        ("drain", "order 0 GFP_KERNEL", OUT, 208),
        ("lie", "order 0 GFP_KERNEL|__GFP_NORETRY", OUT, 13),
        ("lie", "order 4 GFP_KERNEL", OUT, 13),
        ("lie", "order 4 GFP_KERNEL|__GFP_RETRY_MAYFAIL", OUT, 208),
        ("lie", "order 0 GFP_KERNEL|__GFP_NOFAIL", OUT, 13312),
        ("fail", "order 0 GFP_KERNEL|__GFP_NOFAIL", OUT, 13312),
        ("lie", "order 0 GFP_ATOMIC", "out of memory for a request that must not wait", 0),
        ("free 1", "order 0 GFP_NOWAIT", "out of memory for a request that must not wait", 0),
        ("free 1", "order 0 GFP_KERNEL", "0x0", 13),
        ("free 1", "order 0 GFP_KERNEL|__GFP_MEMALLOC", OUT, 0),
        ("free 3", "order 1 GFP_KERNEL", "0x10", 8),
        ("free 1", "order 3 GFP_KERNEL", "0x0", 13),
        ("free 1", "order 4 GFP_KERNEL|__GFP_RETRY_MAYFAIL", "0x0", 13),
        ("nest", "order 0 GFP_KERNEL", "0x0", 13),
        ("nest", "order 2 GFP_KERNEL", "0x0", 13),
    ];
    for (what, request, outcome, calls) in cases {
        let text = format!("{FULL}\non-reclaim {what}\na9 = alloc {request} -> {outcome}");
        assert_eq!(report(&text).encounters.reclaims, calls, "{what}: {request}");
    }
}

/// Four pageblocks of 8 frames. Nothing but a block of 2 is free, in an unmovable pageblock: less than the low mark.
const UNLIKE: &str = "
    max-order 4
    pageblock-order 3
    memory 0x0..0x20 node 0
    cpus 0
    dma-end 0x0
    dma32-end 0x0
    marks 0 Normal 0 5 6
    pcp 0 Normal 1 1
    mechanisms nofragment=off,watermark-boost=1000000,stall-order=2
    a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE
    a2 = alloc-at 0x10 order 3 GFP_HIGHUSER_MOVABLE
    type 0x18 Unmovable
    a3 = alloc-at 0x18 order 3 GFP_KERNEL
    raw-free-range 0x1a 2
";

#[test]
fn requests_wait_rather_than_mix_mobilities() {
    // Whether the request waits, and whether the marks were raised.
    let cases = [
        ("order 0 GFP_HIGHUSER_MOVABLE", true),
        // A part of an own pageblock is no mixing; and a request that is not movable, or may not wait, does not wait.
        ("order 1 GFP_KERNEL", false),
        ("order 0 GFP_KERNEL|__GFP_RECLAIMABLE", false),
        ("order 0 GFP_ATOMIC|__GFP_MOVABLE", false),
    ];
    for (request, waits) in cases {
        let scenario: Scenario = format!("{UNLIKE}\na9 = alloc {request} -> 0x1a").parse().unwrap();
        with_session(&scenario.shape, |session| {
            for step in &scenario.steps {
                session.perform(&step.op)?;
            }
            let counters = session.pages().counters();
            assert_eq!(counters.fragment_stalls, u64::from(waits), "{request}: {counters:?}");
            session.check().map(drop)
        })
        .unwrap();
    }
}

#[test]
fn background_reclaim_is_asked_a_bounded_number_of_times() {
    // What the callback does, and how often it is asked: until memory is above the high mark; else at every priority,
    // if it brings nothing.
    for (what, calls) in [("free 1", 1), ("fail", 12), ("lie", 12), ("drain", 12), ("nest", 1)] {
        let high = FULL.replace("marks 0 Normal 0 0 0", "marks 0 Normal 0 0 1");
        let text = format!("{high}\non-reclaim {what}\nbalance 0");
        assert_eq!(report(&text).encounters.reclaims, calls, "{what}");
    }
}

#[test]
fn what_a_zone_keeps_from_requests_is_not_enough_for_background_reclaim() {
    // Zone DMA is free as a whole, and zone Normal is full.
    let text = |kept: u64| {
        format!(
            "
            max-order 4
            pageblock-order 2
            memory 0x0..0x40 node 0
            cpus 0
            dma-end 0x10
            dma32-end 0x0
            marks 0 DMA 0 0 4
            reserve 0 DMA 0 0 {kept} 0
            marks 0 Normal 0 0 0
            a1 = alloc-range 0x10..0x40 GFP_KERNEL
            on-reclaim fail
            balance 0"
        )
    };
    assert_eq!(report(&text(0)).encounters.reclaims, 0);
    assert_eq!(report(&text(12)).encounters.reclaims, 12);
}

#[test]
fn migration_moves_or_does_not() {
    // What the callback does, the frames wanted, what comes of it, the most that it may be asked: there is room for 8
    // frames.
    let cases = [
        ("fail", "0x0..0x8", "frame 0x0 is in use and cannot be moved", 1),
        ("lie", "0x0..0x8", "frame 0x0 is in use and cannot be moved", 8 * 4),
        ("abandon", "0x0..0x8", "ok", 4),
        ("abandon", "0x1..0x17", "ok", 8 + 7),
        ("free", "0x0..0x8", "ok", 4),
        ("free", "0x1..0x17", "ok", 8 + 7),
        ("free", "0x1c..0x24", "frame 0x20 is in use and cannot be moved", 4),
        ("move", "0x0..0x8", "ok", 4),
        ("move", "0x0..0xa", "frame 0x8 is in use and cannot be moved", 4),
        ("nest", "0x0..0x8", "frame 0x4 is in use and cannot be moved", 4),
    ];
    for (what, range, outcome, calls) in cases {
        let text =
            format!("{FULL}\nfree-part a3 24 8\non-migrate {what}\na9 = alloc-range {range} GFP_KERNEL -> {outcome}");
        let migrations = report(&text).encounters.migrations;
        assert!((1..=calls).contains(&migrations), "{what} {range}: asked {migrations} times");
    }
    // Without a free place, the callback is not called.
    let text = format!(
        "{FULL}\non-migrate move\na9 = alloc-range 0x0..0x8 GFP_KERNEL -> frame 0x0 is in use and cannot be moved"
    );
    assert_eq!(report(&text).encounters.migrations, 0);
}

#[test]
fn blocks_move_where_there_is_room() {
    for what in ["move", "nest"] {
        for range in ["0x0..0x8", "0x3..0x1d", "0x0..0x10"] {
            let text = format!("{FULL}\nfree a3\non-migrate {what}\na9 = alloc-range {range} GFP_KERNEL -> ok\n");
            let report = report(&text);
            assert!(report.encounters.migrations >= 4, "{what} {range}: {report:?}");
        }
        let text = format!("{FULL}\nfree a3\non-migrate {what}\ntake-offline 0x0..0x10 -> ok\nbring-online 0x0..0x20");
        assert_eq!(report(&text).count(|outcome| matches!(outcome, Outcome::Frames(16))), 1);
    }
}

/// While a range is being emptied, its callback asks for memory, and that calls the other callback.
#[test]
fn callbacks_call_each_other() {
    for reclaim in ["fail", "lie", "free 1", "free 7", "nest", "drain"] {
        for migrate in ["fail", "lie", "move", "free", "abandon", "nest"] {
            let text = format!(
                "{FULL}\non-reclaim {reclaim}\non-migrate {migrate}\n\
                 a4 = alloc-range 0x0..0x13 GFP_KERNEL\na5 = alloc order 2 GFP_KERNEL\n\
                 a6 = bulk 20 order 0 GFP_HIGHUSER_MOVABLE\ntake-offline 0x0..0x20\na7 = alloc order 4 GFP_KERNEL\n\
                 fault Isolate 2\na8 = alloc-contig 20 align 2 GFP_KERNEL\nbring-online 0x0..0x40"
            );
            let encounters = report(&text).encounters;
            assert!(
                encounters.reclaims < 1_000 && encounters.migrations < 1_000,
                "{reclaim} {migrate}: {encounters:?}"
            );
        }
    }
}
