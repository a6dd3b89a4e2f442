//! One word of the allocator becomes another value, and calls go on: what they give, and what is left, is as recorded.
//!
//! Damage has no right answer. But it must not spread: an allocator that meets it puts aside what it cannot trust,
//! counts that, and goes on. (A lock whose word says that it is held is waited for: nothing tells that word from a right
//! one.) So the answers of the calls after each damage, and a digest of all words after them, are recorded in
//! `damaged.txt`; [`framewright_ops::recorded`] says how to look at a change. No call may panic, nor go on without an
//! end.
//!
//! Every word that these calls read is damaged in turn, by seven values. A line of the file is of eight words that lie
//! side by side. What `validate` says of a damaged word is in `wrong_words.rs`.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use framewright::config::SectionInit;
use framewright::report::Source;
use framewright::request::{__GFP_HIGH, __GFP_MOVABLE, __GFP_RECLAIMABLE, GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT};
use framewright::{Allocator, CpuId, Gfp, MigrateType, NodeId, Order, Pfn, PfnRange, Request, ZoneIdx, ZoneKind};
use framewright_ops::recorded::{self, Played, hash};

use crate::copied::{Copied, Waits, allow_loads, copy, put_back, read_by, run_on};
use crate::wrong_words::{boot, use_some};

const NORMAL: ZoneIdx = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
/// So few that requests meet the marks, other mobilities and the other zone.
const FRAMES: u64 = 0x70;
/// Loads of all calls together: most make some thousand, and one that waits for a damaged `SmpList` a million.
const MOST_LOADS: u64 = 4_000_000;
/// Words of a line.
const SIDE_BY_SIDE: usize = 8;

type Pages = Allocator<'static, Copied>;

/// Calls of two CPUs, from the same numbers each time.
struct Calls {
    pages: &'static Pages,
    held: Vec<(Pfn, Order)>,
    turn: usize,
    seen: String,
}

impl Calls {
    fn new(pages: &'static Pages, held: &[(Pfn, Order)]) -> Calls {
        Calls { pages, held: held.to_vec(), turn: 0, seen: String::new() }
    }

    fn alloc(&mut self, gfp: Gfp, order: u8) {
        self.turn += 1;
        run_on(CpuId((self.turn % 2) as u16));
        let got = self.pages.alloc(&Request::new(gfp, order));
        writeln!(self.seen, "alloc {order}: {got:?}").unwrap();
        self.held.extend(got.map(|pfn| (pfn, Order(order))));
    }

    fn free(&mut self) {
        self.turn += 1;
        run_on(CpuId((self.turn / 3 % 2) as u16));
        if self.held.is_empty() {
            return;
        }
        let (pfn, order) = self.held.swap_remove(self.turn * 7 % self.held.len());
        let freed = self.pages.free(pfn, order);
        writeln!(self.seen, "free {pfn}: {freed:?}").unwrap();
    }

    /// Makes calls of every kind.
    fn go_on(&mut self) {
        for turn in 0..24 {
            self.alloc(
                [GFP_KERNEL, GFP_NOWAIT | __GFP_MOVABLE, GFP_KERNEL | __GFP_RECLAIMABLE][turn % 3],
                [0, 0, 1][turn % 3],
            );
            self.free();
        }
        let pages = self.pages;
        let range = |start: u64, end: u64| PfnRange::new(start, end);
        let mut out = [Pfn(0); 5];
        let got = pages.alloc_bulk(&Request::new(GFP_KERNEL, 0), &mut out);
        writeln!(self.seen, "bulk: {got:?} {out:?}").unwrap();
        let freed = pages.free_bulk(&out[..got.unwrap_or(0).min(5)], Order(0));
        writeln!(self.seen, "free bulk: {freed:?}").unwrap();
        self.alloc(GFP_ATOMIC | __GFP_HIGH, 3);
        self.alloc(GFP_KERNEL, 4);
        writeln!(self.seen, "drain: {}", pages.drain_cpu(CpuId(1))).unwrap();
        let contig = pages.alloc_contig(5, Order(0), &Request::new(GFP_KERNEL, 0));
        writeln!(self.seen, "contig: {contig:?}").unwrap();
        if let Ok(range) = contig {
            writeln!(self.seen, "free range: {:?}", pages.free_range(range)).unwrap();
        }
        writeln!(self.seen, "type: {:?}", pages.set_pageblock_type(Pfn(0x20), MigrateType::Reclaimable)).unwrap();
        writeln!(self.seen, "at: {:?}", pages.alloc_at(Pfn(0x64), Order(1), GFP_KERNEL)).unwrap();
        writeln!(self.seen, "offline: {:?}", pages.take_offline(range(0x40, 0x48))).unwrap();
        writeln!(self.seen, "drain: {}", pages.drain_all()).unwrap();
        writeln!(self.seen, "online: {}", pages.bring_online(range(0x40, 0x48))).unwrap();
        if let Some((pfn, order)) = self.held.pop() {
            writeln!(self.seen, "split: {:?}", pages.split(pfn, order, Order(0))).unwrap();
            writeln!(self.seen, "free nolock: {:?}", pages.free_nolock(pfn, Order(0))).unwrap();
            writeln!(self.seen, "again: {:?}", pages.free(pfn, Order(0))).unwrap();
        }
        writeln!(self.seen, "compact: {:?}", pages.compact(NodeId(0))).unwrap();
        writeln!(self.seen, "balance: {:?}", pages.balance(NodeId(0))).unwrap();
        writeln!(self.seen, "refresh: {:?}", pages.refresh_statistics(CpuId(0))).unwrap();
        while !self.held.is_empty() {
            self.free();
        }
        for _ in 0..6 {
            self.alloc(GFP_KERNEL | __GFP_MOVABLE, 0);
        }
        writeln!(self.seen, "drain: {}", pages.drain_all()).unwrap();
    }

