//! Makes cases from a seed.
//!
//! Weights change from segment to segment; the machine, the mechanisms and the schedule change from case to case. An
//! even mixture of everything would reach no corner. Each segment steers for a level of memory use, from nearly nothing
//! to more than there is. A CPU frees what it or another CPU allocated at about that time.

use framewright::mechanisms::{Depot, Hardened, PRESETS};
use framewright::request::{
    __GFP_RECLAIMABLE, __GFP_THISNODE, GFP_ATOMIC, GFP_DMA32, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT,
    GFP_TRANSHUGE,
};
use framewright::watermark::PcpSize;
use framewright::{
    CpuId, Gfp, Mechanisms, MigrateType, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, Region, ZoneIdx, ZoneKind,
};
use framewright_ops::machines::open_hole;
use framewright_ops::rng::Rng;
use framewright_ops::{Handle, Op, Place, Shape, Terms};

use super::case::{Case, Conditions, Segment, model};
use super::pool;
use super::stress_settings::Settings;

/// Kinds of operations.
#[derive(Clone, Copy)]
enum What {
    Small,
    Large,
    Bulk,
    Range,
    Part,
    Wrong,
    Drain,
    Offline,
    Hotplug,
    Type,
}

const KINDS: [(What, u32); 10] = [
    (What::Small, 600),
    (What::Large, 40),
    (What::Bulk, 24),
    (What::Range, 5),
    (What::Part, 24),
    (What::Wrong, 16),
    (What::Drain, 3),
    (What::Offline, 3),
    (What::Hotplug, 2),
    (What::Type, 4),
];

/// Constants that give separate generators their own seeds.
const STAYS: u64 = 0x5e47;
const HOLES: u64 = 0x401e;

/// Levels of memory use of a segment, in percent.
const LEVELS: [u64; 6] = [5, 20, 40, 60, 80, 110];

/// Returns the case of a seed: `operations` operations in `segments` segments.
pub(crate) fn case(settings: &Settings, operations: u64, segments: u64) -> Case {
    let mut rng = Rng::new(settings.seed);
    let mut shape = shape(&mut rng, settings.cpus);
    let drawn = mechanisms(&mut rng);
    shape.mechanisms = settings.mechanisms.unwrap_or(drawn);
    open_holes(settings.seed, &mut shape);
    let interrupts = *rng.pick(&[None, Some(20_000_000), Some(100_000_000), Some(1_000_000_000)]);
    let delays = rng.one_in(2);
    let conditions = Conditions {
        seed: settings.seed,
        switch_in: *rng.pick(&[3, 8, 16, 32, 128]),
        interrupts: if settings.interrupts.unwrap_or(true) { interrupts.or(forced(settings)) } else { None },
        nmis: nmis(settings),
        delays: settings.delays.unwrap_or(delays),
        pool: settings.pool,
        plant: settings.plant.clone(),
    };
    let frames = shape.frames();
    let each = |segment: u64| operations / segments + u64::from(segment < operations % segments);
    if settings.pool {
        let mut next = 0;
        let cpus = (settings.cpus, frames);
        let segments = (0..segments).map(|segment| pool::segment(&mut rng, cpus, &mut next, each(segment))).collect();
        let conditions = Conditions { interrupts: None, nmis: None, ..conditions };
        return Case { conditions, shape: pool::shape(shape), segments };
    }
    let mut generator = Generator {
        rng,
        shape: &shape,
        frames,
        held: vec![Vec::new(); settings.cpus],
        used: 0,
        next: 0,
        weights: [0; KINDS.len()],
        level: 0,
    };
    let mut segments: Vec<Segment> = (0..segments).map(|segment| generator.segment(each(segment))).collect();
    if conditions.nmis.is_some() {
        call_from_any_context(settings.seed, &mut segments);
    }
    stay_on_cpus(settings.seed, &mut segments);
    Case { conditions, shape, segments }
}

/// Returns the interrupts' mean time, if the user demands interrupts.
fn forced(settings: &Settings) -> Option<u64> {
    settings.interrupts.filter(|wanted| *wanted).map(|_| 1_000_000_000)
}

/// Returns the mean time between NMIs, in picoseconds.
///
/// It is longer on many CPUs: a request that fails looks at the lists of each CPU, and each CPU makes such requests. A
/// separate generator draws it, so that a seed's lists do not depend on NMIs.
fn nmis(settings: &Settings) -> Option<u64> {
    let mut rng = Rng::new(!settings.seed);
    let (comes, cpus) = (rng.one_in(3), settings.cpus as u64);
    let every = *rng.pick(&[50_000, 500_000, 2_000_000, 10_000_000]);
    settings.nmis.unwrap_or(comes).then_some(every * (cpus * cpus / 128).max(1))
}

