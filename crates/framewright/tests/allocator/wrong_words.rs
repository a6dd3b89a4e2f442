//! One word that reads as another value: which invariant notices.
//!
//! Every word of an allocator at rest is made wrong in turn, by three amounts, and `validate` is asked. The tables say, for
//! each kind of word, what it answers: the invariants that it finds violated, and `-` if some wrong value violates none. A
//! kind without `-` cannot be damaged unnoticed; a kind that is not listed may have any value as far as `validate` knows.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use framewright::config::SectionInit;
use framewright::machine::{Busy, Machine, NoPerCpu, Ordering, Patience, Word};
use framewright::request::{__GFP_HIGH, __GFP_MOVABLE, GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT};
use framewright::watermark::{Marks, PcpSize};
use framewright::{
    Allocator, Config, CpuId, Geometry, Layout, Mechanisms, MigrateType, NodeId, Order, Pfn, Region, Request, Tuning,
    ZoneIdx, ZoneKind,
};
use framewright_rt::Storage;

use crate::copied::{Here, Waits, by_load_and_store, run_on};

thread_local! {
    static INTERRUPT: Cell<bool> = const { Cell::new(false) };
    /// Address of the word that is wrong, and by how much.
    static WRONG: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// A word that may read as another value than was stored.
struct Doubtful<T>(Cell<T>);

macro_rules! doubtful_words {
    ($($int:ty),+) => { $(
        impl Word<$int> for Doubtful<$int> {
            fn new(value: $int) -> Self {
                Doubtful(Cell::new(value))
            }

            fn load(&self, _: Ordering) -> $int {
                let (address, by) = WRONG.get();
                let is_wrong = address == std::ptr::from_ref(self).addr();
                self.0.get().wrapping_add(if is_wrong { by as $int } else { 0 })
            }

            fn store(&self, value: $int, _: Ordering) {
                self.0.set(value);
            }

            by_load_and_store!($int);
        }
    )+ };
}

doubtful_words!(u8, u16, u32, u64, usize);

/// One thread that plays all CPUs.
struct Doubt;

impl Machine for Doubt {
    type U8 = Doubtful<u8>;
    type U16 = Doubtful<u16>;
    type U32 = Doubtful<u32>;
    type U64 = Doubtful<u64>;
    type Usize = Doubtful<usize>;
    type Pin<'a> = Here;
    type Irq<'a> = ();
    type PerCpu<T> = NoPerCpu;

    fn pin(&self) -> Here {
        Here
    }

    fn irq_save(&self) {}

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn fence(&self) {}

    fn in_interrupt(&self) -> bool {
        INTERRUPT.get()
    }
}

/// An allocator, and which wrong words are noticed in it.
#[derive(Clone, Copy)]
struct Setting {
    mechanisms: &'static str,
    section_init: SectionInit,
    /// Kinds of words, each with the answers; of later settings, those that the first does not have.
    noticed: &'static str,
}

const SETTINGS: [Setting; 5] = [
    Setting {
        mechanisms: "baseline",
        section_init: SectionInit::AtBoot,
        noticed: "
heads: head: - F1 F2 P1 Z1
links: link: - B1 B2 B3
pageblocks: pageblock: - B5 I1 Z2
pcp: aside AllocFrames: S2
pcp: aside Allocs: S1
pcp: aside FreeFrames: S2
pcp: aside NumaForeign: S1
pcp: aside NumaHit: S1
pcp: aside NumaLocal: S1
pcp: aside NumaMiss: S1
pcp: aside NumaOther: S1
pcp: busy: C2
pcp: claim: C2
pcp: count: P2
pcp: events AllocFrames: S2
pcp: events Allocs: S1
pcp: events FreeFrames: S2
pcp: events NumaForeign: S1
pcp: events NumaHit: S1
pcp: events NumaLocal: S1
pcp: events NumaMiss: S1
pcp: events NumaOther: S1
pcp: folded AllocFrames: S2
pcp: folded Allocs: S1
pcp: folded FreeFrames: S2
pcp: folded NumaForeign: S1
pcp: folded NumaHit: S1
pcp: folded NumaLocal: S1
pcp: folded NumaMiss: S1
pcp: folded NumaOther: S1
pcp: ring bottom huge: - P2
pcp: ring bottom order: - P1 P2
pcp: ring end order: - P1
pcp: ring moved order: S2
pcp: ring not movable bottom huge: - P2
pcp: ring not movable top huge: - P2
pcp: ring spare_len order: S2
pcp: ring taken order: S1
pcp: ring top huge: - P2
pcp: ring top order: - P1 P2
pcp: ring wrapped order: - P1 P2
pcp: waiting bottom: - P1
pcp: waiting top: - P1
pcp: waiting_frames: P2
slots: entry: - P1
states: state: - B1 F1 Z1
zone: clusters disabled: I1
zone: count isolated: B4
zone: count owned: O2
zone: count quarantined: Z1
zone: count skipped: B7
zone: deferred: N1
zone: events AllocFrames: S2
zone: events Allocs: S1
zone: events FreeFrames: S2
zone: events NumaForeign: S1
zone: events NumaHit: S1
zone: events NumaLocal: S1
zone: events NumaMiss: S1
zone: events NumaOther: S1
zone: highatomic_reserved: Z2
zone: lists head next order: - B1 B2 B3
zone: lists head prev order: - B3
zone: lists len order: B2
zone: offline: Z1
zone: present: Z1
zone: stat boost: Z3
zone: stat highatomic: B4
zone: stat nr_free_cma: - B4
zone: stat nr_free_pages: - B4
",
    },
    Setting {
        mechanisms: "default",
        section_init: SectionInit::WhenUsed,
        noticed: "
heads: head: - D1 F1 F2 P1 U1 Z1
magazine slots: entry: - D1 P1 P2
pageblocks: pageblock: - B5 I1 U1 Z2
pcp: count: - P2
pcp: ring end order: - P2
pcp: ring spare order: - P1
pcp: ring spare_len order: P2 S2
pcp: ring start order: - P2
pcp: ring top order: - P1 P2 P3
pcp: ring wrapped order: - P1 P2 P3
shard: frames: D2
shard: full order: - D2
zone: lists head next order: - B1 B2
zone: uninit: U1
",
    },
    Setting {
        mechanisms: "owned-pageblocks",
        section_init: SectionInit::AtBoot,
        noticed: "
heads: head: - F1 F2 O1 P1 Z1
owned: free frames: - F1 O1 Z1
owners: owner: - O1 O2
states: state: - B1 F1 O1 Z1
",
    },
    Setting {
        mechanisms: "no_merge+cluster_alloc",
        section_init: SectionInit::AtBoot,
        noticed: "
states: state: - B1 B7 F1 Z1
",
    },
    Setting {
        mechanisms: "numa-patch3",
        section_init: SectionInit::AtBoot,
        noticed: "
diffs: diffs nr_free_cma: - B4
diffs: diffs nr_free_pages: - B4
diffs: diffs numa16 Foreign: S1 S3
diffs: diffs numa16 Hit: S1
diffs: diffs numa16 Interleave: - S3
diffs: diffs numa16 Local: S1
diffs: diffs numa16 Miss: S1
diffs: diffs numa16 Other: S1
node stats: told: S4
stats: sums items: - S4
zone: stat nr_free_pages: B4 S4
zone: stat numa Foreign: S1
zone: stat numa Hit: S1
zone: stat numa Local: S1
zone: stat numa Miss: S1
zone: stat numa Other: S1
",
    },
];

/// Invariants that no single wrong word violates: two free buddies are two wrong words, or one that another invariant names
/// first; whether the caller is in an interrupt is no word.
const OTHERS: [&str; 2] = ["B6", "C1"];

type Pages = Allocator<'static, Doubt>;

const CPUS: [NodeId; 2] = [NodeId(0), NodeId(0)];
const GEOMETRY: Geometry = Geometry { page_shift: 12, max_order: Order(4), pageblock_order: Order(2) };

/// Frames of the machine here.
const FRAMES: u64 = 0xb0;

/// Zone DMA of 16 frames and Normal of the others, of which the last 4 are reserved.
pub(crate) fn boot<M: Machine + 'static>(
    machine: M,
    frames: u64,
    mechanisms: &str,
    section_init: SectionInit,
) -> &'static Allocator<'static, M> {
    let map = [Region::usable(0, frames - 4, 0), Region::reserved(frames - 4, frames, 0)];
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
    let marks = Some(Marks { min: 2, low: 3, high: 4 });
    let tuning = [Tuning { zone, marks, reserve: None, pcp: Some(PcpSize { batch: 2, high: 6 }) }];
    let mechanisms = Mechanisms::parse(mechanisms).unwrap();
    let limits = Config { geometry: GEOMETRY, dma_end: Pfn(0x10), dma32_end: Pfn(0), ..Config::new(&map, &CPUS) };
    let counters = Config { zone_counters: &["pagecache"], node_counters: &["slab"], ..limits };
    let config = Config { tuning: &tuning, mechanisms, section_init, ..counters };
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    Box::leak(Box::new(Allocator::boot(machine, &config, storage.parts()).unwrap()))
}

