//! For each switch, runs that its choices change.

use crate::{Case, Run};

/// Zone Normal of 64 frames, blocks of up to 16, pageblocks of 8; per-CPU lists that keep nothing.
pub(crate) const SMALL: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                         marks 0 Normal 0 0 0\npcp 0 Normal 1 1";

/// As [`SMALL`], with half of the memory and marks of 1, 2 and 12 frames.
const MARKED: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                      marks 0 Normal 1 2 12\npcp 0 Normal 1 1";

/// Zone Normal of 1024 frames; per-CPU lists that take 4 pages at a time and keep up to 12.
const LISTS: &str = "max-order 4\npageblock-order 4\nmemory 0x0..0x400 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                     marks 0 Normal 0 0 0\npcp 0 Normal 4 12";

/// Zone Normal of 64 frames, most of which its marks keep; per-CPU lists that take 4 pages at a time.
const LOW: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x40 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                   marks 0 Normal 50 51 52\npcp 0 Normal 4 12";

/// Two nodes of 1024 frames with a CPU each, and a counter of the embedder's in each zone.
const NODES: &str = "memory 0x100000..0x100400 node 0\nmemory 0x100400..0x100800 node 1\ncpus 0 1\nzone-counters 1";

/// As [`SMALL`], with a zone DMA32 below.
const ZONES: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0x20 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x10\n\
                     marks 0 DMA32 0 0 0\nmarks 0 Normal 0 0 0\nreserve 0 DMA32 0 0 0 0\n\
                     pcp 0 DMA32 1 1\npcp 0 Normal 1 1";

/// Both pageblocks of zone Normal are movable and in use but for one page, and no page of DMA32 is in use.
const MIXED: &str = "a1 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x15 1\n\
                     a2 = alloc order 0 GFP_KERNEL\na3 = alloc-range 0x4..0x10 GFP_HIGHUSER_MOVABLE\n\
                     on-reclaim free 1\na4 = alloc order 2 GFP_KERNEL\na5 = alloc order 2 GFP_KERNEL";

/// All pageblocks of the first half are movable and in use but for a part of one; then a page that cannot move is
/// asked for.
const PART: &str = "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\na2 = alloc-range 0x20..0x40 GFP_HIGHUSER_MOVABLE\n\
                    a3 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x12 6\n\
                    on-reclaim free 1\na4 = alloc order 0 GFP_KERNEL";

/// As [`SMALL`], with 24 pageblocks.
const LARGE: &str = "max-order 4\npageblock-order 3\nmemory 0x0..0xc0 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
                     marks 0 Normal 0 0 0\npcp 0 Normal 1 1";

/// Of each pageblock three frames are in use, one by one and movable; then the node is compacted.
const HOLES: &str = "a1 = bulk 192 order 0 GFP_HIGHUSER_MOVABLE\non-migrate move\n\
                     raw-free-range 0x3 5\nraw-free-range 0xb 5\nraw-free-range 0x13 5\nraw-free-range 0x1b 5\n\
                     raw-free-range 0x23 5\nraw-free-range 0x2b 5\nraw-free-range 0x33 5\nraw-free-range 0x3b 5\n\
                     raw-free-range 0x43 5\nraw-free-range 0x4b 5\nraw-free-range 0x53 5\nraw-free-range 0x5b 5\n\
                     raw-free-range 0x63 5\nraw-free-range 0x6b 5\nraw-free-range 0x73 5\nraw-free-range 0x7b 5\n\
                     raw-free-range 0x83 5\nraw-free-range 0x8b 5\nraw-free-range 0x93 5\nraw-free-range 0x9b 5\n\
                     raw-free-range 0xa3 5\nraw-free-range 0xab 5\nraw-free-range 0xb3 5\nraw-free-range 0xbb 5\n\
                     compact 0";

/// The movable pages of a zone lie in all of its pageblocks; then a whole one is asked for.
const SCATTERED: &str = "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\na2 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\n\
                         a3 = alloc-at 0x20 order 4 GFP_HIGHUSER_MOVABLE\na4 = alloc-at 0x30 order 4 GFP_HIGHUSER_MOVABLE\n\
                         split a1 order 0\nsplit a2 order 0\nsplit a3 order 0\nsplit a4 order 0\n\
                         raw-free-range 0x6 2\nraw-free-range 0xa 6\nraw-free-range 0x17 1\nraw-free-range 0x1d 3\n\
                         raw-free-range 0x21 1\nraw-free-range 0x2b 5\non-migrate move\na5 = alloc order 3 GFP_HIGHUSER_MOVABLE";

