//! A panic that random bytes do not find, and coverage does: one byte after another.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut known = 0;
    for (byte, expected) in data.iter().zip(b"page") {
        if byte != expected {
            return;
        }
        known += 1;
    }
    assert!(known < 4, "planted");
});
