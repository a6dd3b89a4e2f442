//! Every word of an allocator's own data has a name, and every name a place of its own.

use std::collections::BTreeMap;

use framewright::{
    Allocator, Config, Cpu, Layout, Link, Magazine, Mechanisms, NodeId, Pcp, Pfn, Region, Request, Shard, Zone,
};
use framewright_rt::{Native, Storage};

/// A field's description, kept.
#[derive(Debug)]
struct Kept {
    part: &'static str,
    index: usize,
    record: String,
    name: String,
    address: usize,
    size: usize,
    count: usize,
    node: Option<NodeId>,
}

/// Two nodes of 64 MiB, two CPUs each.
fn fields_of(mechanisms: &str) -> Vec<Kept> {
    let map = [Region::usable(0, 0x4000, 0), Region::usable(0x4000, 0x8000, 1)];
    let cpus = [NodeId(0), NodeId(1), NodeId(0), NodeId(1)];
    let mechanisms = Mechanisms::parse(mechanisms).unwrap();
    let config = Config { dma_end: Pfn(0), dma32_end: Pfn(0), mechanisms, ..Config::new(&map, &cpus) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Native::new(&cpus), &config, storage.parts()).unwrap();
    let request = Request::page(framewright::request::GFP_KERNEL);
    for _ in 0..1000 {
        pages.alloc(&request).unwrap();
    }
    let mut kept = Vec::new();
    pages.fields(&mut |field| {
        kept.push(Kept {
            part: field.part,
            index: field.index,
            record: field.record.to_string(),
            name: field.name.to_string(),
            address: field.address,
            size: field.size,
            count: field.count,
            node: field.node,
        });
    });
    kept
}

const ALL: [&str; 2] = ["default", "baseline"];

#[test]
fn no_two_fields_overlap_and_none_is_misaligned() {
    for mechanisms in ALL {
        let mut fields = fields_of(mechanisms);
        fields.sort_by_key(|field| field.address);
        for pair in fields.windows(2) {
            assert!(pair[0].address + pair[0].size * pair[0].count <= pair[1].address, "{pair:#?}");
        }
        for field in &fields {
            assert!(field.count != 0 && field.address % field.size.min(4) == 0, "{field:#?}");
        }
    }
}

#[test]
fn every_word_of_a_record_is_named_once() {
    // Records by part: their size, how many of their bytes are no words, and how many more may be padding.
    let ring_padding = 15 * 4;
    let expected = [
        // The lock that has its lines to itself leaves most of them empty.
        ("zone", size_of::<Zone<Native>>(), 59 + 12 + 3 + 112, 7 + 3 * 127),
        ("cpu", size_of::<Cpu<Native>>(), 10, 124 + 127),
        ("pcp", size_of::<Pcp<Native>>(), 14 + ring_padding, 63 + 127),
        ("shard", size_of::<Shard<Native>>(), 16, 127),
        ("events", 23 * 8, 0, 0),
    ];
    let fields = fields_of("default");
    for (part, size, plain, padding) in expected {
        let mut records = BTreeMap::<_, Vec<&Kept>>::new();
        for field in fields.iter().filter(|field| field.part == part) {
            records.entry(field.index).or_default().push(field);
        }
        assert!(!records.is_empty(), "no {part}");
        for (index, words) in records {
            let mut names: Vec<_> = words.iter().map(|word| &word.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), words.len(), "{part} {index}: two words of one name");
            let first = words.iter().map(|word| word.address).min().unwrap();
            let end = words.iter().map(|word| word.address + word.size).max().unwrap();
            assert!(end - first <= size, "{part} {index}: words of another record");
            let rest = size - words.iter().map(|word| word.size).sum::<usize>();
            assert!((plain..=plain + padding).contains(&rest), "{part} {index}: {rest} bytes of {size} without a name");
        }
    }
}

/// The words of a zone by name, with their addresses.
fn zone_words() -> Vec<Kept> {
    fields_of("baseline").into_iter().filter(|field| field.record == "zone Normal of node 1").collect()
}

