//! Round trips and whole files.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use framewright::event::Event;
use framewright::request::Gfp;
use framewright::units::{CpuId, MigrateType, Order, Pfn};
use proptest::prelude::*;

use super::fwt::{CompactReader, CompactWriter};
use super::record::{Comms, Kind, Quality, Record};
use super::state::InitialState;
use super::text::{TextOptions, TextReader};
use super::{Trace, convert};

/// A record and its task's name, as a trace of Linux 6 can have them.
fn record() -> impl Strategy<Value = (Record, String)> {
    let pfn = || prop_oneof![4 => 1..1_u64 << 20, 1 => 1..1_u64 << 30].prop_map(Pfn);
    let order = || (0..=18_u8).prop_map(Order);
    let mobility = || (0..6_usize).prop_map(|i| MigrateType::ALL[i]);
    let requested = prop_oneof![Just(0_u32), Just(0x08), Just(0x10), Just(0x14_0cca), 0..1_u32 << 24].prop_map(Gfp);
    let alloc = (prop::option::of(pfn()), order(), requested).prop_map(|(pfn, order, gfp)| Kind::Alloc {
        pfn,
        order,
        migratetype: gfp.migratetype(),
        gfp,
    });
    let ext_frag = (pfn(), [order(), order(), order()], [mobility(), mobility()], any::<bool>(), any::<bool>());
    let ext_frag = ext_frag.prop_map(|(pfn, orders, mobilities, fragmenting, change_ownership)| Kind::ExtFrag {
        pfn,
        alloc_order: orders[0],
        fallback_order: orders[1],
        // 0 is how a tool says that it does not know.
        pageblock_order: orders[2].max(Order(1)),
        alloc_migratetype: mobilities[0],
        fallback_migratetype: mobilities[1],
        fragmenting,
        change_ownership,
    });
    let zone_locked = (prop::option::of(pfn()), order(), mobility(), any::<bool>());
    let kind = prop_oneof![
        8 => alloc,
        8 => (pfn(), order()).prop_map(|(pfn, order)| Kind::Free { pfn, order }),
        1 => pfn().prop_map(|pfn| Kind::FreeBatched { pfn }),
        2 => (pfn(), pfn()).prop_map(|(old, new)| Kind::Move { old, new }),
        1 => ext_frag,
        1 => (pfn(), order(), mobility())
            .prop_map(|(pfn, order, migratetype)| Kind::PcpuDrain { pfn, order, migratetype }),
        1 => zone_locked.prop_map(|(pfn, order, migratetype, percpu_refill)| Kind::AllocZoneLocked {
            pfn,
            order,
            migratetype,
            percpu_refill,
        }),
        1 => order().prop_map(|order| Kind::ReclaimBegin { order }),
        1 => any::<u64>().prop_map(|reclaimed| Kind::ReclaimEnd { reclaimed }),
    ];
    let time = prop_oneof![8 => 0..1_000_000_u64, 1 => 0..1_u64 << 62];
    let comm = prop_oneof![3 => Just("fio".to_owned()), 1 => "[!-~]([ -~]{0,13}[!-~])?"];
    (kind, time, 0..4_u32 << 20, 0..5_u16, comm).prop_map(|(kind, time, pid, cpu, name)| {
        let comm = super::record::CommId::default();
        (Record { time, pid, comm, cpu: CpuId(cpu), kind }, name)
    })
}

