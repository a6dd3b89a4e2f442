//! Splitting, merging, and where on its list a block goes.

use super::{Case, SMALL, check};

const SPLITS: &[Case] = &[
    Case {
        name: "a block of order 0 is cut from the largest, the upper halves go back",
        machine: SMALL,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc-at 0x0 order 0 GFP_KERNEL",
        after: "Node 0, zone Normal, type Movable 1 1 1 1 3",
    },
    Case {
        name: "what is in the way of a block inside goes back below and above it",
        machine: SMALL,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc-at 0x16 order 1 GFP_KERNEL",
        // 0x10..0x14, 0x14..0x16, 0x18..0x20.
        after: "Node 0, zone Normal, type Movable 0 1 1 1 3",
    },
    Case {
        name: "the smallest block that is large enough is used",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 3 GFP_KERNEL\na2 = alloc-at 0x12 order 1 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 1 1 2 2",
        ops: "a3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x10\na4 = alloc order 1 GFP_HIGHUSER_MOVABLE -> 0x14",
        after: "Node 0, zone Normal, type Movable 1 1 0 2 2",
    },
    Case {
        name: "a freed block merges as far as it can",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 0 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 1 1 1 1 3",
        ops: "free a1",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "merging stops where a buddy is in use",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 0 GFP_KERNEL\na2 = alloc-at 0x6 order 0 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 2 2 0 1 3",
        ops: "free a1",
        after: "Node 0, zone Normal, type Movable 1 1 1 1 3",
    },
    Case {
        name: "a block does not merge with a neighbour that is not its buddy",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 2 GFP_KERNEL\na2 = alloc-at 0x4 order 2 GFP_KERNEL\n\
                a3 = alloc-at 0x8 order 2 GFP_KERNEL\na4 = alloc-at 0xc order 2 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "free a2\nfree a3",
        after: "Node 0, zone Normal, type Movable 0 0 2 0 3",
    },
    Case {
        name: "a freed block is used next, but not one whose larger buddy is free: that merges twice soon",
        machine: SMALL,
        setup: "a1 = alloc-at 0x10 order 0 GFP_KERNEL\na2 = alloc-at 0x11 order 0 GFP_KERNEL\n\
                a3 = alloc-at 0x12 order 1 GFP_KERNEL\n\
                a4 = alloc-at 0x20 order 0 GFP_KERNEL\na5 = alloc-at 0x21 order 0 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 1 2 2 2",
        ops: "free a1\nfree a4\n\
              a6 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x10\na7 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x20",
        after: "Node 0, zone Normal, type Movable 0 1 2 2 2",
    },
    Case {
        name: "a block of the largest order but one is used next: nothing merges twice from there",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 3 GFP_KERNEL\na2 = alloc-at 0x8 order 3 GFP_KERNEL\n\
                a3 = alloc-at 0x20 order 3 GFP_KERNEL\na4 = alloc-at 0x28 order 3 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 2",
        ops: "free a1\nfree a3\n\
              a5 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x20\na6 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 2",
    },
    Case {
        name: "nothing merges above the largest order",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 4 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "free a1",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
];

#[test]
fn blocks_split_and_merge() {
    check(SPLITS);
}

/// Memory from frame 5 to 0x2d, with a hole at 0x1b..0x1e.
const HOLES: &str = "max-order 4\npageblock-order 2\nmemory 0x5..0x1b node 0\nmemory 0x1e..0x2d node 0\ncpus 0\n\
                     dma-end 0x0\ndma32-end 0x0\nmarks 0 Normal 0 0 0\npcp 0 Normal 1 1\n";

/// DMA up to 0xa, DMA32 up to 0x14, Normal up to 0x20.
const EDGES: &str = "max-order 4\npageblock-order 1\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0xa\ndma32-end 0x14\n\
                     marks 0 DMA 0 0 0\nmarks 0 DMA32 0 0 0\nmarks 0 Normal 0 0 0\n\
                     reserve 0 DMA 0 0 0 0\nreserve 0 DMA32 0 0 0 0\npcp 0 DMA 1 1\npcp 0 DMA32 1 1\npcp 0 Normal 1 1\n";

/// The second of four blocks is a contiguous reserve.
const RESERVE: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                       marks 0 Normal 0 0 0\npcp 0 Normal 1 1\ncma 0x4..0x8\n";

const EDGE_CASES: &[Case] = &[
    Case {
        name: "a machine that begins, ends and has a hole at odd frames",
        machine: HOLES,
        setup: "",
        // 5, 6..8, 8..0x10, 0x10..0x18, 0x18..0x1a, 0x1a; 0x1e..0x20, 0x20..0x28, 0x28..0x2c, 0x2c.
        before: "Node 0, zone Normal, type Movable 3 3 1 3",
        ops: "a1 = alloc-at 0x1a order 0 GFP_KERNEL\nfree a1\na2 = alloc-at 0x5 order 0 GFP_KERNEL\nfree a2\n\
              a3 = alloc-at 0x1e order 1 GFP_KERNEL\nfree a3",
        after: "Node 0, zone Normal, type Movable 3 3 1 3",
    },
    Case {
        name: "zones that meet inside of a larger block do not merge",
        machine: EDGES,
        setup: "",
        before: "Node 0, zone DMA, type Movable 0 1 0 1\n\
                 Node 0, zone DMA32, type Movable 0 1 2\n\
                 Node 0, zone Normal, type Movable 0 0 1 1",
        ops: "a1 = alloc-at 0x8 order 1 GFP_KERNEL\na2 = alloc-at 0xa order 1 GFP_KERNEL\n\
              a3 = alloc-at 0x10 order 2 GFP_KERNEL\na4 = alloc-at 0x14 order 2 GFP_KERNEL\n\
              free a1\nfree a2\nfree a3\nfree a4",
        after: "Node 0, zone DMA, type Movable 0 1 0 1\n\
                Node 0, zone DMA32, type Movable 0 1 2\n\
                Node 0, zone Normal, type Movable 0 0 1 1",
    },
    Case {
        name: "a contiguous reserve does not merge with what is beside it",
        machine: RESERVE,
        setup: "a1 = alloc-at 0x4 order 2 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x0 order 2 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 0 0 0 1 1",
        ops: "free a1\nfree a2",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 1\nNode 0, zone Normal, type CMA 0 0 1",
    },
    Case {
        name: "types that requests ask for merge above the pageblock order, into the type of the block freed",
        machine: SMALL,
        setup: "type 0x0 Reclaimable",
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, type Reclaimable 0 0 1",
        ops: "a1 = alloc-at 0x0 order 2 GFP_KERNEL\nfree a1\nexpect pageblock 0xc Reclaimable",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 3\nNode 0, zone Normal, type Reclaimable 0 0 0 0 1",
    },
    Case {
        name: "a pageblock that gets its neighbour's type merges with it",
        machine: SMALL,
        setup: "type 0x0 Reclaimable",
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, type Reclaimable 0 0 1",
        ops: "type 0x0 Movable",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "the free part of a pageblock follows its type, the rest when it is freed",
        machine: SMALL,
        setup: "a1 = alloc-at 0x1 order 0 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 1 1 1 1 3",
        ops: "type 0x2 CMA\nexpect Node 0, zone Normal, type CMA 1 1\nfree a1",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, type CMA 0 0 1",
    },
    Case {
        name: "a block of several pageblocks goes back pageblock by pageblock if they got types of their own",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 4 GFP_KERNEL\ntype 0x4 CMA\ntype 0x8 Unmovable",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "free a1",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, type CMA 0 0 1",
    },
];

#[test]
fn merging_stops_at_edges() {
    check(EDGE_CASES);
}

/// Blocks of up to 8 frames, all of them given out one by one.
const PLACES: &str = "max-order 3\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                      marks 0 Normal 0 0 0\npcp 0 Normal 1 1\n";

const PLACE_CASES: &[Case] = &[
    Case {
        name: "the block freed last is used first",
        machine: PLACES,
        setup: "a1 = alloc-at 0x0 order 3 GFP_KERNEL\na2 = alloc-at 0x8 order 3 GFP_KERNEL\n\
                a3 = alloc-at 0x10 order 3 GFP_KERNEL\na4 = alloc-at 0x18 order 3 GFP_KERNEL",
        before: "",
        ops: "free a3\nfree a1\nfree a4\n\
              a5 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x18\n\
              a6 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x0\n\
              a7 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x10",
        after: "",
    },
    Case {
        // The parent of 0x2 would merge with 0x0..0x2, which is free: 0x2 had better wait for 0x3.
        name: "a block whose parent would merge further is used last",
        machine: PLACES,
        setup: "a1 = alloc-at 0x0 order 3 GFP_KERNEL\nsplit a1 order 0\na2 = alloc-at 0x8 order 3 GFP_KERNEL\n\
                a3 = alloc-at 0x10 order 3 GFP_KERNEL\nsplit a3 order 0\na4 = alloc-at 0x18 order 3 GFP_KERNEL\n\
                free-part a1 0 2",
        before: "Node 0, zone Normal, type Movable 0 1",
        ops: "raw-free 0x11 order 0\nraw-free 0x2 order 0\nraw-free 0x16 order 0\n\
              expect Node 0, zone Normal, type Movable 3 1\n\
              a5 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x16\n\
              a6 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x11\n\
              a7 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x2",
        after: "Node 0, zone Normal, type Movable 0 1",
    },
    Case {
        // Order 2 is the largest but one: its parent cannot merge further, so nothing is put last.
        name: "next to the largest order the front is right",
        machine: PLACES,
        setup: "a1 = alloc-at 0x0 order 3 GFP_KERNEL\nsplit a1 order 2\na2 = alloc-at 0x10 order 3 GFP_KERNEL\n\
                split a2 order 2\na3 = alloc-at 0x18 order 3 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 0 1",
        ops: "raw-free 0x10 order 2\nraw-free 0x4 order 2\na4 = alloc order 2 GFP_HIGHUSER_MOVABLE -> 0x4",
        after: "Node 0, zone Normal, type Movable 0 0 1 1",
    },
    Case {
        name: "after boot the lowest block is used first",
        machine: PLACES,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 4",
        ops: "a1 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x0\na2 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x8",
        after: "Node 0, zone Normal, type Movable 0 0 0 2",
    },
];

#[test]
fn blocks_go_to_the_front_unless_their_uncle_is_free() {
    check(PLACE_CASES);
}
