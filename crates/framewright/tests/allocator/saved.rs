//! Saved and restored allocators: every word comes back, and whatever is not the state that was saved is refused.

use std::convert::Infallible;
use std::sync::LazyLock;

use crate::copied::{Copied, copy, run_on};
use crate::maps::dirty;
use framewright::config::SectionInit;
use framewright::mechanisms::PRESETS;
use framewright::request::{__GFP_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::watermark::PcpSize;
use framewright::{
    Allocator, Config, CpuId, Geometry, Layout, Machine, Mechanisms, NodeId, Order, Pfn, PfnRange, Region, Request,
    RestoreError, SaveError, Tuning, ZoneIdx, ZoneKind, saved_state,
};
use framewright_ops::recorded::fnv;
use framewright_rt::{Native, Storage};

const CPUS: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(0)];
const MAP: [Region; 3] =
    [Region::usable(0, 0x300, 0), Region::reserved(0x300, 0x340, 0), Region::usable(0x480, 0x800, 1)];
const GEOMETRY: Geometry = Geometry { page_shift: 12, max_order: Order(6), pageblock_order: Order(5) };
const TUNING: [Tuning; 1] = [Tuning {
    zone: ZoneIdx::of(NodeId(0), ZoneKind::Normal),
    marks: None,
    reserve: None,
    pcp: Some(PcpSize { batch: 4, high: 12 }),
}];

fn config(mechanisms: &str) -> Config<'static> {
    let mechanisms = Mechanisms::parse(mechanisms).unwrap();
    let limits = Config { geometry: GEOMETRY, dma_end: Pfn(0), dma32_end: Pfn(0), ..Config::new(&MAP, &CPUS) };
    let counters = Config { zone_counters: &["pagecache"], node_counters: &["slab"], ..limits };
    Config { tuning: &TUNING, mechanisms, ..counters }
}

fn boot<M: Machine>(machine: M, config: &Config<'_>) -> &'static Allocator<'static, M> {
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(config).unwrap())));
    Box::leak(Box::new(Allocator::boot(machine, config, storage.parts()).unwrap()))
}

fn native(config: &Config<'_>) -> &'static Allocator<'static, Native> {
    boot(Native::new(&CPUS), config)
}

/// Uses an allocator a little, so that no list is empty; keeps some blocks.
fn use_some<M: Machine>(pages: &Allocator<'_, M>, mut on_cpu: impl FnMut(CpuId)) {
    for turn in 0..6_u16 {
        on_cpu(CpuId(turn % 3));
        let gfps = [GFP_NOWAIT, GFP_NOWAIT | __GFP_MOVABLE];
        let requests = (0..24).map(|i| Request::new(gfps[i % 2], [0, 1, 0, 3, 0, 5][i / 2 % 6]));
        let taken: Vec<_> = requests.map_while(|request| Some((pages.alloc(&request).ok()?, request.order))).collect();
        assert!(taken.len() > 5, "{} blocks", taken.len());
        taken.iter().step_by(2).for_each(|&(pfn, order)| pages.free(pfn, order).unwrap());
        pages.count_in_zone(ZoneIdx::of(NodeId(0), ZoneKind::Normal), 0, 3);
    }
}

fn saved<M: Machine>(pages: &Allocator<'_, M>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = |chunk: &[u8]| {
        bytes.extend_from_slice(chunk);
        Ok::<_, Infallible>(())
    };
    let length = pages.save(&mut sink).unwrap();
    assert_eq!(length, bytes.len() as u64);
    bytes
}

