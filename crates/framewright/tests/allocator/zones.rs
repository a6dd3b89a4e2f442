//! The seam at the zones: an embedder that sums up what it is told has the allocator's own counts and types, whatever
//! happens.

use std::collections::BTreeMap;
use std::sync::Mutex;

use framewright::config::SectionInit;
use framewright::machine::{FreeChange, Machine};
use framewright::mechanisms::PRESETS;
use framewright::report::Source;
use framewright::request::{__GFP_RECLAIMABLE, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::{Allocator, Config, Gfp, Layout, Mechanisms, Region, Request, Rights};
use framewright_rt::{Native, Storage};

use crate::maps::{CPUS, zones_of_two_nodes};
use crate::roles::{Keeping, Kept, Roles, Unkept};
use crate::threads::runs_on_threads;
use crate::told::{Told, all_zones};

/// Five zones. That of node 1 is so large that it may have a high-atomic reserve, and may grow.
const REGIONS: [Region; 5] = [
    Region::usable(1, 0x1000, 0),
    Region::usable(0x1_0000, 0x1_2000, 0),
    Region::usable(0x10_0000, 0x10_2000, 0),
    Region::usable(0x18_0000, 0x19_0000, 1),
    Region::possible(0x19_0000, 0x19_0800, 1),
];
const ADDED: PfnRange = PfnRange::new(0x19_0000, 0x19_0800);
const GFPS: [Gfp; 5] =
    [GFP_KERNEL, GFP_HIGHUSER_MOVABLE, GFP_ATOMIC, Gfp(GFP_KERNEL.0 | __GFP_RECLAIMABLE.0), GFP_NOWAIT];
const ORDERS: [u8; 10] = [0, 0, 0, 0, 1, 2, 3, 5, 9, 10];
const TYPES: [MigrateType; 5] =
    [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable, MigrateType::HighAtomic, MigrateType::Cma];

fn config(mechanisms: Mechanisms, section_init: SectionInit) -> Config<'static> {
    const RESERVED: [PfnRange; 1] = [PfnRange::new(0x10_0100, 0x10_0180)];
    const ALLOCATED: [PfnRange; 1] = [PfnRange::new(0x1_0300, 0x1_0990)];
    let small = zones_of_two_nodes(mechanisms);
    Config { regions: &REGIONS, reserved: &RESERVED, allocated: &ALLOCATED, section_init, ..small }
}

/// The first frame of each pageblock that has memory, or may get some.
fn pageblocks() -> impl Iterator<Item = Pfn> {
    REGIONS.iter().flat_map(|region| (region.range.start.0 & !0x1ff..region.range.end.0).step_by(0x200)).map(Pfn)
}

/// A caller with everything that it holds.
struct Caller<'p, 'a, K: Keeping> {
    pages: &'p Allocator<'a, Roles<K>>,
    random: u64,
    held: Vec<PfnRange>,
    isolated: Vec<Pfn>,
    offline: Vec<PfnRange>,
    has_added: bool,
}

