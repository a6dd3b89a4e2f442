//! Bulk calls do what as many single calls do: the same blocks, counts and refusals, and the same state at the end.
//!
//! Two allocators of one kind get the same requests and frees, one in bulk and one by single calls. After each call
//! both have handed out the same frame numbers and refused the same frees.

use framewright::mechanisms::PRESETS;
use framewright::request::{__GFP_DMA32, __GFP_RECLAIMABLE, __GFP_ZERO, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_USER};
use framewright::units::{CpuId, NodeId, Order, Pfn};
use framewright::{Allocator, BulkFree, Config, FrameState, Gfp, Layout, Mechanisms, Region, Request};
use framewright_rt::Storage;
use proptest::prelude::*;

use crate::roles::{Keeping, Kept, Roles, Unkept};

/// Two runs of zone DMA32 with a hole between, and one of zone Normal: 48 MiB.
const MAP: [Region; 3] = [
    Region::usable(0x1_0000, 0x1_1000, 0),
    Region::usable(0x2_0200, 0x2_1200, 0),
    Region::usable(0x10_0000, 0x10_1000, 0),
];
const CPUS: [NodeId; 2] = [NodeId(0); 2];
const GFPS: [Gfp; 6] = [
    GFP_KERNEL,
    GFP_HIGHUSER_MOVABLE,
    Gfp(GFP_KERNEL.0 | __GFP_RECLAIMABLE.0),
    Gfp(GFP_USER.0 | __GFP_DMA32.0),
    Gfp(GFP_HIGHUSER_MOVABLE.0 | __GFP_DMA32.0),
    Gfp(GFP_KERNEL.0 | __GFP_ZERO.0),
];
const ORDERS: [u8; 8] = [0, 0, 0, 1, 2, 3, 5, 9];

/// A wrong free in the middle of right ones.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// The block before it, again.
    Twice,
    /// The second frame of the block before it.
    Inside,
    /// A frame in the hole.
    Foreign,
    /// A block of another order.
    Order,
}

#[derive(Clone, Debug)]
enum Turn {
    /// Allocates `count` blocks.
    Alloc {
        order: u8,
        gfp: Gfp,
        count: usize,
    },
    /// Frees up to `count` blocks of an order, shuffled by `seed`, with a wrong free after each of `wrong`.
    Free {
        order: u8,
        count: usize,
        seed: u64,
        wrong: Vec<(usize, Wrong)>,
    },
    RunOn(u16),
    Drain,
}

fn turn() -> impl Strategy<Value = Turn> {
    let order = || (0..ORDERS.len()).prop_map(|index| ORDERS[index]);
    let wrongs = [Wrong::Twice, Wrong::Inside, Wrong::Foreign, Wrong::Order];
    let wrong = (0..200_usize, 0..wrongs.len()).prop_map(move |(at, index)| (at, wrongs[index]));
    let free = (order(), 0..200_usize, any::<u64>(), prop::collection::vec(wrong, 0..4));
    prop_oneof![
        4 => (order(), 0..GFPS.len(), 0..200_usize)
            .prop_map(|(order, gfp, count)| Turn::Alloc { order, gfp: GFPS[gfp], count }),
        4 => free.prop_map(|(order, count, seed, wrong)| Turn::Free { order, count, seed, wrong }),
        1 => (0..2_u16).prop_map(Turn::RunOn),
        1 => Just(Turn::Drain),
    ]
}

/// One allocator, and the blocks that were allocated from it.
struct Side<'p, K: Keeping> {
    pages: &'p Allocator<'p, Roles<K>>,
    in_bulk: bool,
    held: Vec<(Pfn, u8)>,
}

