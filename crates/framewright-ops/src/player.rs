//! Plays operations on an allocator and judges each answer.
//!
//! The player stands between a scenario and a [`Solo`] machine: it carries operations out, tells the oracle what came of them,
//! and is the machine's callbacks and faults as well. Callbacks run in the middle of an operation and may call the
//! allocator themselves, so the player's state is never borrowed across a call of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use framewright::machine::{Busy, Fault};
use framewright::report::Source;
use framewright::request::{__GFP_DIRECT_RECLAIM, __GFP_NOMEMALLOC};
use framewright::{
    AllocError, Allocator, CpuId, Event, FreeError, Gfp, Local, MigrateType, NodeId, Order, Pfn, PfnRange, Policy,
    Refreshed, Request,
};
use framewright_rt::Solo;

use crate::counters::Counted;
use crate::judge::{Judge, RangeVerdict, contradict, free_range, range_verdict};
use crate::op::{Handle, OnMigrate, OnReclaim, Op, Terms};
use crate::oracle::Oracle;
use crate::outcome::{Outcome, Wrong};
use crate::reach::Call;
use crate::row::zones;
use crate::shape::Shape;

/// What was made to fail, and what was reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Points still to fail, and how often they will be reached until then.
    armed: Vec<(Fault, u64)>,
    /// How often each point of `Fault::ALL` was reached.
    pub(crate) hits: [u64; Fault::ALL.len()],
    /// How often each failed.
    pub(crate) fired: [u64; Fault::ALL.len()],
    /// Which of the times that [`Fault::Alloc`] was reached it failed, counted from 1.
    failed: BTreeSet<u64>,
}

impl Faults {
    /// The point is reached: whether it fails.
    fn reach(&mut self, point: Fault) -> bool {
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

/// What the callbacks do and did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) on_reclaim: OnReclaim,
    pub(crate) on_migrate: OnMigrate,
    pub(crate) reclaims: u64,
    pub(crate) migrations: u64,
    /// The first thing that a callback found wrong.
    pub(crate) wrong: Option<Wrong>,
}

/// The answer to a request that was made to fail.
const FAULT: Result<Pfn, AllocError> = Err(AllocError::NoMemory { why: framewright::Why::Fault });

/// See the module's description.
pub(crate) struct Player<'h> {
    pub(crate) pages: &'h Allocator<'h, Solo<'h>>,
    pub(crate) oracle: RefCell<Oracle>,
    pub(crate) faults: RefCell<Faults>,
    pub(crate) hooks: RefCell<Hooks>,
    cpus: &'h [NodeId],
    distances: &'h [u8],
    cpu: Cell<CpuId>,
    /// For each CPU how many interleaved requests took a turn; none once that is not known.
    turns: RefCell<Vec<Option<u32>>>,
    /// What calls go through while the caller stays on its CPU.
    seat: RefCell<Option<Rc<Local<'h, 'h, Solo<'h>>>>>,
    /// How many callbacks are under way.
    pub(crate) depth: Cell<u32>,
    /// Frees that were refused so far.
    pub(crate) refused: Cell<u64>,
    /// Requests served by the caller's node, and by others.
    pub(crate) local: Cell<u64>,
    pub(crate) other: Cell<u64>,
    /// Interleaved requests served by the node whose turn it was; none once a turn was not known.
    pub(crate) interleaved: Cell<Option<u64>>,
    /// Whether the NUMA counters are switched on.
    counting: Cell<bool>,
    /// Frames allocated less frames freed, by the tracepoints; none while these are switched off.
    pub(crate) traced: Cell<Option<u64>>,
    /// How many counters the embedder has of each zone and of each node, and what was counted in them.
    pub(crate) counters: (usize, usize),
    pub(crate) counted: RefCell<Counted>,
    /// Whether a pageblock was given to the reserve for high orders by hand: then that may be of any size.
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

    /// Becomes the machine's callbacks.
    pub(crate) fn hook(&'h self) {
        let machine = self.pages.machine();
        machine.on_fault(|point| self.faults.borrow_mut().reach(point));
        machine.on_reclaim(|need| self.reclaim(need));
        machine.on_migrate(|from, to, order| self.migrate((from, to), order));
        machine.on_event(|event| {
            let change = match event {
                Event::PageAlloc { pfn: Some(_), order, .. } => order.frames(),
                Event::PageFree { order, .. } => order.frames().wrapping_neg(),
                _ => 0,
            };
            self.traced.set(self.traced.get().map(|traced| traced.wrapping_add(change)));
        });
    }

