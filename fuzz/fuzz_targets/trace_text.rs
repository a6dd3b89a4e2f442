//! Texts of tracers, compressed or not: no panic, and no control character in a message.
#![no_main]

use std::io::Cursor;

use framewright_trace::input::decompress;
use framewright_trace::text::{TextOptions, TextReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for lenient in [false, true] {
        let Ok(source) = decompress(Cursor::new(data.to_vec())) else { return };
        // A small input can unpack to a very large one: its start is enough.
        let source = std::io::Read::take(source, 1 << 20);
        let mut reader = TextReader::new(source, "input", &TextOptions { lenient, ..TextOptions::default() });
        for record in reader.by_ref() {
            match record {
                Ok(record) => assert!(record.kind.name().is_ascii()),
                Err(error) => assert!(!error.to_string().contains(|c: char| c.is_control())),
            }
        }
        assert!(reader.quality().malformed.iter().all(|message| !message.contains(|c: char| c.is_control())));
    }
});
