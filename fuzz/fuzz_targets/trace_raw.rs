//! Pages of ring buffers, and the descriptions of events: no panic, and no control character in a message.
//!
//! The first byte says how long the description is, of which there is one beside it that is right.
#![no_main]

use framewright::units::CpuId;
use framewright_trace::ring_buffer::{Decoder, Format, Mobilities, PageLayout, RawReader};
use libfuzzer_sys::fuzz_target;

const HEADER_PAGE: &str = "field: u64 timestamp; offset:0; size:8; signed:0;
field: local_t commit; offset:8; size:8; signed:1;
field: char data; offset:16; size:240; signed:0;";
const FREE: &str = "name: mm_page_free
ID: 1
format:
field:unsigned short common_type; offset:0; size:2; signed:0;
field:int common_pid; offset:4; size:4; signed:1;
field:unsigned long pfn; offset:8; size:8; signed:0;
field:unsigned int order; offset:16; size:4; signed:0;";

fuzz_target!(|data: &[u8]| {
    let (length, rest) = data.split_at(data.len().min(1));
    let (text, pages) = rest.split_at(rest.len().min(length.first().copied().unwrap_or(0).into()));
    let text = String::from_utf8_lossy(text);
    let _ = (PageLayout::parse(&text), Mobilities::parse(&text));
    let mut formats = vec![Format::parse(FREE).unwrap()];
    formats.extend(Format::parse(&text));
    let decoder = Decoder::new(&formats, Mobilities::default());
    let Ok(decoder) = decoder.or_else(|_| Decoder::new(&formats[..1], Mobilities::default())) else { return };
    let layout = PageLayout::parse(HEADER_PAGE).unwrap();
    let (first, second) = pages.split_at(pages.len() / 512 * 256);
    let sources = [first, second].into_iter().zip(0..).map(|(pages, cpu)| (CpuId(cpu), format!("cpu{cpu}"), pages));
    let mut reader = RawReader::new(layout.clone(), layout.page_size(), decoder, sources.collect());
    for record in reader.by_ref() {
        match record {
            Ok(record) => assert!(record.kind.name().is_ascii()),
            Err(error) => assert!(!error.to_string().contains(|c: char| c.is_control())),
        }
    }
});