    /// Forgets the callbacks, so that nothing refers to the player any more, and all that it has on the heap: the player is
    /// not dropped.
    pub(crate) fn unhook(&self) {
        self.seat.take();
        let machine = self.pages.machine();
        machine.on_fault(|_| false);
        machine.on_reclaim(|_| 0);
        machine.on_migrate(|_, _, _| Err(Busy));
        machine.on_event(|_| {});
        self.oracle.take();
        self.faults.take();
        self.hooks.take();
        self.counted.take();
        self.offline.take();
    }

    /// Carries out one operation.
    ///
    /// # Errors
    /// The allocator's answer is wrong.
    pub(crate) fn perform(&self, op: &Op) -> Result<Outcome, Wrong> {
        let outcome = match *op {
            Op::Alloc { name, order, terms } => self.alloc(name, terms.request(order)),
            Op::AllocNolock { name, order, terms } => self.alloc_nolock(name, terms.request(order)),
            Op::Bulk { name, count, order, terms } => self.bulk(name, count, terms.request(order)),
            Op::AllocAt { name, pfn, order, gfp } => self.alloc_at(name, pfn, order, gfp),
            Op::AllocRange { name, range, gfp } => {
                let wrong = contradict(gfp).then_some(AllocError::BadFlags);
                self.take(name, range, gfp, wrong, |pages| pages.alloc_range(range, gfp))
            }
            Op::AllocContig { name, frames, align, terms } => self.contig(name, frames, align, terms),
            Op::Free(handle) => self.free(handle),
            Op::FreeNolock(handle) => self.free_nolock(handle),
            Op::FreePart { handle, skip, frames } => self.free_part(handle, skip, frames),
            Op::Split { handle, to } => self.split(handle, to),
            Op::RawFree { place, order } => self.at(place, |pfn| self.raw_free(pfn, order)),
            Op::RawFreeRange { place, frames } => self.at(place, |pfn| self.raw_free_range(pfn, frames)),
            Op::RawSplit { place, from, to } => self.at(place, |pfn| self.raw_split(pfn, from, to)),
            Op::TakeOffline(range) => self.take_offline(range),
            Op::BringOnline(range) => self.bring_online(range),
            Op::SetType { pfn, migratetype } => self.set_type(pfn, migratetype),
            Op::Expect(ref row) => match row.observe(self.pages) {
                Some(found) if found == *row => Ok(Outcome::Done),
                Some(found) => Err(format!("found {found}")),
                None => Err("there is no such zone or pageblock".into()),
            },
            Op::Assert(assertion) => match assertion.read(self.pages)? {
                (_, true) => Ok(Outcome::Done),
                (found, false) => Err(format!("found {found}")),
            },
            Op::Validate => self.pages.validate().map(|_| Outcome::Done).map_err(|violation| violation.to_string()),
            ref other => self.control(other),
        };
        match self.hooks.borrow_mut().wrong.take() {
            Some(wrong) => Err(format!("in a callback: {wrong}")),
            None => outcome,
        }
    }

    /// Operations that concern no block.
    fn control(&self, op: &Op) -> Result<Outcome, Wrong> {
        match *op {
            Op::DrainAll => return self.drained(None, self.pages.drain_all()),
            Op::DrainCpu(cpu) => return self.drained(Some(cpu), self.pages.drain_cpu(cpu)),
            Op::OfflineCpu(cpu) => return self.drained(Some(cpu), self.pages.offline_cpu(cpu)),
            Op::OnlineCpu(cpu) => self.pages.online_cpu(cpu),
            Op::Refresh(cpu) => return self.refreshed(cpu),
            Op::Balance(node) => return self.balanced(node),
            Op::Compact(node) => return self.compacted(node),
            Op::Count { counter, change } => return self.count(counter, change),
            Op::NumaStat(on) => self.switch_numa_stat(on),
            Op::RunOn(cpu) if cpu.index() >= self.cpus.len() => return Ok(Outcome::Skipped),
            Op::RunOn(cpu) => {
                self.seat.take();
                self.cpu.set(cpu);
                self.pages.machine().run_on(cpu);
            }
            Op::Local(on) => return self.stay(on),
            Op::Trace(on) => self.trace(on),
            Op::Fault { point, hit } => self.faults.borrow_mut().armed.push((point, hit.max(1))),
            Op::OnReclaim(what) => self.hooks.borrow_mut().on_reclaim = what,
            Op::OnMigrate(what) => self.hooks.borrow_mut().on_migrate = what,
            _ => {}
        }
        Ok(Outcome::Done)
    }

