//! Compact traces. Checksums are mended first, or nothing would get past them. What can be read is written and read
//! again, and must be the same.
#![no_main]

use std::io::Cursor;

use framewright_trace::fwt::{CompactReader, CompactWriter, MAGIC, VERSION};
use framewright_trace::record::Comms;
use libfuzzer_sys::fuzz_target;

/// A whole file of sections with their tags, lengths and checksums, from pieces of `data`: a byte for the tag, two for
/// the length, and the content.
fn file(data: &[u8]) -> Vec<u8> {
    const TAGS: [&[u8; 4]; 7] = [b"evts", b"zone", b"budd", b"ptyp", b"vmst", b"flag", b"qual"];
    let (counts, mut rest) = data.split_at(data.len().min(2));
    let mut file = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    file.extend([counts.first().copied().unwrap_or(0), 0, 0, 0]);
    file.extend([counts.get(1).copied().unwrap_or(0), 0, 0, 0, 0, 0, 0, 0]);
    file.extend(crc32fast::hash(&file).to_le_bytes());
    while let [tag, low, high, content @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(content.len());
        let (content, more) = content.split_at(length);
        let mut section = TAGS[usize::from(*tag) % TAGS.len()].to_vec();
        section.extend((length as u32).to_le_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&section);
        sum.update(content);
        section.extend(sum.finalize().to_le_bytes());
        file.extend(section);
        file.extend(content);
        rest = more;
    }
    file
}

fuzz_target!(|data: &[u8]| {
    let _ = CompactReader::new(data, "input").map(|mut reader| reader.by_ref().for_each(drop));
    let file = file(data);
    let Ok(mut reader) = CompactReader::new(&file[..], "input") else { return };
    let mut records = Vec::new();
    for record in reader.by_ref() {
        match record {
            Ok(record) => records.push(record),
            Err(error) => assert!(!error.to_string().contains(|c: char| c.is_control())),
        }
    }
    let comms: Comms = reader.comms().clone();
    let mut writer = CompactWriter::new(Cursor::new(Vec::new()), reader.initial()).unwrap();
    for record in &records {
        writer.push(*record, &comms).unwrap();
    }
    let again = writer.finish(&comms, reader.quality()).unwrap().into_inner();
    let mut again = CompactReader::new(&again[..], "again").unwrap();
    for record in &records {
        let found = again.next().unwrap().unwrap();
        assert_eq!(comms.name(record.comm), again.comms().name(found.comm));
        assert_eq!((record.time, record.pid, record.cpu, record.kind), (found.time, found.pid, found.cpu, found.kind));
    }
    assert!(again.next().is_none());
    assert_eq!(reader.initial(), again.initial());
});