#[test]
fn every_word_comes_back() {
    let choices = ["refill=cluster,zone-lock=rw", "refill=pageblocks,depot=off", "free-path=range-locks,zone-lock=rw"];
    for mechanisms in PRESETS.iter().map(|&(name, _)| name).chain(choices) {
        let before = copy().len();
        let pages = boot(Copied, &config(mechanisms));
        let between = copy().len();
        use_some(pages, run_on);
        let counts = pages.validate().unwrap();
        let saved = saved(pages);
        let other = boot(Copied, &config(mechanisms));
        assert_ne!(copy()[before..between], copy()[between..], "{mechanisms}: nothing was done");
        assert_eq!(other.restore(&saved), Ok(counts), "{mechanisms}");
        // A restored allocator is what a fork's child is: its locks begin anew. So do these, then.
        let frozen = pages.freeze().unwrap();
        frozen.settle();
        drop(frozen);
        let words = copy();
        let there = |index| words[index + between - before];
        let differ = (before..between).filter(|&index| words[index] != there(index));
        let differ: Vec<_> = differ.map(|index| (index - before, words[index], there(index))).collect();
        // Locks of depots were held once more there: the next ticket, and the one that is served.
        let is_lock = |pair: &[(usize, u64, u64)]| match *pair {
            [(next, was, is), (serving, also, too)] => (serving, also, too) == (next + 1, was, is) && was == is + 1,
            _ => false,
        };
        assert!(differ.chunks(2).all(is_lock), "{mechanisms}: words, as they were and as they are: {differ:?}");
    }
}

#[test]
fn damage_is_refused_and_changes_nothing() {
    let config = config("default");
    let pages = native(&config);
    use_some(pages, |_| {});
    let good = saved(pages);
    let other = native(&config);
    let fresh = other.validate().unwrap();
    for length in 0..good.len() {
        let error = other.restore(&good[..length]).unwrap_err();
        let expected = if length < 8 { RestoreError::NoState } else { RestoreError::Damaged };
        assert_eq!(error, expected, "the first {length} bytes");
    }
    // Every bit of what precedes the words, and one of each byte after it.
    let head = 8 * 8 * 9;
    for bit in (0..head).chain((head..good.len() * 8).step_by(9)) {
        let mut damaged = good.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = other.restore(&damaged).unwrap_err();
        match bit / 64 {
            0 => assert_eq!(error, RestoreError::NoState, "bit {bit}"),
            1 => assert_eq!(error, RestoreError::Version(saved_state::VERSION ^ 1 << (bit - 64)), "bit {bit}"),
            _ => assert_eq!(error, RestoreError::Damaged, "bit {bit}"),
        }
    }
    let longer = [&good[..], &[0]].concat();
    assert_eq!(other.restore(&longer), Err(RestoreError::Damaged));
    assert_eq!(other.validate(), Ok(fresh), "nothing was changed");
    use_some(native(&config), |_| {});
    other.restore(&good).unwrap();
}

/// What memory held before its section is used is no part of the state, before and after the use.
#[test]
fn unused_sections_are_saved_as_zeros() {
    let config = Config { section_init: SectionInit::WhenUsed, is_zeroed: false, ..config("default") };
    let [clean, written] = [false, true].map(|is_written| {
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        if is_written {
            dirty(&mut storage.parts());
        }
        let pages = Allocator::boot(Native::new(&CPUS), &config, storage.parts()).unwrap();
        let booted = saved(&pages);
        use_some(&pages, |_| {});
        [booted, saved(&pages)].map(fnv)
    });
    assert_eq!(clean, written);
}

