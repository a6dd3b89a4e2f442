//! What a seed does: its machine, its faults, its schedule, and the weights of its operations.
//!
//! Swarm testing (Groce et al., ISSTA 2012): each seed leaves out a random half of everything. A mixture of everything
//! would reach no corner: memory is never full where frees are as likely as requests, and a block is never moved where
//! the callback always panics.

use framewright::config::SectionInit;
use framewright::mechanisms::PcpProtection;
use framewright::watermark::PcpSize;
use framewright::{NodeId, Pfn, PfnRange, Region, ZoneIdx, ZoneKind};
use framewright_ops::rng::Rng;
use framewright_ops::{Shape, machines, variety};

use crate::case::{Case, OPERATIONS};
use crate::kind::{Kind, Kinds};
use crate::schedule::Schedule;

/// Kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Alloc,
    Large,
    Nolock,
    Bulk,
    Range,
    Part,
    Wrong,
    Drain,
    Cpu,
    Hotplug,
    Type,
    Background,
    Report,
    Freeze,
}

/// Operations and how often they are drawn.
pub(crate) const ACTIONS: [(Action, u32); 14] = [
    (Action::Alloc, 1200),
    (Action::Large, 30),
    (Action::Nolock, 80),
    (Action::Bulk, 12),
    (Action::Range, 8),
    (Action::Part, 40),
    (Action::Wrong, 40),
    (Action::Drain, 3),
    (Action::Cpu, 3),
    (Action::Hotplug, 3),
    (Action::Type, 6),
    (Action::Background, 6),
    (Action::Report, 1),
    (Action::Freeze, 1),
];

/// Kinds that are armed for an operation and take effect at their n-th point in it.
pub(crate) const ARMED: [Kind; 24] = [
    Kind::RequestFails,
    Kind::RefillFails,
    Kind::ListsRefused,
    Kind::IsolationFails,
    Kind::DrainFails,
    Kind::WrittenAfterFree,
    Kind::ReclaimNothing,
    Kind::ReclaimLies,
    Kind::ReclaimPanics,
    Kind::ReclaimReenters,
    Kind::MoveRefused,
    Kind::MoveLies,
    Kind::MovePanics,
    Kind::MoveReenters,
    Kind::MovedBlockFreed,
    Kind::CpuChanged,
    Kind::NearIsFar,
    Kind::ZoneHolderStopped,
    Kind::ListsHolderStopped,
    Kind::DepotHolderStopped,
    Kind::ThreadStopped,
    Kind::PatienceOver,
    Kind::FenceForbidden,
    Kind::ReportDropped,
];

/// Those of [`ARMED`] that take effect where blocks are moved.
const MOVES: [Kind; 6] = [
    Kind::IsolationFails,
    Kind::MoveRefused,
    Kind::MoveLies,
    Kind::MovePanics,
    Kind::MoveReenters,
    Kind::MovedBlockFreed,
];

/// Kinds of interrupts.
pub(crate) const INTERRUPTS: [Kind; 5] =
    [Kind::InterruptAllocates, Kind::InterruptFrees, Kind::NmiAllocates, Kind::NmiFrees, Kind::NmiWrongCall];

/// Farthest apart that a machine's first and last frame may be: the table of owners has a word for each.
pub(crate) const MOST_SPANNED: u64 = 1 << 15;
/// Accesses that a call may make for each record of a CPU, by [`Effort`].
///
/// A request that fails looks at every list of every CPU, and again as long as lists change: 64 times at most.
const FOR_RECORDS: [u64; 3] = [1 << 16, 1 << 18, 1 << 21];
/// Accesses that it may make for each frame of a pageblock, which is looked at from end to end, or of all memory.
const FOR_FRAMES: [u64; 3] = [1 << 11, 1 << 11, 1 << 12];

/// How much a call may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// A free, a split, or a call for any context: it neither waits nor searches other CPUs' lists again and again.
    Quick,
    /// A request that may not wait.
    Request,
    /// Any other call.
    Slow,
}

/// Levels of memory use of a segment, in percent.
const LEVELS: [u64; 7] = [5, 20, 40, 60, 75, 90, 105];

