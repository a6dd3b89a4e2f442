//! What a kept spool holds besides its pages: no panic, whatever it is, and no trace of what is damaged.
#![no_main]

use std::fs;

use framewright_lab::record::{convert, is_kept};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let spool = std::env::temp_dir().join(format!("framewright-fuzz-{}", std::process::id()));
    fs::create_dir_all(&spool).unwrap();
    let (kept, pages) = data.split_at(data.len() / 2);
    fs::write(spool.join("recording.json.gz"), kept).unwrap();
    fs::write(spool.join("cpu0.gz"), pages).unwrap();
    assert!(is_kept(&spool));
    let trace = spool.join("trace.fwt");
    let converted = convert(&spool, &trace);
    assert_eq!(converted.is_ok(), trace.exists());
    fs::remove_dir_all(&spool).unwrap();
});
