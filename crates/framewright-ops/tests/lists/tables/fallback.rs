//! Requests that find nothing of their own type.

use super::{Case, check};

/// Four largest blocks of two pageblocks (of 8 frames) each. One zone, and mixing allowed at once.
const PAIRS: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                     marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms nofragment=off\n";

/// Two pageblocks of 8 frames.
const TWO: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x10 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                   marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms nofragment=off\n";

/// Two pageblocks of 8 frames, with claim and steal.
const TWO_CLAIM: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x10 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                         marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms nofragment=off,fallback=claim-steal\n";

/// One pageblock of 16 frames: blocks of 4 and more may be claimed by movable requests.
const ONE: &str = "max-order 4\npageblock-order 4\nmemory 0x0..0x10 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                   marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms nofragment=off\n";

const ORDER_OF_TYPES: &[Case] = &[
    Case {
        name: "unmovable uses reclaimable before movable",
        machine: TWO,
        setup: "type 0x0 Reclaimable",
        before: "Node 0, zone Normal, type Movable 0 0 0 1\nNode 0, zone Normal, type Reclaimable 0 0 0 1",
        ops: "a1 = alloc order 0 GFP_KERNEL -> 0x0\nexpect pageblock 0x0 Unmovable",
        after: "Node 0, zone Normal, type Movable 0 0 0 1\nNode 0, zone Normal, type Unmovable 1 1 1",
    },
    Case {
        name: "reclaimable uses unmovable before movable",
        machine: TWO,
        setup: "type 0x0 Unmovable",
        before: "Node 0, zone Normal, type Movable 0 0 0 1\nNode 0, zone Normal, type Unmovable 0 0 0 1",
        ops: "a1 = alloc order 0 GFP_KERNEL|__GFP_RECLAIMABLE -> 0x0\nexpect pageblock 0x0 Reclaimable",
        after: "Node 0, zone Normal, type Movable 0 0 0 1\nNode 0, zone Normal, type Reclaimable 1 1 1",
    },
    Case {
        name: "movable uses reclaimable before unmovable",
        machine: TWO,
        setup: "type 0x0 Unmovable\ntype 0x8 Reclaimable",
        before: "Node 0, zone Normal, type Unmovable 0 0 0 1\nNode 0, zone Normal, type Reclaimable 0 0 0 1",
        ops: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x8\nexpect pageblock 0x8 Movable",
        after: "Node 0, zone Normal, type Movable 1 1 1\nNode 0, zone Normal, type Unmovable 0 0 0 1",
    },
    Case {
        name: "the own type is used first, if it takes the smallest block",
        machine: PAIRS,
        setup: "type 0x0 Unmovable\na1 = alloc-at 0x0 order 2 GFP_KERNEL\na2 = alloc-at 0x4 order 1 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, type Unmovable 0 1",
        ops: "a3 = alloc order 0 GFP_KERNEL -> 0x6",
        after: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, type Unmovable 1",
    },
];

/// Two pageblocks of 8 frames, whose free blocks may leave their pageblock's list.
const TWO_LOOSE: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x10 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                         marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms nofragment=off,hygiene=loose\n";

/// All in use by movable requests, but for blocks of 1 and 2 frames of the first pageblock.
const SCRAPS: &str = "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x2 2\nraw-free-range 0x7 1";

const LOOSE: &[Case] = &[
    Case {
        name: "where a claim is not worth it, all that is free in the pageblock goes along",
        machine: TWO_LOOSE,
        setup: SCRAPS,
        before: "Node 0, zone Normal, type Movable 1 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x7\nexpect pageblock 0x0 Movable",
        after: "Node 0, zone Normal, type Unmovable 0 1",
    },
    Case {
        name: "the next request meets it on its own list",
        machine: TWO_LOOSE,
        setup: SCRAPS,
        before: "Node 0, zone Normal, type Movable 1 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x7\na3 = alloc order 0 GFP_KERNEL -> 0x2\n\
              expect pageblock 0x0 Movable",
        after: "Node 0, zone Normal, type Unmovable 1",
    },
    Case {
        name: "what is freed goes back to its pageblock's list, and takes along what it merges with",
        machine: TWO_LOOSE,
        setup: SCRAPS,
        before: "Node 0, zone Normal, type Movable 1 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x7\na3 = alloc order 0 GFP_KERNEL -> 0x2\nfree a3",
        after: "Node 0, zone Normal, type Movable 0 1",
    },
    Case {
        name: "of a block that a movable request takes alone, the rest goes along",
        machine: TWO_LOOSE,
        setup: "type 0x0 Unmovable\na1 = alloc-at 0x0 order 3 GFP_KERNEL\n\
                a2 = alloc-at 0x8 order 3 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x2 2",
        before: "Node 0, zone Normal, type Unmovable 0 1",
        ops: "a3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x2\nexpect pageblock 0x0 Unmovable",
        after: "Node 0, zone Normal, type Movable 1",
    },
];

