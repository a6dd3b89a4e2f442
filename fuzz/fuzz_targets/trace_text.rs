//! Texts of tracers, compressed or not: no panic, and no control character in a message.
#![no_main]

use std::io::Cursor;

use framewright_trace::flags::{KernelVersion, Kernels};
use framewright_trace::input::decompress;
use framewright_trace::text::{TextOptions, TextReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let versions = [None, Some("3.10"), Some("4.9"), Some("4.15"), Some("4.19"), Some("5.4"), Some("6.8")];
    // One of the kernels by chance, so that every table of flags is met.
    let version = versions[data.first().map_or(0, |&byte| usize::from(byte)) % versions.len()];
    let kernels = version.and_then(KernelVersion::find).map_or(Kernels::ALL, Kernels::of);
    for lenient in [false, true] {
        let Ok(source) = decompress(Cursor::new(data.to_vec())) else { return };
        // A small input can unpack to a very large one: its start is enough.
        let source = std::io::Read::take(source, 1 << 20);
        let mut reader = TextReader::new(source, "input", &TextOptions { lenient, kernels, ..TextOptions::default() });
        for record in reader.by_ref() {
            match record {
                Ok(record) => assert!(record.kind.name().is_ascii()),
                Err(error) => assert!(!error.to_string().contains(|c: char| c.is_control())),
            }
        }
        assert!(reader.quality().malformed.iter().all(|message| !message.contains(|c: char| c.is_control())));
    }
});
