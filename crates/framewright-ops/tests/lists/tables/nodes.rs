//! Which node and zone a request goes to.

use super::{Case, check};

/// Three nodes of 16 frames; node 2 is nearer to node 0 than node 1 is. CPUs on nodes 0, 1 and 2.
const THREE: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x10 node 0\nmemory 0x10..0x20 node 1\n\
                     memory 0x20..0x30 node 2\ncpus 0 1 2\ndistances 10 30 20 30 10 15 20 15 10\n\
                     dma-end 0x0\ndma32-end 0x0\nmarks 0 Normal 0 0 0\nmarks 1 Normal 0 0 0\nmarks 2 Normal 0 0 0\n\
                     pcp 0 Normal 1 1\npcp 1 Normal 1 1\npcp 2 Normal 1 1\n";

const FREE_0: &str = "Node 0, zone Normal, type Movable 0 0 0 0 1";
const FREE_2: &str = "Node 2, zone Normal, type Movable 0 0 0 0 1";
const ALL_THREE: &str = "Node 0, zone Normal, type Movable 0 0 0 0 1\nNode 1, zone Normal, type Movable 0 0 0 0 1\n\
                         Node 2, zone Normal, type Movable 0 0 0 0 1";

const DISTANCES: &[Case] = &[
    Case {
        name: "the CPU's own node first, then the nearest",
        machine: THREE,
        setup: "",
        before: ALL_THREE,
        ops: "a1 = alloc order 4 GFP_KERNEL -> 0x0\na2 = alloc order 4 GFP_KERNEL -> 0x20\n\
              a3 = alloc order 4 GFP_KERNEL -> 0x10",
        after: "",
    },
    Case {
        name: "from another CPU",
        machine: THREE,
        setup: "run-on 1",
        before: ALL_THREE,
        ops: "a1 = alloc order 4 GFP_KERNEL -> 0x10\na2 = alloc order 4 GFP_KERNEL -> 0x20\n\
              a3 = alloc order 4 GFP_KERNEL -> 0x0",
        after: "",
    },
    Case {
        name: "a preferred node comes first, then those near to it",
        machine: THREE,
        setup: "",
        before: ALL_THREE,
        ops: "a1 = alloc order 4 GFP_KERNEL on 1 -> 0x10\na2 = alloc order 4 GFP_KERNEL on 1 -> 0x20\n\
              a3 = alloc order 4 GFP_KERNEL on 7 -> there is no node 7",
        after: FREE_0,
    },
    Case {
        name: "this node or none",
        machine: THREE,
        setup: "",
        before: ALL_THREE,
        ops: "a1 = alloc order 4 GFP_KERNEL|__GFP_THISNODE on 1 -> 0x10\n\
              a2 = alloc order 4 GFP_KERNEL|__GFP_THISNODE on 1 -> \
              out of memory: every allowed zone is at its watermark\n\
              a3 = alloc order 4 GFP_KERNEL|__GFP_THISNODE -> 0x0",
        after: FREE_2,
    },
    Case {
        name: "a bound request stays in its nodes, the nearest first",
        machine: THREE,
        setup: "",
        before: ALL_THREE,
        ops: "a1 = alloc order 4 GFP_KERNEL bind 1,2 -> 0x20\na2 = alloc order 4 GFP_KERNEL bind 1,2 -> 0x10\n\
              a3 = alloc order 4 GFP_KERNEL bind 1,2 -> out of memory: every allowed zone is at its watermark\n\
              a4 = alloc order 4 GFP_KERNEL bind 5 -> no zone with memory satisfies the request",
        after: FREE_0,
    },
    Case {
        name: "an interleaved request goes round, and elsewhere if its turn's node is full",
        machine: THREE,
        setup: "a1 = alloc-at 0x20 order 4 GFP_KERNEL",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 1\nNode 1, zone Normal, type Movable 0 0 0 0 1",
        ops: "a2 = alloc order 2 GFP_HIGHUSER_MOVABLE interleave 0,1 -> 0x0\n\
              a3 = alloc order 2 GFP_HIGHUSER_MOVABLE interleave 0,1 -> 0x10\n\
              a4 = alloc order 2 GFP_HIGHUSER_MOVABLE interleave 0,1 -> 0x4\n\
              a5 = alloc order 3 GFP_HIGHUSER_MOVABLE interleave 0,1 -> 0x18\n\
              a6 = alloc order 2 GFP_HIGHUSER_MOVABLE interleave 0,2 -> 0x8\n\
              a7 = alloc order 2 GFP_HIGHUSER_MOVABLE interleave 0,2 -> 0x14",
        after: "Node 0, zone Normal, type Movable 0 0 1",
    },
];

#[test]
fn nodes_are_tried_by_distance() {
    check(DISTANCES);
}

/// Node 1 has a CPU and no memory.
const WITHOUT_MEMORY: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x10 node 0\nmemory 0x10..0x20 node 2\n\
                              cpus 0 1 2\ndistances 10 30 20 30 10 15 20 15 10\ndma-end 0x0\ndma32-end 0x0\n\
                              marks 0 Normal 0 0 0\nmarks 2 Normal 0 0 0\npcp 0 Normal 1 1\npcp 2 Normal 1 1\n";