/// A record as ftrace prints it.
fn line(record: &Record, name: &str) -> String {
    let event = match record.kind {
        Kind::Alloc { pfn, order, migratetype, gfp } => Event::PageAlloc { pfn, order, migratetype, gfp }.to_string(),
        Kind::Free { pfn, order } => Event::PageFree { pfn, order }.to_string(),
        Kind::FreeBatched { pfn } => format!("mm_page_free_batched: page=00ab pfn={pfn} order=0"),
        Kind::Move { old, new } => {
            let [old, new] = [old, new].map(|pfn| 0xffd4_0000_0000_0000 + 64 * pfn.0);
            format!("page_migrate: (folio_migrate_flags+0x0/0x180) new={new:#x} old={old:#x}")
        }
        Kind::ExtFrag {
            pfn,
            alloc_order,
            fallback_order,
            pageblock_order,
            alloc_migratetype,
            fallback_migratetype,
            fragmenting,
            change_ownership,
        } => format!(
            "mm_page_alloc_extfrag: page=00ab pfn={pfn} alloc_order={alloc_order} fallback_order={fallback_order} \
             pageblock_order={pageblock_order} alloc_migratetype={} fallback_migratetype={} fragmenting={} \
             change_ownership={}",
            alloc_migratetype.index(),
            fallback_migratetype.index(),
            u8::from(fragmenting),
            u8::from(change_ownership)
        ),
        Kind::PcpuDrain { pfn, order, migratetype } => Event::PcpuDrain { pfn, order, migratetype }.to_string(),
        Kind::AllocZoneLocked { pfn, order, migratetype, percpu_refill } => format!(
            "mm_page_alloc_zone_locked: {} order={order} migratetype={} percpu_refill={}",
            pfn.map_or("page=(nil) pfn=0x0".to_owned(), |pfn| format!("page=00ab pfn={pfn}")),
            migratetype.index(),
            u8::from(percpu_refill)
        ),
        Kind::ReclaimBegin { order } => {
            format!("mm_vmscan_direct_reclaim_begin: order={order} may_writepage=1 gfp_flags=GFP_KERNEL")
        }
        Kind::ReclaimEnd { reclaimed } => format!("mm_vmscan_direct_reclaim_end: nr_reclaimed={reclaimed}"),
    };
    let (seconds, nanos) = (record.time / 1_000_000_000, record.time % 1_000_000_000);
    format!("{name:>16}-{:<7} [{:03}] d..1. {seconds:5}.{nanos:09}: {event}\n", record.pid, record.cpu.0)
}

fn from_text(text: &str) -> (Vec<Record>, Comms, Quality) {
    let options = TextOptions { end_pfn: Some(Pfn(1 << 30)), ..TextOptions::default() };
    let mut reader = TextReader::new(text.as_bytes(), "t", &options);
    let records = reader.by_ref().map(|record| record.unwrap_or_else(|error| panic!("{error}\n{text}"))).collect();
    (records, reader.comms().clone(), reader.quality().clone())
}

fn to_compact(records: &[Record], comms: &Comms, quality: &Quality) -> Vec<u8> {
    let mut writer = CompactWriter::new(Cursor::new(Vec::new()), &InitialState::default()).unwrap();
    records.iter().for_each(|record| writer.push(*record, comms).unwrap());
    writer.finish(comms, quality).unwrap().into_inner()
}

proptest! {
    #[test]
    fn text_becomes_compact_and_comes_back(events in prop::collection::vec(record(), 0..200)) {
        let text: String = events.iter().map(|(record, name)| line(record, name)).collect();
        let (records, comms, quality) = from_text(&text);
        prop_assert_eq!(records.len(), events.len());
        for (found, (expected, name)) in records.iter().zip(&events) {
            prop_assert_eq!(&Record { comm: found.comm, ..*expected }, found);
            prop_assert_eq!(comms.name(found.comm), name);
        }
        let bytes = to_compact(&records, &comms, &quality);
        let mut reader = CompactReader::new(&bytes[..], "t.fwt").unwrap();
        for (expected, name) in &events {
            let found = reader.next().unwrap().unwrap();
            prop_assert_eq!(Record { comm: found.comm, ..*expected }, found);
            prop_assert_eq!(reader.comms().name(found.comm), name);
        }
        prop_assert!(reader.next().is_none());
        prop_assert_eq!(reader.quality(), &quality);
    }

    #[test]
    fn any_text_is_survived(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let head = b"fio-225 [000] ..... 19.396058: mm_page_alloc: ";
        for text in [&text[..], &[&head[..], &text].concat()] {
            TextReader::new(text, "t", &TextOptions { lenient: true, ..TextOptions::default() }).for_each(drop);
        }
    }

    #[test]
    fn changed_bytes_are_noticed(events in prop::collection::vec(record(), 1..20), at: prop::sample::Index, bit in 0..8_u32) {
        let text: String = events.iter().map(|(record, name)| line(record, name)).collect();
        let (records, comms, quality) = from_text(&text);
        let mut bytes = to_compact(&records, &comms, &quality);
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        let is_noticed = match CompactReader::new(&bytes[..], "t.fwt") {
            Ok(mut reader) => reader.any(|record| record.is_err()),
            Err(_) => true,
        };
        prop_assert!(is_noticed, "bit {} of byte {}", bit, at);
    }
}

const TEXT: &str = "\
             fio-225     [003] d..3.    19.396058: mm_page_free: page=00000000ca3d8483 pfn=0x105916 order=1
             fio-225     [003] d..3.    19.396059: sched_switch: prev_comm=fio
