//! Everything at once: threads make random calls to one small allocator, beside a map of each frame's owner.
//!
//! No frame gets a second owner. At the end of each round all frames come back, every invariant holds, no free was
//! refused and no list had to be repaired. The lists are tiny, so that refills, drains and claims meet all the time.
//! Pages in the *pool* have no owner: the migration callback moves them, the reclaim callback frees them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, OnceLock};

use framewright::machine::{Busy, Machine, Need, Ordering, Patience, Pinned, Reclaimed, Word};
use framewright::report::BuddyInfo;
use framewright::request::{
    __GFP_MOVABLE, __GFP_RECLAIMABLE, GFP_ATOMIC, GFP_DMA, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT, Gfp, NodeSet,
    Policy,
};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::watermark::{Marks, PcpSize};
use framewright::{Allocator, Config, FreeError, Geometry, Layout, Region, Request, Tuning};
use framewright_rt::{Native, Storage};

use crate::machine::runs_on_threads;

type Pages = &'static Allocator<'static, Threads>;

const MAP: [Region; 4] = [
    Region::usable(0x801, 0xff0, 0),
    Region::usable(0x1000, 0x2f85, 0),
    Region::reserved(0x2f85, 0x3000, 0),
    Region::usable(0x3000, 0x4400, 1),
];
const END: u64 = 0x4400;
/// Fewer CPUs than threads, so that the threads change places.
const CPUS: [NodeId; 3] = [NodeId(0), NodeId(0), NodeId(1)];
const THREADS: u8 = 4;
const STEPS: u32 = 800;
/// Owner of the frames that callbacks may move and free.
const POOL: u8 = 100;
/// Largest order and pageblock order.
const GEOMETRIES: [(u8, u8); 8] = [(10, 9), (10, 3), (6, 4), (5, 0), (4, 2), (3, 3), (1, 1), (10, 9)];
/// Batch and high of the per-CPU lists.
const LISTS: [(u32, u32); 5] = [(7, 60), (1, 4), (2, 9), (3, 17), (5, 30)];

/// The state that threads and callbacks share.
struct Shared {
    pages: OnceLock<Pages>,
    owners: Vec<AtomicU8>,
    pool: Mutex<BTreeMap<Pfn, Order>>,
}

impl Shared {
    fn pages(&self) -> Pages {
        self.pages.get().unwrap()
    }

    #[track_caller]
    fn hand(&self, range: PfnRange, from: u8, to: u8) {
        for pfn in range.start.0..range.end.0 {
            let owner = self.owners[pfn as usize].swap(to, SeqCst);
            assert_eq!(owner, from, "frame {pfn:#x} of {range} goes from {from} to {to}");
        }
    }

    /// Frees a page of the pool and returns its frames; 0 if the pool is empty.
    fn shrink(&self) -> u64 {
        let Some((pfn, order)) = self.pool.lock().unwrap().pop_last() else { return 0 };
        self.hand(PfnRange::block(pfn, order), POOL, 0);
        self.pages().free(pfn, order).unwrap();
        order.frames()
    }

    /// Moves a page of the pool.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let mut pool = self.pool.lock().unwrap();
        if pool.get(&from) != Some(&order) {
            return Err(Busy);
        }
        self.hand(PfnRange::block(to, order), 0, POOL);
        pool.remove(&from);
        pool.insert(to, order);
        self.hand(PfnRange::block(from, order), POOL, 0);
        self.pages().free(from, order).unwrap();
        Ok(())
    }
}

/// A word at which other threads get their turn now and then.
///
/// Without it a thread is seldom interrupted there.
struct Slow<W>(W);

fn stumble() {
    thread_local!(static TURN: Cell<u32> = const { Cell::new(1) });
    TURN.set(TURN.get().wrapping_mul(747_796_405).wrapping_add(2_891_336_453));
    if TURN.get() >> 25 == 0 {
        std::thread::yield_now();
    }
}

impl<T: Copy, W: Word<T>> Word<T> for Slow<W> {
    fn new(value: T) -> Self {
        Slow(W::new(value))
    }

    fn load(&self, order: Ordering) -> T {
        stumble();
        self.0.load(order)
    }

    fn store(&self, value: T, order: Ordering) {
        stumble();
        self.0.store(value, order);
    }

