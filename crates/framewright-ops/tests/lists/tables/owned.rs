//! Pageblocks that CPUs own: where frees in them go, and how they are released.

use framewright::Layout;
use framewright_ops::Scenario;

use super::{Case, check};

/// Zone Normal of 64 frames in pageblocks of 16; two CPUs, whose lists keep up to as many pages as they take at a time.
macro_rules! owned {
    ($batch:literal) => {
        concat!(
            "max-order 4\npageblock-order 4\nmemory 0x0..0x40 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n\
             marks 0 Normal 0 0 0\npcp 0 Normal ",
            $batch,
            " ",
            $batch,
            "\nmechanisms owned-pageblocks\n"
        )
    };
}

/// Two pages of the first pageblock, which CPU 0 owns.
const TWO: &str = "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0\na2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x1";

const CLAIMS: &[Case] = &[
    Case {
        name: "a whole pageblock is claimed, of which the list takes a batch",
        machine: owned!(4),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0\nexpect Node 0, zone Normal, cpu 0 count 3\n\
              a2 = alloc order 2 GFP_HIGHUSER_MOVABLE -> 0x4\na3 = alloc order 1 GFP_HIGHUSER_MOVABLE -> 0xc",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 3\nNode 0, zone Normal, cpu 0 count 9",
    },
    Case {
        name: "each type has pageblocks of its own",
        machine: owned!(1),
        setup: "type 0x30 Unmovable",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3\nNode 0, zone Normal, type Unmovable 0 0 0 0 1",
        ops: "a1 = alloc order 0 GFP_KERNEL -> 0x30\na2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0\n\
              a3 = alloc order 0 GFP_KERNEL -> 0x31",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 2",
    },
    Case {
        name: "of another type none is claimed: the page comes from the zone",
        machine: owned!(1),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc order 0 GFP_KERNEL -> 0x0",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 3\nNode 0, zone Normal, type Unmovable 1 1 1 1",
    },
    Case {
        name: "each CPU has pageblocks of its own",
        machine: owned!(1),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0\nrun-on 1\na2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x10\n\
              run-on 0\na3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x1\nrun-on 1\n\
              a4 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x11",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 2",
    },
    Case {
        name: "the high mark stays untouched: pages come one by one",
        machine: "max-order 4\npageblock-order 4\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                  marks 0 Normal 0 0 49\npcp 0 Normal 1 1\nmechanisms owned-pageblocks\n",
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 1 1 1 1 3",
    },
];