#[test]
fn loose_lists_let_free_blocks_go_along() {
    check(LOOSE);
}

#[test]
fn types_are_used_in_order() {
    check(ORDER_OF_TYPES);
}

/// Frames of the first pageblock are allocated movable, and then some freed.
const CLASSIC: &[Case] = &[
    Case {
        name: "the largest block is used, and all its pageblocks change their type",
        machine: PAIRS,
        setup: "a1 = alloc-at 0x0 order 3 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 0 0 0 1 3",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x10\nexpect pageblock 0x10 Unmovable\nexpect pageblock 0x18 Unmovable\n\
              a3 = alloc order 0 GFP_KERNEL -> 0x11",
        after: "Node 0, zone Normal, type Movable 0 0 0 1 2\nNode 0, zone Normal, type Unmovable 0 1 1 1",
    },
    Case {
        name: "a pageblock of which half is free is claimed",
        machine: TWO,
        setup: "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x4 4",
        before: "Node 0, zone Normal, type Movable 0 0 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x4\nexpect pageblock 0x0 Unmovable\nexpect pageblock 0x8 Movable",
        after: "Node 0, zone Normal, type Unmovable 1 1",
    },
    Case {
        name: "of a pageblock of which less than half is free one block is stolen, the rest stays where it was",
        machine: TWO,
        setup: "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x5 3",
        before: "Node 0, zone Normal, type Movable 1 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x6\nexpect pageblock 0x0 Movable",
        after: "Node 0, zone Normal, type Movable 2",
    },
    Case {
        name: "what cannot move counts as the requester's own in a movable pageblock",
        machine: TWO,
        setup: "a1 = alloc-at 0x0 order 2 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x4 order 1 GFP_KERNEL\n\
                a3 = alloc-at 0x8 order 3 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 0 1",
        ops: "a4 = alloc order 0 GFP_KERNEL|__GFP_RECLAIMABLE -> 0x6\nexpect pageblock 0x0 Reclaimable",
        after: "Node 0, zone Normal, type Reclaimable 1",
    },
    Case {
        name: "but not in one of a third type",
        machine: TWO,
        setup: "type 0x0 Reclaimable\na1 = alloc-at 0x0 order 2 GFP_HIGHUSER_MOVABLE\n\
                a2 = alloc-at 0x4 order 1 GFP_KERNEL\na3 = alloc-at 0x8 order 3 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Reclaimable 0 1",
        ops: "a4 = alloc order 0 GFP_KERNEL -> 0x6\nexpect pageblock 0x0 Reclaimable",
        after: "Node 0, zone Normal, type Reclaimable 1",
    },
    Case {
        name: "movable frames count for a movable request",
        machine: ONE,
        setup: "type 0x0 Unmovable\na1 = alloc-at 0x0 order 2 GFP_HIGHUSER_MOVABLE\n\
                a2 = alloc-at 0x8 order 3 GFP_KERNEL",
        before: "Node 0, zone Normal, type Unmovable 0 0 1",
        ops: "a3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x4\nexpect pageblock 0x0 Movable",
        after: "Node 0, zone Normal, type Movable 1 1",
    },
    Case {
        name: "a movable request claims nothing for a small gain: it takes the smallest block",
        machine: ONE,
        setup: "type 0x0 Unmovable\na1 = alloc-at 0x0 order 4 GFP_KERNEL\nraw-free-range 0x3 1\nraw-free-range 0x6 2",
        before: "Node 0, zone Normal, type Unmovable 1 1",
        ops: "a2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x3\nexpect pageblock 0x0 Unmovable\n\
              a3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x6",
        after: "Node 0, zone Normal, type Unmovable 1",
    },
    Case {
        name: "an unmovable one takes the largest, even if it can only steal",
        machine: ONE,
        setup: "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x3 1\nraw-free-range 0x6 2",
        before: "Node 0, zone Normal, type Movable 1 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x6",
        after: "Node 0, zone Normal, type Movable 2",
    },
];

#[test]
fn classic_takes_the_largest_block() {
    check(CLASSIC);
}

/// In the first pageblock 2 frames are free, as one block; in the second 4, one by one.
const SCATTERED: &str = "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x6 2\n\
                         raw-free-range 0x8 1\nraw-free-range 0xa 1\nraw-free-range 0xc 1\nraw-free-range 0xe 1";