CPU:3 [LOST 12 EVENTS]
             fio-226     [001] d..3.    19.396060: mm_page_alloc: page=0a pfn=0x5 order=1 migratetype=0 gfp_flags=none
";

fn write(directory: &Path, name: &str, bytes: &[u8]) {
    fs::write(directory.join(name), bytes).unwrap();
}

/// An error's text with the directory's name left out.
fn message(directory: &Path, result: super::error::Result<impl Sized>) -> String {
    result.err().map_or("no error".into(), |error| error.to_string().replace(directory.to_str().unwrap(), "DIR"))
}

#[test]
fn directories_files_and_compressed_files_are_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let missing = path.join("none");
    assert_eq!(message(path, Trace::open(&missing)), "DIR/none: No such file or directory (os error 2)");
    insta::assert_snapshot!(message(path, Trace::open(path)), @"DIR: there is no *.fwt and no trace.txt, trace.txt.zst or trace.txt.gz in this directory");
    write(path, "trace.txt", TEXT.as_bytes());
    write(path, "vmstat", b"nr_free_pages 7\n");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"Node 0, zone DMA 1 2 3\n").unwrap();
    write(path, "buddyinfo.txt.gz", &gzip.finish().unwrap());
    write(path, "kpageflags", &[0; 80]);

    let mut trace = Trace::open(path).unwrap();
    assert_eq!(trace.by_ref().filter(Result::is_ok).count(), 2);
    let state = trace.initial();
    assert_eq!(state.vmstat.as_ref().unwrap().get("nr_free_pages"), Some(7));
    assert_eq!(state.buddyinfo.as_ref().unwrap().max_order(), Order(2));
    assert_eq!(state.kpageflags.as_ref().unwrap().end_pfn(), Pfn(10));
    assert!(state.zoneinfo.is_none() && state.pagetypeinfo.is_none() && !state.is_empty());
    assert!(Trace::open(&path.join("trace.txt")).unwrap().initial().is_empty());

    write(path, "other.fwt", b"");
    insta::assert_snapshot!(message(path, Trace::open(path)), @"DIR: there is more than one trace in this directory: other.fwt, trace.txt; name the one to read");
    insta::assert_snapshot!(message(path, Trace::open(&path.join("other.fwt"))), @"DIR/other.fwt: ends in the middle of the header");
    fs::remove_file(path.join("other.fwt")).unwrap();
    write(path, "vmstat", b"nr_free_pages seven\n");
    insta::assert_snapshot!(message(path, Trace::open(path)), @"DIR/vmstat:1: expected a number, found `seven`");
}

#[test]
fn converted_traces_hold_everything() {
    let directory = tempfile::tempdir().unwrap();
    let (path, output) = (directory.path(), directory.path().join("o.fwt"));
    write(path, "trace.txt", TEXT.as_bytes());
    write(path, "vmstat.txt", b"nr_free_pages 7\n");
    let flags: Vec<u8> = (0..1000_u64).flat_map(|pfn| (pfn / 3).to_le_bytes()).collect();
    write(path, "kpageflags", &flags);
    let quality = convert(path, &output, &TextOptions::default()).unwrap();
    assert_eq!((quality.records(), quality.lost_events, quality.unknown_events()), (2, 12, 1));

    let (mut text, mut compact) = (Trace::open(&path.join("trace.txt")).unwrap(), Trace::open(&output).unwrap());
    assert_eq!(compact.initial(), &InitialState::read(path).unwrap());
    let found: Vec<_> = compact.by_ref().map(Result::unwrap).collect();
    assert_eq!(found, text.by_ref().map(Result::unwrap).collect::<Vec<_>>());
    assert_eq!(compact.quality(), text.quality());
    assert_eq!(compact.comms().name(found[1].comm), "fio");

    // A compact trace converts too, and an unreadable one leaves no file.
    let again = path.join("again.fwt");
    convert(&output, &again, &TextOptions::default()).unwrap();
    assert_eq!(fs::read(&output).unwrap(), fs::read(&again).unwrap());
    write(path, "trace.txt", &TEXT.as_bytes()[..TEXT.len() - 1]);
    let before = fs::read_dir(path).unwrap().count();
    let error = convert(&path.join("trace.txt"), &path.join("bad.fwt"), &TextOptions::default());
    insta::assert_snapshot!(message(path, error), @"DIR/trace.txt:4: the file ends in the middle of this line");
    assert_eq!(fs::read_dir(path).unwrap().count(), before);
}