/// DMA, DMA32, Normal and Movable of 16 frames each.
const KINDS: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x10\ndma32-end 0x20\n\
                     movable 0x30..0x40\nmarks 0 DMA 0 0 0\nmarks 0 DMA32 0 0 0\nmarks 0 Normal 0 0 0\n\
                     marks 0 Movable 0 0 0\nreserve 0 DMA 0 0 0 0\nreserve 0 DMA32 0 0 0 0\nreserve 0 Normal 0 0 0 0\n\
                     pcp 0 DMA 1 1\npcp 0 DMA32 1 1\npcp 0 Normal 1 1\npcp 0 Movable 1 1\n";

const ALL_KINDS: &str = "Node 0, zone DMA, type Movable 0 0 0 0 1\nNode 0, zone DMA32, type Movable 0 0 0 0 1\n\
                         Node 0, zone Normal, type Movable 0 0 0 0 1\nNode 0, zone Movable, type Movable 0 0 0 0 1";

const ZONES: &[Case] = &[
    Case {
        name: "a CPU without memory beside it uses the nearest",
        machine: WITHOUT_MEMORY,
        setup: "run-on 1",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 1\nNode 2, zone Normal, type Movable 0 0 0 0 1",
        ops: "a1 = alloc order 4 GFP_KERNEL -> 0x10\na2 = alloc order 4 GFP_KERNEL -> 0x0\n\
              a3 = alloc order 0 GFP_KERNEL|__GFP_THISNODE -> no zone with memory satisfies the request",
        after: "",
    },
    Case {
        name: "movable high memory from the top down",
        machine: KINDS,
        setup: "",
        before: ALL_KINDS,
        ops: "a1 = alloc order 4 GFP_HIGHUSER_MOVABLE -> 0x30\na2 = alloc order 4 GFP_HIGHUSER_MOVABLE -> 0x20\n\
              a3 = alloc order 4 GFP_HIGHUSER_MOVABLE -> 0x10\na4 = alloc order 4 GFP_HIGHUSER_MOVABLE -> 0x0",
        after: "",
    },
    Case {
        name: "kernel memory never from zone Movable",
        machine: KINDS,
        setup: "",
        before: ALL_KINDS,
        ops: "a1 = alloc order 4 GFP_KERNEL -> 0x20\na2 = alloc order 4 GFP_USER|__GFP_MOVABLE -> 0x10\n\
              a3 = alloc order 4 GFP_KERNEL -> 0x0\n\
              a4 = alloc order 4 GFP_KERNEL -> out of memory: every allowed zone is at its watermark",
        after: "Node 0, zone Movable, type Movable 0 0 0 0 1",
    },
    Case {
        name: "memory for devices from their zone or below",
        machine: KINDS,
        setup: "",
        before: ALL_KINDS,
        ops: "a1 = alloc order 4 GFP_KERNEL|GFP_DMA32 -> 0x10\na2 = alloc order 3 GFP_KERNEL|GFP_DMA32 -> 0x0\n\
              a3 = alloc order 3 GFP_KERNEL|GFP_DMA -> 0x8\n\
              a4 = alloc order 0 GFP_KERNEL|GFP_DMA -> out of memory: every allowed zone is at its watermark\n\
              a5 = alloc order 0 GFP_KERNEL|GFP_DMA|GFP_DMA32 -> the flags contradict each other",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 1\nNode 0, zone Movable, type Movable 0 0 0 0 1",
    },
    Case {
        name: "an address limit between zones",
        machine: KINDS,
        setup: "",
        before: ALL_KINDS,
        ops: "a1 = alloc order 4 GFP_KERNEL below 0x20 -> 0x10\na2 = alloc order 4 GFP_KERNEL below 0x20 -> 0x0\n\
              a3 = alloc order 4 GFP_KERNEL below 0x20 -> out of memory: every allowed zone is at its watermark\n\
              a4 = alloc order 4 GFP_KERNEL -> 0x20",
        after: "Node 0, zone Movable, type Movable 0 0 0 0 1",
    },
    Case {
        name: "an address limit inside of a zone: zones below come first, then the lowest block",
        machine: KINDS,
        setup: "",
        before: ALL_KINDS,
        ops: "a1 = alloc order 4 GFP_KERNEL below 0x2b -> 0x10\na2 = alloc order 4 GFP_KERNEL below 0x2b -> 0x0\n\
              a3 = alloc order 3 GFP_KERNEL below 0x2b -> 0x20\na4 = alloc order 1 GFP_KERNEL below 0x2b -> 0x28\n\
              a5 = alloc order 1 GFP_KERNEL below 0x2b -> out of memory: every allowed zone is at its watermark\n\
              a6 = alloc order 0 GFP_KERNEL below 0x2b -> 0x2a\n\
              a7 = alloc order 0 GFP_KERNEL below 0x0 -> no zone with memory satisfies the request",
        after: "Node 0, zone Normal, type Movable 1 0 1\nNode 0, zone Movable, type Movable 0 0 0 0 1",
    },
];

#[test]
fn zones_are_tried_from_the_top() {
    check(ZONES);
}
