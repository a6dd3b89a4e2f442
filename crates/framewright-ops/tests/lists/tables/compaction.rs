//! Which blocks compaction moves, for which requests, and where to.

use framewright_ops::{Scenario, run};

use super::{Case, check};

/// Four pageblocks of 8 frames without marks: the one with least in use is emptied.
const EMPTIEST: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                        marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms compaction=emptiest\n";

/// As above, with enforced nofragment.
const ENFORCED: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                        marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms compaction=emptiest,nofragment=enforced\n";

/// As above, with two scanners.
const SCANNERS: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                        marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms compaction=scanners\n";

/// Of the pageblocks 6, 2, 7 and 5 frames are in use, one by one and movable.
const HOLES: &str = "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x10 order 3 GFP_HIGHUSER_MOVABLE\n\
                     a3 = alloc-at 0x18 order 3 GFP_HIGHUSER_MOVABLE\nsplit a1 order 0\nsplit a2 order 0\nsplit a3 order 0\n\
                     raw-free-range 0x6 2\nraw-free-range 0xa 6\nraw-free-range 0x17 1\nraw-free-range 0x1d 3\n\
                     on-migrate move";

/// As above, with two frames more in use in the second and one less in the fourth.
const FULLER: &str = "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x10 order 3 GFP_HIGHUSER_MOVABLE\n\
                      a3 = alloc-at 0x18 order 3 GFP_HIGHUSER_MOVABLE\nsplit a1 order 0\nsplit a2 order 0\nsplit a3 order 0\n\
                      raw-free-range 0x5 3\nraw-free-range 0xd 3\nraw-free-range 0x17 1\nraw-free-range 0x1d 3\n\
                      on-migrate move";

/// One frame of the second cannot be moved.
const PINNED: &str = "a1 = alloc-at 0x0 order 3 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\n\
                      a3 = alloc-at 0x8 order 0 GFP_KERNEL\nsplit a1 order 0\nsplit a2 order 0\n\
                      raw-free-range 0x5 3\nraw-free-range 0x17 1\nraw-free-range 0x1d 3\non-migrate move";

const CASES: &[Case] = &[
    Case {
        name: "the pageblock with least in use is emptied, into those with most",
        machine: EMPTIEST,
        setup: HOLES,
        before: "Node 0, zone Normal, type Movable 2 3 1",
        ops: "a4 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x8",
        after: "Node 0, zone Normal, type Movable 2 1",
    },
    Case {
        name: "a smaller request gets part of it, and the rest is free",
        machine: EMPTIEST,
        setup: "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\n\
                split a1 order 0\nsplit a2 order 0\nraw-free-range 0x1 1\nraw-free-range 0x3 1\nraw-free-range 0x5 1\n\
                raw-free-range 0x7 1\nraw-free-range 0x9 1\nraw-free-range 0xb 1\nraw-free-range 0x11 1\n\
                raw-free-range 0x13 1\nraw-free-range 0x19 1\nraw-free-range 0x1b 1\non-migrate move",
        before: "Node 0, zone Normal, type Movable 10",
        ops: "a4 = alloc order 1 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 2 1 1",
    },
    Case {
        name: "where more than half is in use, nothing is moved",
        machine: EMPTIEST,
        setup: FULLER,
        before: "Node 0, zone Normal, type Movable 4 3",
        ops: "a4 = alloc order 3 GFP_HIGHUSER_MOVABLE -> out of memory: no free block is large enough",
        after: "Node 0, zone Normal, type Movable 4 3",
    },
    Case {
        name: "nor where a single frame cannot move",
        machine: EMPTIEST,
        setup: PINNED,
        before: "Node 0, zone Normal, type Movable 4 3 1",
        ops: "a4 = alloc order 3 GFP_HIGHUSER_MOVABLE",
        after: "Node 0, zone Normal, type Movable 4 3 1",
    },
    Case {
        name: "a callback that refuses ends it",
        machine: EMPTIEST,
        setup: HOLES,
        before: "Node 0, zone Normal, type Movable 2 3 1",
        ops: "on-migrate fail\na4 = alloc order 3 GFP_HIGHUSER_MOVABLE",
        after: "Node 0, zone Normal, type Movable 2 3 1",
    },
    Case {
        name: "who must not wait does not compact",
        machine: EMPTIEST,
        setup: HOLES,
        before: "Node 0, zone Normal, type Movable 2 3 1",
        ops: "a4 = alloc order 3 GFP_ATOMIC|__GFP_MOVABLE",
        after: "Node 0, zone Normal, type Movable 2 3 1",
    },
    Case {
        name: "in the background it becomes free",
        machine: EMPTIEST,
        setup: HOLES,
        before: "Node 0, zone Normal, type Movable 2 3 1",
        ops: "compact 0",
        after: "Node 0, zone Normal, type Movable 2 1 0 1",
    },
    Case {
        name: "a page of another mobility gets an emptied pageblock rather than a part of one in use",
        machine: ENFORCED,
        setup: HOLES,
        before: "Node 0, zone Normal, type Movable 2 3 1",
        ops: "a4 = alloc order 0 GFP_KERNEL -> 0x8",
        after: "Node 0, zone Normal, type Movable 2 1\nNode 0, zone Normal, type Unmovable 1 1 1",
    },
    Case {
        name: "two scanners move from the start of the zone to its end",
        machine: SCANNERS,
        setup: "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\n\
                split a1 order 0\nsplit a2 order 0\nraw-free-range 0x2 6\nraw-free-range 0xf 1\nraw-free-range 0x17 1\n\
                raw-free-range 0x1d 3\non-migrate move",
        before: "Node 0, zone Normal, type Movable 3 2 1",
        ops: "a4 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 3",
    },
];

#[test]
fn compaction() {
    check(CASES);
}

/// After n failures in a row, one of 2^n requests searches, and of more than 64 one does.
#[test]
fn failures_make_searches_rarer() {
    let requests = |failures: u32| 1_usize << failures.min(6);
    let compact = |times: usize| "compact 0\n".repeat(times);
    let row = |counts: &str| format!("expect Node 0, zone Normal, type Movable {counts}\n");
    for failures in 0..9 {
        let failed: String = (0..failures).map(|before| compact(requests(before))).collect();
        let steps = [
            format!("{EMPTIEST}{HOLES}\non-migrate fail\n{failed}on-migrate move\n"),
            compact(requests(failures) - 1) + &row("2 3 1"),
            compact(1) + &row("2 1 0 1"),
        ];
        let scenario: Scenario = steps.concat().parse().unwrap();
        run(&scenario).unwrap_or_else(|wrong| panic!("after {failures} failures: {wrong}"));
    }
}

/// A success ends the deferral.
#[test]
fn a_success_makes_searches_frequent() {
    let text = format!(
        "{EMPTIEST}{HOLES}\non-migrate fail\ncompact 0\ncompact 0\ncompact 0\non-migrate move\ncompact 0\ncompact 0\n\
         compact 0\ncompact 0\nexpect Node 0, zone Normal, type Movable 2 1 0 1\n\
         a4 = alloc-at 0x8 order 3 GFP_HIGHUSER_MOVABLE\nsplit a4 order 0\nraw-free-range 0x9 7\ncompact 0\n\
         expect Node 0, zone Normal, type Movable 1 1 0 1\n"
    );
    let scenario: Scenario = text.parse().unwrap();
    run(&scenario).unwrap_or_else(|wrong| panic!("{wrong}"));
}
