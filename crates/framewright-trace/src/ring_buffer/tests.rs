//! Pages that are written here or random, and the descriptions of a Linux 6.18.

use std::io::Cursor;

use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp};
use framewright::units::{CpuId, MigrateType, Order, Pfn};
use proptest::prelude::*;

use super::print_fmt::constant;
use super::*;
use crate::record::{Comms, Kind, Quality, Record};

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const PAGE: usize = 4096;

/// A `format` file with these fields (type and name, offset, size, signed) after the common ones.
fn format(name: &str, id: u32, fields: &[(&str, usize, usize, u8)], print: &str) -> Format {
    let common = [
        ("unsigned short common_type", 0, 2, 0),
        ("unsigned char common_flags", 2, 1, 0),
        ("unsigned char common_preempt_count", 3, 1, 0),
        ("int common_pid", 4, 4, 1),
    ];
    let lines = common.iter().chain(fields).map(|(declaration, offset, size, signed)| {
        format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    });
    let text = format!("name: {name}\nID: {id}\nformat:\n{}\nprint fmt: {print}\n", lines.collect::<String>());
    Format::parse(&text).unwrap()
}

/// What a Linux 6.18 prints of flags, less most of them.
const PRINT: &str = r#""page=%p gfp_flags=%s", REC->pfn, (REC->gfp_flags) ? __print_flags(REC->gfp_flags, "|", { 0x100cca, "GFP_HIGHUSER_MOVABLE"}, {( unsigned long)(((( gfp_t)(((((1UL))) << (10))|((((1UL))) << (11)))) | (( gfp_t)((((1UL))) << (6))) | (( gfp_t)((((1UL))) << (7))))), "GFP_KERNEL"}, {( unsigned long)(( gfp_t)((((1UL))) << (5))), "__GFP_HIGH"}, {( unsigned long)(( gfp_t)((((1UL))) << (12))), "__GFP_ZERO"}, {( unsigned long)(( gfp_t)((((1UL))) << (24))), "__GFP_NO_OBJ_EXT"}, {( unsigned long)(( gfp_t)((((1UL))) << (23))), "__GFP_OF_TOMORROW"}, { 0, ((void *)0) } ) : "none""#;

fn formats() -> Vec<Format> {
    let pfn = ("unsigned long pfn", 8, 8, 0);
    let order = ("unsigned int order", 16, 4, 0);
    let alloc = [pfn, order, ("unsigned long gfp_flags", 24, 8, 0), ("int migratetype", 32, 4, 1)];
    let ext_frag = [
        pfn,
        ("int alloc_order", 16, 4, 1),
        ("int fallback_order", 20, 4, 1),
        ("int alloc_migratetype", 24, 4, 1),
        ("int fallback_migratetype", 28, 4, 1),
        ("int change_ownership", 32, 4, 1),
    ];
    let inner = [pfn, order, ("int migratetype", 20, 4, 1)];
    let refill = [inner[0], inner[1], inner[2], ("int percpu_refill", 24, 4, 1)];
    let moved =
        [("unsigned long __probe_ip", 8, 8, 0), ("u64 new", 16, 8, 0), ("u64 old", 24, 8, 0), ("u64 base", 32, 8, 0)];
    let begin = [("int order", 8, 4, 1), ("unsigned long gfp_flags", 16, 8, 0)];
    let end = [("unsigned long nr_reclaimed", 8, 8, 0)];
    let newtask = [("pid_t pid", 8, 4, 1), ("char comm[16]", 12, 16, 0), ("u64 clone_flags", 32, 8, 0)];
    let rename = [("char oldcomm[16]", 8, 16, 0), ("char newcomm[16]", 24, 16, 0)];
    vec![
        format("mm_page_alloc", 653, &alloc, PRINT),
        format("mm_page_free", 655, &[pfn, order], ""),
        format("mm_page_free_batched", 654, &[pfn], ""),
        format("mm_page_alloc_extfrag", 650, &ext_frag, ""),
        format("mm_page_pcpu_drain", 651, &inner, ""),
        format("mm_page_alloc_zone_locked", 652, &refill, ""),
        format("page_migrate", 1900, &moved, ""),
        format("task_newtask", 205, &newtask, ""),
        format("task_rename", 204, &rename, ""),
        format("mm_vmscan_direct_reclaim_begin", 501, &begin, ""),
        format("mm_vmscan_direct_reclaim_end", 502, &end, ""),
    ]
}