/// Leaves blocks everywhere: allocated, on lists of both CPUs, free in both zones and of several types.
///
/// Returns those that are allocated.
pub(crate) fn use_some<M: Machine>(pages: &Allocator<'_, M>) -> Vec<(Pfn, Order)> {
    let gfps = [GFP_KERNEL, GFP_NOWAIT | __GFP_MOVABLE, GFP_ATOMIC | __GFP_HIGH];
    let requests = (0..40).map(|turn| Request::new(gfps[turn % 3], [0, 1, 0, 2][turn % 4]));
    let mut taken = Vec::new();
    for (turn, request) in requests.enumerate() {
        run_on(CpuId((turn % 2) as u16));
        taken.extend(pages.alloc(&request).map(|pfn| (pfn, request.order)));
    }
    assert!(taken.len() > 30, "{} blocks", taken.len());
    let mut held = Vec::new();
    for (turn, (pfn, order)) in taken.into_iter().enumerate() {
        if turn % 3 == 0 {
            held.push((pfn, order));
            continue;
        }
        run_on(CpuId((turn / 3 % 2) as u16));
        pages.free(pfn, order).unwrap();
    }
    run_on(CpuId(0));
    pages.count_in_zone(ZoneIdx::of(NodeId(0), ZoneKind::Normal), 0, 3);
    pages.validate().unwrap_or_else(|violation| panic!("{violation}"));
    held
}