    /// A CPU tells what it counted and afterwards keeps nothing; it may give back what it has of other nodes' zones, and nothing else.
    pub(crate) fn refreshed(&self, cpu: CpuId) -> Result<Outcome, Wrong> {
        let (needed, held) = (self.pages.needs_refresh(cpu), self.cached(cpu));
        let did = self.pages.refresh_statistics(cpu);
        let (more, [near, far]) = (self.pages.needs_refresh(cpu), self.cached(cpu));
        let gone = [held[0].wrapping_sub(near), held[1].wrapping_sub(far)];
        if needed != (did != Refreshed::default()) || more != (did.waiting != 0) || gone != [0, did.drained] {
            return Err(format!("CPU {}: {did:?}, needed: {needed}, once more: {more}, gone: {gone:?} frames", cpu.0));
        }
        Ok(Outcome::Done)
    }

    /// Frames on a CPU's lists: of zones of its own node, and of others.
    pub(crate) fn cached(&self, cpu: CpuId) -> [u64; 2] {
        let mut frames = [0; 2];
        for pcp in zones(self.pages.nodes()).filter_map(|zone| Some((zone.node(), self.pages.pcp(zone, cpu)?))) {
            frames[usize::from(Some(&pcp.0) != self.cpus.get(cpu.index()))] += pcp.1.count;
        }
        frames
    }

    /// Switched on again, they count from 0.
    fn switch_numa_stat(&self, on: bool) {
        if self.pages.set_numa_stat(on) && self.counting.replace(on) != on {
            self.local.set(0);
            self.other.set(0);
            self.interleaved.set(self.turns.borrow().iter().all(Option::is_some).then_some(0));
        }
    }

    /// Holds a [`Local`] from now on, or none. What was held before is dropped.
    fn stay(&self, on: bool) -> Result<Outcome, Wrong> {
        self.seat.take();
        if on {
            let local = self.pages.local().ok_or("there is a CPU, but no `Local` of it")?;
            self.seat.replace(Some(Rc::new(local)));
        }
        Ok(Outcome::Done)
    }

    /// Switched on again, tracepoints count from what is held.
    fn trace(&self, on: bool) {
        self.pages.machine().set_traces(on);
        let held = self.oracle.borrow().held_frames();
        self.traced.set(if on { Some(self.traced.get().unwrap_or(held)) } else { None });
    }

    /// Allocates a block through the [`Local`] that is held, if one is. Returns the request that this amounts to as well.
    fn alloc_block(&self, request: Request) -> (Request, Result<Pfn, AllocError>) {
        let local = self.seat.borrow().clone();
        match local {
            // It stays on its CPU, so it does not wait for memory.
            Some(local) => {
                let result = local.alloc(&request);
                (Request { gfp: request.gfp & !__GFP_DIRECT_RECLAIM, ..request }, result)
            }
            None => (request, self.pages.alloc(&request)),
        }
    }

    /// Frees a block through the [`Local`] that is held, if one is.
    pub(crate) fn free_block(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let local = self.seat.borrow().clone();
        local.map_or_else(|| self.pages.free(pfn, order), |local| local.free(pfn, order))
    }

    /// How many faults fired so far.
    pub(crate) fn fired(&self) -> u64 {
        self.faults.borrow().fired.iter().sum()
    }

    /// Whether the allocator may have been kept from an answer that it owes: a fault fired, or others are at work around
    /// this operation.
    pub(crate) fn disturbed_since(&self, fired: u64) -> bool {
        self.fired() != fired || self.depth.get() != 0
    }

    /// How often requests were begun so far.
    fn begun(&self) -> u64 {
        self.faults.borrow().hits[0]
    }

    /// Whether the request that was begun next after so many was made to fail.
    fn failed_after(&self, begun: u64) -> bool {
        self.faults.borrow().failed.contains(&(begun + 1))
    }

    pub(crate) fn here(&self) -> NodeId {
        self.cpus.get(self.cpu.get().index()).copied().unwrap_or_default()
    }

