//! A run leaves nothing behind on the heap, so that one process can run as many as there is time for.

use std::fs;

use framewright_ops::{Scenario, run};

/// Pages of 4 KiB in memory; none where the system does not tell.
fn resident() -> Option<u64> {
    fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()
}

#[test]
fn runs_leave_nothing_behind() {
    // The oracle's table of such a machine takes two megabytes at least.
    let scenario: Scenario = "memory 0x0..0x10000 node 0\ncpus 0\na1 = alloc order 0 GFP_KERNEL".parse().unwrap();
    run(&scenario).unwrap();
    let Some(before) = resident() else { return };
    for _ in 0..100 {
        run(&scenario).unwrap();
    }
    let grown = resident().unwrap().saturating_sub(before);
    assert!(grown < 16 << 8, "{} MiB more after 100 runs", grown >> 8);
}
