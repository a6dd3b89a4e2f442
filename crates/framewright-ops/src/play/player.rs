//! The player's state, and what all operations need of it.
//!
//! The player carries operations out on a [`Solo`] machine, tells the oracle their outcomes, and also answers the
//! machine's callbacks and fault points. Callbacks run inside an operation and may call the allocator themselves. So
//! the player's state is never borrowed across a call of the allocator.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use framewright::machine::Fault;
use framewright::report::Source;
use framewright::request::__GFP_DIRECT_RECLAIM;
use framewright::{
    AllocError, Allocator, CpuHandle, CpuId, FreeError, Local, MigrateType, NodeId, Order, Pfn, PfnRange, Policy,
    Request, Why,
};
use framewright_rt::Solo;

use crate::language::{Counter, Handle, OnMigrate, OnReclaim, Outcome, Place, Shape, Wrong, zones};
use crate::oracle::Oracle;
use crate::oracle::rights::Judge;

/// Fault points: which are to fail, and how often each was reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Points still to fail, and the hits that are left until then.
    pub(super) armed: Vec<(Fault, u64)>,
    /// How often each point of `Fault::ALL` was reached.
    pub(crate) hits: [u64; Fault::ALL.len()],
    /// How often each failed.
    pub(crate) fired: [u64; Fault::ALL.len()],
    /// The hits of [`Fault::Alloc`] that failed, counted from 1.
    failed: BTreeSet<u64>,
}

impl Faults {
    /// Notes that a point is reached; returns whether it fails.
    pub(super) fn reach(&mut self, point: Fault) -> bool {
        let index = Fault::ALL.iter().position(|&known| known == point).unwrap_or(0);
        self.hits[index] += 1;
        let mut fails = false;
        self.armed.retain_mut(|(armed, left)| {
            if *armed != point {
                return true;
            }
            *left = left.saturating_sub(1);
            fails |= *left == 0;
            *left != 0
        });
        self.fired[index] += u64::from(fails);
        if fails && point == Fault::Alloc {
            self.failed.insert(self.hits[index]);
        }
        fails
    }
}

/// What the callbacks are to do, and what they did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) on_reclaim: OnReclaim,
    pub(crate) on_migrate: OnMigrate,
    pub(crate) reclaims: u64,
    pub(crate) migrations: u64,
    /// The first wrong answer that a callback got.
    pub(crate) wrong: Option<Wrong>,
}

/// The answer to a request that was made to fail.
pub(super) const FAULT: Result<Pfn, AllocError> = Err(AllocError::no_memory(Why::Fault));

/// The state of one run.
pub(crate) struct Player<'h> {
    pub(crate) pages: &'h Allocator<'h, Solo<'h>>,
    pub(crate) oracle: RefCell<Oracle>,
    pub(crate) faults: RefCell<Faults>,
    pub(crate) hooks: RefCell<Hooks>,
    pub(super) cpus: &'h [NodeId],
    pub(super) distances: &'h [u8],
    pub(super) cpu: Cell<CpuId>,
    /// For each CPU, the interleaved requests that took a turn; `None` once that is not known.
    pub(super) turns: RefCell<Vec<Option<u32>>>,
    /// The `Local` that calls use while the caller stays on its CPU.
    pub(crate) seat: RefCell<Option<Rc<Local<'h, 'h, Solo<'h>>>>>,
    /// A handle of each CPU, which some calls use, also from other CPUs.
    handles: Vec<CpuHandle<'h, 'h, Solo<'h>>>,
    /// Number of callbacks under way.
    pub(crate) depth: Cell<u32>,
    /// Frees that were refused so far.
    pub(crate) refused: Cell<u64>,
    /// Requests served by the caller's node, and by other nodes.
    pub(crate) local: Cell<u64>,
    pub(crate) other: Cell<u64>,
    /// Interleaved requests served by the node whose turn it was; `None` once a turn was not known.
    pub(crate) interleaved: Cell<Option<u64>>,
    /// Whether the NUMA counters are switched on.
    pub(super) counting: Cell<bool>,
    /// Frames allocated less frames freed, by the tracepoints; `None` while they are switched off.
    pub(crate) traced: Cell<Option<u64>>,
    /// Numbers of the embedder's counters of each zone and of each node, and what was counted in them.
    pub(crate) counters: (usize, usize),
    pub(crate) counted: RefCell<BTreeMap<Counter, i64>>,
    /// Whether an operation gave a pageblock to the reserve for high orders, which may then be of any size.
    pub(crate) reserved: Cell<bool>,
    /// Ranges taken offline.
    pub(crate) offline: RefCell<Vec<PfnRange>>,
}

