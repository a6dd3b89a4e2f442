//! Which requests may use the last free memory: watermarks, the lowmem reserve, CMA, high-atomic.

use super::{Case, SMALL, check};

/// Zone Normal of 64 frames with marks 8, 16 and 24.
const MARKS: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                     marks 0 Normal 8 16 24\npcp 0 Normal 1 1\n";

const WATERMARKS: &[Case] = &[
    Case {
        name: "a request that may not wait stops at the min mark",
        machine: MARKS,
        setup: "type 0x0 Unmovable",
        before: "Node 0, zone Normal, type Movable 0 0 1 1 3\nNode 0, zone Normal, type Unmovable 0 0 1",
        ops: "a1 = bulk 100 order 0 GFP_NOWAIT -> 56 blocks\n\
              a2 = alloc order 0 GFP_NOWAIT -> out of memory for a request that must not wait",
        after: "Node 0, zone Normal, type Movable 0 0 1\nNode 0, zone Normal, type Unmovable 0 0 1",
    },
    Case {
        name: "so does one that may, after reclaim brought nothing",
        machine: MARKS,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 4",
        ops: "a1 = bulk 100 order 0 GFP_KERNEL -> 56 blocks\n\
              a2 = alloc order 0 GFP_KERNEL -> out of memory: every allowed zone is at its watermark",
        after: "Node 0, zone Normal, type Unmovable 0 0 0 1",
    },
    Case {
        name: "high priority may use half of what is below the mark",
        machine: MARKS,
        setup: "a1 = bulk 100 order 0 GFP_NOWAIT",
        before: "Node 0, zone Normal, type Unmovable 0 0 0 1",
        ops: "a2 = bulk 100 order 0 GFP_NOWAIT|__GFP_HIGH -> 4 blocks",
        after: "Node 0, zone Normal, type Unmovable 0 0 1",
    },
    Case {
        name: "an atomic request a quarter more of the rest",
        machine: MARKS,
        setup: "a1 = bulk 100 order 0 GFP_NOWAIT",
        before: "Node 0, zone Normal, type Unmovable 0 0 0 1",
        ops: "a2 = bulk 100 order 0 GFP_ATOMIC -> 5 blocks",
        after: "Node 0, zone Normal, type Unmovable 1 1",
    },
    Case {
        name: "without the reserves if it says so",
        machine: MARKS,
        setup: "a1 = bulk 100 order 0 GFP_NOWAIT",
        before: "Node 0, zone Normal, type Unmovable 0 0 0 1",
        ops: "a2 = bulk 100 order 0 GFP_ATOMIC|__GFP_NOMEMALLOC -> 4 blocks",
        after: "Node 0, zone Normal, type Unmovable 0 0 1",
    },
    Case {
        name: "who frees memory may use all of it",
        machine: MARKS,
        setup: "a1 = bulk 100 order 0 GFP_NOWAIT",
        before: "Node 0, zone Normal, type Unmovable 0 0 0 1",
        ops: "a2 = bulk 100 order 0 GFP_NOWAIT|__GFP_MEMALLOC -> 8 blocks",
        after: "",
    },
    Case {
        name: "a large request must leave the mark as well, and needs a block",
        machine: MARKS,
        setup: "a1 = bulk 3 order 4 GFP_NOWAIT",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 1",
        ops: "a2 = alloc order 4 GFP_NOWAIT -> out of memory: no free block is large enough\n\
              a3 = alloc order 3 GFP_NOWAIT -> 0x30\n\
              a4 = alloc order 3 GFP_NOWAIT|__GFP_MEMALLOC -> 0x38",
        after: "",
    },
    Case {
        name: "memory enough but in too small blocks",
        machine: MARKS,
        setup: "a1 = alloc-range 0x0..0x40 GFP_NOWAIT\nraw-free-range 0x0 3\nraw-free-range 0x4 3\nraw-free-range 0x8 3\n\
                raw-free-range 0xc 3\nraw-free-range 0x10 3\nraw-free-range 0x14 3\nraw-free-range 0x18 3",
        before: "Node 0, zone Normal, type Movable 7 7",
        ops: "a2 = alloc order 2 GFP_NOWAIT -> out of memory: no free block is large enough\n\
              a3 = alloc order 1 GFP_NOWAIT -> 0x18",
        // The pageblock of the block that was used is claimed with it.
        after: "Node 0, zone Normal, type Movable 6 6\nNode 0, zone Normal, type Unmovable 1",
    },
];