/// Lets tasks make some of the calls for any context.
fn call_from_any_context(seed: u64, segments: &mut [Segment]) {
    let mut rng = Rng::new(!seed);
    for op in segments.iter_mut().flatten().flatten().filter(|_| rng.one_in(8)) {
        match *op {
            Op::Alloc { name, order, terms } => *op = Op::AllocNolock { name, order, terms },
            Op::Free(handle) => *op = Op::FreeNolock(handle),
            _ => {}
        }
    }
}

/// Lets CPUs make long stretches of some lists through a `Local`.
///
/// A separate generator draws them.
fn stay_on_cpus(seed: u64, segments: &mut [Segment]) {
    let mut rng = Rng::new(seed ^ STAYS);
    for list in segments.iter_mut().flatten().filter(|list| !list.is_empty()) {
        let (mut at, mut on) = (0, rng.one_in(2));
        while at <= list.len() {
            list.insert(at, Op::Local(on));
            at += rng.between(10, 400) as usize;
            on = !on;
        }
    }
}

/// Opens holes in half of all memory maps: of whole sections or parts, anywhere.
fn open_holes(seed: u64, shape: &mut Shape) {
    let mut rng = Rng::new(seed ^ HOLES);
    let section = shape.geometry.max_order.frames();
    for _ in 0..rng.below(2) * rng.between(1, 3) {
        let region = rng.pick(&shape.regions).range;
        let at = region.start.0 + rng.below(2) * rng.below(region.frames());
        let at = if rng.one_in(3) { at } else { at & !(section - 1) };
        let frames = if rng.one_in(4) { rng.between(1, 2 * section) } else { section * rng.between(1, 3) };
        open_hole(shape, Pfn(at), frames);
    }
}

fn mechanisms(rng: &mut Rng) -> Mechanisms {
    let poisoning = Mechanisms { hardened: Hardened::Poison, ..Mechanisms::DEFAULT };
    let zeroing = Mechanisms { hardened: Hardened::Zero, ..Mechanisms::BASELINE };
    let eighth = Mechanisms { depot: Depot::Eighth, ..Mechanisms::DEFAULT };
    match rng.below(12) {
        0 | 1 => Mechanisms::BASELINE,
        2 | 3 => Mechanisms::DEFAULT,
        4 => poisoning,
        5 => zeroing,
        6 => eighth,
        7..=9 => rng.pick(PRESETS).1,
        // `set` refuses a choice such as "a number up to 100" and leaves the number, so each attempt starts from the
        // baseline.
        _ => loop {
            let mut mixed = Mechanisms::BASELINE;
            for switch in Mechanisms::SWITCHES {
                let _ = mixed.set(switch, rng.pick::<&str>(Mechanisms::choices(switch)));
            }
            if mixed.conflict().is_none() {
                break mixed;
            }
        },
    }
}

/// Returns a machine so small that every corner is reached.
fn shape(rng: &mut Rng, cpus: usize) -> Shape {
    let topology = model(cpus).topology;
    let nodes: Vec<NodeId> = (0..cpus).map(|cpu| NodeId(topology.socket_of(cpu) as u8)).collect();
    let mut shape = Shape::new(&[], &nodes);
    let max = rng.between(5, 9);
    let pageblock = rng.between(3, max.min(6));
    (shape.geometry.max_order, shape.geometry.pageblock_order) = (Order(max as u8), Order(pageblock as u8));
    let each = *rng.pick(&[1024, 2048, 4096]) + cpus as u64 * 64;
    let mut at = 0;
    for node in 0..topology.sockets {
        let first = each / 4 * rng.below(3);
        if first != 0 {
            shape.regions.push(Region::usable(at, at + first, node as u8));
            at += first + rng.below(2) * rng.below(70);
        }
        shape.regions.push(Region::usable(at, at + each - first, node as u8));
        at += each - first + rng.below(2) * rng.below(40);
    }
    shape.dma_end = Pfn(rng.below(2) * rng.below(at / 8));
    shape.dma32_end = Pfn(shape.dma_end.0 + rng.below(2) * rng.below(at / 2));
    let last = shape.regions.last().map_or(PfnRange::new(0, 0), |region| region.range);
    let block = Order(pageblock as u8).frames();
    if rng.one_in(3) {
        let start = (last.start.0 + last.frames() / 2).next_multiple_of(block);
        shape.movable = vec![PfnRange::new(start, last.end.0.max(start + block))];
    }
    if rng.one_in(4) {
        let start = block * rng.between(2, 5);
        shape.cma = vec![PfnRange::new(start, start + block * rng.between(1, 3))];
    }
    for node in 0..topology.sockets {
        if rng.one_in(2) {
            let batch = rng.between(2, 8) as u32;
            let zone = ZoneIdx::of(NodeId(node as u8), ZoneKind::Normal);
            shape.tuning_mut(zone).pcp = Some(PcpSize { batch, high: batch * rng.between(1, 6) as u32 });
        }
    }
    shape
}

