//! Threads that take disjoint ranges in the same pageblocks: none fails for another.

use std::sync::Barrier;
use std::time::Duration;

use framewright::machine::Machine;
use framewright::mechanisms::Mechanisms;
use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::{Allocator, Config, Layout, NodeId, Order, Pfn, PfnRange, Region};
use framewright_rt::{Native, Storage};

const BASE: u64 = 0x10_0800;
const FRAMES: u64 = 2048;
const PRESETS: [&str; 6] =
    ["baseline", "default", "linux-6.1", "patch8", "baseline,zone-lock=queued", "default,numa-stat=s8"];
const THREADS: u64 = 3;
const TRIES: u64 = 600;
/// Frames of a slot. Slots belong to the threads in turn: 8 slots in a pageblock.
const SLOT: u64 = 64;

/// Numbers that look random.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// A range in one of a thread's slots.
    fn range(&mut self, thread: u64) -> PfnRange {
        let slots = FRAMES / SLOT / THREADS;
        let slot = BASE + (self.below(slots) * THREADS + thread) * SLOT;
        let start = self.below(SLOT);
        PfnRange::new(slot + start, slot + start + 1 + self.below(SLOT - start))
    }
}

/// Runs threads that each take and give back places of their own, one at a time, and tells of those that failed.
fn failures(turn: impl Fn(&Allocator<'_, Native>, PfnRange, u64) -> Result<(), String> + Sync) -> Vec<String> {
    let regions = [Region::usable(BASE, BASE + FRAMES, 0)];
    let cpus = [NodeId(0); THREADS as usize];
    let mut failed = Vec::new();
    for preset in PRESETS {
        let config = Config { mechanisms: Mechanisms::parse(preset).unwrap(), ..Config::new(&regions, &cpus) };
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let pages = Allocator::boot(Native::new(&cpus), &config, storage.parts()).unwrap();
        let start = Barrier::new(THREADS as usize);
        let wrong: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (pages, start, turn) = (&pages, &start, &turn);
                    scope.spawn(move || {
                        let mut draw = Draw(thread + 1);
                        start.wait();
                        let tries = (0..TRIES).filter_map(|number| turn(pages, draw.range(thread), number).err());
                        tries.collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        pages.drain_all();
        let census = pages.validate().unwrap();
        assert_eq!(census.free, FRAMES, "{preset}: {census:?}");
        failed.extend(wrong.into_iter().map(|text| format!("{preset}: {text}")));
    }
    failed
}

#[track_caller]
fn assert_none(failed: &[String]) {
    assert!(failed.is_empty(), "{} failed, as {}", failed.len(), failed[0]);
}

#[test]
fn disjoint_ranges_in_one_pageblock_are_all_served() {
    assert_none(&failures(|pages, range, number| {
        let gfp = [GFP_KERNEL, GFP_NOWAIT, GFP_HIGHUSER_MOVABLE][number as usize % 3];
        pages.alloc_range(range, gfp).map_err(|error| format!("{range}: {error}"))?;
        pages.free_range(range).map_err(|error| format!("{range} is freed: {error}"))
    }));
}

#[test]
fn blocks_by_place_beside_ranges_are_all_served() {
    assert_none(&failures(|pages, range, number| {
        let (pfn, order) = range.blocks(Order(5)).next_back().unwrap();
        if number % 2 == 0 {
            pages.alloc_at(pfn, order, GFP_KERNEL).map_err(|error| format!("{pfn} of order {order}: {error}"))?;
            return pages.free(pfn, order).map_err(|error| format!("{pfn} is freed: {error}"));
        }
        pages.alloc_range(range, GFP_NOWAIT).map_err(|error| format!("{range}: {error}"))?;
        pages.free_range(range).map_err(|error| format!("{range} is freed: {error}"))
    }));
}

#[test]
fn parts_of_one_pageblock_go_offline_and_come_back() {
    assert_none(&failures(|pages, range, _| {
        pages.take_offline(range).map_err(|error| format!("{range}: {error}"))?;
        match pages.bring_online(range) {
            online if online == range.frames() => Ok(()),
            online => Err(format!("{online} frames of {range} came back")),
        }
    }));
}

/// Once, a range that must not wait failed if another thread had the CPU at that moment.
#[test]
fn a_range_meets_another_on_its_cpu() {
    let regions = [Region::usable(BASE, BASE + FRAMES, 0)];
    let config = Config::new(&regions, &[NodeId(0)]);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Native::new(&[NodeId(0)]), &config, storage.parts()).unwrap();
    let [held, asked] = [(); 2].map(|()| Barrier::new(2));
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _pin = pages.machine().pin();
            held.wait();
            asked.wait();
            std::thread::sleep(Duration::from_millis(1));
        });
        let asking = scope.spawn(|| {
            held.wait();
            asked.wait();
            let block = pages.alloc_at(Pfn(BASE), Order(3), GFP_NOWAIT);
            block.and(pages.alloc_range(PfnRange::new(BASE + 9, BASE + 70), GFP_NOWAIT))
        });
        asking.join().unwrap()
    });
    assert_eq!(taken, Ok(()));
}

/// Of threads that want the same frames at least one is served, and no frame has two owners.
#[test]
fn overlapping_ranges_go_to_one() {
    let regions = [Region::usable(BASE, BASE + FRAMES, 0)];
    let cpus = [NodeId(0); THREADS as usize];
    let config = Config::new(&regions, &cpus);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Native::new(&cpus), &config, storage.parts()).unwrap();
    let barrier = Barrier::new(THREADS as usize);
    let ranges = [(0, 40), (20, 60), (39, 80)].map(|(start, end)| PfnRange::new(BASE + start, BASE + end));
    for _ in 0..300 {
        let taken: Vec<bool> = std::thread::scope(|scope| {
            let threads = ranges.map(|range| {
                let (pages, barrier) = (&pages, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    pages.alloc_range(range, GFP_KERNEL).is_ok()
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(taken.iter().any(|&taken| taken), "none was served");
        let held: u64 = ranges.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(range, _)| range.frames()).sum();
        assert_eq!(pages.validate().unwrap().allocated, held, "{taken:?}");
        ranges.iter().zip(&taken).filter(|(_, taken)| **taken).for_each(|(range, _)| pages.free_range(*range).unwrap());
    }
}
