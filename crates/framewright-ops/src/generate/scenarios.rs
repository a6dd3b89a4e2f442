//! Makes scenarios from a seed.
//!
//! Operations are drawn by weight, and the weights are drawn for each scenario. This is *swarm testing*: an even
//! mixture never gets far into any corner, but a list that leaves most kinds out does. Operands are mostly meaningful:
//! handles that were defined before and probably still hold a block, and addresses in memory or at the edges of
//! pageblocks and regions. A few are nonsense.

use std::ops::RangeInclusive;

use framewright::machine::Fault;
use framewright::request::{
    __GFP_HIGH, __GFP_MEMALLOC, __GFP_NOFAIL, __GFP_NORETRY, __GFP_RECLAIMABLE, __GFP_THISNODE, __GFP_ZERO, GFP_ATOMIC,
    GFP_DMA, GFP_DMA32, GFP_HIGHUSER, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT, GFP_TRANSHUGE, GFP_USER,
};
use framewright::{CpuId, Gfp, MigrateType, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, ZoneIdx, ZoneKind};

use crate::generate::machines;
use crate::generate::variety;
use crate::language::{Counter, Handle, OnMigrate, OnReclaim, Op, Place, Scenario, Shape, Terms};
use crate::rng::Rng;

/// How often each kind of operation is drawn, relative to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weights {
    /// `alloc`.
    pub alloc: u32,
    /// `bulk`.
    pub bulk: u32,
    /// `alloc-at`, `alloc-range`, `alloc-contig`.
    pub ranges: u32,
    /// `free`.
    pub free: u32,
    /// `free-part` and `split`.
    pub parts: u32,
    /// Frees and splits that are wrong, mostly.
    pub misuse: u32,
    /// Drains, CPUs that stop, and which CPU calls and how.
    pub cpus: u32,
    /// Memory hotplug.
    pub hotplug: u32,
    /// Pageblock types.
    pub types: u32,
    /// Faults.
    pub faults: u32,
    /// Changes of what the callbacks do.
    pub hooks: u32,
}

impl Weights {
    /// All kinds, as on a busy machine.
    pub const MIXED: Weights = Weights {
        alloc: 30,
        bulk: 5,
        ranges: 6,
        free: 22,
        parts: 5,
        misuse: 6,
        cpus: 8,
        hotplug: 3,
        types: 3,
        faults: 2,
        hooks: 3,
    };

    /// Memory runs out.
    pub const FILL: Weights =
        Weights { alloc: 40, bulk: 20, free: 12, cpus: 6, hooks: 4, faults: 1, types: 1, ..Weights::NONE };

    /// Contiguous memory.
    pub const RANGES: Weights = Weights {
        alloc: 15,
        ranges: 25,
        free: 15,
        parts: 15,
        hotplug: 8,
        hooks: 6,
        cpus: 4,
        types: 3,
        faults: 4,
        ..Weights::NONE
    };

    /// Small blocks through per-CPU lists.
    pub const PER_CPU: Weights = Weights { alloc: 40, bulk: 10, free: 45, cpus: 12, ..Weights::NONE };

    /// Wrong frees.
    pub const MISUSE: Weights =
        Weights { alloc: 15, free: 12, parts: 8, misuse: 50, ranges: 3, cpus: 4, ..Weights::NONE };

    /// Wrong frees alone, of handles of another list for this machine.
    pub const WRONG: Weights = Weights { misuse: 1, ..Weights::NONE };

    /// No operation, as a base for others.
    pub const NONE: Weights = Weights {
        alloc: 0,
        bulk: 0,
        ranges: 0,
        free: 0,
        parts: 0,
        misuse: 0,
        cpus: 0,
        hotplug: 0,
        types: 0,
        faults: 0,
        hooks: 0,
    };

    /// Draws one of the sets above, and drops, keeps or doubles each weight.
    pub fn swarm(rng: &mut Rng) -> Weights {
        let base = *rng.pick(&[Self::MIXED, Self::MIXED, Self::FILL, Self::RANGES, Self::PER_CPU, Self::MISUSE]);
        let mut vary = |weight: u32| weight * rng.below(3) as u32;
        let Weights { bulk, ranges, parts, misuse, cpus, hotplug, types, faults, hooks, .. } = base;
        Weights {
            bulk: vary(bulk),
            ranges: vary(ranges),
            parts: vary(parts),
            misuse: vary(misuse),
            cpus: vary(cpus),
            hotplug: vary(hotplug),
            types: vary(types),
            faults: vary(faults),
            hooks: vary(hooks),
            ..base
        }
    }