impl<K: Keeping> Caller<'_, '_, K> {
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) % limit
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn frame(&mut self) -> Pfn {
        let region = self.pick(&REGIONS).range;
        region.start.add(self.below(region.frames()))
    }

    fn zone(&mut self) -> ZoneIdx {
        let zones: Vec<ZoneIdx> = all_zones(self.pages).collect();
        self.pick(&zones)
    }

    fn request(&mut self) -> Request {
        let order = self.pick(&ORDERS);
        Request::new(self.pick(&GFPS), order)
    }

    fn rights(&mut self) -> Rights {
        let bits = self.below(8);
        Rights { highatomic: bits & 1 != 0, cma: bits & 2 != 0, nofragment: bits & 4 != 0 }
    }

    fn take_held(&mut self) -> Option<PfnRange> {
        let index = self.below(self.held.len().max(1) as u64) as usize;
        (index < self.held.len()).then(|| self.held.swap_remove(index))
    }

    fn free(&mut self, range: PfnRange) {
        let pages = self.pages;
        let Some((pfn, order)) = range.blocks(Order(10)).next() else { return };
        let is_one = range.frames() == order.frames();
        match self.below(4) {
            0 if is_one => pages.free_part(pfn, order).unwrap(),
            1 => {
                pages.free_part(pfn, order).unwrap();
                self.held.extend((!is_one).then_some(PfnRange { start: pfn.add(order.frames()), ..range }));
            }
            2 if order.0 != 0 => {
                let half = order.down();
                pages.free_part(pfn.add(half.frames()), half).unwrap();
                self.held.push(PfnRange::block(pfn, half));
                self.held.extend((!is_one).then_some(PfnRange { start: pfn.add(order.frames()), ..range }));
            }
            _ => pages.free_range(range).unwrap(),
        }
    }

    /// Calls the allocator once, in any way; returns how.
    fn step(&mut self) -> &'static str {
        match self.below(34) {
            call @ 0..19 => self.request_or_free(call),
            call @ 19..26 => self.take_by_place(call),
            call @ 26..30 => self.drain(call),
            call => self.upkeep(call),
        }
    }

    fn request_or_free(&mut self, call: u64) -> &'static str {
        let pages = self.pages;
        match call {
            0..7 => {
                let (zone, preferred, request, rights) = (self.zone(), self.zone(), self.request(), self.rights());
                let served = pages.alloc_in(zone, preferred, &request, rights);
                self.held.extend(served.ok().map(|served| PfnRange::block(served.pfn, request.order)));
                "alloc_in"
            }
            7..11 => {
                let request = self.request();
                let served = pages.alloc(&request.on(NodeId(self.below(2) as u8)));
                self.held.extend(served.ok().map(|pfn| PfnRange::block(pfn, request.order)));
                "alloc"
            }
            11..18 => {
                let range = self.take_held();
                range.into_iter().for_each(|range| self.free(range));
                "free"
            }
            _ => {
                let request = Request { order: Order(self.below(3) as u8), ..self.request() };
                let mut blocks = [Pfn(0); 70];
                let served = pages.alloc_bulk(&request, &mut blocks).unwrap_or(0);
                let kept = self.below(served as u64 + 1) as usize;
                assert_eq!(pages.free_bulk(&blocks[kept..served], request.order).refused, 0);
                self.held.extend(blocks[..kept].iter().map(|&pfn| PfnRange::block(pfn, request.order)));
                "bulk"
            }
        }
    }

    fn take_by_place(&mut self, call: u64) -> &'static str {
        let pages = self.pages;
        match call {
            19 => {
                let start = self.frame();
                let range = PfnRange { start, end: start.add(1 + self.below(1_500)) };
                self.held.extend(pages.alloc_range(range, GFP_KERNEL).map(|()| range));
                "alloc_range"
            }
            20 => {
                let order = Order(self.pick(&ORDERS));
                let pfn = self.frame().align_down(order);
                self.held.extend(pages.alloc_at(pfn, order, GFP_KERNEL).map(|pfn| PfnRange::block(pfn, order)));
                "alloc_at"
            }
            21 => {
                let pfn = self.frame();
                self.isolated.extend(pages.isolate(pfn).then_some(pfn));
                "isolate"
            }
            22 => {
                let count = self.isolated.len() as u64;
                if count != 0 {
                    let index = self.below(count) as usize;
                    pages.unisolate(self.isolated.swap_remove(index));
                }
                "unisolate"
            }
            23 | 24 => {
                let order = Order(self.pick(&ORDERS));
                let near = self.isolated.last().copied().unwrap_or_else(|| self.frame());
                let pfn = Pfn((near.0 & !0x1ff) + self.below(0x200)).align_down(order);
                self.held.extend(pages.take_free(pfn, order).then(|| PfnRange::block(pfn, order)));
                "take_free"
            }
            _ => {
                let (pfn, migratetype) = (self.frame(), self.pick(&TYPES));
                let _ = pages.set_pageblock_type(pfn, migratetype);
                "set_pageblock_type"
            }
        }
    }

    fn drain(&mut self, call: u64) -> &'static str {
        let pages = self.pages;
        match call {
            26 => {
                let (zone, cpu) = (self.zone(), CpuId(self.below(CPUS.len() as u64) as u16));
                match self.below(5) {
                    0 => drop(pages.drain_all()),
                    1 => drop(pages.drain_cpu(cpu)),
                    2 => drop(pages.drain_depot(zone)),
                    3 => drop(pages.drain_owned(zone)),
                    _ => drop(pages.refresh_statistics(cpu)),
                }
                "drain"
            }
            27 => {
                let (zone, order, rights) = (self.zone(), Order(self.pick(&ORDERS)), self.rights());
                pages.gather(zone, order, rights);
                "gather"
            }
            28 => {
                let (zone, order, migratetype) = (self.zone(), Order(self.pick(&ORDERS)), self.pick(&TYPES));
                pages.unreserve_highatomic(zone, order, migratetype);
                "unreserve_highatomic"
            }
            _ => {
                let [gone, next] = [(); 2].map(|()| CpuId(self.below(CPUS.len() as u64) as u16));
                pages.machine().run_on(next);
                if gone != next {
                    pages.offline_cpu(gone);
                    pages.online_cpu(gone);
                }
                "another CPU"
            }
        }
    }

    fn upkeep(&mut self, call: u64) -> &'static str {
        let pages = self.pages;
        match call {
            30 => {
                let start = self.frame();
                let range = PfnRange { start, end: start.add(1 + self.below(700)) };
                match self.offline.pop() {
                    Some(range) => assert_eq!(pages.bring_online(range), range.frames()),
                    None => self.offline.extend(pages.take_offline(range).map(|()| range)),
                }
                "memory offline or online"
            }
            31 => {
                let node = NodeId(self.below(2) as u8);
                pages.balance(node);
                pages.compact(node);
                pages.init_section(node);
                if !self.has_added && self.below(4) == 0 {
                    assert_eq!(pages.add_memory(ADDED), Ok(ADDED.frames()));
                    self.has_added = true;
                }
                "background work"
            }
            32 => {
                let request = self.request();
                let served = pages.alloc_nolock(&request);
                // While a copy is made, the zones' locks are held.
                let frozen = pages.freeze();
                if let Ok(pfn) = served {
                    pages.free_nolock(pfn, request.order).unwrap();
                }
                drop(frozen);
                "any context"
            }
            _ => {
                let pass = pages.report_free(Order(9));
                pass.into_iter().flatten().take(1).for_each(|unreported| unreported.reported());
                "report_free"
            }
        }
    }

    /// Compares what was told with the allocator, and calls about zones with its lists.
    fn check(&mut self, case: &str) {
        let pages = self.pages;
        pages.machine().told.borrow().check_free(pages, case);
        pages.machine().told.borrow().check_types(pages, case);
        let (zone, order, rights) = (self.zone(), Order(self.pick(&ORDERS)), self.rights());
        let shown = Source::zone(pages, zone).unwrap().nr_free;
        let may_use = |migratetype| match migratetype {
            MigrateType::Cma => rights.cma,
            MigrateType::HighAtomic => rights.highatomic,
            MigrateType::Isolate => false,
            _ => true,
        };
        let served =
            |order: Order| MigrateType::ALL.iter().any(|&mt| may_use(mt) && shown[order.index()][mt.index()] != 0);
        let has_block = order.up_to(Order(10)).any(served);
        assert_eq!(pages.has_block_in(zone, order, rights), has_block, "{case}: {zone:?}, {order:?}, {rights:?}");
        for (order, migratetype) in order.up_to(Order(10)).flat_map(|order| MigrateType::ALL.map(|mt| (order, mt))) {
            let listed = shown[order.index()][migratetype.index()];
            assert_eq!(pages.free_blocks(zone, order, migratetype), listed, "{case}: {zone:?}");
        }
    }

    fn give_everything_back(&mut self) {
        self.isolated.drain(..).for_each(|pfn| self.pages.unisolate(pfn));
        self.held.drain(..).for_each(|range| self.pages.free_range(range).unwrap());
        self.offline.drain(..).for_each(|range| assert_eq!(self.pages.bring_online(range), range.frames()));
        self.pages.drain_all();
    }
}