#[test]
fn watermarks_hold() {
    check(WATERMARKS);
}

/// DMA32 of 32 frames below Normal of 16; DMA32 keeps 12 frames from requests that could use Normal.
const LOWMEM: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x30 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x20\n\
                      marks 0 DMA32 0 0 0\nmarks 0 Normal 0 0 0\nreserve 0 DMA32 0 0 12 12\n\
                      pcp 0 DMA32 1 1\npcp 0 Normal 1 1\n";

const LOWMEM_RESERVE: &[Case] = &[
    Case {
        name: "a request for higher memory leaves the reserve of a lower zone",
        machine: LOWMEM,
        setup: "",
        before: "Node 0, zone DMA32, type Movable 0 0 0 0 2\nNode 0, zone Normal, type Movable 0 0 0 0 1",
        ops: "a1 = bulk 100 order 0 GFP_NOWAIT -> 36 blocks",
        after: "Node 0, zone DMA32, type Unmovable 0 0 1 1",
    },
    Case {
        name: "a request that needs low memory does not",
        machine: LOWMEM,
        setup: "a1 = bulk 100 order 0 GFP_NOWAIT",
        before: "Node 0, zone DMA32, type Unmovable 0 0 1 1",
        ops: "a2 = bulk 100 order 0 GFP_NOWAIT|GFP_DMA32 -> 12 blocks",
        after: "",
    },
];

#[test]
fn low_memory_is_reserved() {
    check(LOWMEM_RESERVE);
}

/// The last 32 of 64 frames are a contiguous reserve.
const HALF_CMA: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                        marks 0 Normal 0 0 0\npcp 0 Normal 1 1\ncma 0x20..0x40\n";

/// With marks; CMA does not count as free for requests that cannot use it.
const CMA_MARKS: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                         marks 0 Normal 8 8 8\npcp 0 Normal 1 1\ncma 0x20..0x40\n";

const CMA: &[Case] = &[
    Case {
        name: "movable requests use CMA once it is more than half of what is free",
        machine: HALF_CMA,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 2\nNode 0, zone Normal, type CMA 0 0 0 0 2",
        ops: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x0\na2 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x20\n\
              a3 = alloc order 0 GFP_HIGHUSER_MOVABLE -> 0x1",
        after: "Node 0, zone Normal, type Movable 0 1 1 1 1\nNode 0, zone Normal, type CMA 1 1 1 1 1",
    },
    Case {
        name: "requests that cannot move never do",
        machine: HALF_CMA,
        setup: "a1 = alloc-at 0x0 order 4 GFP_KERNEL\na2 = alloc-at 0x10 order 4 GFP_KERNEL",
        before: "Node 0, zone Normal, type CMA 0 0 0 0 2",
        ops: "a3 = alloc order 0 GFP_KERNEL -> out of memory: every allowed zone is at its watermark\n\
              a4 = alloc order 1 GFP_NOWAIT|__GFP_RECLAIMABLE|__GFP_MEMALLOC -> \
              out of memory: no free block is large enough\n\
              a5 = alloc order 0 GFP_KERNEL below 0x30 -> out of memory: no free block is large enough\n\
              a6 = alloc order 4 GFP_HIGHUSER_MOVABLE -> 0x20",
        after: "Node 0, zone Normal, type CMA 0 0 0 0 1",
    },
    Case {
        name: "CMA does not count as free for them",
        machine: CMA_MARKS,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 2\nNode 0, zone Normal, type CMA 0 0 0 0 2",
        ops: "a1 = bulk 100 order 0 GFP_NOWAIT -> 24 blocks",
        after: "Node 0, zone Normal, type Unmovable 0 0 0 1\nNode 0, zone Normal, type CMA 0 0 0 0 2",
    },
    Case {
        name: "a contiguous range may be in CMA, whatever asks for it",
        machine: HALF_CMA,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 2\nNode 0, zone Normal, type CMA 0 0 0 0 2",
        ops: "a1 = alloc-range 0x22..0x39 GFP_KERNEL -> ok\nexpect pageblock 0x24 CMA",
        after: "Node 0, zone Normal, type Movable 0 0 0 0 2\nNode 0, zone Normal, type CMA 1 2 1",
    },
];