/// The stretches of `bytes` bytes that hold words whose names begin with one of `starts`.
fn stretches(words: &[Kept], bytes: usize, starts: &[&str], end: &str) -> Vec<usize> {
    let is_one = |word: &&Kept| starts.iter().any(|start| word.name.starts_with(start)) && word.name.ends_with(end);
    let mut all: Vec<usize> = words.iter().filter(is_one).map(|word| word.address / bytes).collect();
    assert!(!all.is_empty(), "{starts:?} {end}");
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn a_lock_beside_the_lists_shares_their_line() {
    let words = zone_words();
    let lock = stretches(&words, 64, &["lock."], "");
    let asked_for = ["lists[Unmovable].", "lists[Movable].", "lists[Reclaimable]."];
    assert_eq!((lock.len(), &lock), (1, &stretches(&words, 64, &asked_for, " order 0")));
}

#[test]
fn a_lock_behind_the_lists_shares_no_pair_of_lines_with_them() {
    let words = zone_words();
    let lock = stretches(&words, 128, &["lock_behind."], "");
    for order in 0..=10 {
        let lists = stretches(&words, 128, &["lists["], &format!(" order {order}"));
        assert!(lists.iter().all(|pair| !lock.contains(pair)), "order {order}");
    }
}

#[test]
fn a_lock_alone_shares_its_pair_of_lines_with_nobody() {
    let all = fields_of("baseline");
    let (lock, others): (Vec<&Kept>, Vec<&Kept>) = all.iter().partition(|field| field.name.starts_with("lock_alone."));
    assert!(!lock.is_empty());
    for lock in lock {
        let pair = lock.address / 128;
        let is_there = |field: &Kept| {
            let end = field.address + field.size * field.count - 1;
            (field.address / 128..=end / 128).contains(&pair)
        };
        assert!(others.iter().all(|field| !is_there(field)), "{lock:#?}");
    }
}

#[test]
fn names_say_what_a_word_is_for() {
    let fields = fields_of("default");
    let named = |record: &str, name: &str| fields.iter().filter(|f| f.record == record && f.name == name).count();
    for (record, name) in [
        ("zone Normal of node 1", "lock.next"),
        ("zone Normal of node 0", "stat.nr_free_pages"),
        ("zone Normal of node 0", "lists[Movable].head.next order 0"),
        ("zone Normal of node 0", "stat.marks.Low"),
        ("lists of CPU 3, zone Normal of node 1", "ring[Movable].top order 0"),
        ("lists of CPU 3, zone Normal of node 1", "claim"),
        ("depot shard 2, zone Normal of node 0", "full[Reclaimable] order 3"),
        ("CPU 1", "turn"),
        ("counters of slow paths", "AllocFail"),
    ] {
        assert_eq!(named(record, name), 1, "{record}: {name}");
    }
}

#[test]
fn arrays_are_at_home_where_they_are_used() {
    let fields = fields_of("default");
    let elements = |part: &str, node| {
        let stretches = fields.iter().filter(|field| field.part == part && field.node == Some(NodeId(node)));
        stretches.map(|field| field.count).sum::<usize>()
    };
    for (part, size) in [("heads", 1), ("states", 8), ("links", size_of::<Link<Native>>())] {
        assert_eq!((elements(part, 0), elements(part, 1)), (0x4000, 0x4000), "{part}");
        assert!(fields.iter().filter(|field| field.part == part).all(|field| field.size == size), "{part}");
    }
    assert_eq!((elements("pageblocks", 0), elements("pageblocks", 1)), (32, 32));
    for part in ["slots", "magazines", "magazine slots"] {
        assert!(elements(part, 0) != 0 && elements(part, 0) == elements(part, 1), "{part}");
    }
    assert!(fields.iter().all(|field| field.part != "magazines" || field.size == size_of::<Magazine<Native>>()));
    // Without a depot, all lists' entries are their CPUs' own.
    assert!(fields_of("baseline").iter().all(|field| field.part != "magazines"));
}