/// An event of kind `id` by `pid`, with these fields after the common ones.
///
/// A field has a value and bytes, and is aligned to its size.
fn event(id: u16, pid: u32, fields: &[(u64, usize)]) -> Vec<u8> {
    let mut bytes = [&id.to_le_bytes()[..], &[0, 0], &pid.to_le_bytes()].concat();
    for &(value, size) in fields {
        bytes.resize(bytes.len().next_multiple_of(size), 0);
        bytes.extend(&value.to_le_bytes()[..size]);
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The event of a record, by the descriptions above.
fn encoded(record: &Record) -> Vec<u8> {
    const BASE: u64 = 0xffff_ea00_0123_0000;
    let (order, mobility) = (|order: Order| (u64::from(order.0), 4), |mobility: MigrateType| (mobility as u64, 4));
    let frame = |pfn: Option<Pfn>| (pfn.map_or(u64::MAX, |pfn| pfn.0), 8);
    let (id, fields) = match record.kind {
        Kind::Alloc { pfn, order: o, migratetype, gfp } => {
            (653, vec![frame(pfn), order(o), (u64::from(gfp.0), 8), mobility(migratetype)])
        }
        Kind::Free { pfn, order: o } => (655, vec![frame(Some(pfn)), order(o)]),
        Kind::FreeBatched { pfn } => (654, vec![frame(Some(pfn))]),
        Kind::Move { old, new } => (1900, vec![(1, 8), (BASE + 64 * new.0, 8), (BASE + 64 * old.0, 8), (BASE, 8)]),
        Kind::ExtFrag { pfn, alloc_order, fallback_order, alloc_migratetype, fallback_migratetype, .. } => {
            let (wanted, found) = (mobility(alloc_migratetype), mobility(fallback_migratetype));
            (650, vec![frame(Some(pfn)), order(alloc_order), order(fallback_order), wanted, found, (1, 4)])
        }
        Kind::PcpuDrain { pfn, order: o, migratetype } => {
            (651, vec![frame(Some(pfn)), order(o), mobility(migratetype)])
        }
        Kind::AllocZoneLocked { pfn, order: o, migratetype, percpu_refill } => {
            (652, vec![frame(pfn), order(o), mobility(migratetype), (percpu_refill.into(), 4)])
        }
        Kind::ReclaimBegin { order: o } => (501, vec![order(o), (0, 8)]),
        Kind::ReclaimEnd { reclaimed } => (502, vec![(reclaimed, 8)]),
    };
    event(id, record.pid, &fields)
}

/// A buffer's page while it is filled.
struct Filling {
    time: u64,
    now: u64,
    data: Vec<u8>,
}

impl Filling {
    fn new(time: u64) -> Filling {
        Filling { time, now: time, data: Vec::new() }
    }

    fn word(&mut self, word: u32) -> &mut Filling {
        self.data.extend(word.to_le_bytes());
        self
    }

    /// The event with a header of its own, and time before it where 27 bits are too few.
    fn event(&mut self, time: u64, event: &[u8]) -> &mut Filling {
        let delta = time - self.now;
        self.now = time;
        if delta >> 27 != 0 {
            self.word(30 | (delta as u32 & ((1 << 27) - 1)) << 5).word((delta >> 27) as u32);
        }
        let delta = if delta >> 27 == 0 { (delta as u32) << 5 } else { 0 };
        if event.len() <= 112 {
            self.word(delta | (event.len() as u32 / 4));
        } else {
            self.word(delta).word(event.len() as u32 + 4);
        }
        self.data.extend(event);
        self
    }

    fn page(&self, bits: u64, lost: &[u8]) -> Vec<u8> {
        let mut page = [&self.time.to_le_bytes()[..], &(self.data.len() as u64 | bits).to_le_bytes()].concat();
        page.extend(&self.data);
        page.extend(lost);
        page.resize(PAGE, 0);
        page
    }
}

fn reader(buffers: Vec<Vec<u8>>) -> RawReader<Cursor<Vec<u8>>> {
    let decoder = Decoder::new(&formats(), Mobilities::default()).unwrap();
    let sources = buffers.into_iter().enumerate();
    let sources = sources.map(|(cpu, bytes)| (CpuId(cpu as u16), format!("cpu{cpu}"), Cursor::new(bytes))).collect();
    RawReader::new(PageLayout::parse(HEADER_PAGE).unwrap(), PAGE, decoder, sources)
}

#[test]
fn every_kind_of_entry_is_passed() {
    let layout = PageLayout::parse(HEADER_PAGE).unwrap();
    assert_eq!(layout.page_size(), PAGE);
    let mut filling = Filling::new(1 << 60 | 1000);
    filling.event((1 << 60) + 1005, b"abcd").event((1 << 60) + 1005, &[7; 200]);
    // What was discarded, of 8 bytes with their length; more time; the time itself; an event; the end.
    filling.word(29 | 3 << 5).word(12).word(0).word(0);
    filling.word(30 | 2 << 5).word(1).word(31 | 4 << 5).word(2);
    filling.word(1 | 6 << 5).word(u32::from_le_bytes(*b"efgh")).word(29).word(u32::MAX);
    let page = filling.page(0, &[]);
    let events: Vec<_> = layout.open(&page).unwrap().map(Result::unwrap).collect();
    let late = (1 << 60) + (2 << 27) + 4 + 6;
    assert_eq!(events, [((1 << 60) + 1005, &b"abcd"[..]), ((1 << 60) + 1005, &[7; 200]), (late, b"efgh")]);
}

#[test]
fn losses_are_told() {
    let layout = PageLayout::parse(HEADER_PAGE).unwrap();
    let mut filling = Filling::new(5);
    filling.event(6, b"abcd");
    let table = [
        (0, None),
        (1 << 31, Some(Lost(None))),
        (3 << 30, Some(Lost(Some(513)))),
        // A number without a loss is none.
        (1 << 30, None),
    ];
    for (bits, lost) in table {
        let page = filling.page(bits, &[1, 2, 0, 0, 0, 0, 0, 0]);
        let mut page = layout.open(&page).unwrap();
        assert_eq!((page.lost(), page.by_ref().count()), (lost, 1), "{bits:#x}");
    }
}

#[test]
fn bad_pages_are_refused() {
    let layout = PageLayout::parse(HEADER_PAGE).unwrap();
    let fault = |page: &[u8]| match layout.open(page) {
        Ok(mut page) => {
            let fault = page.find_map(Result::err).unwrap();
            assert!(page.next().is_none());
            fault
        }
        Err(fault) => fault,
    };
    let with = |word: u32| Filling::new(0).word(word).page(0, &[]);
    let faults = [
        fault(&[0; 15]),
        fault(&Filling::new(0).page(4081, &[])),
        fault(&with(2)),
        fault(&with(0)),
        fault(&with(30)),
        fault(&Filling::new(0).word(0).word(u32::MAX).page(0, &[])),
    ];
    insta::assert_snapshot!(faults.map(|fault| fault.to_string()).join("\n"), @r"
    the page has 15 bytes, but needs 16
    the page has 4096 bytes, but needs 4097
    an event at byte 0 of the page's data goes beyond its end
    an event at byte 0 of the page's data goes beyond its end
    an event at byte 0 of the page's data goes beyond its end
    an event at byte 0 of the page's data goes beyond its end
    ");
}

#[test]
fn descriptions_are_read_and_checked() {
    let formats = formats();
    assert_eq!((formats[0].name.as_str(), formats[0].id), ("mm_page_alloc", 653));
    let last = formats[8].fields.last().unwrap();
    assert_eq!((last.name.as_str(), last.offset, last.size, last.signed), ("newcomm", 24, 16, false));
    let negative = Field { name: "x".into(), offset: 1, size: 2, signed: true };
    assert_eq!((negative.number(&[0, 0xfe, 0xff]), negative.number(&[0, 1])), (Some(-2_i64 as u64), None));
    let decoder = |formats: &[Format]| Decoder::new(formats, Mobilities::default()).map(drop);
    let other = format("sched_switch", 1, &[], "");
    let text = format("mm_page_free", 2, &[("char pfn[16]", 8, 16, 0), ("int order", 24, 4, 1)], "");
    let faults = [
        Format::parse("ID: 3").map(drop),
        Format::parse("name: x\nID: \x1b").map(drop),
        Format::parse("name: x\nID: 3\n field:int y; offset:z; size:4;").map(drop),
        PageLayout::parse("field: u64 timestamp; offset:0; size:8; signed:0;").map(drop),
        decoder(&[]),
        decoder(&[other]),
        decoder(&[format("mm_page_free", 2, &[("long pfn", 8, 8, 0)], "")]),
        decoder(&[text]),
        Mobilities::parse("Page block order: 9\n").map(drop),
        Mobilities::parse("Node 0, zone DMA, type Sticky 1 2").map(drop),
    ];
    insta::assert_snapshot!(faults.map(|fault| fault.unwrap_err().to_string()).join("\n"), @r"
    the description of an event has no name
    expected a number, found `\x1b`
    expected a number, found `z`
    the description of header_page has no data
    the description of the trace has no event
    events called `sched_switch` are not read
    the description of mm_page_free has no order
    field pfn has 16 bytes, which is no number
    the description of pagetypeinfo has no type
    expected a mobility, found `Sticky`
    ");
}

/// The probe's description and an event, of a Linux 6.1 whose page descriptors start at a random place.
#[test]
fn page_moves_are_counted_from_where_descriptors_start() {
    let text = "name: page_migrate\nID: 1392\nformat:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n
\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;
\tfield:u64 new;\toffset:16;\tsize:8;\tsigned:0;
\tfield:u64 old;\toffset:24;\tsize:8;\tsigned:0;
\tfield:u64 base;\toffset:32;\tsize:8;\tsigned:0;\n
print fmt: \"(%lx) new=0x%Lx old=0x%Lx base=0x%Lx\", REC->__probe_ip, REC->new, REC->old, REC->base\n";
    let mut decoder = Decoder::new(&[Format::parse(text).unwrap()], Mobilities::default()).unwrap();
    let values = [0xffff_ffff_99f1_bb00, 0xffff_fcef_c415_efc0, 0xffff_fcef_c406_07c0, 0xffff_fcef_c000_0000];
    let moved = event(1392, 98, &values.map(|value| (value, 8)));
    // The zone has frames 0x10_0000 to 0x13_0000.
    let kind = Kind::Move { old: Pfn(0x10_181f), new: Pfn(0x10_57bf) };
    assert_eq!(decoder.decode(&moved).unwrap(), DecodedEvent { pid: 98, payload: Payload::Page(kind) });
}

#[test]
fn constants_are_those_of_c() {
    let nested = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let table = [
        ("0x10", Some(16)),
        ("( unsigned long)(( gfp_t)((((1UL))) << (10)))", Some(1 << 10)),
        ("((1UL << 3) | (1 << 4)) & ~(1UL << 3)", Some(1 << 4)),
        ("1 << 2 + 1", Some(8)),
        ("(21 - 12)", Some(9)),
        ("1 << 64", None),
        ("1 << ___GFP_IO_BIT", None),
        ("(1", None),
        ("1)", None),
        ("", None),
        (&nested, None),
    ];
    for (text, value) in table {
        assert_eq!(constant(text), value, "{}", &text[..text.len().min(60)]);
    }
}

#[test]
fn flags_have_the_names_that_the_kernel_prints() {
    let names = FlagNames::parse(PRINT);
    let kernel = 3 << 10 | 1 << 6 | 1 << 7;
    let zero = Gfp::parse("__GFP_ZERO").unwrap();
    let table = [
        (kernel, GFP_KERNEL),
        // Zeroing is another bit there than here, and one that we do not have is let go.
        (kernel | 1 << 12 | 1 << 23 | 1 << 24, GFP_KERNEL | zero),
        // Without a name: nothing that matters.
        (kernel | 1 << 20, GFP_KERNEL),
        (0, Gfp::NONE),
    ];
    for (bits, gfp) in table {
        assert_eq!(names.gfp(bits), gfp, "{bits:#x}");
    }
    assert!(FlagNames::parse("nothing").is_empty());
}

#[test]
fn mobilities_are_numbered_as_pagetypeinfo_lists_them() {
    let text = "Page block order: 10\nPages per block:  1024\n\nFree pages count per migrate type at order       0\n\
                Node    0, zone      DMA, type    Unmovable      0\nNode    0, zone      DMA, type      Movable      0\n\
                Node    0, zone      DMA, type      Isolate      0\nNode    0, zone    DMA32, type    Unmovable      0\n";
    let mobilities = Mobilities::parse(text).unwrap();
    assert_eq!(mobilities.by_number, [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Isolate]);
    assert_eq!(mobilities.pageblock_order, Order(10));
}

#[test]
fn cpus_are_merged_and_tasks_named() {
    let name = |id, pid, fields: &[(u64, usize)], name: &str| {
        let mut bytes = event(id, pid, fields);
        let mut text = name.as_bytes().to_vec();
        text.resize(16, 0);
        bytes.extend(text);
        bytes
    };
    let free = |pid, pfn| event(655, pid, &[(pfn, 8), (0, 4)]);
    let mut first = Filling::new(100);
    first.event(110, &free(7, 1)).event(130, &name(205, 7, &[(8, 4)], "child")).event(140, &free(8, 3));
    let mut second = Filling::new(100);
    // A rename holds the old name first.
    let mut renamed = name(204, 8, &[], "child");
    renamed.extend(b"cc1\0\0\0\0\0\0\0\0\0\0\0\0\0");
    second.event(120, &free(9, 2)).event(150, &renamed).event(160, &free(8, 4));
    let mut reader = reader(vec![first.page(1 << 31, &[]), second.page(0, &[])]);
    reader.name_task(7, b"make");
    let mut found = Vec::new();
    while let Some(record) = reader.next() {
        let Record { time, pid, comm, cpu, .. } = record.unwrap();
        found.push(format!("{time} {}-{pid} on {}", reader.comms().name(comm), cpu.0));
    }
    assert_eq!(found, ["110 make-7 on 0", "120 <...>-9 on 1", "140 child-8 on 0", "160 cc1-8 on 1"]);
    let Quality { lost_events, lost_reports, by_kind, .. } = *reader.quality();
    assert_eq!((lost_events, lost_reports, by_kind[1]), (0, 1, 4));
}

#[test]
fn faults_name_the_cpu_and_the_page() {
    let good = Filling::new(1).event(2, &event(655, 1, &[(1, 8), (0, 4)])).page(0, &[]);
    let bad = Filling::new(1).event(2, &event(655, 1, &[(1, 8), (99, 4)])).page(0, &[]);
    let short = Filling::new(1).event(2, &event(653, 1, &[(1, 8)])).page(0, &[]);
    let message = |bytes: Vec<u8>| {
        let mut reader = reader(vec![Vec::new(), bytes]);
        let error = reader.find_map(Result::err).unwrap().to_string();
        assert!(reader.next().is_none());
        error
    };
    let cut = [&good[..], &good[..100]].concat();
    let messages = [[good, bad].concat(), short, cut].map(message).join("\n");
    insta::assert_snapshot!(messages, @r"
    cpu1: page 2: an event has order 99, which cannot be
    cpu1: page 1: an event of 16 bytes has no gfp_flags
    cpu1: the file ends in the middle of page 2
    ");
}

/// The probe reads whatever its function is called with; the trace goes on.
#[test]
fn moves_between_what_are_no_frames_are_counted() {
    let moved = |new, old| event(1900, 1, &[(1, 8), (new, 8), (old, 8), (0xffff_ea00_0000_0000, 8)]);
    let (frame, odd, low) = (0xffff_ea00_0000_0040, 0xffff_ea00_0000_0041, 0x40);
    let mut filling = Filling::new(1);
    filling.event(2, &moved(frame, odd)).event(3, &moved(low, frame));
    (0..20).for_each(|_| {
        filling.event(4, &moved(odd, odd));
    });
    filling.event(5, &moved(frame, frame + 64));
    let mut reader = reader(vec![filling.page(0, &[])]);
    let kinds: Vec<Kind> = reader.by_ref().map(|record| record.unwrap().kind).collect();
    assert_eq!(kinds, [Kind::Move { old: Pfn(2), new: Pfn(1) }]);
    let Quality { malformed_lines, malformed, .. } = reader.quality();
    assert_eq!((*malformed_lines, malformed.len()), (22, Quality::MESSAGES));
    assert_eq!(malformed[0], "cpu0: an event has descriptor 18446719884453740609, which cannot be");
    assert!(!reader.quality().is_complete());
}

fn record() -> impl Strategy<Value = Record> {
    let pfn = || (0..1_u64 << 36).prop_map(Pfn);
    let order = || (0..=18_u8).prop_map(Order);
    let mobility = || (0..6_usize).prop_map(|i| MigrateType::ALL[i]);
    // Flags that have a name in the description above and the same bits here.
    let gfp = prop_oneof![Just(GFP_KERNEL), Just(Gfp::NONE), Just(GFP_HIGHUSER_MOVABLE), Just(Gfp(0x20))];
    let ext_frag = (pfn(), order(), order(), mobility(), mobility());
    let kind = prop_oneof![
        (prop::option::of(pfn()), order(), mobility(), gfp).prop_map(|(pfn, order, migratetype, gfp)| Kind::Alloc {
            pfn,
            order,
            migratetype,
            gfp
        }),
        (pfn(), order()).prop_map(|(pfn, order)| Kind::Free { pfn, order }),
        pfn().prop_map(|pfn| Kind::FreeBatched { pfn }),
        (pfn(), pfn()).prop_map(|(old, new)| Kind::Move { old, new }),
        ext_frag.prop_map(|(pfn, alloc_order, fallback_order, alloc_migratetype, fallback_migratetype)| {
            let (pageblock_order, fragmenting) = (Order(9), fallback_order < Order(9));
            Kind::ExtFrag {
                pfn,
                alloc_order,
                fallback_order,
                pageblock_order,
                alloc_migratetype,
                fallback_migratetype,
                fragmenting,
                change_ownership: true,
            }
        }),
        (pfn(), order(), mobility()).prop_map(|(pfn, order, migratetype)| Kind::PcpuDrain { pfn, order, migratetype }),
        (prop::option::of(pfn()), order(), mobility(), any::<bool>()).prop_map(
            |(pfn, order, migratetype, percpu_refill)| Kind::AllocZoneLocked { pfn, order, migratetype, percpu_refill }
        ),
        order().prop_map(|order| Kind::ReclaimBegin { order }),
        any::<u64>().prop_map(|reclaimed| Kind::ReclaimEnd { reclaimed }),
    ];
    // Now and then more time than 27 bits.
    let time = prop_oneof![8 => 0..1_000_u64, 1 => 0..1_u64 << 40];
    (kind, time, 0..1_u32 << 22, 0..3_u16).prop_map(|(kind, time, pid, cpu)| Record {
        time,
        pid,
        comm: Comms::new().intern(Comms::UNKNOWN),
        cpu: CpuId(cpu),
        kind,
    })
}

proptest! {
    #[test]
    fn what_is_written_comes_back(mut records in prop::collection::vec(record(), 0..300)) {
        // Times are differences so far.
        records.iter_mut().fold(1 << 45, |now, record| {
            record.time += now + 1;
            record.time
        });
        let mut buffers = vec![Vec::new(); 3];
        for (cpu, buffer) in buffers.iter_mut().enumerate() {
            let mine: Vec<&Record> = records.iter().filter(|record| record.cpu.index() == cpu).collect();
            for some in mine.chunks(60) {
                let mut page = Filling::new(some[0].time - 1);
                some.iter().for_each(|record| { page.event(record.time, &encoded(record)); });
                buffer.extend(page.page(0, &[]));
            }
        }
        let mut reader = reader(buffers);
        let found: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
        prop_assert_eq!(found, records);
        prop_assert!(reader.quality().is_complete());
    }

    #[test]
    fn any_bytes_are_pages_or_faults(bytes in prop::collection::vec(any::<u8>(), 0..300), length in 0..400_u64) {
        let mut page = bytes;
        page.splice(0..0, [[0; 8], length.to_le_bytes()].concat());
        page.resize(PAGE, 0x5a);
        for record in reader(vec![page]) {
            if let Err(error) = record {
                prop_assert!(!error.to_string().contains(|c: char| c.is_control()));
            }
        }
    }

    #[test]
    fn any_text_is_a_description_or_a_fault(text in "[a-z(){}<|~&0-9:;, \"\\n\t]{0,200}") {
        let _ = (Format::parse(&text), PageLayout::parse(&text), Mobilities::parse(&text), FlagNames::parse(&text));
        let _ = Format::parse(&format!("name: mm_page_alloc\nID: 3\n field:{text}"));
        let _ = constant(&text);
    }
}