    fn table(&self) -> [u32; 11] {
        let Weights { alloc, bulk, ranges, free, parts, misuse, cpus, hotplug, types, faults, hooks } = *self;
        [alloc, bulk, ranges, free, parts, misuse, cpus, hotplug, types, faults, hooks]
    }
}

/// Bounds of scenarios.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// CPUs of a machine.
    pub cpus: RangeInclusive<u16>,
    /// Operations; `None` for 50 to 100.
    pub ops: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { cpus: variety::CPUS, ops: None }
    }
}

/// Returns the scenario of a seed: any machine, 50 to 100 operations.
pub fn scenario(seed: u64) -> Scenario {
    scenario_within(seed, &Limits::default())
}

/// Returns the scenario of a seed within `limits`.
pub fn scenario_within(seed: u64, limits: &Limits) -> Scenario {
    let mut rng = Rng::new(seed);
    let mut shape = machines::any(&mut rng);
    variety::set_cpus(&mut rng, &mut shape, &limits.cpus);
    let weights = Weights::swarm(&mut rng);
    let count = rng.between(50, 100) as usize;
    // Without tracepoints most frees take the fast path.
    let (quiet, stays) = (rng.one_in(2), rng.one_in(3));
    let mut scenario = ops_on(shape, rng, &weights, limits.ops.unwrap_or(count));
    let first = [(quiet, Op::Trace(false)), (stays, Op::Local(true))].into_iter().filter(|(wanted, _)| *wanted);
    scenario.steps.splice(..0, first.map(|(_, op)| op.into()));
    scenario
}

/// Returns a scenario of `count` operations on a machine.
pub fn ops_on(shape: Shape, rng: Rng, weights: &Weights, count: usize) -> Scenario {
    let mut generator = Generator { rng, shape: &shape, held: Vec::new(), next: 1 };
    let ops: Vec<Op> = (0..count).map(|_| generator.op(weights)).collect();
    Scenario::new(shape, ops)
}

struct Generator<'s> {
    rng: Rng,
    shape: &'s Shape,
    /// Handles that were defined and not freed.
    held: Vec<Handle>,
    next: u32,
}