#[test]
fn another_configuration_is_refused_by_name() {
    let ours = config("default");
    let state = saved(native(&ours));
    let (shifted, larger) = ([Region::usable(0x40, 0x800, 0)], [Region::usable(0, 0x880, 0), MAP[2]]);
    let holed = [Region::usable(0, 0x10, 0), Region::usable(0x11, 0x300, 0), MAP[1], MAP[2]];
    let swapped = [Region { range: MAP[0].range, ..MAP[2] }, MAP[1], Region { range: MAP[2].range, ..MAP[0] }];
    let reserved = [PfnRange::new(0x500, 0x501)];
    let others = [
        (Config { geometry: Geometry { page_shift: 14, ..GEOMETRY }, ..ours }, "the page size and the orders"),
        (
            Config { geometry: Geometry { pageblock_order: Order(4), ..GEOMETRY }, ..ours },
            "the page size and the orders",
        ),
        (Config { regions: &shifted, ..ours }, "the memory map"),
        (Config { regions: &larger[..1], ..ours }, "the memory map"),
        (Config { regions: &swapped, ..ours }, "the memory map"),
        (Config { regions: &holed, ..ours }, "the memory map"),
        (Config { dma32_end: Pfn(0x200), ..ours }, "the memory map"),
        (Config { mechanisms: Mechanisms::parse("baseline").unwrap(), ..ours }, "the mechanisms"),
        (Config { tuning: &[], ..ours }, "the zones"),
        (Config { min_free_kbytes: Some(4096), ..ours }, "the zones"),
        (Config { cpus: &CPUS[..2], ..ours }, "the CPUs"),
        (Config { cpus: &[NodeId(0), NodeId(1), NodeId(1)], ..ours }, "the CPUs"),
        (Config { zone_counters: &["dirty"], ..ours }, "the counters"),
        (Config { node_counters: &[], ..ours }, "the counters"),
        (Config { section_init: SectionInit::WhenUsed, ..ours }, "when sections are initialised"),
        (Config { reserved: &reserved, ..ours }, ""),
    ];
    for (other, part) in others {
        let pages = boot(Native::new(other.cpus), &other);
        let fresh = pages.validate().unwrap();
        let expected = if part.is_empty() { RestoreError::Withheld(Pfn(0x500)) } else { RestoreError::Differs(part) };
        assert_eq!(pages.restore(&state), Err(expected), "{part}");
        assert_eq!(pages.validate(), Ok(fresh), "nothing was changed");
    }
}

#[test]
fn wrong_moments_are_refused() {
    let config = config("default");
    let pages = native(&config);
    let state = saved(pages);
    let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
    assert_eq!(pages.restore(&state), Err(RestoreError::Used));
    pages.free(page, Order(0)).unwrap();
    assert_eq!(pages.restore(&state), Err(RestoreError::Used));
    let frozen = pages.freeze().unwrap();
    assert_eq!(pages.save(&mut |_| Ok::<_, Infallible>(())), Err(SaveError::Busy));
    drop(frozen);
    let unused = native(&config);
    let frozen = unused.freeze().unwrap();
    assert_eq!(unused.restore(&state), Err(RestoreError::Busy));
    drop(frozen);
    unused.restore(&state).unwrap();
    let mut room = 100;
    let mut full = |chunk: &[u8]| {
        room -= chunk.len().min(room);
        if room == 0 { Err("the disk is full") } else { Ok(()) }
    };
    assert_eq!(pages.save(&mut full), Err(SaveError::Sink("the disk is full")));
    use_some(pages, |_| {});
    pages.validate().unwrap();
}

/// Frames that were allocated at boot are not a request's; but their free, and a range, are use.
#[test]
fn memory_allocated_at_boot_is_no_use() {
    let allocated = [PfnRange::new(0x20, 0x61)];
    let config = Config { allocated: &allocated, ..config("default") };
    let pages = native(&config);
    let fresh = saved(pages);
    pages.free_range(PfnRange::new(0x20, 0x30)).unwrap();
    assert_eq!(pages.restore(&fresh), Err(RestoreError::Used), "some of it was freed");
    let other = native(&config);
    assert_eq!(other.restore(&saved(pages)), pages.validate().map_err(RestoreError::Unsound));
    other.free_range(PfnRange::new(0x30, 0x61)).unwrap();
    other.validate().unwrap();
    let ranged = native(&config);
    ranged.alloc_range(PfnRange::new(0x100, 0x110), GFP_KERNEL).unwrap();
    assert_eq!(ranged.restore(&fresh), Err(RestoreError::Used), "a range was allocated");
    for cpu in 0..3 {
        ranged.offline_cpu(CpuId(cpu));
    }
    assert_eq!(ranged.restore(&fresh), Err(RestoreError::Used), "by CPUs that are gone");
}

