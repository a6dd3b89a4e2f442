//! Blocks by place, contiguous ranges, parts of blocks, and memory that comes and goes.

use super::{Case, SMALL, check};

const PLACES: &[Case] = &[
    Case {
        name: "a block is taken where it is wanted",
        machine: SMALL,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc-at 0x20 order 3 GFP_KERNEL -> ok\n\
              a2 = alloc-at 0x22 order 1 GFP_KERNEL -> frame 0x22 is in use and cannot be moved\n\
              a3 = alloc-at 0x21 order 1 GFP_KERNEL -> no block of order 1 can start at frame 0x21\n\
              a4 = alloc-at 0x20 order 5 GFP_KERNEL -> order 5 is above the largest, 4\n\
              a5 = alloc-at 0x40 order 2 GFP_KERNEL -> frame 0x40 is not this allocator's memory",
        after: "Node 0, zone Normal, type Movable 0 0 0 1 3",
    },
    Case {
        name: "also if it is larger than the free blocks that it is made of, on whatever list they are",
        machine: "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                  marks 0 Normal 0 0 0\npcp 0 Normal 4 60\n",
        setup: "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nsplit a1 order 1\nfree a1",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3\nNode 0, zone Normal, cpu 0 count 16",
        ops: "a2 = alloc-at 0x0 order 4 GFP_KERNEL -> ok",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 3",
    },
];

#[test]
fn blocks_by_place() {
    check(PLACES);
}

const RANGES: &[Case] = &[
    Case {
        name: "a range of any length and alignment, and what lies beside it stays",
        machine: SMALL,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc-range 0x3..0x15 GFP_KERNEL -> ok",
        after: "Node 0, zone Normal, type Movable 2 2 0 1 2",
    },
    Case {
        name: "a range that cannot be had changes nothing",
        machine: SMALL,
        setup: "a1 = alloc-at 0x16 order 0 GFP_KERNEL\ntype 0x8 CMA\ntype 0x1c Reclaimable",
        before: "Node 0, zone Normal, type Movable 1 1 3 1 2\nNode 0, zone Normal, type CMA 0 0 1\n\
                 Node 0, zone Normal, type Reclaimable 0 0 1",
        ops: "a2 = alloc-range 0x2..0x1f GFP_KERNEL -> frame 0x16 is in use and cannot be moved\n\
              a3 = alloc-range 0x30..0x41 GFP_KERNEL -> frame 0x40 is not this allocator's memory\n\
              a4 = alloc-range 0x30..0x30 GFP_KERNEL -> 0x30..0x30 has no frames\n\
              expect pageblock 0x8 CMA\nexpect pageblock 0x1c Reclaimable\nexpect pageblock 0x4 Movable",
        after: "Node 0, zone Normal, type Movable 1 1 3 1 2\nNode 0, zone Normal, type CMA 0 0 1\n\
                Node 0, zone Normal, type Reclaimable 0 0 1",
    },
    Case {
        name: "pageblocks keep their type while their frames are taken and after",
        machine: SMALL,
        setup: "type 0x8 CMA\ntype 0xc CMA",
        before: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, type CMA 0 0 0 1",
        ops: "a1 = alloc-range 0x6..0xd GFP_KERNEL\nexpect pageblock 0x8 CMA\nexpect pageblock 0xc CMA\nfree a1",
        after: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, type CMA 0 0 0 1",
    },
    Case {
        name: "what can move is moved away, if the request may wait",
        machine: SMALL,
        setup: "a1 = alloc-at 0x4 order 1 GFP_HIGHUSER_MOVABLE\non-migrate move",
        before: "Node 0, zone Normal, type Movable 0 1 1 1 3",
        ops: "a2 = alloc-range 0x0..0x10 GFP_NOWAIT -> frame 0x4 is in use and cannot be moved\n\
              a3 = alloc-range 0x0..0x10 GFP_KERNEL -> ok\nraw-free a1 order 1 -> ok",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 3",
    },
    Case {
        name: "what cannot move stays, and with it the range",
        machine: SMALL,
        setup: "a1 = alloc-at 0x4 order 1 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x8 order 0 GFP_KERNEL\non-migrate move",
        before: "Node 0, zone Normal, type Movable 1 2 2 0 3",
        ops: "a3 = alloc-range 0x0..0x10 GFP_KERNEL -> frame 0x8 is in use and cannot be moved",
        // What was in the way first has moved in vain, to 0x10.
        after: "Node 0, zone Normal, type Movable 1 2 2 2 2",
    },
    Case {
        name: "contiguous frames up to the largest order come from one block, whose tail goes back",
        machine: SMALL,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc-contig 11 align 0 GFP_HIGHUSER_MOVABLE -> 0x0..0xb",
        after: "Node 0, zone Normal, type Movable 1 0 1 0 3",
    },
    Case {
        name: "above it ranges are searched",
        machine: SMALL,
        setup: "a1 = alloc-at 0x9 order 0 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 1 1 1 1 3",
        ops: "a2 = alloc-contig 21 align 0 GFP_KERNEL -> 0xa..0x1f\n\
              a3 = alloc-contig 17 align 5 GFP_KERNEL -> 0x20..0x31\n\
              a4 = alloc-contig 17 align 0 GFP_KERNEL -> out of memory: no free block is large enough",
        after: "Node 0, zone Normal, type Movable 3 1 1 2",
    },
    Case {
        name: "and below it, where no block is large enough",
        machine: SMALL,
        setup: "a1 = alloc-at 0x9 order 0 GFP_KERNEL\na2 = alloc-at 0x10 order 4 GFP_KERNEL\na3 = alloc-range 0x2f..0x40 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 2 2 2 2",
        ops: "a4 = alloc-contig 13 align 1 GFP_KERNEL -> 0x20..0x2d\n\
              a5 = alloc-contig 5 align 1 GFP_KERNEL -> 0x0..0x5\n\
              a6 = alloc-contig 5 align 1 GFP_KERNEL -> 0xa..0xf\n\
              a7 = alloc-contig 5 align 1 GFP_KERNEL -> out of memory: no free block is large enough",
        after: "Node 0, zone Normal, type Unmovable 1 1\nNode 0, zone Normal, type Movable 4",
    },
];