fn plays<K: Keeping>(config: &Config<'_>, name: &str, seed: u64) {
    let mut storage = Storage::new(&Layout::of(config).unwrap());
    let pages = &Allocator::boot(Roles::<K>::new(config.cpus), config, storage.parts()).unwrap();
    pages.machine().told.borrow_mut().begin(pages, pageblocks());
    let (held, isolated, offline) = (config.allocated.to_vec(), Vec::new(), Vec::new());
    let mut caller = Caller { pages, random: seed, held, isolated, offline, has_added: false };
    caller.check(&format!("{name}, seed {seed}, boot"));
    for turn in 0..2_500 {
        let call = caller.step();
        caller.check(&format!("{name}, seed {seed}, turn {turn}: {call}"));
        if turn % 250 == 0 && caller.isolated.is_empty() {
            pages.validate().unwrap_or_else(|violation| panic!("{name}, seed {seed}, turn {turn}: {violation}"));
        }
    }
    caller.give_everything_back();
    let case = format!("{name}, seed {seed}, at the end");
    caller.check(&case);
    let census = pages.validate().unwrap_or_else(|violation| panic!("{case}: {violation}"));
    let added = if caller.has_added { ADDED.frames() } else { 0 };
    assert_eq!(census.free, 0xfff + 0x2000 + 0x2000 - 0x80 + 0x1_0000 + added, "{case}: all memory came back");
    let (changes, retyped) = pages.machine().told.borrow().count();
    assert!(changes > 500 && retyped > 20, "{case}: {changes} changes and {retyped} types were told");
}