struct Generator<'s> {
    rng: Rng,
    shape: &'s Shape,
    frames: u64,
    /// Handles that each CPU has allocated and none freed, if every request is served; with the frames.
    held: Vec<Vec<(Handle, u64)>>,
    used: u64,
    next: u32,
    weights: [u32; KINDS.len()],
    level: u64,
}

impl Generator<'_> {
    fn segment(&mut self, operations: u64) -> Segment {
        for (weight, (_, usual)) in self.weights.iter_mut().zip(KINDS) {
            *weight = usual * *self.rng.pick(&[0, 1, 1, 3]);
        }
        self.weights[0] = self.weights[0].max(KINDS[0].1 / 2);
        self.level = self.frames * self.rng.pick(&LEVELS) / 100;
        // Some CPUs do little or nothing, so that they can go offline while others go on.
        let cpus = self.held.len();
        let mut shares: Vec<u64> = (0..cpus).map(|_| *self.rng.pick(&[0, 1, 8, 8, 8, 8])).collect();
        if shares.iter().all(|share| *share == 0) {
            shares[0] = 1;
        }
        let total: u64 = shares.iter().sum();
        let mut lists: Segment = vec![Vec::new(); cpus];
        for _ in 0..operations.div_ceil(total) {
            for (cpu, list) in lists.iter_mut().enumerate() {
                (0..shares[cpu]).for_each(|_| list.push(self.op(cpu)));
            }
        }
        let mut surplus = lists.iter().map(Vec::len).sum::<usize>() - operations as usize;
        for list in lists.iter_mut().rev() {
            let cut = surplus.min(list.len());
            list.truncate(list.len() - cut);
            surplus -= cut;
        }
        lists
    }

    fn op(&mut self, cpu: usize) -> Op {
        let kind = KINDS[self.rng.weighted(&self.weights)].0;
        let goes_down = self.used > self.level || self.rng.one_in(3);
        match kind {
            What::Small | What::Large | What::Bulk | What::Range if goes_down => {
                self.free(cpu).unwrap_or_else(|| self.small(cpu))
            }
            What::Small => self.small(cpu),
            What::Large => {
                let order = Order(self.rng.between(4, u64::from(self.shape.geometry.max_order.0)) as u8);
                self.alloc(cpu, order)
            }
            What::Bulk => {
                let order = Order(self.rng.below(3) as u8);
                let count = self.rng.between(2, 40) as u32 >> order.0;
                let name = self.name(cpu, u64::from(count) << order.0);
                Op::Bulk { name, count, order, terms: self.terms() }
            }
            What::Range => self.range_op(cpu),
            What::Part => self.part(cpu),
            What::Wrong => self.wrong(cpu),
            What::Drain if self.rng.one_in(8) => Op::DrainAll,
            What::Drain => Op::DrainCpu(self.cpu()),
            What::Offline if self.rng.one_in(2) => Op::OfflineCpu(self.cpu()),
            What::Offline => Op::Refresh(self.cpu()),
            What::Hotplug if self.rng.one_in(3) => Op::TakeOffline(self.range()),
            What::Hotplug => {
                let start = self.rng.below(self.end());
                Op::BringOnline(PfnRange::new(start, start + self.rng.between(64, 1024)))
            }
            What::Type => {
                let types = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
                Op::SetType { pfn: self.range().start, migratetype: *self.rng.pick(&types) }
            }
        }
    }

    fn cpu(&mut self) -> CpuId {
        CpuId(self.rng.below(self.held.len() as u64) as u16)
    }

    fn end(&self) -> u64 {
        self.shape.regions.last().map_or(1, |region| region.range.end.0)
    }

    fn name(&mut self, cpu: usize, frames: u64) -> Handle {
        let cpus = self.held.len() as u32;
        let handle = Handle(self.next * cpus + cpu as u32);
        self.next += 1;
        self.held[cpu].push((handle, frames));
        self.used += frames;
        handle
    }

    fn small(&mut self, cpu: usize) -> Op {
        let order = Order(*self.rng.pick(&[0, 0, 0, 0, 0, 0, 1, 1, 2, 3]));
        self.alloc(cpu, order)
    }

    fn alloc(&mut self, cpu: usize, order: Order) -> Op {
        let name = self.name(cpu, order.frames());
        Op::Alloc { name, order, terms: self.terms() }
    }

    /// Draws flags, mostly without waiting: nothing reclaims memory here, so waiting is long and useless.
    fn gfp(&mut self) -> Gfp {
        let plenty = self.used * 10 < self.frames * 9;
        let base = match self.rng.below(16) {
            0..=2 => GFP_ATOMIC,
            3 => GFP_DMA32 | GFP_NOWAIT,
            4..=6 => GFP_NOWAIT | __GFP_RECLAIMABLE,
            7 => GFP_TRANSHUGE,
            8..=10 if plenty || self.rng.one_in(16) => GFP_HIGHUSER_MOVABLE,
            11..=12 if plenty || self.rng.one_in(16) => GFP_KERNEL,
            8..=10 => GFP_NOWAIT | framewright::request::__GFP_MOVABLE,
            _ => GFP_NOWAIT,
        };
        if self.rng.one_in(12) { base | __GFP_THISNODE } else { base }
    }

    fn terms(&mut self) -> Terms {
        let mut terms = Terms::new(self.gfp());
        terms.policy = match self.rng.below(24) {
            0 => Policy::Prefer(NodeId(self.rng.below(2) as u8 % self.shape.nodes() as u8)),
            1 => Policy::Bind(NodeSet(self.rng.between(1, 3))),
            2 => Policy::Interleave(NodeSet(self.rng.between(1, 3))),
            _ => Policy::Local,
        };
        if self.rng.one_in(40) {
            terms.below = Some(Pfn(self.rng.below(self.end())));
        }
        terms
    }

    /// Draws a free of this CPU's handles or another's: the newest, or any.
    fn free(&mut self, cpu: usize) -> Option<Op> {
        let from = if self.rng.one_in(4) { self.cpu().index() } else { cpu };
        let count = self.held[from].len() as u64;
        let at = if self.rng.one_in(2) { count.checked_sub(1)? } else { self.rng.below(count) };
        let (handle, frames) = self.held[from].get(at as usize).copied()?;
        self.held[from].swap_remove(at as usize);
        self.used = self.used.saturating_sub(frames);
        Some(Op::Free(handle))
    }

    fn handle(&mut self, cpu: usize) -> Option<(Handle, u64)> {
        let count = self.held[cpu].len() as u64;
        self.held[cpu].get(self.rng.below(count) as usize).copied()
    }

    fn part(&mut self, cpu: usize) -> Op {
        let Some((handle, frames)) = self.handle(cpu) else { return self.small(cpu) };
        if frames > 1 && self.rng.one_in(2) {
            return Op::Split { handle, to: Order(self.rng.below(3) as u8) };
        }
        Op::FreePart { handle, skip: self.rng.below(frames.min(8)), frames: self.rng.between(1, 5) }
    }

    fn wrong(&mut self, cpu: usize) -> Op {
        let order = Order(self.rng.below(5) as u8);
        match self.handle(cpu) {
            Some((handle, frames)) if !self.rng.one_in(8) => {
                Op::RawFree { place: Place::In(handle, self.rng.below(frames.min(4))), order }
            }
            _ => Op::RawFree { place: Place::At(Pfn(self.end() + self.rng.below(1 << 20))), order },
        }
    }

    fn range(&mut self) -> PfnRange {
        let region = self.rng.pick(&self.shape.regions).range;
        let block = self.shape.geometry.pageblock_order.frames();
        let start = (region.start.0 + self.rng.below(region.frames())) / block * block;
        let frames = if self.rng.one_in(2) { block } else { self.rng.between(1, 2 * block) };
        PfnRange::new(start, start + frames)
    }

    fn range_op(&mut self, cpu: usize) -> Op {
        let gfp = self.gfp();
        let range = self.range();
        // A search through all of memory costs as much as a thousand small requests.
        match self.rng.below(12) {
            0..=6 => {
                let order = Order(self.rng.between(0, u64::from(self.shape.geometry.pageblock_order.0)) as u8);
                Op::AllocAt { name: self.name(cpu, order.frames()), pfn: range.start, order, gfp }
            }
            7..=10 => Op::AllocRange { name: self.name(cpu, range.frames()), range, gfp },
            _ => {
                let frames = self.rng.between(1, 3 * self.shape.geometry.pageblock_order.frames());
                let terms = self.terms();
                Op::AllocContig { name: self.name(cpu, frames), frames, align: Order(self.rng.below(4) as u8), terms }
            }
        }
    }
}