    /// Lets `check` judge a request; the oracle is borrowed meanwhile. The turn is the one that comes next.
    fn judge<T>(&self, request: Request, disturbed: bool, check: impl FnOnce(&Judge<'_, '_, Solo<'_>>) -> T) -> T {
        self.judge_turn(request, self.turn(), disturbed, check)
    }

    fn judge_turn<T>(
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

    /// Which turn the next interleaved request of this CPU has; none if that is not known.
    fn turn(&self) -> Option<u32> {
        self.turns.borrow().get(self.cpu.get().index()).copied().flatten()
    }

    /// Notes that requests were made on this CPU; `None` is for a number that nobody knows.
    fn take_turns(&self, request: Request, requests: Option<u32>) {
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

    /// Notes a block that a request was given in its turn.
    fn given(
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

    /// Counts an interleaved request that was served by the node whose turn it was.
    fn count_turn(&self, judge: &Judge<'_, '_, Solo<'_>>, pfn: Pfn) {
        if let Policy::Interleave(nodes) = judge.request.policy
            && self.counting.get()
            && !judge.usable(nodes).is_empty()
        {
            let node = judge.memory.known(pfn).map(|known| known.zone.node());
            let counted = self.interleaved.get().zip(judge.whose_turn(nodes));
            self.interleaved.set(counted.map(|(count, turn)| count + u64::from(Some(turn) == node)));
        }
    }

    /// Nobody holds a lock here, so it must not say that one is taken. Zones that an address limit runs through it leaves out.
    fn alloc_nolock(&self, name: Handle, request: Request) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        let (fired, begun) = (self.fired(), self.begun());
        let result = self.pages.alloc_nolock(&request);
        let disturbed = self.disturbed_since(fired);
        let is_kept = request.order < Order(4) || request.order == self.pages.geometry().pageblock_order;
        let not_kept = (!is_kept).then_some(AllocError::NotKept(request.order));
        let refusal = self.judge(request, false, |judge| judge.refusal()).or(not_kept);
        match (result, refusal) {
            (Ok(pfn), None) => self.given(name, pfn, (request, Some(0)), disturbed).map(|()| Outcome::Block(pfn)),
            (Err(error), Some(refusal)) if error == refusal => Ok(Outcome::NotServed(error)),
            (Err(error @ AllocError::NoMemory { .. }), None) if request.below.is_some() => {
                Ok(Outcome::NotServed(error))
            }
            (Err(error), None) => {
                let faulted = self.failed_after(begun);
                // No reserve is for a request from any context.
                let judged = Request { gfp: request.gfp | __GFP_NOMEMALLOC, ..request };
                self.judge_turn(judged, Some(0), disturbed, |judge| judge.failed(error, (faulted, Call::Nolock)))?;
                Ok(Outcome::NotServed(error))
            }
            (result, Some(refusal)) => Err(format!("answered {result:?}, should be {refusal:?}")),
        }
    }

    fn alloc(&self, name: Handle, request: Request) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        let (fired, begun) = (self.fired(), self.begun());
        let turn = self.turn();
        let (request, result) = self.alloc_block(request);
        let refusal = self.judge(request, false, |judge| judge.refusal());
        if refusal.is_none() && result != FAULT {
            self.take_turns(request, Some(1));
        }
        match (result, refusal) {
            (Ok(pfn), None) => {
                let disturbed = self.disturbed_since(fired);
                self.given(name, pfn, (request, turn), disturbed).map(|()| Outcome::Block(pfn))
            }
            (Err(error), Some(refusal)) if error == refusal => Ok(Outcome::NotServed(error)),
            (Err(error), None) => {
                let disturbed = self.disturbed_since(fired);
                let faulted = self.failed_after(begun);
                self.judge_turn(request, turn, disturbed, |judge| judge.failed(error, (faulted, Call::Ordinary)))?;
                Ok(Outcome::NotServed(error))
            }
            (result, Some(refusal)) => Err(format!("answered {result:?}, should be {refusal:?}")),
        }
    }

    fn bulk(&self, name: Handle, count: u32, request: Request) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        const UNTOUCHED: Pfn = Pfn(u64::MAX);
        let mut blocks = vec![UNTOUCHED; count as usize];
        let fired = self.fired();
        let result = self.pages.alloc_bulk(&request, &mut blocks);
        let disturbed = self.disturbed_since(fired);
        let refusal = self.judge(request, false, |judge| judge.refusal());
        let served = result.unwrap_or(0);
        if blocks.iter().position(|&pfn| pfn == UNTOUCHED).unwrap_or(blocks.len()) != served
            || blocks.iter().skip(served).any(|&pfn| pfn != UNTOUCHED)
        {
            return Err(format!("answered {result:?} and wrote {blocks:?}"));
        }
        // What was drained or merged for one block is room that nobody had for the others, and a zone is chosen for several at once.
        let is_alone = count == 1;
        let turn = self.turn();
        let turn_of = |index: usize| turn.map(|turn| turn.wrapping_add(index as u32));
        let mut given = blocks.iter().take(served).enumerate();
        given.try_for_each(|(index, &pfn)| self.given(name, pfn, (request, turn_of(index)), disturbed || !is_alone))?;
        if refusal.is_none() {
            let is_short = served < count as usize;
            // The request that ended it took a turn, unless it was made to fail.
            let is_known = !is_short || self.fired() == fired;
            self.take_turns(request, is_known.then_some(served as u32 + u32::from(is_short)));
        }
        match (result, refusal) {
            (Ok(0), None) if count != 0 => Err("no block was allocated, and no error says why".into()),
            (Ok(served), None) => {
                let short = served < count as usize && !disturbed;
                match self.judge_turn(request, turn_of(served), disturbed, |judge| judge.within_reach(Call::Ordinary)) {
                    Some(zone) if short => Err(format!(
                        "{served} of {count} blocks allocated, but {} on node {} could serve more",
                        zone.kind(),
                        zone.node().0
                    )),
                    _ => Ok(Outcome::Blocks(served)),
                }
            }
            (Err(error), Some(refusal)) if error == refusal => Ok(Outcome::NotServed(error)),
            // The point is reached twice: once for all that the per-CPU list may serve, once for the first block.
            (Err(AllocError::NoMemory { why: framewright::Why::Fault }), None) if self.fired() != fired => {
                Ok(Outcome::NotServed(AllocError::NoMemory { why: framewright::Why::Fault }))
            }
            (Err(error), None) => {
                self.judge_turn(request, turn, disturbed, |judge| judge.failed(error, (false, Call::Ordinary)))?;
                Ok(Outcome::NotServed(error))
            }
            (result, Some(refusal)) => Err(format!("answered {result:?}, should be {refusal:?}")),
        }
    }

    fn alloc_at(&self, name: Handle, pfn: Pfn, order: Order, gfp: Gfp) -> Result<Outcome, Wrong> {
        let range = PfnRange::block(pfn, order);
        let max = self.pages.geometry().max_order;
        let wrong = match order {
            _ if order > max => Some(AllocError::BadOrder { order, max }),
            _ if !pfn.is_aligned(order) => Some(AllocError::Misaligned(pfn, order)),
            _ => contradict(gfp).then_some(AllocError::BadFlags),
        };
        self.take(name, range, gfp, wrong, |pages| match pages.alloc_at(pfn, order, gfp) {
            Ok(at) if at != pfn => unreachable!("asked for {pfn}, got {at}"),
            result => result.map(drop),
        })
    }

    /// Takes exactly the frames of a range for a handle. `wrong` is the error that the request's form deserves.
    fn take(
        &self,
        name: Handle,
        range: PfnRange,
        gfp: Gfp,
        wrong: Option<AllocError>,
        call: impl FnOnce(&Allocator<'h, Solo<'h>>) -> Result<(), AllocError>,
    ) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        let (fired, asked) = (self.fired(), self.hooks.borrow().migrations);
        let verdict = range_verdict(self.oracle.borrow().memory(), range, gfp.may_reclaim());
        let result = call(self.pages);
        let disturbed = self.disturbed_since(fired);
        let wrong = wrong.or(if let RangeVerdict::Bad(error) = verdict { Some(error) } else { None });
        if wrong.is_some() || result.is_err() {
            let moved = self.hooks.borrow().migrations != asked;
            return self.not_taken(range, result, (verdict, wrong), (disturbed, moved));
        }
        // Whatever was in the way must be gone by now, or this says so.
        let movable = gfp.migratetype() == MigrateType::Movable;
        self.oracle.borrow_mut().hold_range(name, range, movable)?;
        Ok(Outcome::Done)
    }

