//! What happens when mobilities were mixed, and before they are.

use super::{Case, check};

/// Four pageblocks of 8 frames. Marks of 1, 2 and 12 frames: a boost is 8 frames at first, and 18 at most.
const BOOSTED: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                       marks 0 Normal 1 2 12\npcp 0 Normal 1 1\nmechanisms nofragment=off,watermark-boost=15000\n";

/// As above, with three pageblocks.
const THREE: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x18 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                     marks 0 Normal 1 2 12\npcp 0 Normal 1 1\nmechanisms nofragment=off,watermark-boost=15000\n";

/// As above, with a high mark of 0, as before marks are set.
const MARKLESS: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                        marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms nofragment=off,watermark-boost=15000\n";

/// All in use by movable requests, but for single frames of the first two pageblocks and half of the third.
const HOLES: &str = "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x10 order 3 GFP_HIGHUSER_MOVABLE\n\
                     a3 = alloc-at 0x18 order 3 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x2 1\nraw-free-range 0xa 1\n\
                     raw-free-range 0x14 4\nraw-free-range 0x18 8";

const CASES: &[Case] = &[
    Case {
        name: "a part of a pageblock raises the marks by a pageblock",
        machine: BOOSTED,
        setup: "a1 = alloc-at 0x0 order 3 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x8 order 3 GFP_HIGHUSER_MOVABLE\n\
                a3 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x2 6",
        before: "Node 0, zone Normal, type Movable 0 1 1",
        ops: "a4 = alloc order 0 GFP_ATOMIC -> 0x2",
        after: "Node 0, zone Normal, type Unmovable 1 0 1\nNode 0, zone Normal, boost 8",
    },
    Case {
        name: "a whole pageblock does not",
        machine: BOOSTED,
        setup: "a1 = alloc-at 0x0 order 3 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 0 0 0 1 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x10",
        after: "Node 0, zone Normal, type Movable 0 0 0 1\nNode 0, zone Normal, type Unmovable 1 1 1 1",
    },
    Case {
        name: "a zone of three pageblocks is not boosted",
        machine: THREE,
        setup: "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x10 order 3 GFP_HIGHUSER_MOVABLE\n\
                raw-free-range 0x2 6",
        before: "Node 0, zone Normal, type Movable 0 1 1",
        ops: "a3 = alloc order 0 GFP_ATOMIC -> 0x2",
        after: "Node 0, zone Normal, type Unmovable 1 0 1",
    },
    Case {
        name: "nor is one without marks",
        machine: MARKLESS,
        setup: HOLES,
        before: "Node 0, zone Normal, type Movable 2 0 1 1",
        ops: "a4 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x18\na5 = alloc order 0 GFP_KERNEL -> 0x14",
        after: "Node 0, zone Normal, type Movable 2\nNode 0, zone Normal, type Unmovable 1 1",
    },
    Case {
        name: "background reclaim takes the boost back",
        machine: BOOSTED,
        setup: "a1 = alloc-at 0x0 order 3 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x8 order 3 GFP_HIGHUSER_MOVABLE\n\
                a3 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x2 6\na4 = alloc order 0 GFP_ATOMIC",
        before: "Node 0, zone Normal, type Unmovable 1 0 1\nNode 0, zone Normal, boost 8",
        // The boost is 8, and the high mark 12: until more is free than both together, it is reclaimed as usual.
        ops: "on-reclaim free 1\nbalance 0",
        after: "Node 0, zone Normal, type Movable 0 0 0 1 1\nNode 0, zone Normal, type Unmovable 1 1 1",
    },
];

/// Three pageblocks and a part of a fourth in use by movable requests; mobilities kept apart by force.
const ENFORCED: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                        marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms nofragment=enforced\n";
const PART: &str = "a1 = alloc-at 0x8 order 3 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x0 order 3 GFP_HIGHUSER_MOVABLE\n\
                    a3 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x12 6";

const BY_FORCE: &[Case] = &[
    Case {
        name: "memory is reclaimed before mobilities are mixed",
        machine: ENFORCED,
        setup: PART,
        before: "Node 0, zone Normal, type Movable 0 1 1",
        ops: "on-reclaim free 1\na4 = alloc order 0 GFP_KERNEL -> 0x10\nexpect pageblock 0x0 Movable",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 1\nNode 0, zone Normal, type Unmovable 1 1 1 1",
    },
    Case {
        name: "they are when that brings nothing",
        machine: ENFORCED,
        setup: PART,
        before: "Node 0, zone Normal, type Movable 0 1 1",
        ops: "on-reclaim fail\na4 = alloc order 0 GFP_KERNEL -> 0x12\nexpect pageblock 0x10 Unmovable",
        after: "Node 0, zone Normal, type Unmovable 1 0 1",
    },
    Case {
        name: "and for who cannot wait",
        machine: ENFORCED,
        setup: PART,
        before: "Node 0, zone Normal, type Movable 0 1 1",
        ops: "on-reclaim free 1\na4 = alloc order 0 GFP_ATOMIC -> 0x12",
        after: "Node 0, zone Normal, type Unmovable 1 0 1",
    },
    Case {
        name: "but several pages fail for who has another way",
        machine: ENFORCED,
        setup: PART,
        before: "Node 0, zone Normal, type Movable 0 1 1",
        ops: "on-reclaim fail\na4 = alloc order 1 GFP_ATOMIC|__GFP_NORETRY -> out of memory: no free block is large enough\n\
              a5 = alloc order 1 GFP_KERNEL|__GFP_NORETRY -> out of memory: no free block is large enough\n\
              a6 = alloc order 0 GFP_ATOMIC|__GFP_NORETRY -> 0x12",
        after: "Node 0, zone Normal, type Unmovable 1 0 1",
    },
];

#[test]
fn mixing_by_force_comes_last() {
    check(BY_FORCE);
}

#[test]
fn marks_rise_when_mobilities_are_mixed() {
    check(CASES);
}
