//! Per-CPU lists: what is refilled, kept, and given back, and in which order.

use super::{Case, check};

/// Zone Normal of 64 frames in pageblocks of 16; lists with a batch of 4 and a high of 12; three CPUs.
const LISTS: &str = "max-order 4\npageblock-order 4\nmemory 0x0..0x40 node 0\ncpus 0 0 0\ndma-end 0x0\ndma32-end 0x0\n\
                     marks 0 Normal 0 0 0\npcp 0 Normal 4 12\n";

const REFILL: &[Case] = &[
    Case {
        name: "an empty list takes a batch, which is used from the lowest frame up",
        machine: LISTS,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0\nexpect Node 0, zone Normal, cpu 0 count 3\n\
              a2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x1\na3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x2\n\
              a4 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x3\nexpect Node 0, zone Normal, cpu 0 count 0\n\
              a5 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x4",
        after: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, cpu 0 count 3",
    },
    Case {
        name: "a batch is counted in frames",
        machine: LISTS,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc order 1 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, cpu 0 count 2",
    },
    Case {
        name: "but two blocks come at least",
        machine: LISTS,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc order 3 GFP_HIGHUSER_MOVABLE -> 0x0\na2 = alloc order 4 GFP_HIGHUSER_MOVABLE -> 0x10",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 1\nNode 0, zone Normal, cpu 0 count 24",
    },
    Case {
        name: "each type and each order has a list of its own",
        machine: LISTS,
        setup: "type 0x0 Unmovable\ntype 0x10 Reclaimable",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 2\nNode 0, zone Normal, type Unmovable 0 0 0 0 1\n\
                 Node 0, zone Normal, type Reclaimable 0 0 0 0 1",
        ops: "a1 = alloc order 0 GFP_KERNEL -> 0x0\na2 = alloc order 0 GFP_KERNEL|__GFP_RECLAIMABLE -> 0x10\n\
              a3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x20\na4 = alloc order 1 GFP_KERNEL -> 0x4\n\
              a5 = alloc order 0 GFP_KERNEL -> 0x1",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 1\nNode 0, zone Normal, type Unmovable 0 0 0 1\n\
                Node 0, zone Normal, type Reclaimable 0 0 1 1\nNode 0, zone Normal, cpu 0 count 10",
    },
    Case {
        name: "orders above 3 that are no pageblock's have none",
        machine: "max-order 5\npageblock-order 5\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                  marks 0 Normal 0 0 0\npcp 0 Normal 4 60\n",
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 0 2",
        ops: "a1 = alloc order 4 GFP_HIGHUSER_MOVABLE -> 0x0\nfree a1",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 0 2",
    },
    Case {
        name: "a refill takes what there is",
        machine: LISTS,
        setup: "a1 = alloc-range 0x0..0x3e GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 1",
        ops: "a2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x3e",
        after: "Node 0, zone Normal, cpu 0 count 1",
    },
];

#[test]
fn lists_are_refilled() {
    check(REFILL);
}

/// Sixteen single frames and two blocks of two, taken past the lists.
const TAKEN: &str = "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nsplit a1 order 0\n\
                     a2 = alloc-at 0x10 order 1 GFP_HIGHUSER_MOVABLE\na3 = alloc-at 0x12 order 1 GFP_HIGHUSER_MOVABLE";