    /// Judges why a range was not taken.
    pub(crate) fn not_taken(
        &self,
        range: PfnRange,
        result: Result<(), AllocError>,
        (verdict, wrong): (RangeVerdict, Option<AllocError>),
        (disturbed, moved): (bool, bool),
    ) -> Result<Outcome, Wrong> {
        match (result, wrong) {
            (Err(error), Some(wrong)) if error == wrong => Ok(Outcome::NotServed(error)),
            (result, Some(wrong)) => Err(format!("answered {result:?}, should be {wrong:?}")),
            (Err(AllocError::Busy { .. } | AllocError::Contended { .. }), None)
                if verdict == RangeVerdict::Serve && !disturbed =>
            {
                Err(format!("all of {range} was free, but it was not taken: {result:?}"))
            }
            (Err(error @ (AllocError::Busy { pfn } | AllocError::Contended { pfn })), None) => {
                if !range.contains(pfn) {
                    return Err(format!("answered {error:?}, which is not in {range}"));
                }
                let is_held = self.oracle.borrow().block_at(pfn).is_some();
                if !disturbed && !moved && !is_held {
                    return Err(format!("answered {error:?}, but nothing there is in use"));
                }
                Ok(Outcome::NotServed(error))
            }
            (result, None) => Err(format!("answered {result:?} to a range that makes sense")),
        }
    }