impl Generator<'_> {
    fn op(&mut self, weights: &Weights) -> Op {
        match self.rng.weighted(&weights.table()) {
            1 => self.bulk(),
            2 => self.range_op(),
            3 => match self.take_handle() {
                Some(handle) if self.rng.one_in(6) => Op::FreeNolock(handle),
                Some(handle) => Op::Free(handle),
                None => self.alloc(),
            },
            4 => self.part(),
            5 => self.misuse(),
            6 => self.cpu_op(),
            7 if self.rng.one_in(2) => Op::TakeOffline(self.range()),
            7 => Op::BringOnline(self.range()),
            8 => Op::SetType { pfn: self.pfn(), migratetype: *self.rng.pick(&MigrateType::ALL) },
            9 => Op::Fault { point: *self.rng.pick(&Fault::ALL), hit: self.rng.between(1, 6) },
            10 => self.hook(),
            _ => self.alloc(),
        }
    }

    fn name(&mut self) -> Handle {
        let name = Handle(self.next);
        self.next += 1;
        self.held.push(name);
        name
    }

    /// Draws a handle that probably holds a block, the newest most likely.
    fn handle(&mut self) -> Option<Handle> {
        let count = self.held.len() as u64;
        let back = self.rng.below(count).min(self.rng.below(count));
        self.held.get((count as usize).checked_sub(back as usize + 1)?).copied()
    }

    fn take_handle(&mut self) -> Option<Handle> {
        let handle = self.handle()?;
        self.held.retain(|&held| held != handle);
        Some(handle)
    }

    fn order(&mut self) -> Order {
        let max = self.shape.geometry.max_order;
        match self.rng.below(20) {
            0..=8 => Order(0),
            9..=13 => Order(self.rng.between(1, 3) as u8).min(max),
            14..=15 => self.shape.geometry.pageblock_order,
            16 => max,
            17 if self.rng.one_in(8) => Order(*self.rng.pick(&[max.0 + 1, 31, 32, 63, 64, 255])),
            _ => Order(self.rng.between(0, max.0.into()) as u8),
        }
    }

    fn gfp(&mut self) -> Gfp {
        let common = [GFP_KERNEL, GFP_HIGHUSER_MOVABLE, GFP_KERNEL | __GFP_RECLAIMABLE, GFP_ATOMIC];
        let rare = [
            GFP_NOWAIT,
            GFP_USER,
            GFP_HIGHUSER,
            GFP_KERNEL | GFP_DMA,
            GFP_KERNEL | GFP_DMA32,
            GFP_TRANSHUGE,
            GFP_ATOMIC | __GFP_MEMALLOC,
            GFP_KERNEL | __GFP_MEMALLOC,
            GFP_KERNEL | __GFP_HIGH,
            GFP_HIGHUSER_MOVABLE | __GFP_NORETRY | __GFP_ZERO,
        ];
        let base = if self.rng.one_in(3) { *self.rng.pick(&rare) } else { *self.rng.pick(&common) };
        let odd = [GFP_DMA | GFP_DMA32, GFP_HIGHUSER_MOVABLE | __GFP_RECLAIMABLE, GFP_KERNEL | __GFP_NOFAIL];
        match self.rng.below(240) {
            0..=2 => *self.rng.pick(&odd),
            3..=32 => base | __GFP_THISNODE,
            _ => base,
        }
    }

    fn nodes(&mut self) -> NodeSet {
        let all = (1 << self.shape.nodes()) - 1;
        match self.rng.below(16) {
            0 => NodeSet::ALL,
            1 => NodeSet(0),
            2 => NodeSet(self.rng.draw()),
            _ => NodeSet(self.rng.draw() & all),
        }
    }

    fn terms(&mut self) -> Terms {
        let mut terms = Terms::new(self.gfp());
        let nodes = self.shape.nodes() as u64;
        terms.policy = match self.rng.below(if nodes > 1 { 8 } else { 40 }) {
            0 => Policy::Prefer(NodeId(self.rng.below(nodes + u64::from(self.rng.clone().one_in(8))) as u8)),
            1 => Policy::Bind(self.nodes()),
            2 => Policy::Interleave(self.nodes()),
            _ => Policy::Local,
        };
        if self.rng.one_in(15) {
            terms.below = Some(self.pfn());
        }
        terms
    }

    fn alloc(&mut self) -> Op {
        let (order, terms, name) = (self.order(), self.terms(), self.name());
        if self.rng.one_in(6) { Op::AllocNolock { name, order, terms } } else { Op::Alloc { name, order, terms } }
    }

    fn bulk(&mut self) -> Op {
        let order = if self.rng.one_in(2) { Order(0) } else { self.order() };
        let most = if self.rng.one_in(4) { 300 } else { 40 };
        let count = (self.rng.between(0, most) >> order.0.min(5)) as u32 + 1;
        Op::Bulk { count, order, terms: self.terms(), name: self.name() }
    }

    /// Draws a frame: in memory, at the edge of a pageblock or region, or outside.
    fn pfn(&mut self) -> Pfn {
        let region = self.rng.pick(&self.shape.regions).range;
        let inside = region.start.add(self.rng.below(region.frames()));
        match self.rng.below(24) {
            0..=5 => Pfn(inside.0 & !self.shape.geometry.pageblock_order.mask()),
            6 => region.start,
            7 => region.end,
            8 => Pfn(region.start.0.wrapping_sub(1)),
            9 if self.rng.one_in(4) => Pfn(*self.rng.pick(&[0, u64::MAX, 1 << 40, u64::MAX - 3])),
            _ => inside,
        }
    }

    fn range(&mut self) -> PfnRange {
        let start = self.pfn();
        let geometry = self.shape.geometry;
        let frames = match self.rng.below(8) {
            0..=1 => geometry.pageblock_order.frames(),
            2 => geometry.max_order.frames(),
            3 => geometry.pageblock_order.frames() * self.rng.between(1, 5),
            4 if self.rng.one_in(4) => 0,
            _ => self.rng.between(1, 2 * geometry.pageblock_order.frames() + 5),
        };
        PfnRange { start, end: start.add(frames) }
    }

    fn range_op(&mut self) -> Op {
        let gfp = self.gfp();
        match self.rng.below(3) {
            0 => {
                let order = self.order();
                let pfn = self.pfn();
                let aligned = Pfn(pfn.0 & !order.mask());
                let pfn = if order.0 < 64 && !self.rng.one_in(16) { aligned } else { pfn };
                Op::AllocAt { pfn, order, gfp, name: self.name() }
            }
            1 => Op::AllocRange { range: self.range(), gfp, name: self.name() },
            _ => {
                let max = self.shape.geometry.max_order.frames();
                let frames = if self.rng.one_in(3) { self.rng.below(3 * max) } else { self.rng.below(max / 2 + 2) };
                let align = Order(if self.rng.one_in(3) { self.order().0 } else { 0 });
                Op::AllocContig { frames, align, terms: self.terms(), name: self.name() }
            }
        }
    }

    fn part(&mut self) -> Op {
        let Some(handle) = self.handle() else { return self.alloc() };
        if self.rng.one_in(3) {
            return Op::Split { handle, to: Order(self.rng.below(4) as u8) };
        }
        let skip = self.rng.below(2) * self.rng.below(40);
        Op::FreePart { handle, skip, frames: self.rng.between(1, 20) }
    }

    /// Draws the place of a wrong free: held, freed long ago, or never held.
    fn place(&mut self) -> Place {
        // Without definitions of its own the list uses handles of another.
        let defined = if self.next == 1 { 40 } else { u64::from(self.next) - 1 };
        let handle = Handle(self.rng.between(1, defined) as u32);
        match self.rng.below(8) {
            0..=2 => Place::At(self.pfn()),
            3..=4 => Place::In(handle, 0),
            _ => Place::In(handle, self.rng.below(9)),
        }
    }

    fn misuse(&mut self) -> Op {
        let place = self.place();
        match self.rng.below(8) {
            0 => Op::RawFreeRange { place, frames: self.rng.below(2) * self.rng.below(30) },
            1 => Op::RawSplit { place, from: self.order(), to: self.order() },
            _ => Op::RawFree { place, order: self.order() },
        }
    }

    fn cpu_op(&mut self) -> Op {
        let cpu = CpuId(self.rng.below(self.shape.cpus.len() as u64) as u16);
        match self.rng.below(22) {
            18..=19 => Op::Local(!self.rng.one_in(3)),
            20..=21 => Op::Trace(self.rng.one_in(3)),
            16 => Op::Balance(NodeId(self.rng.below(self.shape.nodes() as u64) as u8)),
            17 => Op::Compact(NodeId(self.rng.below(self.shape.nodes() as u64) as u8)),
            0 => Op::DrainAll,
            1 => Op::DrainCpu(cpu),
            2 => Op::OfflineCpu(cpu),
            3 => Op::OnlineCpu(cpu),
            4 => Op::Refresh(cpu),
            5 => Op::NumaStat(self.rng.one_in(2)),
            6..=9 => self.count(),
            _ => Op::RunOn(cpu),
        }
    }

    /// Draws a count in one of the embedder's counters, mostly small, seldom in one that does not exist.
    fn count(&mut self) -> Op {
        let node = NodeId(self.rng.below(self.shape.nodes() as u64) as u8);
        let counter = if self.rng.one_in(2) {
            let zone = ZoneIdx::of(node, *self.rng.pick(&ZoneKind::ALL));
            Counter::Zone(zone, self.rng.below(self.shape.zone_counters as u64 + 1) as usize)
        } else {
            Counter::Node(node, self.rng.below(self.shape.node_counters as u64 + 1) as usize)
        };
        let most = *self.rng.pick(&[1, 1, 10, 300]);
        Op::Count { counter, change: self.rng.below(2 * most + 1) as i64 - most as i64 }
    }

    fn hook(&mut self) -> Op {
        if self.rng.one_in(2) {
            let choices = [
                OnReclaim::Fail,
                OnReclaim::Lie,
                OnReclaim::Free(1),
                OnReclaim::Free(5),
                OnReclaim::Nest,
                OnReclaim::Drain,
            ];
            return Op::OnReclaim(*self.rng.pick(&choices));
        }
        let choices = OnMigrate::NAMES.map(|(_, choice)| choice);
        Op::OnMigrate(*self.rng.pick(&choices))
    }
}