const RETURNS: &[Case] = &[
    Case {
        name: "what another CPU frees returns to the owner",
        machine: owned!(1),
        setup: TWO,
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "run-on 1\nfree a1\na3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x10\nrun-on 0\n\
              a4 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 2",
    },
    Case {
        name: "so does what it drains",
        machine: owned!(4),
        setup: "a1 = alloc order 2 GFP_HIGHUSER_MOVABLE -> 0x0\na2 = alloc order 2 GFP_HIGHUSER_MOVABLE -> 0x4\n\
                split a1 order 0\nrun-on 1\nraw-free 0x0 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3\nNode 0, zone Normal, cpu 1 count 3",
        ops: "drain cpu 1 -> 3 frames\nrun-on 0\na3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0\n\
              a4 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x2",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 3\nNode 0, zone Normal, cpu 0 count 2",
    },
    Case {
        name: "a pageblock that becomes whole goes back as one block",
        machine: owned!(1),
        setup: TWO,
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "run-on 1\nfree a2\nexpect Node 0, zone Normal, type Movable 0 0 0 0 3\nfree a1",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "unless its owner frees the last page: he keeps it, but no second one",
        machine: owned!(4),
        setup: "a1 = bulk 16 order 0 GFP_HIGHUSER_MOVABLE\na2 = bulk 16 order 0 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 2",
        ops: "free a1\nexpect Node 0, zone Normal, type Movable 0 0 0 0 2\nfree a2\n\
              expect Node 0, zone Normal, type Movable 0 0 0 0 3\ndrain cpu 0 -> 16 frames",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "drained, it goes back in the largest blocks there are",
        machine: owned!(1),
        setup: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0\na2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x1\nfree a1",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "drain cpu 1 -> 0 frames\ndrain cpu 0 -> 15 frames",
        after: "Node 0, zone Normal, type Movable 1 1 1 1 3",
    },
    Case {
        name: "what is freed in it later goes to the zone",
        machine: owned!(1),
        setup: TWO,
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "drain all -> 14 frames\nfree a1\nexpect Node 0, zone Normal, type Movable 1 1 1 1 3\nfree a2",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "drains leave nothing behind",
        machine: owned!(4),
        setup: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0\nrun-on 1\n\
                a2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x10\nfree a1\nfree a2",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 2\nNode 0, zone Normal, cpu 0 count 3\n\
                 Node 0, zone Normal, cpu 1 count 1",
        ops: "drain all -> 32 frames",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "a request that is not served takes them from their owners",
        machine: owned!(1),
        setup: "a1 = alloc-range 0x10..0x40 GFP_KERNEL\na2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        before: "",
        ops: "run-on 1\na3 = alloc order 2 GFP_HIGHUSER_MOVABLE -> 0x4",
        after: "Node 0, zone Normal, type Movable 1 1 0 1",
    },
    Case {
        name: "a pageblock that gets another type has no owner any more",
        machine: owned!(1),
        setup: TWO,
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "type 0x0 Unmovable\nfree a1\na3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x10",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 2\nNode 0, zone Normal, type Unmovable 1 1 1 1",
    },
    Case {
        name: "nor has one of which a range is taken",
        machine: owned!(1),
        setup: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "a2 = alloc-range 0x6..0x12 GFP_KERNEL\nfree a1\nfree a2",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 4",
    },
    Case {
        name: "a second free is refused, wherever the first one went",
        machine: owned!(1),
        setup: TWO,
        before: "Node 0, zone Normal, type Movable 0 0 0 0 3",
        ops: "raw-free 0x0 order 0\nraw-free 0x0 order 0 -> frame 0x0 is free already\n\
              raw-free 0x5 order 0 -> frame 0x5 is free already",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 3",
    },
];

/// Pageblocks of 256 frames, four words each.
const LARGE: &str = "max-order 9\npageblock-order 8\nmemory 0x0..0x400 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n\
                     marks 0 Normal 0 0 0\npcp 0 Normal 1 1\nmechanisms owned-pageblocks\n";

const WORDS: &[Case] = &[
    Case {
        name: "runs go on over words",
        machine: LARGE,
        setup: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 1 1",
        ops: "drain all -> 255 frames",
        after: "Node 0, zone Normal, type Movable 1 1 1 1 1 1 1 1 1 1",
    },
    Case {
        name: "a pageblock of several words becomes whole, and merges with its buddy",
        machine: LARGE,
        setup: "a1 = bulk 130 order 0 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 1 1",
        ops: "run-on 1\nfree a1",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 0 0 0 0 0 2",
    },
];

#[test]
fn pageblocks_are_claimed() {
    check(CLAIMS);
}

#[test]
fn frees_return_to_the_owner() {
    check(RETURNS);
}

#[test]
fn pageblocks_of_several_words_are_one() {
    check(WORDS);
}

/// The allocator refuses a depot beside owned pageblocks, and says why.
#[test]
fn a_depot_is_refused() {
    let text = "memory 0x0..0x40 node 0\ncpus 0\nmechanisms owned-pageblocks,depot=all\n";
    let scenario: Scenario = text.parse().unwrap();
    let error = Layout::of(&scenario.shape.config()).unwrap_err().to_string();
    assert!(error.contains("a depot keeps what overflows for any CPU"), "{error}");
}