/// The plan of a case.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) shape: Shape,
    /// Records of each CPU: 2 where interrupts have lists of their own.
    pub(crate) contexts: usize,
    pub(crate) schedule: Schedule,
    pub(crate) kinds: Kinds,
    pub(crate) weights: [u32; ACTIONS.len()],
    /// Enabled kinds of [`ARMED`].
    pub(crate) armed: Vec<Kind>,
    /// Enabled kinds of [`MOVES`].
    moves: Vec<Kind>,
    /// Enabled kinds of [`INTERRUPTS`].
    pub(crate) interrupts: Vec<Kind>,
    /// Operations between two that a fault is armed for.
    pub(crate) fault_in: u64,
    /// Operations between two that are interrupted.
    pub(crate) interrupt_in: u64,
    /// Operations of the seed: fewer on many CPUs, where each failing request and each check takes longer.
    pub(crate) operations: u64,
    /// Operations of a segment.
    pub(crate) segment: u64,
    /// Accesses that a call may make, by [`Effort`].
    pub(crate) limits: [u64; 3],
}

impl Plan {
    pub(crate) fn new(case: &Case) -> Plan {
        let mut rng = Rng::new(case.seed ^ 0xca3b_a16e);
        let mut shape = shape(&mut rng);
        let (kinds, schedule) = (Kinds(rng.draw() & Kinds::ALL.0), schedule(&mut rng));
        let mut weights = ACTIONS.map(|(_, weight)| weight * *rng.pick(&[0, 1, 1, 3]));
        weights[0] = weights[0].max(ACTIONS[0].1 / 2);
        let fault_in = *rng.pick(&[2, 4, 16]);
        let interrupt_in = *rng.pick(&[2, 8, 32]);
        if let Some(cpus) = case.cpus {
            variety::set_cpus(&mut rng, &mut shape, &(cpus..=cpus));
        }
        shape.mechanisms = case.mechanisms.unwrap_or(shape.mechanisms);
        let enabled = Kinds(kinds.0 & !case.without.0);
        let only = |kinds: &[Kind]| kinds.iter().copied().filter(|kind| enabled.has(*kind)).collect::<Vec<_>>();
        let interrupts = only(&INTERRUPTS);
        // By what the seed enables, so that a shrunk case has the seed's records.
        let has_own_lists = shape.mechanisms.pcp_protection == PcpProtection::OwnLists;
        let contexts = if has_own_lists && INTERRUPTS.iter().any(|kind| kinds.has(*kind)) { 2 } else { 1 };
        let records = (contexts * shape.cpus.len()) as u64;
        let frames = shape.regions.iter().map(|region| region.range.frames()).sum::<u64>();
        let pageblock = shape.geometry.pageblock_order.frames();
        let frames = [pageblock, pageblock, frames];
        Plan {
            seed: case.seed,
            contexts,
            schedule: case.schedule.unwrap_or(schedule),
            kinds: enabled,
            weights,
            armed: only(&ARMED),
            moves: only(&MOVES),
            interrupts,
            fault_in,
            interrupt_in,
            operations: if shape.cpus.len() < 64 { OPERATIONS } else { OPERATIONS >> (2 + shape.cpus.len() / 128) },
            segment: 256,
            limits: std::array::from_fn(|at| FOR_RECORDS[at] * (1 + records) + FOR_FRAMES[at] * frames[at]),
            shape,
        }
    }

    /// Returns the machine, the schedule and the kinds of fault as text.
    pub(crate) fn text(&self) -> String {
        let kinds: Vec<&str> = self.kinds.iter().map(Kind::name).collect();
        format!("{}schedule {}\nkinds {}\n", self.shape, self.schedule, kinds.join(" "))
    }

    /// Returns the generator of an operation.
    pub(crate) fn draws_of(&self, operation: u64) -> Rng {
        let mut rng = Rng::new(self.seed.wrapping_mul(0x9e6c_63d0_876a_3f6b) ^ operation.rotate_left(40));
        rng.draw();
        rng
    }

    /// Draws a fault for an operation, and the number of the point at which it takes effect.
    pub(crate) fn fault(&self, action: Action, rng: &mut Rng) -> Option<(Kind, u32)> {
        if self.armed.is_empty() || !rng.one_in(self.fault_in) {
            return None;
        }
        // Few operations move blocks, so most of their faults are those of moves.
        let moves = matches!(action, Action::Large | Action::Range | Action::Hotplug | Action::Background);
        let kinds = if moves && !self.moves.is_empty() && !rng.one_in(4) { &self.moves } else { &self.armed };
        Some((*rng.pick(kinds), *rng.pick(&[1, 1, 1, 1, 2, 3, 5, 12])))
    }

    /// Returns the accesses that a call may make.
    pub(crate) fn limit(&self, effort: Effort) -> u64 {
        self.limits[effort as usize]
    }