    fn swap(&self, value: T, order: Ordering) -> T {
        self.0.swap(value, order)
    }

    fn cas(&self, current: T, new: T, order: Ordering) -> Result<T, T> {
        stumble();
        self.0.cas(current, new, order)
    }

    fn add(&self, value: T, order: Ordering) -> T {
        self.0.add(value, order)
    }

    fn wait_while(&self, patience: Patience, waiting: impl FnMut(T) -> bool) -> Result<T, Busy> {
        self.0.wait_while(patience, waiting)
    }
}

/// [`Native`] with callbacks.
struct Threads {
    native: Native,
    shared: &'static Shared,
}

impl Machine for Threads {
    runs_on_threads!(native, Slow);

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn light_fence(&self) {
        self.native.light_fence();
    }

    fn heavy_fence(&self) {
        self.native.heavy_fence();
    }

    fn reclaim(&self, _: &Need) -> Reclaimed {
        Reclaimed { frames: (0..4).map(|_| self.shared.shrink()).sum() }
    }

    fn migrates(&self) -> bool {
        true
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        self.shared.migrate(from, to, order)
    }
}

fn boot(max: u8, pageblock: u8, pcp: PcpSize) -> &'static Shared {
    let owners = (0..END).map(|_| AtomicU8::new(0)).collect();
    let shared: &Shared = Box::leak(Box::new(Shared { pages: OnceLock::new(), owners, pool: Mutex::default() }));
    let marks = Some(Marks { min: 8, low: 16, high: 32 });
    let tuning = [(0, ZoneKind::Dma), (0, ZoneKind::Dma32), (1, ZoneKind::Dma32)].map(|(node, kind)| Tuning {
        zone: ZoneIdx::of(NodeId(node), kind),
        marks,
        reserve: None,
        pcp: Some(pcp),
    });
    let geometry = Geometry { page_shift: 12, max_order: Order(max), pageblock_order: Order(pageblock) };
    let config = Config { geometry, tuning: &tuning, ..Config::new(&MAP, &CPUS) };
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    let machine = Threads { native: Native::new(&CPUS), shared };
    let pages: Pages = Box::leak(Box::new(Allocator::boot(machine, &config, storage.parts()).unwrap()));
    assert!(shared.pages.set(pages).is_ok());
    shared
}

/// A thread's block.
#[derive(Clone, Copy)]
enum Holding {
    Block(Pfn, Order),
    Range(PfnRange),
    Offline(PfnRange),
}

impl Holding {
    fn range(self) -> PfnRange {
        match self {
            Holding::Block(pfn, order) => PfnRange::block(pfn, order),
            Holding::Range(range) | Holding::Offline(range) => range,
        }
    }
}

/// One thread.
struct Player {
    shared: &'static Shared,
    me: u8,
    random: u64,
    held: Vec<Holding>,
}

impl Player {
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn keep(&mut self, holding: Holding) {
        self.shared.hand(holding.range(), 0, self.me);
        self.held.push(holding);
    }

    fn pick(&mut self) -> Option<Holding> {
        let count = self.held.len() as u64;
        (count != 0).then(|| self.below(count)).map(|at| self.held.swap_remove(at as usize))
    }

    fn order(&mut self) -> Order {
        let Geometry { max_order, pageblock_order, .. } = self.shared.pages().geometry();
        self.of(&[Order(0), Order(0), Order(0), Order(1), Order(2), Order(3), Order(4), pageblock_order, max_order])
            .min(max_order)
    }

    fn gfp(&mut self) -> Gfp {
        let movable = GFP_NOWAIT | __GFP_MOVABLE;
        let any = [GFP_KERNEL, GFP_HIGHUSER_MOVABLE, GFP_KERNEL | __GFP_RECLAIMABLE, GFP_ATOMIC, movable, GFP_NOWAIT];
        if self.below(20) == 0 { GFP_KERNEL | GFP_DMA } else { self.of(&any) }
    }

    fn range(&mut self, longest: u64) -> PfnRange {
        let start = 0x7f0 + self.below(END - 0x7f0);
        PfnRange::new(start, start + 1 + self.below(longest))
    }

