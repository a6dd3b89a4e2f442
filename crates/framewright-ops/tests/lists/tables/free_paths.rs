//! What each free path leaves on the lists, and what each refill takes off them.

use framewright::Layout;
use framewright_ops::Scenario;

use super::{Case, SMALL, check};

/// [`SMALL`] with mechanisms.
macro_rules! small {
    ($mechanisms:literal) => {
        concat!(
            "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
             marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms ",
            $mechanisms,
            "\n"
        )
    };
}

/// As above, with per-CPU lists that take four pages at a time and keep up to eight, and pageblocks of 16.
macro_rules! lists {
    ($mechanisms:literal) => {
        concat!(
            "max-order 4\npageblock-order 4\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
             marks 0 Normal 0 0 0\npcp 0 Normal 4 8\nmechanisms ",
            $mechanisms,
            "\n"
        )
    };
}

/// 4 GiB in blocks of 1,024 or of 512 pages, with per-CPU lists of the sizes that boot gives them.
macro_rules! large {
    ($max_order:literal, $mechanisms:literal) => {
        concat!(
            "max-order ",
            $max_order,
            "\npageblock-order 9\nmemory 0x0..0x100000 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
             marks 0 Normal 0 0 0\nmechanisms ",
            $mechanisms,
            "\n"
        )
    };
}

/// Four pages that make one block.
const PAGES: &str = "a1 = alloc-at 0x0 order 2 GFP_HIGHUSER_MOVABLE\nsplit a1 order 0";