    /// Returns the thread that carries out an operation.
    pub(crate) fn thread_of(&self, operation: u64) -> usize {
        // A few threads do most, so that their lists fill up.
        let mut rng = Rng::new(operation.wrapping_mul(0xd134_2543_de82_ef95) ^ self.seed);
        let cpus = self.shape.cpus.len() as u64;
        let among = if rng.one_in(2) { cpus.min(3) } else { cpus };
        rng.below(among) as usize
    }

    /// Returns the frames that a segment steers for, of `usable`.
    pub(crate) fn level(&self, operation: u64, usable: u64) -> u64 {
        // Levels change more slowly than segments: filling memory takes thousands of operations.
        let mut rng = Rng::new(self.seed ^ (operation >> 11) << 32);
        usable * *rng.pick(&LEVELS) / 100
    }
}

fn schedule(rng: &mut Rng) -> Schedule {
    match rng.below(16) {
        0..=9 => Schedule::Calls,
        10..=12 => Schedule::Random(*rng.pick(&[8, 24, 60, 200])),
        13 | 14 => Schedule::Pct(rng.between(2, 8)),
        _ => Schedule::Robin(*rng.pick(&[7, 17, 60, 200])),
    }
}

/// Draws a machine whose frames are close enough together for a table.
fn shape(rng: &mut Rng) -> Shape {
    let mut shape = loop {
        let shape = if rng.one_in(4) { machines::any(rng) } else { small(rng) };
        let bounds = shape.regions.first().zip(shape.regions.last());
        let frames: u64 = shape.regions.iter().map(|region| region.range.frames()).sum();
        let is_close = |(first, last): (&Region, &Region)| last.range.end.0 - first.range.start.0 <= MOST_SPANNED;
        // A request that steals looks at a whole pageblock, holes included.
        let is_usual = shape.geometry.pageblock_order.0 <= 10;
        if frames >= 64 && is_usual && bounds.is_some_and(is_close) {
            break shape;
        }
    };
    let cpus = *rng.pick(&[1, 2, 2, 3, 4, 4, 8, 16]);
    let cpus = if rng.one_in(16) { *rng.pick(&[64, 64, 64, 64, 64, 64, 128, 512]) } else { cpus };
    variety::set_cpus(rng, &mut shape, &(cpus..=cpus));
    shape.mechanisms = variety::mechanisms(rng);
    shape.section_init = if rng.one_in(4) { SectionInit::WhenUsed } else { SectionInit::AtBoot };
    possible(rng, &mut shape);
    shape
}

/// A machine of a few megabytes.
fn small(rng: &mut Rng) -> Shape {
    let mut shape = machines::random(rng);
    let max = rng.between(4, 9);
    let pageblock = rng.between(2, max.min(6));
    shape.geometry.max_order.0 = max as u8;
    shape.geometry.pageblock_order.0 = pageblock as u8;
    shape.regions.clear();
    (shape.movable, shape.cma) = (Vec::new(), Vec::new());
    let nodes = rng.between(1, 2);
    let mut at = rng.below(2) * rng.below(70);
    for node in 0..nodes {
        let frames = *rng.pick(&[512, 1024, 2048]);
        shape.regions.push(Region::usable(at, at + frames, node as u8));
        at += frames + rng.below(2) * rng.below(70);
    }
    shape.cpus = vec![NodeId(0)];
    shape.distances.clear();
    shape.tuning.clear();
    shape.dma_end = Pfn(rng.below(2) * rng.below(at / 8));
    shape.dma32_end = Pfn(shape.dma_end.0 + rng.below(2) * rng.below(at / 2));
    let block = 1 << pageblock;
    if rng.one_in(4) {
        shape.movable = vec![PfnRange::new(at / 2 / block * block, at)];
    }
    if rng.one_in(4) {
        let start = block * rng.between(2, 5);
        shape.cma = vec![PfnRange::new(start, start + block * rng.between(1, 3))];
    }
    if rng.one_in(2) {
        let batch = rng.between(1, 8) as u32;
        let zone = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
        shape.tuning_mut(zone).pcp = Some(PcpSize { batch, high: batch * rng.between(1, 8) as u32 });
    }
    shape
}

/// Adds address space where memory may be added later.
fn possible(rng: &mut Rng, shape: &mut Shape) {
    let Some(last) = shape.regions.last().copied() else { return };
    let order = shape.geometry.max_order;
    if rng.one_in(2) && order.0 <= 10 && last.range.end.0 < 1 << 40 {
        let start = last.range.end.align_up(order);
        let end = start.add(order.frames() * rng.between(1, 3));
        shape.regions.push(Region { range: PfnRange { start, end }, ..Region::possible(start.0, end.0, last.node.0) });
    }
}