#[test]
fn contiguous_reserves_are_lent_to_movable_requests() {
    check(CMA);
}

/// Marks so high that only a second try succeeds, as the one that sets the reserve up must.
const HIGH: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x190 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                    marks 0 Normal 0 1000 1000\npcp 0 Normal 1 1\n";

const HIGH_ATOMIC: &[Case] = &[
    Case {
        name: "an atomic request above order 0 leaves its pageblock in reserve",
        machine: HIGH,
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 25",
        ops: "a1 = alloc order 1 GFP_ATOMIC -> 0x0\nexpect pageblock 0x0 HighAtomic\nexpect pageblock 0x4 Unmovable",
        after: "Node 0, zone Normal, type HighAtomic 0 1\nNode 0, zone Normal, type Unmovable 0 0 1 1\n\
                Node 0, zone Normal, type Movable 0 0 0 0 24",
    },
    Case {
        name: "the reserve has room for a hundredth of the zone",
        machine: HIGH,
        setup: "a1 = alloc order 1 GFP_ATOMIC",
        before: "Node 0, zone Normal, type HighAtomic 0 1\nNode 0, zone Normal, type Unmovable 0 0 1 1\n\
                 Node 0, zone Normal, type Movable 0 0 0 0 24",
        ops: "a2 = alloc order 2 GFP_ATOMIC -> 0x4\nexpect pageblock 0x4 Unmovable",
        after: "Node 0, zone Normal, type HighAtomic 0 1\nNode 0, zone Normal, type Unmovable 0 0 0 1\n\
                Node 0, zone Normal, type Movable 0 0 0 0 24",
    },
    Case {
        name: "an order-0 request leaves nothing in reserve, and neither does one that may wait",
        machine: HIGH,
        setup: "type 0x0 Unmovable",
        before: "Node 0, zone Normal, type Movable 0 0 1 1 24\nNode 0, zone Normal, type Unmovable 0 0 1",
        ops: "a1 = alloc order 0 GFP_ATOMIC -> 0x0\na2 = alloc order 1 GFP_KERNEL -> 0x2\nexpect pageblock 0x0 Unmovable",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 24\nNode 0, zone Normal, type Unmovable 1",
    },
    Case {
        name: "when all else is used requests that may not wait have the reserve, of several frames only if they are urgent",
        machine: SMALL,
        setup: "type 0x0 HighAtomic\na1 = alloc-range 0x4..0x40 GFP_KERNEL",
        before: "Node 0, zone Normal, type HighAtomic 0 0 1",
        ops: "a2 = alloc order 1 GFP_NOWAIT -> out of memory for a request that must not wait\n\
              a3 = alloc order 0 GFP_ATOMIC|__GFP_NOMEMALLOC -> out of memory for a request that must not wait\n\
              a4 = alloc order 1 GFP_ATOMIC -> 0x0\na5 = alloc order 0 GFP_NOWAIT -> 0x2\n\
              a6 = alloc order 0 GFP_ATOMIC -> 0x3",
        after: "",
    },
    Case {
        name: "a request that may wait dissolves the reserve in the end",
        machine: SMALL,
        setup: "type 0x0 HighAtomic\na1 = alloc-range 0x4..0x40 GFP_KERNEL",
        before: "Node 0, zone Normal, type HighAtomic 0 0 1",
        ops: "a2 = alloc order 0 GFP_KERNEL -> 0x0\nexpect pageblock 0x0 Unmovable",
        after: "Node 0, zone Normal, type Unmovable 1 1",
    },
];

#[test]
fn high_orders_have_a_reserve() {
    check(HIGH_ATOMIC);
}