    fn step(&mut self) {
        match self.below(40) {
            0..=11 if self.held.len() < 150 => self.alloc(),
            12..=25 => self.free(),
            26..=28 => self.cut(),
            29..=30 => self.take_place(),
            31 => self.go_offline(),
            32..=33 => self.feed_pool(),
            34..=36 => self.wrong_free(),
            _ => self.manage(),
        }
    }

    fn alloc(&mut self) {
        let (order, gfp, pages) = (self.order(), self.gfp(), self.shared.pages());
        let request = Request::new(gfp, order.0);
        match self.below(8) {
            0 => {
                let mut out = [Pfn(0); 5];
                let served = pages.alloc_bulk(&request, &mut out).unwrap_or(0);
                out.iter().take(served).for_each(|&pfn| self.keep(Holding::Block(pfn, order)));
            }
            1 => {
                // A little beyond the largest block: longer ranges are searched for.
                let Geometry { max_order, pageblock_order, .. } = pages.geometry();
                let longest = max_order.frames() + 4 * pageblock_order.frames();
                let (frames, align) = (1 + self.below(longest), self.order());
                if let Ok(range) = pages.alloc_contig(frames, align, &Request::page(gfp)) {
                    self.keep(Holding::Range(range));
                }
            }
            2 => {
                let limit = Pfn(0x1000 + self.below(0x2000));
                if let Ok(pfn) = pages.alloc(&request.below(limit)) {
                    assert!(pfn.add(order.frames()) <= limit);
                    self.keep(Holding::Block(pfn, order));
                }
            }
            turn => {
                let policy = if turn == 3 { Policy::Interleave(NodeSet(3)) } else { Policy::Local };
                if let Ok(pfn) = pages.alloc(&request.with(policy)) {
                    self.keep(Holding::Block(pfn, order));
                }
            }
        }
    }

    fn free(&mut self) {
        let Some(holding) = self.pick() else { return };
        self.shared.hand(holding.range(), self.me, 0);
        let pages = self.shared.pages();
        match holding {
            Holding::Block(pfn, order) => pages.free(pfn, order).unwrap(),
            Holding::Range(range) => pages.free_range(range).unwrap(),
            Holding::Offline(range) => assert_eq!(pages.bring_online(range), range.frames(), "{range}"),
        }
    }

    /// Splits a block, or frees some of its middle.
    fn cut(&mut self) {
        let Some(holding) = self.pick() else { return };
        let range = holding.range();
        let (start, pages) = (range.start.0 + self.below(range.frames()), self.shared.pages());
        let inner = PfnRange::new(start, start + 1 + self.below(range.end.0 - start));
        match holding {
            Holding::Offline(_) => return self.held.push(holding),
            Holding::Block(pfn, order) if self.below(3) == 0 => {
                let to = Order(self.below(u64::from(order.0) + 1) as u8);
                pages.split(pfn, order, to).unwrap();
                return self.held.push(Holding::Range(range));
            }
            Holding::Block(..) | Holding::Range(_) => {}
        }
        self.shared.hand(inner, self.me, 0);
        pages.free_range(inner).unwrap();
        for rest in [PfnRange { end: inner.start, ..range }, PfnRange { start: inner.end, ..range }] {
            if !rest.is_empty() {
                self.held.push(Holding::Range(rest));
            }
        }
    }

    fn take_place(&mut self) {
        let (gfp, pages) = (self.gfp(), self.shared.pages());
        if self.below(2) == 0 {
            let order = self.order();
            let at = self.range(1).start.align_down(order);
            if let Ok(pfn) = pages.alloc_at(at, order, gfp) {
                self.keep(Holding::Block(pfn, order));
            }
        } else {
            let range = self.range(700);
            if pages.alloc_range(range, gfp).is_ok() {
                self.keep(Holding::Range(range));
            }
        }
    }

    fn go_offline(&mut self) {
        let mut range = self.range(600);
        if self.below(2) == 0 {
            let order = self.shared.pages().geometry().pageblock_order;
            range = PfnRange::block(range.start.align_down(order), order);
        }
        if self.shared.pages().take_offline(range).is_ok() {
            self.keep(Holding::Offline(range));
        }
    }