    fn contig(&self, name: Handle, frames: u64, align: Order, terms: Terms) -> Result<Outcome, Wrong> {
        if self.oracle.borrow().is_held(name) {
            return Ok(Outcome::Skipped);
        }
        let (fired, begun, asked) = (self.fired(), self.begun(), self.hooks.borrow().migrations);
        let turn = self.turn();
        let result = self.pages.alloc_contig(frames, align, &terms.request(Order(0)));
        // What an owner gave up when asked to move it may make a range free that was passed already.
        let disturbed = self.disturbed_since(fired) || self.hooks.borrow().migrations != asked;
        let geometry = self.pages.geometry();
        let order = Order(frames.saturating_sub(1).checked_ilog2().map_or(0, |log| log as u8 + 1)).max(align);
        // Up to the largest order it is an ordinary request whose tail is given back.
        let small = order <= geometry.max_order;
        let request = terms.request(if small { order } else { Order(0) });
        let refusal = if frames == 0 {
            Some(AllocError::BadRange(PfnRange::new(0, 0)))
        } else if align.0 >= 52 {
            Some(AllocError::BadOrder { order: align, max: Order(51) })
        } else {
            self.judge(request, false, |judge| judge.refusal())
        };
        if refusal.is_none() && result.err() != FAULT.err() {
            self.take_turns(request, Some(1));
        }
        match (result, refusal) {
            (Ok(range), None) => {
                if range.frames() != frames || !range.start.is_aligned(align) {
                    return Err(format!("got {range}, asked for {frames} frames aligned to order {align}"));
                }
                let movable = terms.gfp.migratetype() == MigrateType::Movable;
                self.oracle.borrow_mut().hold_range(name, range, movable)?;
                self.judge_turn(request, turn, false, |judge| judge.placed(range))?;
                if small {
                    self.count_served(range.start);
                    self.judge_turn(request, turn, false, |judge| {
                        self.count_turn(judge, range.start);
                        judge.mobility(range)
                    })?;
                }
                Ok(Outcome::Range(range))
            }
            (Err(error), Some(refusal)) if error == refusal => Ok(Outcome::NotServed(error)),
            (Err(error), None) => {
                if small {
                    let faulted = self.failed_after(begun);
                    self.judge_turn(request, turn, disturbed, |judge| {
                        judge.failed(error, (faulted, Call::Ordinary))?;
                        judge.scattered(error, frames, align)
                    })?;
                } else if !matches!(error, AllocError::NoMemory { .. }) {
                    return Err(format!("answered {error:?} to a request that makes sense"));
                } else if !disturbed {
                    let free =
                        self.judge_turn(request, turn, false, |judge| free_range(judge, frames, align, |_, _| true));
                    free.map_or(Ok(()), |range| Err(format!("answered {error:?}, but {range} is free")))?;
                }
                Ok(Outcome::NotServed(error))
            }
            (result, Some(refusal)) => Err(format!("answered {result:?}, should be {refusal:?}")),
        }
    }
}