/// Returns an allocator in use, and the name and address of each of its words.
fn begin(setting: Setting) -> (&'static Pages, Vec<(String, usize)>) {
    let pages = boot(Doubt, FRAMES, setting.mechanisms, setting.section_init);
    let _ = use_some(pages);
    let mut words = Vec::new();
    pages.fields(&mut |field| {
        let name = format!("{}: {}", field.part, kind_of(&field.name.to_string()));
        words.extend((0..field.count).map(|at| (name.clone(), field.address + at * field.size)));
    });
    (pages, words)
}

/// Returns the name of a word without what counts words of its kind: numbers and mobilities.
fn kind_of(name: &str) -> String {
    let is_count = |part: &&str| part.parse::<u64>().is_err() && MigrateType::ALL.iter().all(|one| one.name() != *part);
    name.split([' ', '.', '[', ']']).filter(|part| !part.is_empty()).filter(is_count).collect::<Vec<_>>().join(" ")
}

/// Returns for each kind of word what `validate` answers when it is wrong.
fn answers(setting: Setting) -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut answers: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let (mut pages, mut words) = begin(setting);
    for word in 0..words.len() {
        for by in [1, u64::MAX, 1 << 5] {
            WRONG.set((words[word].1, by));
            let answer = catch_unwind(AssertUnwindSafe(|| pages.validate()));
            WRONG.set((0, 0));
            let answer = match answer {
                Ok(Ok(_)) => "-",
                Ok(Err(violation)) => violation.invariant,
                Err(_) => {
                    // A wait without an end, or a lock rank that seems to be held. What was taken stays taken.
                    (pages, words) = begin(setting);
                    "-"
                }
            };
            answers.entry(words[word].0.clone()).or_default().insert(answer);
        }
    }
    answers
}

/// Returns the kinds of words whose wrong values violate something, one a line.
fn noticed(setting: Setting) -> Vec<String> {
    let lines = answers(setting).into_iter().map(|(kind, found)| (kind, Vec::from_iter(found).join(" ")));
    lines.filter(|(_, found)| found != "-").map(|(kind, found)| format!("{kind}: {found}")).collect()
}

#[test]
fn a_wrong_word_is_noticed() {
    let base = noticed(SETTINGS[0]);
    let mut found = BTreeSet::from(OTHERS);
    for (at, setting) in SETTINGS.into_iter().enumerate() {
        let noticed = noticed(setting);
        let new: Vec<&str> =
            noticed.iter().filter(|line| at == 0 || !base.contains(line)).map(String::as_str).collect();
        let expected: Vec<&str> = setting.noticed.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(new, expected, "{}:\n{}", setting.mechanisms, new.join("\n"));
        found.extend(expected.iter().flat_map(|line| line.rsplit(':').next()).flat_map(|found| found.split(' ')));
    }
    // The rows of the table in the description of `validate`.
    let table = include_str!("../../src/observe/validate.rs").lines().filter_map(|line| line.strip_prefix("//! | "));
    let numbers = table.filter_map(|row| row.split(' ').next()).filter(|number| *number != "number");
    let missing: Vec<&str> = numbers.filter(|number| !found.contains(number)).collect();
    assert!(missing.is_empty(), "no wrong word violates {missing:?}");
}

/// In an interrupt nothing is checked, because the lists that it interrupted may be in use.
#[test]
fn nothing_is_checked_in_an_interrupt() {
    let pages = boot(Doubt, FRAMES, SETTINGS[0].mechanisms, SETTINGS[0].section_init);
    INTERRUPT.set(true);
    let violation = pages.validate().map(drop).map_err(|violation| (violation.invariant, violation.is_of_the_moment()));
    INTERRUPT.set(false);
    assert_eq!(violation, Err(("C1", true)));
    pages.validate().unwrap_or_else(|violation| panic!("{violation}"));
}
