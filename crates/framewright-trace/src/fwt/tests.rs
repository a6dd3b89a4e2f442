use std::fmt::Write;
use std::io::Cursor;

use framewright::units::{CpuId, Order, Pfn};

use super::layout::{BLOCK_LIMIT, BLOCK_RECORDS, EVENTS, HEADER, pack, unpack};
use super::varint::{VarintReader, put};
use super::*;
use crate::error::TraceError;
use crate::proc::KPageFlags;
use crate::record::{Comms, Kind, Quality, Record};
use crate::state::{InitialState, StateFile};

fn free(i: u64) -> Record {
    let kind = Kind::Free { pfn: Pfn(i * 7 % 1000), order: Order(0) };
    Record { time: i * 1000, pid: 1, comm: Comms::new().intern("fio"), cpu: CpuId(0), kind }
}

/// A trace with a state and `records` events.
fn sample(records: u64) -> Vec<u8> {
    let mut state = InitialState::default();
    state.set(StateFile::VmStat, b"nr_free_pages 7\n".to_vec(), "vmstat").unwrap();
    state.kpageflags = Some(KPageFlags::parse(&[7; 80][..], "kpageflags").unwrap());
    let mut comms = Comms::new();
    comms.intern("fio");
    let mut writer = CompactWriter::new(Cursor::new(Vec::new()), &state).unwrap();
    (0..records).for_each(|i| writer.push(free(i), &comms).unwrap());
    writer.finish(&comms, &Quality::default()).unwrap().into_inner()
}

fn error(bytes: &[u8]) -> Option<TraceError> {
    match CompactReader::new(bytes, "t.fwt") {
        Ok(mut reader) => {
            let error = reader.find_map(|record| record.err());
            assert!(reader.next().is_none(), "goes on after an error");
            error
        }
        Err(error) => Some(error),
    }
}

#[test]
fn blocks_follow_each_other() {
    let records = BLOCK_RECORDS as u64 * 2 + 5;
    let bytes = sample(records);
    let mut reader = CompactReader::new(&bytes[..], "t.fwt").unwrap();
    assert_eq!(reader.records(), records);
    for i in 0..records {
        let found = reader.next().unwrap().unwrap();
        assert_eq!(Record { comm: found.comm, ..free(i) }, found);
        assert_eq!(reader.comms().name(found.comm), "fio");
    }
    assert!(reader.next().is_none());
    assert_eq!(reader.quality().records(), records);
    assert_eq!(reader.initial().kpageflags.as_ref().unwrap().end_pfn(), Pfn(10));
    assert_eq!(reader.initial().text(StateFile::VmStat), Some("nr_free_pages 7\n"));
}

#[test]
fn every_cut_is_noticed() {
    let bytes = sample(3);
    for cut in 0..bytes.len() {
        assert!(error(&bytes[..cut]).is_some(), "{cut}");
    }
    assert!(error(&bytes).is_none());
}

/// `bytes` with the checksum of the section at `at` made right.
fn mended(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes[at..at + 8]);
    sum.update(&bytes[at + 12..at + 12 + length]);
    bytes[at + 8..at + 12].copy_from_slice(&sum.finalize().to_le_bytes());
    bytes
}

