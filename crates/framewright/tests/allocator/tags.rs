//! Tags of allocated blocks: the listings as text, agreement with a model, misuse, and readers beside writers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use framewright::machine::{Machine, Word};
use framewright::mechanisms::PRESETS;
use framewright::request::{GFP_KERNEL, GFP_USER};
use framewright::tags::{Group, Stamp, Tag, TaggedBlock, Tags};
use framewright::units::{NodeId, Order, Pfn, PfnRange};
use framewright::{Allocator, Config, FreeError, Layout, Mechanisms, Region, Request};
use framewright_ops::rng::Rng;
use framewright_rt::{Native, Solo, SoloWord, Storage};

const CPUS: [NodeId; 2] = [NodeId(0); 2];
/// With a hole, so that the table is not indexed by frame numbers.
const MEMORY: [Region; 2] = [Region::usable(0x1003, 0x2000, 0), Region::usable(0x8000, 0x9000, 0)];

type Pages<'a> = Allocator<'a, Solo<'static>>;

fn boots(mechanisms: Mechanisms, test: impl for<'p, 'a> FnOnce(&'p Pages<'a>, Tags<'p, 'a, Solo<'static>>)) {
    let config = Config { mechanisms, ..Config::new(&MEMORY, &CPUS) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Solo::new(&CPUS), &config, storage.parts()).unwrap();
    let words: Vec<SoloWord<u64>> = (0..Tags::words(&pages)).map(|_| Word::new(0)).collect();
    test(&pages, Tags::new(&pages, &words));
}

fn block(pfn: Pfn, order: u8) -> PfnRange {
    PfnRange::block(pfn, Order(order))
}

fn name(tag: Tag, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match tag.0 {
        1 => f.write_str("rx ring"),
        2 => f.write_str("page cache"),
        tag => write!(f, "tag {tag}"),
    }
}

#[test]
fn listings_look_like_those_of_linux() {
    boots(Mechanisms::DEFAULT, |pages, tags| {
        pages.machine().set_now(5 * Stamp::UNIT + 17);
        for (at, order, tag) in [(0x1400, 0, Some(2)), (0x1500, 3, Some(1)), (0x1600, 0, Some(2)), (0x8000, 1, None)] {
            pages.alloc_at(Pfn(at), Order(order), GFP_KERNEL).unwrap();
            tag.map_or(Ok(()), |tag| tags.record(block(Pfn(at), order), tags.stamp(Tag(tag)))).unwrap();
        }
        let whole = "\
Page allocated via order 0, ts 5368709120 ns
PFN 0x1400
 page cache

Page allocated via order 3, ts 5368709120 ns
PFN 0x1500
 rx ring

Page allocated via order 0, ts 5368709120 ns
PFN 0x1600
 page cache

Page allocated via order 1,
PFN 0x8000
 not recorded

";
        assert_eq!(tags.listing(name).to_string(), whole);
        let ring = "1 times, 8 pages:\n rx ring\n\n";
        let cache = "2 times, 2 pages:\n page cache\n\n";
        let none = "1 times, 2 pages:\n not recorded\n\n";
        let left = |blocks: u32, frames: u32| {
            format!("{blocks} times, {frames} pages:\n more owners than there was room for\n\n")
        };
        let mut room = [Group::default(); 4];
        for (groups, printed) in [
            (4, [ring, cache, none].concat()),
            (3, [ring, cache, none].concat()),
            (2, [ring, cache, &left(1, 2)].concat()),
            (1, [cache, &left(2, 10)].concat()),
            (0, left(4, 12)),
        ] {
            assert_eq!(tags.groups(&mut room[..groups]).named(name).to_string(), printed, "room for {groups}");
        }
    });
}

/// What a wrong call gets, and that it changes nothing.
#[test]
fn misuse_is_refused() {
    boots(Mechanisms::DEFAULT, |pages, tags| {
        let (old, new) = (tags.stamp(Tag(1)), tags.stamp(Tag(9)));
        let pfn = pages.alloc_at(Pfn(0x1400), Order(2), GFP_KERNEL).unwrap();
        tags.record(block(pfn, 2), old).unwrap();
        let free = Pfn(0x1404);
        let refused = [
            (block(free, 0), FreeError::AlreadyFree(free)),
            (block(pfn, 1), FreeError::WrongOrder { pfn, actual: Order(2) }),
            (block(pfn, 3), FreeError::AlreadyFree(free)),
            (block(pfn.add(1), 0), FreeError::NotHead { pfn: pfn.add(1), head: pfn }),
            (block(Pfn(0x5000), 0), FreeError::Foreign(Pfn(0x5000))),
            (block(Pfn(u64::MAX), 0), FreeError::BadRange(block(Pfn(u64::MAX), 0))),
            (PfnRange::new(7, 7), FreeError::BadRange(PfnRange::new(7, 7))),
        ];
        for (range, error) in refused {
            assert_eq!((tags.record(range, new), tags.clear(range)), (Err(error), Err(error)), "{range}");
            assert_eq!(tags.of(pfn), Some(old), "{range}");
        }
        // A free that is refused keeps the tag, whatever the reason.
        for (range, order) in [(block(pfn, 3), 3), (block(pfn, 1), 1), (block(pfn, 0), 0)] {
            let freed = tags.free(range, || pages.free(pfn, Order(order)));
            assert!(freed.is_err(), "{freed:?}");
            assert_eq!(tags.blocks().collect::<Vec<_>>(), [TaggedBlock { pfn, order: Order(2), stamp: Some(old) }]);
        }
        assert_eq!((tags.clear(block(pfn, 2)), tags.clear(block(pfn, 2))), (Ok(1), Ok(0)), "cleared twice");
        assert_eq!(tags.of(pfn), None);
        tags.record(block(pfn, 2), old).unwrap();
        tags.free(block(pfn, 2), || pages.free(pfn, Order(2))).unwrap();
        let twice = tags.free(block(pfn, 2), || pages.free(pfn, Order(2)));
        assert_eq!(
            (twice, tags.clear(block(pfn, 2))),
            (Err(FreeError::AlreadyFree(pfn)), Err(FreeError::AlreadyFree(pfn)))
        );
        // Freed past the table, and allocated again past it in another order: the old tag is nobody's.
        let pfn = pages.alloc_at(pfn, Order(2), GFP_KERNEL).unwrap();
        tags.record(block(pfn, 2), old).unwrap();
        pages.free(pfn, Order(2)).unwrap();
        assert_eq!(tags.blocks().count(), 0);
        pages.alloc_at(pfn, Order(0), GFP_KERNEL).unwrap();
        assert_eq!(tags.blocks().collect::<Vec<_>>(), [TaggedBlock { pfn, order: Order(0), stamp: None }]);
        // A table that is too short has no word for the frame.
        let short = Tags::new(pages, &[]);
        assert_eq!(short.record(block(pfn, 0), old), Err(FreeError::Foreign(pfn)));
        assert_eq!((short.of(pfn), short.blocks().count()), (None, 1));
    });
}

/// Allocated blocks by their first frame.
type Model = BTreeMap<u64, (u8, Option<Stamp>)>;

struct Play<'p, 'a> {
    pages: &'p Pages<'a>,
    tags: Tags<'p, 'a, Solo<'static>>,
    model: Model,
    rng: Rng,
}

impl Play<'_, '_> {
    fn below(&mut self, end: u64) -> u64 {
        self.rng.below(end)
    }

    fn some_block(&mut self) -> Option<(Pfn, u8)> {
        let at = self.below(self.model.len().max(1) as u64) as usize;
        self.model.iter().nth(at).map(|(&pfn, &(order, _))| (Pfn(pfn), order))
    }

    /// Records a stamp of one of eight owners, or none.
    fn took(&mut self, range: PfnRange, order_of: impl Fn(&Self) -> Vec<(Pfn, u8)>) {
        let stamp = (self.below(8) != 0).then(|| self.tags.stamp(Tag(self.rng.draw() as u32 % 8)));
        match stamp {
            Some(stamp) => self.tags.record(range, stamp).unwrap(),
            // The table may know an earlier owner, whose free went past it.
            None => drop(self.tags.clear(range).unwrap()),
        }
        self.model.extend(order_of(self).into_iter().map(|(pfn, order)| (pfn.0, (order, stamp))));
    }

    fn alloc(&mut self) {
        let order = self.below(5) as u8;
        if let Ok(pfn) = self.pages.alloc(&Request::new(GFP_USER, order)) {
            self.took(block(pfn, order), |_| vec![(pfn, order)]);
        }
    }

    fn alloc_contig(&mut self) {
        let frames = 1 + self.below(40);
        if let Ok(range) = self.pages.alloc_contig(frames, Order(0), &Request::page(GFP_USER)) {
            let tiles =
                move |play: &Self| range.blocks(play.pages.geometry().max_order).map(|(p, o)| (p, o.0)).collect();
            self.took(range, tiles);
        }
    }

    fn free(&mut self) {
        let Some((pfn, order)) = self.some_block() else { return };
        self.tags.free(block(pfn, order), || self.pages.free(pfn, Order(order))).unwrap();
        self.model.remove(&pfn.0);
    }

    /// Frees some frames out of blocks that lie side by side.
    fn free_part(&mut self) {
        let Some((pfn, order)) = self.some_block() else { return };
        let start = pfn.add(self.below(1 << order));
        let mut end = pfn.add(1 << order);
        while let Some(&(next, _)) = self.model.get(&end.0) {
            end = end.add(1 << next);
        }
        let range = PfnRange { start, end: start.add(1 + self.below(end.0 - start.0)) };
        self.tags.free(range, || self.pages.free_range(range)).unwrap();
        let hit: Vec<_> = self.model.range(pfn.0..range.end.0).map(|(&pfn, &of)| (Pfn(pfn), of)).collect();
        for (pfn, (order, stamp)) in hit {
            let whole = block(pfn, order);
            self.model.remove(&pfn.0);
            for rest in
                [PfnRange { end: range.start.max(pfn), ..whole }, PfnRange { start: range.end.min(whole.end), ..whole }]
            {
                let tiles = rest.intersect(whole).blocks(self.pages.geometry().max_order);
                self.model.extend(tiles.map(|(pfn, order)| (pfn.0, (order.0, stamp))));
            }
        }
    }

    fn split(&mut self) {
        let Some((pfn, from)) = self.some_block() else { return };
        let to = self.below(u64::from(from) + 1) as u8;
        let stamp = self.tags.of(pfn);
        self.pages.split(pfn, Order(from), Order(to)).unwrap();
        if let Some(stamp) = stamp {
            self.tags.record(block(pfn, from), stamp).unwrap();
        } else {
            self.tags.clear(block(pfn, from)).unwrap();
        }
        self.model.extend((0..1 << (from - to)).map(|piece| (pfn.add(piece << to).0, (to, stamp))));
    }

    /// Frees what is not there, and with another order.
    fn free_wrong(&mut self) {
        let pfn = Pfn(0x1003 + self.below(0xffd));
        let order = self.below(6) as u8;
        if self.model.get(&pfn.0).is_none_or(|&(actual, _)| actual != order) {
            assert!(self.tags.free(block(pfn, order), || self.pages.free(pfn, Order(order))).is_err());
        }
    }

    fn compare(&self) {
        let listed: Vec<TaggedBlock> = self.tags.blocks().collect();
        let model =
            self.model.iter().map(|(&pfn, &(order, stamp))| TaggedBlock { pfn: Pfn(pfn), order: Order(order), stamp });
        assert_eq!(listed, model.collect::<Vec<_>>());
        let mut room = [Group::default(); 9];
        let groups = self.tags.groups(&mut room);
        let mut sums: BTreeMap<Option<Tag>, (u64, u64)> = BTreeMap::new();
        for &(order, stamp) in self.model.values() {
            let sum = sums.entry(stamp.map(|stamp| stamp.tag)).or_default();
            *sum = (sum.0 + 1, sum.1 + (1 << order));
        }
        let mut last = u64::MAX;
        for group in groups.iter() {
            assert!(group.frames <= last, "largest first");
            last = group.frames;
            assert_eq!(sums.remove(&group.tag), Some((group.blocks, group.frames)));
        }
        assert_eq!((sums.len(), groups.rest().blocks), (0, 0));
    }
}

#[test]
fn the_listing_agrees_with_a_model_after_any_calls() {
    for (seed, &(_, mechanisms)) in PRESETS.iter().enumerate() {
        boots(mechanisms, |pages, tags| {
            let mut play = Play { pages, tags, model: Model::new(), rng: Rng::new(seed as u64) };
            for turn in 0..600 {
                pages.machine().set_now(turn * Stamp::UNIT);
                match play.below(12) {
                    0..=3 => play.alloc(),
                    4 => play.alloc_contig(),
                    5..=7 => play.free(),
                    8 => play.free_part(),
                    9 => play.split(),
                    _ => play.free_wrong(),
                }
                play.compare();
            }
        });
    }
}

/// Two threads allocate and free with tags that repeat their order; the third sees no tag with another one.
#[test]
fn a_listing_beside_writers_has_no_torn_entry() {
    let config = Config::new(&MEMORY, &CPUS);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Native::new(&CPUS), &config, storage.parts()).unwrap();
    let words: Vec<<Native as Machine>::U64> = (0..Tags::words(&pages)).map(|_| Word::new(0)).collect();
    let (tags, done) = (Tags::new(&pages, &words), AtomicBool::new(false));
    let write = |seed: u64| {
        let mut rng = Rng::new(seed);
        for _ in 0..4_000 {
            let order = (rng.draw() % 4) as u8;
            let Ok(pfn) = pages.alloc(&Request::new(GFP_USER, order)) else { continue };
            let tag = Tag((rng.draw() as u32) << 8 | u32::from(order));
            tags.record(block(pfn, order), tags.stamp(tag)).unwrap();
            assert_eq!(tags.of(pfn).unwrap().tag, tag);
            tags.free(block(pfn, order), || pages.free(pfn, Order(order))).unwrap();
        }
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0_u64;
            while !done.load(Ordering::Relaxed) || seen == 0 {
                let mut end = Pfn(0);
                for TaggedBlock { pfn, order, stamp } in tags.blocks() {
                    assert!(pfn >= end && pfn.is_aligned(order), "{pfn} of order {order}");
                    assert!(stamp.is_none_or(|stamp| stamp.tag.0 & 0xff == order.0.into()), "{pfn}: {stamp:?}");
                    end = pfn.add(order.frames());
                    seen += 1;
                }
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let writers = [1, 2].map(|seed| scope.spawn(move || write(seed)));
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(tags.blocks().count(), 0);
}