const FREES: &[Case] = &[
    Case {
        name: "merge: four pages become a block at once",
        machine: SMALL,
        setup: PAGES,
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3",
        ops: "raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "no-merge: they stay pages",
        machine: small!("free-path=no-merge"),
        setup: PAGES,
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3",
        ops: "raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0",
        after: "Node 0, zone Normal, type Movable 4 0 1 1 3",
    },
    Case {
        name: "no-merge: larger blocks merge",
        machine: small!("free-path=no-merge"),
        setup: "a1 = alloc-at 0x0 order 1 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 0 1 1 1 3",
        ops: "free a1",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "no-merge: a page that was left unmerged is one its buddy does not look at either",
        machine: small!("free-path=no-merge"),
        setup: PAGES,
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3",
        ops: "raw-free 0x2 order 0\nraw-free 0x3 order 0\nraw-free 0x0 order 0\na5 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 2 0 1 1 3",
    },
    Case {
        name: "no-merge: who drains merges them",
        machine: small!("free-path=no-merge"),
        setup: concat!(
            "a1 = alloc-at 0x0 order 2 GFP_HIGHUSER_MOVABLE\nsplit a1 order 0\n",
            "raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0"
        ),
        before: "Node 0, zone Normal, type Movable 4 0 1 1 3",
        ops: "drain all -> 0 frames",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "no-merge: so does a larger request that finds no block",
        machine: small!("free-path=no-merge"),
        setup: concat!(
            "a1 = alloc-at 0x0 order 2 GFP_HIGHUSER_MOVABLE\nsplit a1 order 0\na2 = alloc-range 0x4..0x40 GFP_KERNEL\n",
            "raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0"
        ),
        before: "Node 0, zone Normal, type Movable 4",
        ops: "a3 = alloc order 1 GFP_HIGHUSER_MOVABLE",
        after: "Node 0, zone Normal, type Movable 0 1",
    },
    Case {
        name: "range-locks: they merge under a lock that is shared",
        machine: small!("zone-lock=rw,free-path=range-locks"),
        setup: PAGES,
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3",
        ops: "raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "splice: one after the other they merge",
        machine: small!("zone-lock=rw,free-path=splice"),
        setup: PAGES,
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3",
        ops: "raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
];

/// Lists with eight pages, 0x0 to 0x8, in the order of their numbers.
const FULL: &str = "a1 = alloc-at 0x0 order 3 GFP_HIGHUSER_MOVABLE\nsplit a1 order 0\n\
                    raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0\n\
                    raw-free 0x4 order 0\nraw-free 0x5 order 0\nraw-free 0x6 order 0";

const BATCHES: &[Case] = &[
    Case {
        name: "merge: a batch merges",
        machine: lists!("free-path=merge"),
        setup: FULL,
        before: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, cpu 0 count 7",
        ops: "drain cpu 0",
        after: "Node 0, zone Normal, type Movable 1 1 1 1 3",
    },
    Case {
        name: "no-merge: a batch of pages stays one",
        machine: lists!("free-path=no-merge"),
        setup: FULL,
        before: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, cpu 0 count 7",
        ops: "drain cpu 0",
        after: "Node 0, zone Normal, type Movable 7 0 0 1 3",
    },
    Case {
        name: "no-merge, with a batch merged before: what is a page still stays one",
        machine: lists!("free-path=no-merge,pre-merge=batch"),
        setup: FULL,
        before: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, cpu 0 count 7",
        ops: "drain cpu 0",
        after: "Node 0, zone Normal, type Movable 1 1 1 1 3",
    },
    Case {
        name: "splice: the pages of a batch do not merge with each other",
        machine: lists!("zone-lock=rw,free-path=splice"),
        setup: FULL,
        before: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, cpu 0 count 7",
        ops: "drain cpu 0",
        after: "Node 0, zone Normal, type Movable 7 0 0 1 3",
    },
    Case {
        name: "splice, with a batch merged before: they do",
        machine: lists!("zone-lock=rw,free-path=splice,pre-merge=batch"),
        setup: FULL,
        before: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, cpu 0 count 7",
        ops: "drain cpu 0",
        after: "Node 0, zone Normal, type Movable 1 1 1 1 3",
    },
    Case {
        name: "range-locks: each block of a batch sees the ones before it",
        machine: lists!("zone-lock=rw,free-path=range-locks"),
        setup: FULL,
        before: "Node 0, zone Normal, type Movable 0 0 0 1 3\nNode 0, zone Normal, cpu 0 count 7",
        ops: "drain cpu 0",
        after: "Node 0, zone Normal, type Movable 1 1 1 1 3",
    },
];

/// Single pages in the zone: 0x0 to 0x8 without 0x3, put there one by one; lists are empty.
const SINGLE: &str = "a1 = alloc-at 0x0 order 3 GFP_HIGHUSER_MOVABLE\nsplit a1 order 0\n\
                      raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x4 order 0\n\
                      raw-free 0x5 order 0\nraw-free 0x6 order 0\nraw-free 0x7 order 0\ndrain cpu 0";

const REFILLS: &[Case] = &[
    Case {
        name: "one by one: pages first, then of the smallest block what is missing",
        machine: lists!("refill=one-by-one"),
        setup: "a1 = alloc-at 0x2 order 0 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 1 1 1 1 3",
        ops: "a2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x3",
        after: "Node 0, zone Normal, type Movable 1 1 0 1 3\nNode 0, zone Normal, cpu 0 count 3",
    },
    Case {
        name: "blocks: the same pages, the first two blocks whole and of the third a page",
        machine: lists!("refill=blocks"),
        setup: "a1 = alloc-at 0x2 order 0 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 1 1 1 1 3",
        ops: "a2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x3",
        after: "Node 0, zone Normal, type Movable 1 1 0 1 3\nNode 0, zone Normal, cpu 0 count 3",
    },
    Case {
        name: "blocks: of one that is too large, a batch",
        machine: lists!("refill=blocks"),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, cpu 0 count 3",
    },
    Case {
        name: "cluster: the run at the front, and no more",
        machine: lists!("free-path=no-merge,refill=cluster"),
        setup: SINGLE,
        before: "Node 0, zone Normal, type Movable 7 0 0 1 3",
        ops: "a2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x7",
        after: "Node 0, zone Normal, type Movable 4 0 0 1 3\nNode 0, zone Normal, cpu 0 count 2",
    },
    Case {
        name: "cluster: where there is none, one by one",
        machine: lists!("free-path=no-merge,refill=cluster"),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, cpu 0 count 3",
    },
    Case {
        name: "blocks: a run of 1,024 pages",
        machine: large!(10, "default"),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 0 0 1024",
        ops: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 0 0 1023\nNode 0, zone Normal, cpu 0 count 1023",
    },
    Case {
        name: "blocks: a run claims no second pageblock",
        machine: large!(9, "default"),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 0 2048",
        ops: "a1 = alloc order 0 GFP_KERNEL -> 0x0",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 0 2047\nNode 0, zone Normal, cpu 0 count 511",
    },
    Case {
        name: "one by one: a run of 256 pages",
        machine: large!(10, "default,refill=one-by-one"),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 0 0 1024",
        ops: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 1 1 1023\nNode 0, zone Normal, cpu 0 count 255",
    },
];

#[test]
fn frees_merge_or_do_not() {
    check(FREES);
}

#[test]
fn batches_merge_or_do_not() {
    check(BATCHES);
}

#[test]
fn refills_take_what_they_are_to() {
    check(REFILLS);
}

/// Choices that do not go together are refused, and why.
#[test]
fn conflicts_are_named() {
    let refusal = |machine: &str| {
        let scenario: Scenario = machine.parse().unwrap();
        Layout::of(&scenario.shape.config()).unwrap_err().to_string()
    };
    for machine in [small!("zone-lock=ticket,free-path=splice"), small!("zone-lock=queued,free-path=range-locks")] {
        assert!(refusal(machine).ends_with("share the zone lock, so it must be zone-lock=rw"), "{}", refusal(machine));
    }
    let clusters = refusal(small!("zone-lock=rw,free-path=splice,refill=cluster"));
    assert!(clusters.contains("refill=cluster keeps account of each list's neighbours"), "{clusters}");
}
