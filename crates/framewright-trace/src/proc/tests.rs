use std::fmt::Write;

use framewright::units::{MigrateType, Order, Pfn, PfnRange, ZoneKind};

use super::*;

const ZONEINFO: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 143
      nr_mapped    722
  pages free     3808
        boost    7
        min      186
        low      232
        high     278
        promo    300
        spanned  4095
        present  3998
        managed  3840
        cma      5
        protection: (0, 122, 869, 869, 869)
      nr_free_pages 3808
      numa_hit     1
  pagesets
    cpu: 0
              count: 2
              high:  58
              batch: 1
              high_min: 9
  vm stats threshold: 6
    cpu: 1
              count: 3
              high:  59
              batch: 4
  vm stats threshold: 6
  node_unreclaimable:  0
  start_pfn:           1
Node 1, zone  Movable
  pages free     0
        min      0
        low      0
        high     0
        scanned  0
        spanned  0
        present  0
        protection: (0)
";

#[test]
fn zones_are_read_with_all_their_numbers() {
    let info = ZoneInfo::parse(ZONEINFO, "zoneinfo").unwrap();
    let [dma, movable] = &info.zones[..] else { panic!("{info:?}") };
    assert_eq!((dma.node, &*dma.name, dma.zone_kind()), (0, "DMA", Some(ZoneKind::Dma)));
    assert_eq!((dma.free, dma.boost, dma.min, dma.low, dma.high), (3808, 7, 186, 232, 278));
    assert_eq!((dma.spanned, dma.present, dma.managed, dma.cma), (4095, 3998, 3840, 5));
    assert_eq!(dma.protection, [0, 122, 869, 869, 869]);
    assert_eq!((dma.start_pfn, dma.range()), (Some(Pfn(1)), PfnRange::new(1, 4096)));
    let sets = [PageSet { cpu: 0, count: 2, high: 58, batch: 1 }, PageSet { cpu: 1, count: 3, high: 59, batch: 4 }];
    assert_eq!((&dma.pagesets[..], dma.pageset_frames()), (&sets[..], 5));
    assert_eq!((dma.counters["numa_hit"], dma.counters["promo"], dma.node_counters["nr_mapped"]), (1, 300, 722));
    assert_eq!((movable.node, movable.zone_kind(), movable.start_pfn), (1, Some(ZoneKind::Movable), None));
    assert!(movable.range().is_empty());
    assert_eq!(info.end_pfn(), Pfn(4096));
    assert_eq!(info.zone(1, "Movable"), Some(movable));
    // Kernels before 3.8 do not know which frames are managed.
    let old = ZONEINFO.replace("        managed  3840\n", "");
    assert_eq!(ZoneInfo::parse(&old, "zoneinfo").unwrap().zones[0].managed, 3998);
}

const BUDDYINFO: &str = "\
Node 0, zone      DMA      0      1      2 \n\
Node 1, zone   Normal      6      8      7 \n";

const PAGETYPEINFO: &str = "\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2
Node    0, zone      DMA, type    Unmovable      0      1      2
Node    0, zone      DMA, type          CMA      3 >100000      5
Node    0, zone      DMA, type      Reserve      0      0      0

Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic      Isolate
Node 0, zone      DMA            1            7            3            0            2

Number of mixed blocks    Unmovable      Movable
Node 0, zone      DMA            1            7
";

#[test]
fn free_blocks_are_read() {
    let info = BuddyInfo::parse(BUDDYINFO, "buddyinfo").unwrap();
    assert_eq!((info.max_order(), info.frames()), (Order(2), 2 + 8 + 6 + 16 + 28));
    assert_eq!(info.row(1, "Normal").unwrap().free, [6, 8, 7]);
    let mut other = info.clone();
    other.rows[1].free[2] = 9;
    other.rows.remove(0);
    let differences: Vec<_> = info.differences(&other).iter().map(ToString::to_string).collect();
    assert_eq!(
        differences,
        [
            "node 0, zone DMA, order 1: 1 against 0",
            "node 0, zone DMA, order 2: 2 against 0",
            "node 1, zone Normal, order 2: 7 against 9"
        ]
    );
    assert_eq!(other.differences(&info).len(), 3);
    assert_eq!(info.differences(&info), []);
}