#[test]
fn what_is_told_sums_up_to_the_allocators_own_counts() {
    for (&(name, mechanisms), seed) in PRESETS.iter().zip(1..) {
        plays::<Unkept>(&config(mechanisms, SectionInit::AtBoot), name, seed);
        plays::<Kept>(&config(mechanisms, SectionInit::WhenUsed), name, 1_000 + seed);
    }
}

/// A restored state comes at once, and is told as a change.
#[test]
fn a_restored_state_is_told() {
    let config = &config(Mechanisms::DEFAULT, SectionInit::WhenUsed);
    let [mut first, mut second] = [(); 2].map(|()| Storage::new(&Layout::of(config).unwrap()));
    let boot = |storage| Allocator::boot(Roles::<Kept>::new(config.cpus), config, storage).unwrap();
    let (pages, other) = (&boot(first.parts()), &boot(second.parts()));
    other.machine().told.borrow_mut().begin(other, pageblocks());
    let (held, isolated, offline) = (config.allocated.to_vec(), Vec::new(), Vec::new());
    let mut caller = Caller { pages, random: 7, held, isolated, offline, has_added: false };
    (0..500).for_each(|_| _ = caller.step());
    caller.isolated.drain(..).for_each(|pfn| pages.unisolate(pfn));
    let mut bytes = Vec::new();
    let mut sink = |chunk: &[u8]| {
        bytes.extend_from_slice(chunk);
        Ok::<_, std::convert::Infallible>(())
    };
    pages.save(&mut sink).unwrap();
    other.restore(&bytes).unwrap();
    other.machine().told.borrow().check_free(other, "restored");
    other.machine().told.borrow().check_types(other, "restored");
}

/// Threads that sum up under one lock of their own.
struct Summing {
    threads: Native,
    told: Mutex<Told>,
}

impl Machine for Summing {
    runs_on_threads!(threads);

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn free_changed(&self, zone: ZoneIdx, change: FreeChange) {
        self.told.lock().unwrap().free_changed(zone, change);
    }

    fn retyped(&self, pfn: Pfn, migratetype: MigrateType) {
        self.told.lock().unwrap().retyped(pfn, migratetype);
    }
}

/// Where frees merge under a shared lock too, changes of one zone are told by several CPUs at once.
#[test]
fn threads_are_told_the_same() {
    for name in
        ["default", "linux-6.1", "patch7", "patch8", "no_merge+cluster_alloc", "owned-pageblocks", "numa-patch1"]
    {
        let config = zones_of_two_nodes(Mechanisms::preset(name).unwrap());
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let machine = Summing { threads: Native::new(&CPUS), told: Mutex::default() };
        let pages = &Allocator::boot(machine, &config, storage.parts()).unwrap();
        pages.machine().told.lock().unwrap().begin(pages, pageblocks());
        let work = |seed: usize| {
            let mut held = BTreeMap::new();
            for turn in 0..6_000_usize {
                let mixed = (turn + seed * 0x1_0001).wrapping_mul(0x9e37_79b9) >> 9;
                let request = Request::new(GFPS[mixed % GFPS.len()], ORDERS[mixed / 8 % 8]);
                let zone = ZoneIdx::of(NodeId((mixed / 64 % 2) as u8), ZoneKind::Normal);
                let served = pages.alloc_in(zone, zone, &request, Rights { cma: true, ..Rights::default() });
                held.extend(served.ok().map(|served| (served.pfn, request.order)));
                if mixed & 128 == 0
                    && let Some((pfn, order)) = held.pop_first()
                {
                    pages.free(pfn, order).unwrap();
                }
                if mixed.is_multiple_of(61) {
                    let pfn = Pfn(0x18_0000 + (mixed as u64 / 61 % 0x2000));
                    if pages.isolate(pfn) {
                        let start = pfn.align_down(Order(2));
                        held.extend(pages.take_free(start, Order(2)).then_some((start, Order(2))));
                        pages.unisolate(pfn);
                    }
                }
            }
            held.into_iter().for_each(|(pfn, order)| pages.free(pfn, order).unwrap());
        };
        std::thread::scope(|scope| (0..4).for_each(|seed| drop(scope.spawn(move || work(seed)))));
        pages.drain_all();
        pages.validate().unwrap_or_else(|violation| panic!("{name}: {violation}"));
        let told = pages.machine().told.lock().unwrap();
        told.check_free(pages, name);
        told.check_types(pages, name);
    }
}