impl<'h> Player<'h> {
    pub(crate) fn new(pages: &'h Allocator<'h, Solo<'h>>, shape: &'h Shape) -> Player<'h> {
        Player {
            pages,
            oracle: RefCell::new(Oracle::new(shape)),
            faults: RefCell::default(),
            hooks: RefCell::default(),
            cpus: &shape.cpus,
            distances: &shape.distances,
            cpu: Cell::new(CpuId(0)),
            turns: RefCell::new(vec![Some(0); shape.cpus.len()]),
            seat: RefCell::default(),
            handles: (0..=u16::MAX).map_while(|cpu| pages.cpu_handle(CpuId(cpu))).collect(),
            depth: Cell::new(0),
            refused: Cell::new(0),
            local: Cell::new(0),
            other: Cell::new(0),
            interleaved: Cell::new(Some(0)),
            counting: Cell::new(true),
            traced: Cell::new(Some(0)),
            counters: (shape.zone_counters, shape.node_counters),
            counted: RefCell::default(),
            reserved: Cell::new(false),
            offline: RefCell::default(),
        }
    }

    /// Returns a player that knows what this one knows, of an allocator that was restored.
    pub(crate) fn moved<'n>(&self, pages: &'n Allocator<'n, Solo<'n>>, shape: &'n Shape) -> Player<'n> {
        pages.machine().run_on(self.cpu.get());
        Player {
            pages,
            oracle: self.oracle.clone(),
            faults: self.faults.clone(),
            hooks: self.hooks.clone(),
            cpu: self.cpu.clone(),
            turns: self.turns.clone(),
            refused: self.refused.clone(),
            local: self.local.clone(),
            other: self.other.clone(),
            interleaved: self.interleaved.clone(),
            counting: self.counting.clone(),
            traced: self.traced.clone(),
            counted: self.counted.clone(),
            reserved: self.reserved.clone(),
            offline: self.offline.clone(),
            ..Player::new(pages, shape)
        }
    }

    /// Allocates a block, through the held [`Local`] if there is one.
    ///
    /// Otherwise the name chooses among the calls that mean the same: with a handle of the caller's CPU or of CPU 0, or
    /// without. So an operation uses the same call wherever it stands in a list. Also returns the request that this
    /// amounts to.
    pub(super) fn alloc_block(&self, name: Handle, request: Request) -> (Request, Result<Pfn, AllocError>) {
        let Request { gfp, order, policy, below } = request;
        let is_pages = policy == Policy::Local && below.is_none();
        let local = self.seat.borrow().clone();
        if let Some(local) = local {
            let by_flags = is_pages && name.0.is_multiple_of(2);
            let result = if by_flags { local.alloc_pages(gfp, order) } else { local.alloc(&request) };
            // A `Local` stays on its CPU, so it does not wait for memory.
            return (Request { gfp: gfp & !__GFP_DIRECT_RECLAIM, ..request }, result);
        }
        let result = match (name.0 % 6, self.handle(name.0)) {
            (2, Some(handle)) if is_pages => handle.alloc_pages(gfp, order),
            (0..=2, Some(handle)) => handle.alloc(&request),
            (3, _) if is_pages => self.pages.alloc_pages(gfp, order),
            _ => self.pages.alloc(&request),
        };
        (request, result)
    }

    /// Frees a block, through the held [`Local`] if there is one; else its number chooses the call.
    pub(crate) fn free_block(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let local = self.seat.borrow().clone();
        match (local, self.handle(pfn.0 as u32 >> 1)) {
            (Some(local), _) if pfn.0.is_multiple_of(2) && local.free_at_once(pfn, order) => Ok(()),
            (Some(local), _) => local.free(pfn, order),
            (None, Some(handle)) if pfn.0.is_multiple_of(4) => handle.free(pfn, order),
            (None, Some(handle)) if pfn.0.is_multiple_of(2) => handle.free_pages(pfn, order),
            _ if pfn.0 % 4 == 1 => self.pages.free_pages(pfn, order),
            _ => self.pages.free(pfn, order),
        }
    }

    /// Returns the handle of the caller's CPU, or for some numbers that of CPU 0.
    fn handle(&self, number: u32) -> Option<&CpuHandle<'h, 'h, Solo<'h>>> {
        let cpu = if number.is_multiple_of(4) { CpuId(0) } else { self.cpu.get() };
        self.handles.get(cpu.index())
    }

    /// Returns the number of faults that fired so far.
    pub(crate) fn fired(&self) -> u64 {
        self.faults.borrow().fired.iter().sum()
    }

    /// Returns whether the allocator may have been kept from the answer that it owes.
    ///
    /// That is so if a fault fired, or if this operation runs inside another.
    pub(crate) fn disturbed_since(&self, fired: u64) -> bool {
        self.fired() != fired || self.depth.get() != 0
    }

    /// Returns the number of requests that were begun so far.
    pub(super) fn begun(&self) -> u64 {
        self.faults.borrow().hits[0]
    }

    /// Returns whether the next request after `begun` requests was made to fail.
    pub(super) fn failed_after(&self, begun: u64) -> bool {
        self.faults.borrow().failed.contains(&(begun + 1))
    }

    pub(crate) fn here(&self) -> NodeId {
        self.cpus.get(self.cpu.get().index()).copied().unwrap_or_default()
    }

    /// Lets `check` judge a request, with the turn that comes next.
    ///
    /// The oracle is borrowed meanwhile.
    pub(super) fn judge<T>(
        &self,
        request: Request,
        disturbed: bool,
        check: impl FnOnce(&Judge<'_, '_, Solo<'_>>) -> T,
    ) -> T {
        self.judge_turn(request, self.turn(), disturbed, check)
    }

    pub(super) fn judge_turn<T>(
        &self,
        request: Request,
        turn: Option<u32>,
        disturbed: bool,
        check: impl FnOnce(&Judge<'_, '_, Solo<'_>>) -> T,
    ) -> T {
        let oracle = self.oracle.borrow();
        let (pages, memory, distances) = (self.pages, oracle.memory(), self.distances);
        check(&Judge { pages, memory, request, here: self.here(), distances, turn, disturbed })
    }

    /// Returns the turn of this CPU's next interleaved request; `None` if that is not known.
    pub(super) fn turn(&self) -> Option<u32> {
        self.turns.borrow().get(self.cpu.get().index()).copied().flatten()
    }

    /// Notes that requests were made on this CPU; `None` for an unknown number.
    pub(super) fn take_turns(&self, request: Request, requests: Option<u32>) {
        if let Policy::Interleave(_) = request.policy
            && let Some(turn) = self.turns.borrow_mut().get_mut(self.cpu.get().index())
        {
            *turn = turn.zip(requests).map(|(turn, requests)| turn.wrapping_add(requests));
        }
    }

    /// Counts a request that was served with the block at `pfn`.
    pub(crate) fn count_served(&self, pfn: Pfn) {
        let node = self.oracle.borrow().memory().known(pfn).map(|known| known.zone.node());
        if !self.counting.get() {
            return;
        }
        let counter = if node == Some(self.here()) { &self.local } else { &self.other };
        counter.set(counter.get() + 1);
    }

    /// Notes and judges a block that a request got in its turn.
    pub(super) fn given(
        &self,
        name: Handle,
        pfn: Pfn,
        (request, turn): (Request, Option<u32>),
        disturbed: bool,
    ) -> Result<(), Wrong> {
        let block = PfnRange::block(pfn, request.order);
        let movable = request.gfp.migratetype() == MigrateType::Movable;
        self.oracle.borrow_mut().hold(name, (pfn, request.order), movable)?;
        self.count_served(pfn);
        self.judge_turn(request, turn, disturbed, |judge| {
            self.count_turn(judge, pfn);
            judge.placed(block)?;
            judge.mobility(block)?;
            judge.nearest(block)
        })
    }

    /// Counts an interleaved request, if the node whose turn it was served it.
    pub(super) fn count_turn(&self, judge: &Judge<'_, '_, Solo<'_>>, pfn: Pfn) {
        if let Policy::Interleave(nodes) = judge.request.policy
            && self.counting.get()
            && !judge.usable(nodes).is_empty()
        {
            let node = judge.memory.known(pfn).map(|known| known.zone.node());
            let counted = self.interleaved.get().zip(judge.whose_turn(nodes));
            self.interleaved.set(counted.map(|(count, turn)| count + u64::from(Some(turn) == node)));
        }
    }

    /// Makes a call at a place, if the place has a frame.
    pub(crate) fn at(&self, place: Place, call: impl FnOnce(Pfn) -> Result<Outcome, Wrong>) -> Result<Outcome, Wrong> {
        let pfn = self.oracle.borrow().resolve(place);
        pfn.map_or(Ok(Outcome::Skipped), call)
    }

    /// Notes a refused free, which the allocator must count.
    pub(super) fn refused(&self, error: FreeError) -> Result<Outcome, Wrong> {
        self.refused.set(self.refused.get() + 1);
        Ok(Outcome::Refused(error))
    }

    /// Returns the frames on a CPU's lists: of its own node's zones, and of others.
    pub(crate) fn cached(&self, cpu: CpuId) -> [u64; 2] {
        let mut frames = [0; 2];
        for pcp in zones(self.pages.nodes()).filter_map(|zone| Some((zone.node(), self.pages.pcp(zone, cpu)?))) {
            frames[usize::from(Some(&pcp.0) != self.cpus.get(cpu.index()))] += pcp.1.count;
        }
        frames
    }
}

/// Fails if a call that is right was refused; `what` and `place` say which call.
pub(super) fn granted<T>(result: Result<T, FreeError>, what: &str, place: impl fmt::Display) -> Result<T, Wrong> {
    result.map_err(|error| format!("a right {what} of {place} was refused: {error}"))
}