    fn feed_pool(&mut self) {
        let order = self.order().min(Order(4));
        if self.shared.pool.lock().unwrap().len() < 60
            && let Ok(pfn) = self.shared.pages().alloc(&Request { order, ..Request::page(GFP_HIGHUSER_MOVABLE) })
        {
            // Not in the pool yet, so not movable: the callback refuses.
            self.shared.hand(PfnRange::block(pfn, order), 0, POOL);
            self.shared.pool.lock().unwrap().insert(pfn, order);
        } else {
            self.shared.shrink();
        }
    }

    /// Makes a free that must be refused.
    fn wrong_free(&mut self) {
        let pages = self.shared.pages();
        assert_eq!(pages.free(Pfn(0xff8), Order(0)), Err(FreeError::Foreign(Pfn(0xff8))));
        assert_eq!(pages.free(Pfn(0x2f90), Order(0)), Err(FreeError::Offline(Pfn(0x2f90))));
        let Some(&Holding::Block(pfn, order)) = self.held.last() else { return };
        assert!(pages.free(pfn, order.up()).is_err(), "{pfn} as order {}", order.up());
        if order.0 != 0 {
            assert_eq!(pages.free(pfn.add(1), Order(0)), Err(FreeError::NotHead { pfn: pfn.add(1), head: pfn }));
            assert_eq!(pages.free(pfn, order.down()), Err(FreeError::WrongOrder { pfn, actual: order }));
        }
    }

    fn manage(&mut self) {
        let pages = self.shared.pages();
        let place = self.range(1).start;
        match self.below(5) {
            0 => drop(pages.drain_all()),
            1 => drop(pages.drain_cpu(CpuId(self.below(4) as u16))),
            2 => {
                // No other thread runs on a CPU that is pinned, so this is a CPU that stops.
                let pin = pages.machine().pin();
                pages.offline_cpu(pin.cpu());
            }
            3 => drop((format!("{}", BuddyInfo(pages)), pages.state_of(place))),
            // Every type but that of isolated memory.
            _ => drop(pages.set_pageblock_type(place, self.of(&MigrateType::ALL[..5]))),
        }
    }
}

/// One round: every thread plays, then frees its blocks.
fn play(shared: &'static Shared, seed: u64) {
    let pages = shared.pages();
    let before = pages.validate().unwrap();
    std::thread::scope(|scope| {
        for me in 1..=THREADS {
            scope.spawn(move || {
                let mut player = Player { shared, me, random: seed << 8 | u64::from(me), held: Vec::new() };
                (0..STEPS).for_each(|_| player.step());
                while !player.held.is_empty() {
                    player.free();
                }
            });
        }
    });
    while shared.shrink() != 0 {}
    let case = format!("seed {seed}, {:?}, {:?}", pages.geometry(), pages.counters());
    pages.validate().unwrap_or_else(|violation| panic!("{violation}: {case}"));
    pages.drain_all();
    let after = pages.validate().unwrap_or_else(|violation| panic!("{violation}, drained: {case}"));
    assert_eq!(after, before, "{case}");
    assert_eq!(pages.counters().repairs, 0, "{case}");
}

#[test]
fn threads_that_do_everything_lose_nothing() {
    for (seed, ((max, pageblock), &(batch, high))) in (1..).zip(GEOMETRIES.into_iter().zip(LISTS.iter().cycle())) {
        play(boot(max, pageblock, PcpSize { batch, high }), seed);
    }
}

/// Two threads free one block that no per-CPU list keeps: the lock lets exactly one of them.
#[test]
fn exactly_one_of_two_racing_frees_succeeds() {
    let pages = boot(10, 9, PcpSize { batch: 1, high: 4 }).pages();
    let before = pages.validate().unwrap();
    let victims: Vec<_> = (0..300).map_while(|_| pages.alloc(&Request::new(GFP_KERNEL, 4)).ok()).collect();
    let start = Barrier::new(2);
    let free = |&pfn: &Pfn| {
        start.wait();
        pages.free(pfn, Order(4)).is_ok()
    };
    let both = std::thread::scope(|scope| {
        [0, 1]
            .map(|_| scope.spawn(|| victims.iter().map(free).collect::<Vec<_>>()))
            .map(|thread| thread.join().unwrap())
    });
    assert!(both[0].iter().zip(&both[1]).all(|(one, other)| one != other), "{both:?}");
    assert_eq!(pages.validate().unwrap(), before);
}