const DRAIN: &[Case] = &[
    Case {
        name: "what was freed last is used first",
        machine: LISTS,
        setup: TAKEN,
        before: "Node 0, zone Normal, type Movable 0 0 1 1 2",
        ops: "raw-free 0x3 order 0\nraw-free 0x9 order 0\nraw-free 0x5 order 0\n\
              expect Node 0, zone Normal, cpu 0 count 3\n\
              a4 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x5\na5 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x9",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 2\nNode 0, zone Normal, cpu 0 count 1",
    },
    Case {
        name: "at high a batch goes back, what was freed first",
        machine: LISTS,
        setup: TAKEN,
        before: "Node 0, zone Normal, type Movable 0 0 1 1 2",
        ops: "raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0\n\
              raw-free 0x8 order 0\nraw-free 0x9 order 0\nraw-free 0xa order 0\nraw-free 0xb order 0\n\
              raw-free 0xc order 0\nraw-free 0xd order 0\nraw-free 0xe order 0\n\
              expect Node 0, zone Normal, cpu 0 count 11\nraw-free 0xf order 0",
        // 0x0..0x4 came back and merged.
        after: "Node 0, zone Normal, type Movable 0 0 2 1 2\nNode 0, zone Normal, cpu 0 count 8",
    },
    Case {
        name: "lists give back in turn",
        machine: LISTS,
        setup: TAKEN,
        before: "Node 0, zone Normal, type Movable 0 0 1 1 2",
        ops: "raw-free 0x0 order 0\nraw-free 0x2 order 0\nraw-free 0x4 order 0\nraw-free 0x6 order 0\n\
              raw-free 0x8 order 0\nraw-free 0xa order 0\nraw-free 0xc order 0\nraw-free 0xe order 0\n\
              raw-free 0x10 order 1\nexpect Node 0, zone Normal, cpu 0 count 10\nraw-free 0x12 order 1",
        // Freed are 0x0, from the first list looked at, and both blocks of the third list after it, which may give
        // three.
        after: "Node 0, zone Normal, type Movable 1 0 0 0 3\nNode 0, zone Normal, cpu 0 count 7",
    },
    Case {
        name: "a drain gives everything back, and everything merges",
        machine: LISTS,
        setup: "a1 = alloc order 0 GFP_KERNEL\nrun-on 1\na2 = alloc order 0 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Unmovable 0 0 1 1\nNode 0, zone Normal, type Movable 0 0 1 1 2\n\
                 Node 0, zone Normal, cpu 0 count 3\nNode 0, zone Normal, cpu 1 count 3",
        ops: "free a1\nfree a2\nexpect Node 0, zone Normal, cpu 0 count 3\nexpect Node 0, zone Normal, cpu 1 count 5\n\
              drain all -> 8 frames",
        after: "Node 0, zone Normal, type Unmovable 0 0 0 0 1\nNode 0, zone Normal, type Movable 0 0 0 0 3",
    },
    Case {
        name: "one CPU's lists are drained by another, and no more than they",
        machine: LISTS,
        setup: "a1 = alloc order 0 GFP_KERNEL\nrun-on 1\na2 = alloc order 0 GFP_KERNEL",
        before: "Node 0, zone Normal, type Unmovable 0 0 0 1\nNode 0, zone Normal, type Movable 0 0 0 0 3\n\
                 Node 0, zone Normal, cpu 0 count 3\nNode 0, zone Normal, cpu 1 count 3",
        ops: "run-on 2\ndrain cpu 0 -> 3 frames\ndrain cpu 0 -> 0 frames",
        after: "Node 0, zone Normal, type Unmovable 1 1 0 1\nNode 0, zone Normal, type Movable 0 0 0 0 3\n\
                Node 0, zone Normal, cpu 1 count 3",
    },
    Case {
        name: "a CPU that stops leaves nothing behind, and may come back",
        machine: LISTS,
        setup: "run-on 1\na1 = alloc order 0 GFP_KERNEL",
        before: "Node 0, zone Normal, type Unmovable 0 0 1 1\nNode 0, zone Normal, type Movable 0 0 0 0 3\n\
                 Node 0, zone Normal, cpu 1 count 3",
        ops: "run-on 0\noffline-cpu 1 -> 3 frames\nrun-on 1\nfree a1",
        after: "Node 0, zone Normal, type Unmovable 1 1 1 1\nNode 0, zone Normal, type Movable 0 0 0 0 3\n\
                Node 0, zone Normal, cpu 1 count 1",
    },
    Case {
        name: "a block goes to the list of the CPU that frees it",
        machine: LISTS,
        setup: "a1 = alloc order 3 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3\nNode 0, zone Normal, cpu 0 count 8",
        ops: "run-on 1\nfree a1",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 3\nNode 0, zone Normal, cpu 0 count 8\n\
                Node 0, zone Normal, cpu 1 count 8",
    },
];

#[test]
fn lists_are_drained() {
    check(DRAIN);
}

/// Lists that must not lose a block: a high of 58 frames with a batch of 1 lets one list grow while others drain.
const UNEVEN: &str = "max-order 7\npageblock-order 5\nmemory 0x0..0x400 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                      marks 0 Normal 0 0 0\npcp 0 Normal 1 58\n";

const OVERFLOW: &[Case] = &[Case {
    name: "a list that is full loses nothing",
    machine: UNEVEN,
    setup: "a1 = bulk 57 order 0 GFP_KERNEL\na2 = bulk 40 order 3 GFP_KERNEL\na3 = bulk 12 order 5 GFP_KERNEL",
    before: "Node 0, zone Normal, type Unmovable 1 1 1\nNode 0, zone Normal, type Movable 0 0 0 0 0 0 0 2",
    ops: "free a1\nfree a2\nfree a3\nvalidate\ndrain all",
    after: "Node 0, zone Normal, type Unmovable 0 0 0 0 0 0 0 6\nNode 0, zone Normal, type Movable 0 0 0 0 0 0 0 2",
}];

#[test]
fn full_lists_lose_nothing() {
    check(OVERFLOW);
}

/// Lists that keep what is freed; the second pageblock is a contiguous reserve, the third one for atomic requests of
/// high orders.
const RESERVES: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                        marks 0 Normal 0 0 0\npcp 0 Normal 1 8\ncma 0x4..0x8\n";

/// Linux put such pages on the list of the type that lists in use stand for, once it tried their lock and did not wait
/// for it.
const IN_USE: &[Case] = &[
    Case {
        name: "a page of a contiguous reserve, freed while the lists are in use, goes back to the reserve",
        machine: RESERVES,
        setup: "a1 = alloc-at 0x5 order 0 GFP_HIGHUSER_MOVABLE\nfault PcpBusy 2",
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, type CMA 1 1",
        ops: "free a1\nexpect pageblock 0x4 CMA",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, type CMA 0 0 1",
    },
    Case {
        name: "so does one of the reserve for atomic requests",
        machine: RESERVES,
        setup: "type 0x8 HighAtomic\na1 = alloc-at 0x9 order 0 GFP_KERNEL\nfault PcpBusy 2",
        before: "Node 0, zone Normal, type Movable 0 0 2 0 3\nNode 0, zone Normal, type CMA 0 0 1\n\
                 Node 0, zone Normal, type HighAtomic 1 1",
        ops: "free a1\nexpect pageblock 0x8 HighAtomic",
        after: "Node 0, zone Normal, type Movable 0 0 2 0 3\nNode 0, zone Normal, type CMA 0 0 1\n\
                Node 0, zone Normal, type HighAtomic 0 0 1",
    },
];

#[test]
fn what_is_freed_while_lists_are_in_use_goes_where_it_belongs() {
    check(IN_USE);
}