/// A change of a record's words, or of their order, changes what a saved state means.
#[test]
fn the_version_stands_for_these_words() {
    let pages = native(&config("default"));
    let mut names = String::new();
    pages.fields(&mut |field| {
        if field.index == 0 {
            names.push_str(&format!("{} {} {}\n", field.part, field.name, field.size));
        }
    });
    let sum = fnv(names.bytes());
    assert_eq!(
        (saved_state::VERSION, sum),
        (1, 11_214_470_209_319_533_064),
        "raise the version, and write down the new sum; the words:\n{names}"
    );
}

#[test]
fn a_large_memory_takes_few_bytes() {
    let map = [Region::usable(0, 1 << 24, 0)];
    let config = Config::new(&map, &CPUS[..1]);
    let pages = boot(Native::new(&CPUS[..1]), &config);
    let blocks: Vec<_> = (0..10_000).map(|_| pages.alloc(&Request::page(GFP_KERNEL)).unwrap()).collect();
    let state = saved(pages);
    assert!(state.len() < 200_000, "{} bytes for 64 GiB and {} blocks", state.len(), blocks.len());
    let other = boot(Native::new(&CPUS[..1]), &config);
    other.restore(&state).unwrap();
    blocks.into_iter().for_each(|pfn| other.free(pfn, Order(0)).unwrap());
}

/// CRC-64/XZ of bytes, by a table of its steps.
fn crc(bytes: &[u8]) -> u64 {
    static TABLE: LazyLock<[u64; 256]> = LazyLock::new(|| {
        let step = |crc: u64, _| crc >> 1 ^ if crc & 1 == 1 { 0xc96c_5795_d787_0f42 } else { 0 };
        std::array::from_fn(|byte| (0..8).fold(byte as u64, step))
    });
    !bytes.iter().fold(u64::MAX, |crc, &byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

/// A number of entries that no array has would be walked for minutes. Fuzzing found it in a ring.
#[test]
fn no_word_of_a_state_makes_a_walk_without_end() {
    let map = [Region::usable(0, 0x100, 0)];
    let geometry = Geometry { page_shift: 12, max_order: Order(5), pageblock_order: Order(4) };
    let limits = Config { geometry, dma_end: Pfn(0), dma32_end: Pfn(0), ..Config::new(&map, &CPUS[..1]) };
    let config = Config { mechanisms: Mechanisms::parse("default").unwrap(), ..limits };
    let layout = Layout::of(&config).unwrap();
    let mut storage = Storage::new(&layout);
    let pages = Allocator::boot(Native::new(&CPUS[..1]), &config, storage.parts()).unwrap();
    let block = pages.alloc(&Request::page(GFP_NOWAIT)).unwrap();
    pages.free(block, Order(0)).unwrap();
    let mut state = saved(&pages);
    state.truncate(state.len() - 8);
    let mut refused = 0;
    // From the first word on, which follows 72 bytes.
    for at in (72..state.len()).step_by(4) {
        let mut changed = state.clone();
        changed[at..at + 4].copy_from_slice(&0x1331_bb1c_u32.to_le_bytes());
        changed.extend(crc(&changed).to_le_bytes());
        let mut storage = Storage::new(&layout);
        let pages = Allocator::boot(Native::new(&CPUS[..1]), &config, storage.parts()).unwrap();
        match pages.restore(&changed) {
            Ok(_) => {}
            // A state stores runs of words, so a change may also end it too early.
            Err(RestoreError::Unsound(_) | RestoreError::Withheld(_) | RestoreError::Damaged) => refused += 1,
            Err(error) => panic!("the bytes at {at}: {error}"),
        }
    }
    assert!(refused > 20, "{refused} of {} words were refused", state.len() / 4);
}