#[test]
fn both_tables_of_pagetypeinfo_are_read() {
    let info = PageTypeInfo::parse(PAGETYPEINFO, "pagetypeinfo").unwrap();
    assert_eq!(info.pageblock_order, Order(9));
    let free: Vec<_> = info.free.iter().map(|row| (row.migratetype, &row.free[..], row.is_capped)).collect();
    assert_eq!(
        free,
        [
            (MigrateType::Unmovable, &[0, 1, 2][..], false),
            (MigrateType::Cma, &[3, 100_000, 5], true),
            (MigrateType::HighAtomic, &[0, 0, 0], false)
        ]
    );
    assert_eq!(info.pageblocks.len(), 1);
    assert_eq!(info.pageblocks[0].count, [1, 7, 3, 0, 0, 2]);
    assert_eq!(info.pageblocks_of(MigrateType::Movable), 7);
}

#[test]
fn counters_are_read() {
    let stat = VmStat::parse("nr_free_pages 175139\nnuma_hit 7\n", "vmstat").unwrap();
    assert_eq!((stat.get("numa_hit"), stat.get("numa_miss")), (Some(7), None));
    assert_eq!(stat.iter().next(), Some(("nr_free_pages", 175_139)));
}

fn flags(runs: &[(u64, u64)]) -> KPageFlags {
    let bytes: Vec<u8> =
        runs.iter().flat_map(|&(frames, bits)| (0..frames).flat_map(move |_| bits.to_le_bytes())).collect();
    KPageFlags::parse(&bytes[..], "kpageflags").unwrap()
}

#[test]
fn flags_are_kept_as_runs() {
    let map = flags(&[(3, flag::NOPAGE), (20_000, flag::LRU), (1, flag::LRU | flag::BUDDY), (9, flag::BUDDY)]);
    assert_eq!(map.runs().count(), 4);
    assert_eq!(map.end_pfn(), Pfn(20_013));
    for (pfn, bits) in [(0, flag::NOPAGE), (3, flag::LRU), (20_002, flag::LRU), (20_012, flag::BUDDY)] {
        assert_eq!(map.get(Pfn(pfn)), bits, "{pfn}");
    }
    assert_eq!(map.get(Pfn(20_013)), flag::NOPAGE);
    assert_eq!(KPageFlags::default().get(Pfn(0)), flag::NOPAGE);
    let ranges: Vec<_> = map.ranges_with(flag::BUDDY).collect();
    assert_eq!(ranges, [PfnRange::new(20_003, 20_013)]);
}