impl<K: Keeping> Side<'_, K> {
    /// Returns the blocks, the number of blocks that were zeroed, and whether the call failed.
    fn alloc(&mut self, request: &Request, count: usize) -> (Vec<Pfn>, usize) {
        let mut blocks = vec![Pfn(u64::MAX); count];
        let served = if self.in_bulk {
            self.pages.alloc_bulk(request, &mut blocks).unwrap_or(0)
        } else {
            let served = blocks.iter_mut().map_while(|block| self.pages.alloc(request).ok().map(|pfn| *block = pfn));
            served.count()
        };
        assert!(blocks[served..].iter().all(|&pfn| pfn == Pfn(u64::MAX)), "entries after the last one are unchanged");
        blocks.truncate(served);
        for &pfn in &blocks {
            assert_eq!(self.pages.state_of(pfn), FrameState::Allocated(pfn, request.order));
        }
        self.held.extend(blocks.iter().map(|&pfn| (pfn, request.order.0)));
        let zeroed = self.pages.machine().take_zeroed();
        let zeroed = blocks.iter().filter(|&&pfn| zeroed.contains(&(pfn, request.order))).count();
        (blocks, zeroed)
    }

    fn free(&mut self, (order, count, seed): (u8, usize, u64), wrong: &[(usize, Wrong)]) -> BulkFree {
        let mut blocks: Vec<Pfn> = self.held.iter().filter(|held| held.1 == order).map(|held| held.0).collect();
        let other = self.held.iter().find(|held| held.1 != order).map(|held| held.0);
        // A position, not a frame number, so that both sides shuffle alike.
        let mut keys: Vec<usize> = (0..blocks.len()).collect();
        keys.sort_by_key(|&at| (at as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
        blocks = keys.into_iter().take(count).map(|at| blocks[at]).collect();
        self.held.retain(|(pfn, _)| !blocks.contains(pfn));
        for &(at, wrong) in wrong {
            if at >= blocks.len() {
                continue;
            }
            let pfn = match wrong {
                Wrong::Twice => blocks[at],
                Wrong::Inside => blocks[at].add(1),
                Wrong::Foreign => Pfn(0x1_8000),
                Wrong::Order => other.unwrap_or(Pfn(7)),
            };
            // A frame inside an order-0 block is another block, which may be one of the list.
            let pfn = if order == 0 && matches!(wrong, Wrong::Inside) { Pfn(0x1_8001) } else { pfn };
            blocks.insert(at + 1, pfn);
        }
        if self.in_bulk {
            return self.pages.free_bulk(&blocks, Order(order));
        }
        let mut result = BulkFree::default();
        for (at, &pfn) in blocks.iter().enumerate() {
            match self.pages.free(pfn, Order(order)) {
                Ok(()) => result.freed += 1,
                Err(error) => {
                    result.refused += 1;
                    result.first = result.first.or(Some((at, error)));
                }
            }
        }
        result
    }

    /// The state of every frame.
    fn states(&self) -> Vec<FrameState> {
        MAP.iter()
            .flat_map(|region| (region.range.start.0..region.range.end.0).map(|pfn| self.pages.state_of(Pfn(pfn))))
            .collect()
    }
}

fn compare<K: Keeping>(mechanisms: Mechanisms, turns: &[Turn]) {
    let config = Config { mechanisms, ..Config::new(&MAP, &CPUS) };
    let layout = Layout::of(&config).unwrap();
    let mut storage = [Storage::new(&layout), Storage::new(&layout)];
    let [one, other] =
        storage.each_mut().map(|storage| Allocator::boot(Roles::<K>::new(&CPUS), &config, storage.parts()).unwrap());
    let mut single = Side { pages: &one, in_bulk: false, held: Vec::new() };
    let mut bulk = Side { pages: &other, in_bulk: true, held: Vec::new() };
    for turn in turns {
        match turn {
            Turn::Alloc { order, gfp, count } => {
                let request = Request::new(*gfp, *order);
                assert_eq!(bulk.alloc(&request, *count), single.alloc(&request, *count), "{turn:?}");
            }
            Turn::Free { order, count, seed, wrong } => {
                let how = (*order, *count, *seed);
                assert_eq!(bulk.free(how, wrong), single.free(how, wrong), "{turn:?}");
            }
            Turn::RunOn(cpu) => {
                [&single, &bulk].map(|side| side.pages.machine().run_on(CpuId(*cpu))).into_iter().collect()
            }
            Turn::Drain => assert_eq!(other.drain_all(), one.drain_all()),
        }
        assert_eq!(other.counters().bad_frees, one.counters().bad_frees, "{turn:?}");
    }
    assert_eq!(other.validate().unwrap(), one.validate().unwrap());
    assert!(bulk.states() == single.states(), "the same blocks are allocated, cached and free");
    for side in [&mut single, &mut bulk] {
        for (pfn, order) in std::mem::take(&mut side.held) {
            side.pages.free(pfn, Order(order)).unwrap();
        }
        side.pages.drain_all();
        let census = side.pages.validate().unwrap();
        assert_eq!((census.allocated, census.pcp), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn bulk_calls_do_what_single_calls_do(
        preset in 0..=PRESETS.len(),
        turns in prop::collection::vec(turn(), 1..40),
    ) {
        let mechanisms = PRESETS.get(preset).map_or(Mechanisms::DEFAULT, |preset| preset.1);
        compare::<Unkept>(mechanisms, &turns);
        compare::<Kept>(mechanisms, &turns);
    }
}

/// What random turns found.
#[test]
fn bulk_calls_end_with_what_single_calls_end_with() {
    let turns = [
        Turn::Alloc { order: 5, gfp: GFPS[0], count: 86 },
        Turn::RunOn(1),
        Turn::Alloc { order: 0, gfp: GFPS[5], count: 163 },
        Turn::Alloc { order: 2, gfp: GFPS[0], count: 123 },
        Turn::Alloc { order: 1, gfp: GFPS[3], count: 0 },
        Turn::Alloc { order: 0, gfp: GFPS[3], count: 91 },
        Turn::Alloc { order: 9, gfp: GFPS[0], count: 16 },
        Turn::Free {
            order: 0,
            count: 6,
            seed: 3954960612882931337,
            wrong: vec![(66, Wrong::Order), (158, Wrong::Foreign)],
        },
        Turn::RunOn(0),
        Turn::Free {
            order: 3,
            count: 77,
            seed: 1311050795872293959,
            wrong: vec![(190, Wrong::Foreign), (174, Wrong::Inside), (170, Wrong::Foreign)],
        },
        Turn::Alloc { order: 2, gfp: GFPS[4], count: 64 },
        Turn::Free {
            order: 0,
            count: 198,
            seed: 13598045043529320564,
            wrong: vec![(8, Wrong::Order), (114, Wrong::Order)],
        },
        Turn::Alloc { order: 2, gfp: GFPS[2], count: 71 },
        Turn::Free { order: 2, count: 79, seed: 2951280438367566025, wrong: vec![] },
    ];
    compare::<Unkept>(PRESETS[8].1, &turns);
}