    fn look(&mut self) {
        let pages = self.pages;
        let violation = pages.validate().map_err(|violation| violation.to_string());
        writeln!(self.seen, "{:?}\n{:?}\n{violation:?}", pages.counters(), pages.zone(NORMAL)).unwrap();
    }
}

/// Returns what follows if a word has this value.
fn go_on(pages: &'static Pages, held: &[(Pfn, Order)]) -> String {
    let mut calls = Calls::new(pages, held);
    allow_loads(MOST_LOADS);
    if let Err(cause) = catch_unwind(AssertUnwindSafe(|| {
        calls.go_on();
        calls.look();
    })) {
        // A lock that seems to be held, by its word or by its rank.
        let is_rank = |text: &&String| text.contains("rank");
        let known = cause.is::<Waits>() || cause.downcast_ref::<String>().as_ref().is_some_and(is_rank);
        assert!(known, "a panic after:\n{}", calls.seen);
        calls.seen.push_str("waits\n");
    }
    let words = hash(copy().into_iter().flat_map(u64::to_le_bytes));
    writeln!(calls.seen, "words {words:08x}").unwrap();
    calls.seen
}

fn compare(mechanisms: &str) {
    let pages = boot(Copied, FRAMES, mechanisms, SectionInit::AtBoot);
    let held = use_some(pages);
    let whole = copy();
    let read = read_by(|| Calls::new(pages, &held).go_on());
    let words: Vec<usize> = (0..whole.len()).filter(|&word| read[word]).collect();
    let damage = |word: usize| {
        let before = whole[word];
        let values =
            [before.wrapping_add(1), before.wrapping_sub(1), before ^ 0x20, before ^ 0x1000, 0, 1 << 31, u64::MAX]
                .into_iter()
                .filter(|&value| value != before);
        let play = |value: u64| {
            let mut damaged = whole.clone();
            damaged[word] = value;
            put_back(&damaged);
            format!("word {word}: {value:#x} for {before:#x}\n{}", go_on(pages, &held))
        };
        values.map(play).collect::<String>()
    };
    let played = |words: &[usize]| {
        let transcript: String = words.iter().map(|&word| damage(word)).collect();
        let digests = format!("{:08x}", hash(transcript.bytes()));
        Played::new(format!("words {} to {}", words[0], words[words.len() - 1]), digests, || transcript)
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/allocator/damaged.txt");
    recorded::compare(&file, mechanisms, words.chunks(SIDE_BY_SIDE).map(played))
        .unwrap_or_else(|wrong| panic!("{wrong}"));
}

macro_rules! goes_on_as_recorded {
    ($($name:ident: $mechanisms:literal),+) => { $(
        #[test]
        fn $name() {
            compare($mechanisms);
        }
    )+ };
}

goes_on_as_recorded! {
    baseline_goes_on_as_recorded: "baseline",
    default_goes_on_as_recorded: "default",
    owned_pageblocks_go_on_as_recorded: "owned-pageblocks",
    clusters_go_on_as_recorded: "no_merge+cluster_alloc",
    numa_counters_go_on_as_recorded: "numa-patch3",
    linux_goes_on_as_recorded: "linux-6.1",
    range_locks_go_on_as_recorded: "patch7",
    splices_go_on_as_recorded: "patch8"
}