#[test]
fn free_frames_become_the_largest_blocks_within_zones() {
    let zone = |name: &str, start, spanned| ZoneState {
        name: name.into(),
        start_pfn: Some(Pfn(start)),
        spanned,
        ..ZoneState::default()
    };
    let zones = ZoneInfo { zones: vec![zone("DMA", 1, 7), zone("Normal", 8, 24), ZoneState::default()] };
    // Frames 1, 4-7 | 8-23 (at most order 3), 28-30 are free.
    let free = flag::BUDDY;
    let map = flags(&[(1, 0), (1, free), (2, 0), (20, free), (4, 0), (3, free), (1, 0)]);
    let info = map.buddyinfo(&zones, Order(3));
    let rows: Vec<_> = info.rows.iter().map(|row| (&*row.zone, &row.free[..])).collect();
    assert_eq!(rows, [("DMA", &[1, 0, 1, 0][..]), ("Normal", &[1, 1, 0, 2])]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn malformed_files_are_named_with_line_and_reason() {
    let mut errors = String::new();
    let zones = |from: &str, to: &str| ZoneInfo::parse(&ZONEINFO.replacen(from, to, 1), "zoneinfo").err();
    let buddy = |text: &str| BuddyInfo::parse(text, "buddyinfo").err();
    let types = |from: &str, to: &str| PageTypeInfo::parse(&PAGETYPEINFO.replacen(from, to, 1), "pagetypeinfo").err();
    for error in [
        ZoneInfo::parse("", "zoneinfo").err(),
        zones("Node 0, zone      DMA", ""),
        zones("Node 0,", "Node zero,"),
        zones("min      186", "min      -186"),
        zones("spanned  4095\n", "\n"),
        zones("present  0\n", "\n"),
        zones("protection: (0, 122", "protection: 0, 122"),
        zones("protection: (0, 122", "protection: (0, x"),
        zones("    cpu: 0\n", "\n"),
        zones("cpu: 0", "cpu: zero"),
        zones("start_pfn:           1", "start_pfn: \x1b[1m"),
        zones("Node 1, zone", "Node 1, zo"),
        zones("Movable\n  pages free     0", "Mov\x1b[1m"),
        buddy(""),
        buddy("Node 0, zone      DMA      0      1\nNode 0, zone   Normal      6 "),
        buddy("Node 0, zone      DMA"),
        buddy("Node 0, zone      DMA 1 2 x"),
        buddy("free: 7"),
        buddy(&format!("Node 0, zone DMA {}", "1 ".repeat(20))),
        types("Page block order: 9", "Page block order: 99"),
        types("Free pages count per migrate type", "Frei"),
        types("Free pages count per migrate type at order       0      1      2", ""),
        types("Unmovable      0", "Unmoving       0"),
        types("type    Unmovable", "Unmovable"),
        types("Isolate\n", "Island\n"),
        types("            1            7            3            0            2", " 1 2"),
        PageTypeInfo::parse("Page block order: 9\n", "pagetypeinfo").err(),
        VmStat::parse("", "vmstat").err(),
        VmStat::parse("numa_hit 1\nnuma_miss\n", "vmstat").err(),
        VmStat::parse("numa_hit one\n", "vmstat").err(),
        KPageFlags::parse(&[0; 13][..], "kpageflags").err(),
        KPageFlags::parse(&[][..], "kpageflags").err(),
        text(b"ab\xff", "vmstat").err(),
    ] {
        match error {
            Some(error) => writeln!(errors, "{error}").unwrap(),
            None => errors.push_str("NO ERROR\n"),
        }
    }
    insta::assert_snapshot!(errors, @r"
    zoneinfo: there is no zone in it
    zoneinfo:2: expected `Node N, zone NAME`, found `  per-node stats`
    zoneinfo:1: expected `Node N, zone NAME`, found `Node zero, zone      DMA`
    zoneinfo:7: expected a number, found `-186`
    zoneinfo:32: zone DMA of node 0 has no `spanned`
    zoneinfo:40: zone Movable of node 1 has no `present`
    zoneinfo:15: expected a list in parentheses, found `0, 122, 869, 869, 869)`
    zoneinfo:15: expected a number, found `x`
    zoneinfo:20: expected `cpu: N`, found `count:`
    zoneinfo:19: expected a CPU's number, found `zero`
    zoneinfo:31: expected a number, found `\x1b[1m`
    zoneinfo:32: expected `Node N, zone NAME`, found `Node 1, zo  Movable`
    zoneinfo:32: expected `Node N, zone NAME`, found `Node 1, zone  Mov\x1b[1m`
    buddyinfo: there is no zone in it
    buddyinfo:2: 1 numbers, but 2 in the lines before
    buddyinfo:1: expected a number for each of up to 19 orders, found ``
    buddyinfo:1: expected a number, found `x`
    buddyinfo:1: expected `Node N, zone NAME`, found `free: 7`
    buddyinfo:1: expected a number for each of up to 19 orders, found ` 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 `
    pagetypeinfo:1: expected an order up to 18, found `99`
    pagetypeinfo:4: expected a zone's row or a table's heading, found `Frei at order       0      1      2`
    pagetypeinfo:5: expected a table's heading before the rows, found `Node`
    pagetypeinfo:5: `Unmoving` is no mobility
    pagetypeinfo:5: expected `, type NAME` and numbers, found `, Unmovable      0      1      2`
    pagetypeinfo:9: `Island` is no mobility
    pagetypeinfo:10: 2 numbers, but 5 in the lines before
    pagetypeinfo: there is no free block in it
    vmstat: there is no counter in it
    vmstat:2: expected `name value`, found `numa_miss`
    vmstat:1: expected a number, found `one`
    kpageflags: is not made of 8 bytes a frame: 5 bytes are left over
    kpageflags: there is no frame in it
    vmstat: is no text: byte 2 is not UTF-8
    ");
}

#[test]
fn frames_and_runs_are_bounded() {
    let mut map = KPageFlags::default();
    assert!(map.push(KPageFlags::FRAME_LIMIT, 0).is_ok());
    assert!(map.push(1, 0).is_err());
    assert!(map.push(u64::MAX, 0).is_err());
    assert_eq!(map.runs().count(), 1);
}
