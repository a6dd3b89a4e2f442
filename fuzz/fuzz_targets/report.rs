//! Reports of a kernel: no panic, and an answer of at most 25 lines for each.
#![no_main]

use framewright_report::answer::answer;
use framewright_report::read::reports;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for report in reports(&String::from_utf8_lossy(data)) {
        assert!(answer(&report).to_string().lines().count() <= 25);
    }
});