const CLAIM_STEAL: &[Case] = &[
    Case {
        name: "classic looks at the largest block only and steals it",
        machine: TWO,
        setup: SCATTERED,
        before: "Node 0, zone Normal, type Movable 4 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x6\nexpect pageblock 0x0 Movable\nexpect pageblock 0x8 Movable",
        after: "Node 0, zone Normal, type Movable 5",
    },
    Case {
        name: "claim and steal looks at all for one to claim",
        machine: TWO_CLAIM,
        setup: SCATTERED,
        before: "Node 0, zone Normal, type Movable 4 1",
        ops: "a2 = alloc order 0 GFP_KERNEL\nexpect pageblock 0x0 Movable\nexpect pageblock 0x8 Unmovable",
        after: "Node 0, zone Normal, type Movable 0 1\nNode 0, zone Normal, type Unmovable 3",
    },
    Case {
        name: "and steals the smallest block if there is none",
        machine: TWO_CLAIM,
        setup: "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x6 2\nraw-free-range 0x9 1",
        before: "Node 0, zone Normal, type Movable 1 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x9\na3 = alloc order 0 GFP_KERNEL -> 0x6",
        after: "Node 0, zone Normal, type Movable 1",
    },
    Case {
        name: "a movable request steals the smallest block rather than claim for a small gain",
        machine: TWO_CLAIM,
        setup: "type 0x0 Unmovable\ntype 0x8 Unmovable\na1 = alloc-at 0x0 order 4 GFP_KERNEL\n\
                raw-free-range 0x0 1\nraw-free-range 0x2 1\nraw-free-range 0x4 1\nraw-free-range 0x6 1",
        before: "Node 0, zone Normal, type Unmovable 4",
        ops: "a2 = alloc order 0 GFP_HIGHUSER_MOVABLE\nexpect pageblock 0x0 Unmovable",
        after: "Node 0, zone Normal, type Unmovable 3",
    },
    Case {
        name: "whole pageblocks are claimed as they are",
        machine: TWO_CLAIM,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 1",
        ops: "a1 = alloc order 0 GFP_KERNEL -> 0x0\nexpect pageblock 0x8 Unmovable",
        after: "Node 0, zone Normal, type Unmovable 1 1 1 1",
    },
];

#[test]
fn claim_steal_claims_before_it_steals() {
    check(CLAIM_STEAL);
}

/// DMA32 of 16 frames below Normal of 16; pageblocks of 8.
const ZONES: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x10\n\
                     marks 0 DMA32 0 0 0\nmarks 0 Normal 0 0 0\nreserve 0 DMA32 0 0 0 0\n\
                     pcp 0 DMA32 1 1\npcp 0 Normal 1 1\n";

/// Zones as above, without ALLOC_NOFRAGMENT.
const ZONES_MIXING: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x10\n\
                            marks 0 DMA32 0 0 0\nmarks 0 Normal 0 0 0\nreserve 0 DMA32 0 0 0 0\n\
                            pcp 0 DMA32 1 1\npcp 0 Normal 1 1\nmechanisms nofragment=off\n";

/// Zone Normal has one free block of 4 frames, in a movable pageblock.
const MIXED: &str = "a1 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x14 4";

const NOFRAGMENT: &[Case] = &[
    Case {
        name: "a lower zone is used rather than a part of a movable pageblock",
        machine: ZONES,
        setup: MIXED,
        before: "Node 0, zone DMA32, type Movable 0 0 0 0 1\nNode 0, zone Normal, type Movable 0 0 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x0\nexpect pageblock 0x10 Movable",
        after: "Node 0, zone DMA32, type Unmovable 1 1 1 1\nNode 0, zone Normal, type Movable 0 0 1",
    },
    Case {
        name: "without it the zone that is preferred is",
        machine: ZONES_MIXING,
        setup: MIXED,
        before: "Node 0, zone DMA32, type Movable 0 0 0 0 1\nNode 0, zone Normal, type Movable 0 0 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x14\nexpect pageblock 0x10 Unmovable",
        after: "Node 0, zone DMA32, type Movable 0 0 0 0 1\nNode 0, zone Normal, type Unmovable 1 1",
    },
    Case {
        name: "whole pageblocks of another type are no mixing",
        machine: ZONES,
        setup: "a1 = alloc-at 0x10 order 3 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone DMA32, type Movable 0 0 0 0 1\nNode 0, zone Normal, type Movable 0 0 0 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x18\nexpect pageblock 0x18 Unmovable",
        after: "Node 0, zone DMA32, type Movable 0 0 0 0 1\nNode 0, zone Normal, type Unmovable 1 1 1",
    },
    Case {
        name: "when no zone can do without, the preferred one is mixed",
        machine: ZONES,
        setup: "a1 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x15 1\n\
                a2 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x3 1",
        before: "Node 0, zone DMA32, type Movable 1\nNode 0, zone Normal, type Movable 1",
        ops: "a3 = alloc order 0 GFP_KERNEL -> 0x15\na4 = alloc order 0 GFP_KERNEL -> 0x3",
        after: "",
    },
];

#[test]
fn lower_zones_come_before_mixing() {
    check(NOFRAGMENT);
}