#[test]
fn contiguous_ranges() {
    check(RANGES);
}

const PARTS: &[Case] = &[
    Case {
        name: "the middle of a block is freed, its ends stay",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 4 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "free-part a1 3 6 -> 6 frames\nraw-free 0x0 order 4 -> block 0x0 was allocated with order 1\n\
              raw-free 0x2 order 0 -> ok\nraw-free 0x3 order 0 -> frame 0x3 is free already\n\
              raw-free 0x9 order 0 -> ok\nraw-free 0xa order 1 -> ok\nraw-free 0xc order 2 -> ok",
        // 0x2..0x10 is free again.
        after: "Node 0, zone Normal, type Movable 0 1 1 1 3",
    },
    Case {
        name: "one free reaches over several blocks",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 2 GFP_KERNEL\na2 = alloc-at 0x4 order 2 GFP_KERNEL\na3 = alloc-at 0x8 order 3 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "raw-free-range 0x1 10 -> 10 frames",
        after: "Node 0, zone Normal, type Movable 2 2 1 0 3",
    },
    Case {
        name: "a free that reaches over a free frame frees nothing",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 4 GFP_KERNEL\nfree-part a1 9 1",
        before: "Node 0, zone Normal, type Movable 1 0 0 0 3",
        ops: "raw-free-range 0x0 16 -> frame 0x9 is free already",
        after: "Node 0, zone Normal, type Movable 1 0 0 0 3",
    },
    Case {
        name: "a block is split into blocks that are freed one by one",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 4 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "raw-split 0x0 order 4 to 1 -> ok\nraw-free 0x0 order 4 -> block 0x0 was allocated with order 1\n\
              raw-free 0x4 order 1 -> ok\nraw-free 0xe order 1 -> ok",
        after: "Node 0, zone Normal, type Movable 0 2 0 0 3",
    },
    Case {
        name: "only what is a block is split, and only downwards",
        machine: SMALL,
        setup: "a1 = alloc-at 0x0 order 2 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3",
        ops: "raw-split 0x0 order 2 to 3 -> order 3 is above the largest, 2\n\
              raw-split 0x0 order 3 to 0 -> block 0x0 was allocated with order 2\n\
              raw-split 0x2 order 1 to 0 -> frame 0x2 is inside the block that starts at 0x0\n\
              raw-split 0x4 order 2 to 0 -> frame 0x4 is free already\n\
              raw-split 0x0 order 2 to 2 -> ok",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 3",
    },
];

#[test]
fn parts_of_blocks() {
    check(PARTS);
}

/// The second quarter is reserved from boot on.
const RESERVED: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x10 node 0\nreserved 0x10..0x20 node 0\n\
                        memory 0x20..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\nmarks 0 Normal 0 0 0\n\
                        pcp 0 Normal 1 1\n";

const HOTPLUG: &[Case] = &[
    Case {
        name: "memory goes and comes back",
        machine: SMALL,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "take-offline 0x6..0x13 -> ok\nexpect Node 0, zone Normal, type Movable 1 1 2 1 2\n\
              raw-free 0x8 order 3 -> frame 0x8 is offline or reserved\n\
              a1 = alloc-at 0x8 order 0 GFP_KERNEL -> frame 0x8 is offline or reserved\n\
              bring-online 0x0..0x40 -> 13 frames",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "what is in use does not go, and nothing changes",
        machine: SMALL,
        setup: "a1 = alloc-at 0x8 order 1 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 1 1 1 3",
        ops: "take-offline 0x0..0x10 -> frame 0x8 is in use and cannot be moved",
        after: "Node 0, zone Normal, type Movable 0 1 1 1 3",
    },
    Case {
        name: "what can move makes room",
        machine: SMALL,
        setup: "a1 = alloc-at 0x8 order 1 GFP_HIGHUSER_MOVABLE\non-migrate move",
        before: "Node 0, zone Normal, type Movable 0 1 1 1 3",
        ops: "take-offline 0x0..0x10 -> ok",
        after: "Node 0, zone Normal, type Movable 0 1 1 1 2",
    },
    Case {
        name: "reserved memory is handed in later",
        machine: RESERVED,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "raw-free 0x10 order 4 -> frame 0x10 is offline or reserved\nbring-online 0x10..0x1f -> 0 frames\n\
              bring-online 0x10..0x20 -> 16 frames\nbring-online 0x10..0x20 -> 0 frames",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
];

#[test]
fn memory_comes_and_goes() {
    check(HOTPLUG);
}