const fn played(switch: &'static str, base: &'static str, machine: &'static str, ops: &'static str) -> Case {
    Case { switch, base, demands: "", numbers: &[], run: Run::Played(machine, ops) }
}

const fn simulated(switch: &'static str, base: &'static str) -> Case {
    Case { switch, base, demands: "", numbers: &[], run: Run::Simulated }
}

/// Cases of all switches, in the order of the switches.
pub(crate) const CASES: &[Case] = &[
    simulated("zone-lock", ""),
    // Nothing shares the lock unless the free path does.
    Case { demands: "free-path=merge", ..simulated("zone-lock", "free-path=splice") },
    simulated("lock-place", ""),
    simulated("free-path", "zone-lock=rw"),
    simulated("pre-merge", ""),
    simulated("refill", ""),
    simulated("pcp-protection", ""),
    // Only lists that no interrupt uses have a fast path.
    simulated("pcp-protection", "default"),
    // A list grows when it is refilled again and again.
    played(
        "pcp-size",
        "",
        LISTS,
        "a1 = bulk 4 order 0 GFP_KERNEL\na2 = alloc order 0 GFP_KERNEL\na3 = bulk 16 order 0 GFP_KERNEL",
    ),
    // More is freed than an eighth of the zone.
    played("depot", "", LISTS, "a1 = bulk 600 order 0 GFP_KERNEL\nfree a1"),
    // The zone is below its marks, and a page is on the list.
    played(
        "pcp-mark",
        "",
        LOW,
        "a1 = alloc order 0 GFP_KERNEL\na2 = alloc order 4 GFP_KERNEL|__GFP_MEMALLOC\n\
        a3 = alloc order 0 GFP_KERNEL",
    ),
    simulated("prefetch", ""),
    simulated("hardened", ""),
    Case { run: Run::Contents, ..simulated("hardened", "") },
    simulated("zone-stat", ""),
    // Zoneinfo shows the threshold up to which a CPU keeps its counts.
    played("zone-stat", "", NODES, "count zone 0 Normal 0 by 1\na1 = bulk 3 order 0 GFP_KERNEL"),
    played("numa-stat", "numa-read=zone-only", NODES, "a1 = bulk 300 order 0 GFP_KERNEL"),
    played(
        "numa-stat",
        "numa-stat=s8,numa-read=zone-only,numa-threshold=100",
        NODES,
        "a1 = bulk 300 order 0 GFP_KERNEL",
    ),
    simulated("numa-stat", ""),
    simulated("numa-place", "numa-stat=s8,numa-threshold=4"),
    // Zoneinfo shows counters among the zone's others before the number of free CMA frames.
    played("numa-place", "numa-stat=s8", NODES, "a1 = bulk 3 order 0 GFP_KERNEL"),
    played("numa-read", "numa-stat=s16", NODES, "a1 = bulk 3 order 0 GFP_KERNEL"),
    played(
        "fallback",
        "nofragment=off",
        SMALL,
        "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\n\
        a2 = alloc-range 0x10..0x40 GFP_KERNEL\nraw-free-range 0x6 2\nraw-free-range 0x8 1\nraw-free-range 0xa 1\n\
        raw-free-range 0xc 1\nraw-free-range 0xe 1\na3 = alloc order 0 GFP_KERNEL",
    ),
    played(
        "hygiene",
        "nofragment=off",
        SMALL,
        "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\n\
        a2 = alloc-range 0x10..0x40 GFP_KERNEL\nraw-free-range 0x2 2\nraw-free-range 0x7 1\na3 = alloc order 0 GFP_KERNEL",
    ),
    played("nofragment", "", ZONES, MIXED),
    played("nofragment", "", SMALL, PART),
    played("compaction", "", SMALL, SCATTERED),
    Case {
        numbers: &["7"],
        ..played("numa-threshold", "numa-stat=s8,numa-read=zone-only", NODES, "a1 = bulk 300 order 0 GFP_KERNEL")
    },
    played(
        "watermark-boost",
        "nofragment=off",
        MARKED,
        "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\n\
        a2 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nraw-free-range 0x2 6\na3 = alloc order 0 GFP_ATOMIC",
    ),
    Case { numbers: &["100"], ..played("proactiveness", "compaction=emptiest", LARGE, HOLES) },
    played(
        "stall-order",
        "nofragment=off,watermark-boost=15000",
        MARKED,
        "type 0x0 Unmovable\ntype 0x8 Unmovable\n\
        a1 = alloc-at 0x0 order 4 GFP_KERNEL\na2 = alloc-at 0x10 order 4 GFP_KERNEL\nraw-free-range 0x2 2\n\
        a3 = alloc order 0 GFP_HIGHUSER_MOVABLE",
    ),
];
