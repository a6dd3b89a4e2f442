//! Bugs of the core that generated operations found, as small as they shrank to, and a few that came near.

use framewright_ops::{Scenario, run};

/// Runs a scenario that must go well.
#[track_caller]
fn must_run(text: &str) {
    let scenario: Scenario = text.parse().unwrap();
    if let Err(failure) = run(&scenario) {
        panic!("{failure}");
    }
}

#[test]
fn this_node_ignores_bind() {
    must_run("memory 0x0..0x400 node 0\ncpus 0\na1 = alloc order 0 GFP_KERNEL|__GFP_THISNODE bind none");
}

#[test]
fn this_node_ignores_bind_to_a_node_without_memory() {
    must_run("memory 0x0..0x400 node 0\ncpus 0 1\na1 = alloc order 0 GFP_KERNEL|__GFP_THISNODE bind 1");
}

#[test]
fn low_mark_below_min() {
    must_run(
        "max-order 6\npageblock-order 4\nmemory 0x0..0x10 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
         a1 = alloc order 0 GFP_KERNEL\na2 = bulk 15 order 0 GFP_KERNEL\nfree a1\na3 = alloc order 0 GFP_KERNEL",
    );
}

#[test]
fn contiguous_range_from_a_zone_that_the_flags_exclude() {
    must_run(
        "max-order 4\npageblock-order 4\nmemory 0x30..0x60 node 0\nmemory 0xc0..0xd0 node 0\ncpus 0\n\
         dma-end 0x0\ndma32-end 0x0\nmovable 0x40..0x90\na1 = alloc-contig 31 align 0 GFP_KERNEL",
    );
}

#[test]
fn contiguous_range_below_a_limit_inside_of_a_zone() {
    must_run(
        "max-order 9\nmemory 0x0..0x800 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
         a1 = alloc-contig 513 align 0 GFP_KERNEL below 0x600",
    );
}

#[test]
fn bound_requests_go_by_distance_from_the_first_node() {
    must_run(
        "max-order 4\npageblock-order 4\nmemory 0x0..0x10 node 0\nmemory 0x10..0x20 node 1\nmemory 0x20..0x30 node 2\n\
         memory 0x30..0x40 node 3\ncpus 0\ndistances 10 11 12 13 11 10 20 15 12 20 10 15 13 15 15 10\n\
         dma-end 0x0\ndma32-end 0x0\nmarks 1 Normal 0 0 0\nmarks 2 Normal 0 0 0\nmarks 3 Normal 0 0 0\n\
         pcp 1 Normal 1 1\npcp 2 Normal 1 1\npcp 3 Normal 1 1\n\
         a1 = alloc order 4 GFP_KERNEL bind 1,2,3 -> 0x10\na2 = alloc order 4 GFP_KERNEL bind 1,2,3 -> 0x20\n\
         a3 = alloc order 4 GFP_KERNEL bind 1,2,3 -> 0x30",
    );
}

#[test]
fn reserves_do_not_reach_what_other_cpus_kept() {
    must_run(
        "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n\
         marks 0 Normal 8 8 8\npcp 0 Normal 4 20\na1 = alloc-range 0x0..0x3a GFP_KERNEL\nrun-on 1\n\
         a2 = alloc-at 0x3a order 1 GFP_KERNEL\na3 = alloc-at 0x3c order 2 GFP_KERNEL\nsplit a3 order 0\nfree a2\n\
         free a3\nrun-on 0\na4 = alloc order 0 GFP_KERNEL|__GFP_MEMALLOC -> 0x3c",
    );
}

#[test]
fn contiguous_range_that_comes_free_behind_the_search() {
    must_run(
        "max-order 4\npageblock-order 1\nmemory 0x0..0x58 node 0\ncpus 0\ndma-end 0x25\ndma32-end 0x4e\n\
         a2 = alloc-range 0x38..0x41 GFP_KERNEL\na3 = alloc-contig 1 align 0 __GFP_MOVABLE\n\
         a7 = alloc-contig 5 align 0 GFP_KERNEL\na13 = alloc order 3 __GFP_MOVABLE\n\
         a14 = alloc-at 0x2c order 0 GFP_KERNEL\na15 = alloc-contig 3 align 0 __GFP_MOVABLE\n\
         a16 = alloc order 0 GFP_KERNEL\nfree a14\na19 = alloc order 0 GFP_KERNEL\n\
         a22 = alloc-range 0x13..0x19 GFP_KERNEL\nfree a2\ntake-offline 0x0..0x1\na28 = alloc order 2 GFP_KERNEL\n\
         a32 = alloc order 0 GFP_KERNEL below 0x27\non-migrate free\na36 = alloc-contig 17 align 0 GFP_KERNEL",
    );
}

/// What a PC with more than 3 GiB looks like, scaled down.
const PC: &str = "max-order 6\npageblock-order 4\nmemory 0x0..0x300 node 0\nmemory 0x400..0x800 node 0\ncpus 0 0\n\
                  dma-end 0x40\ndma32-end 0x400\nmechanisms default\n";

#[test]
fn a_local_keeps_what_lies_above_a_hole() {
    must_run(&format!(
        "{PC}local on\na1 = alloc order 0 GFP_KERNEL\nfree a1\na2 = alloc order 0 GFP_KERNEL -> 0x400\nfree a2"
    ));
}

#[test]
fn a_local_keeps_what_lies_on_both_sides_of_a_hole() {
    for flags in ["GFP_KERNEL", "GFP_KERNEL|GFP_DMA32", "GFP_HIGHUSER_MOVABLE"] {
        let pair = |n: u32| {
            let (other, order) = (n + 1000, n % 4);
            format!(
                "a{n} = alloc order {order} {flags}\na{other} = alloc order {order} GFP_KERNEL\nfree a{n}\nfree a{other}\n"
            )
        };
        let held: String = (2000..2040).map(|n| format!("a{n} = alloc order {} {flags}\n", n % 3)).collect();
        let pairs = |from: u32| (from..from + 40).map(pair).collect::<String>();
        must_run(&format!(
            "{PC}trace off\nlocal on\n{}{held}{}drain all\n{}local off\ndrain all",
            pairs(0),
            pairs(100),
            pairs(200)
        ));
    }
}

#[test]
fn a_local_refuses_what_lies_in_a_hole() {
    must_run(&format!(
        "{PC}local on\na1 = alloc order 0 GFP_KERNEL\nfree a1\n\
         raw-free 0x300 order 0 -> frame 0x300 is not this allocator's memory\n\
         raw-free 0x3ff order 0 -> frame 0x3ff is not this allocator's memory\n\
         raw-free 0x800 order 0 -> frame 0x800 is not this allocator's memory\n\
         raw-free 0x8000000000000300 order 0 -> frame 0x8000000000000300 is not this allocator's memory"
    ));
}

/// A magazine came from the depot while other lists were entitled to what it took.
#[test]
fn a_magazine_above_high_takes_what_others_are_entitled_to() {
    must_run(
        "max-order 1\npageblock-order 1\nmemory 0xc9..0xd9 node 0\ncpus 0 0\ndma-end 0x0\ndma32-end 0x0\n\
         a2 = alloc order 1 GFP_KERNEL\na4 = bulk 3 order 1 GFP_KERNEL\nfree a4\nrun-on 1\n\
         a7 = alloc order 0 GFP_KERNEL\na10 = alloc order 1 GFP_KERNEL\nfree a7\nfree a2",
    );
}