fn with_header(mut bytes: Vec<u8>, at: usize, field: &[u8]) -> Vec<u8> {
    bytes[at..at + field.len()].copy_from_slice(field);
    let sum = crc32fast::hash(&bytes[..24]);
    bytes[24..28].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// A whole file with one section of events, whose content is `content`.
fn of_content(content: &[u8]) -> Vec<u8> {
    let mut bytes = sample(0)[..HEADER].to_vec();
    let at = bytes.len();
    bytes.extend_from_slice(&EVENTS);
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(content);
    mended(bytes, at)
}

fn columns(records: u64, columns: &[&[u8]]) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, records);
    columns.iter().for_each(|column| pack(column, &mut content).unwrap());
    content
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn damage_is_named() {
    let bytes = sample(3);
    let flip = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        bytes
    };
    let cut = |len: usize| bytes[..len].to_vec();
    let first = HEADER;
    let renamed = |tag: &[u8; 4]| {
        let mut bytes = bytes.clone();
        bytes[first..first + 4].copy_from_slice(tag);
        mended(bytes, first)
    };
    let mut long = bytes.clone();
    long[first + 4..first + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    // One CPU, one task of an empty name, one shape (a free of order 0), units of 1.
    let dictionary = &[1, 1, 0, 1, 1, 0, 1, 1, 0][..];
    let mut large_window = columns(1, &[dictionary]);
    large_window[3] = 0x11;
    let mut errors = String::new();
    for bytes in [
        b"".to_vec(),
        b"trace.txt".to_vec(),
        b"             fio-225     [003] d..3.    19.396058: mm_page_free".to_vec(),
        cut(20),
        cut(HEADER),
        cut(HEADER + 14),
        flip(8),
        flip(16),
        flip(HEADER),
        flip(HEADER + 15),
        with_header(bytes.clone(), 16, &u64::MAX.to_le_bytes()),
        with_header(bytes.clone(), 16, &4_u64.to_le_bytes()),
        with_header(bytes.clone(), 12, &9_u32.to_le_bytes()),
        [&bytes[..], b"x"].concat(),
        renamed(b"what"),
        renamed(b"zone"),
        long,
        of_content(&[]),
        of_content(&columns(BLOCK_LIMIT + 1, &[])),
        of_content(&columns(1, &[dictionary])),
        of_content(&large_window),
        of_content(&columns(1, &[dictionary, &[0], &[0], &[1], &[2], &[14], &[], &[]])),
        of_content(&columns(1, &[&[1, 2, 0], &[0], &[0], &[1], &[2], &[14], &[]])),
        of_content(&columns(1, &[&dictionary[..8], &[0], &[0], &[1], &[2], &[14], &[]])),
        of_content(&columns(1, &[dictionary, &[1], &[0], &[1], &[2], &[14], &[]])),
        of_content(&columns(1, &[dictionary, &[0], &[1], &[1], &[2], &[14], &[]])),
        of_content(&columns(1, &[dictionary, &[0], &[0], &[0], &[2], &[14], &[]])),
        of_content(&columns(1, &[dictionary, &[0], &[0], &[2], &[2], &[14], &[]])),
        of_content(&columns(1, &[dictionary, &[0], &[0], &[1], &[2], &[], &[]])),
        of_content(&columns(1, &[dictionary, &[0], &[0], &[1], &[2], &[14], &[0]])),
        of_content(&columns(1, &[dictionary, &[0; 11], &[0], &[1], &[2], &[14], &[]])),
        of_content(&columns(1, &[dictionary, &[0], &[0], &[1], &[2], &[14], &[]])),
    ] {
        match error(&bytes) {
            Some(error) => writeln!(errors, "{error}").unwrap(),
            None => errors.push_str("NO ERROR\n"),
        }
    }
    insta::assert_snapshot!(errors, @"
    t.fwt: ends in the middle of the header
    t.fwt: is no compact trace: it does not start with the bytes of one
    t.fwt: is no compact trace: it does not start with the bytes of one
    t.fwt: ends in the middle of the header
    t.fwt: ends in the middle of the list of sections
    t.fwt: ends in the middle of section `vmst`
    t.fwt: has version 0 of the format; this program reads version 1
    t.fwt: the header is damaged: its checksum is wrong
    t.fwt: section `wmst` is damaged: its checksum is wrong
    t.fwt: section `vmst` is damaged: its checksum is wrong
    t.fwt: was not finished by whoever wrote it
    t.fwt: has 3 events, but the header says 4
    t.fwt: has 1 blocks, but the header says 9
    t.fwt: what follows the last section should not be there
    t.fwt: section `what` should not be there
    t.fwt (zoneinfo):1: expected `Node N, zone NAME`, found `nr_free_pages 7`
    t.fwt: a section claims a length of 4294967295, above 134217728
    t.fwt: a block has another length than it claims
    t.fwt: a block claims a length of 1048577, above 1048576
    t.fwt: column shapes has another length than it claims
    t.fwt: the dictionary cannot be decompressed
    t.fwt: a block has another length than it claims
    t.fwt: the dictionary claims a length of 2, above 1
    t.fwt: the dictionary has another length than it claims
    t.fwt: column shapes has a value that cannot be
    t.fwt: column CPUs has a value that cannot be
    t.fwt: column tasks has a value that cannot be
    t.fwt: column tasks has a value that cannot be
    t.fwt: column frames has another length than it claims
    t.fwt: column sources has another length than it claims
    t.fwt: column shapes claims a length of 11, above 10
    t.fwt: ends in the middle of the list of sections
    ");
}

#[test]
fn a_bomb_is_not_unpacked() {
    // 16 MiB of zeros claim to be one byte: the output is cut off after it.
    let mut packed = Vec::new();
    pack(&vec![0; 16 << 20], &mut packed).unwrap();
    let mut lying = Vec::new();
    put(&mut lying, 1);
    lying.extend_from_slice(&packed[4..]);
    assert_eq!(unpack("t", &mut VarintReader::new(&lying), 100), Err(CompactFault::Mismatch("t")));
    let limit = CompactFault::Length { what: "t", value: 16 << 20, limit: 100 };
    assert_eq!(unpack("t", &mut VarintReader::new(&packed), 100), Err(limit));
}
