//! Plays operations on one allocator from many CPUs, and checks each answer.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use framewright::report::Source;
use framewright::{AllocError, Allocator, CpuId, FreeError, Local, Order, Pfn, PfnRange, Request};
use framewright_ops::{Handle, Op, Place, Shape, zones};

use super::pool::Pool;
use super::shadow::{Blocks, Shadow};
use super::wrong::{Kind, Wrong};
use crate::engine::here;
use crate::engine::sim::Sim;
use crate::engine::store_buffer::publish;

/// The `Local` of a CPU, while it stays pinned.
type Seat<'p> = Option<Local<'p, 'p, Sim>>;

/// Counts of what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Operations that did something.
    pub done: u64,
    /// Operations whose handle had no block, or whose CPU was not at rest.
    pub skipped: u64,
    /// Of these, calls through a `Local`.
    pub local: u64,
    /// Requests that were not served.
    pub unserved: u64,
    /// Frees of what another CPU allocated.
    pub remote_frees: u64,
    /// Wrong frees, all refused.
    pub refused: u64,
    /// Ranges taken, offline or for a handle.
    pub ranges: u64,
    /// Drains of per-CPU lists, and CPUs that went offline.
    pub drains: u64,
    /// Interrupts that allocated or freed.
    pub interrupts: u64,
    /// NMIs that allocated or freed.
    pub nmis: u64,
    /// Requests of NMIs that found a zone locked.
    pub locked: u64,
}

impl Counts {
    /// Adds two counts.
    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            done: self.done + other.done,
            skipped: self.skipped + other.skipped,
            local: self.local + other.local,
            unserved: self.unserved + other.unserved,
            remote_frees: self.remote_frees + other.remote_frees,
            refused: self.refused + other.refused,
            ranges: self.ranges + other.ranges,
            drains: self.drains + other.drains,
            interrupts: self.interrupts + other.interrupts,
            nmis: self.nmis + other.nmis,
            locked: self.locked + other.locked,
        }
    }
}

/// The state that all CPUs share.
///
/// It is never borrowed across a call of the allocator, because other CPUs run meanwhile.
pub(crate) struct Player<'p> {
    pub(super) pages: &'p Allocator<'p, Sim>,
    pub(super) shadow: RefCell<Shadow>,
    /// The frames in use of a pool, if the case is one.
    pool: Option<RefCell<Pool>>,
    /// Blocks of each CPU's interrupts and NMIs.
    pub(super) stashes: Vec<RefCell<Blocks>>,
    /// Handles that a CPU was to free before they had blocks, and the CPU.
    awaited: RefCell<HashMap<Handle, usize>>,
    /// Of these, the handles that have blocks by now, by CPU.
    mailboxes: Vec<RefCell<Vec<Handle>>>,
    /// CPUs that have nothing more to do until the point of rest.
    pub(super) resting: Vec<Cell<bool>>,
    /// A CPU takes memory offline or brings it back: one at a time, or the outcome could not be judged.
    hotplug: Cell<bool>,
    wrong: RefCell<Option<Wrong>>,
    pub(crate) counts: Cell<Counts>,
    /// Whether NMIs make the calls of interrupts: a planted bug.
    pub(super) waits_in_nmi: bool,
    /// Free blocks by order right after boot, of all zones.
    at_boot: Vec<u64>,
}

impl<'p> Player<'p> {
    pub(crate) fn new(
        pages: &'p Allocator<'p, Sim>,
        shape: &Shape,
        (waits_in_nmi, is_pool): (bool, bool),
    ) -> Player<'p> {
        Player {
            pages,
            shadow: RefCell::new(Shadow::new(shape)),
            pool: is_pool.then(|| RefCell::new(Pool::new(pages, shape.cpus.len()))),
            stashes: shape.cpus.iter().map(|_| RefCell::default()).collect(),
            awaited: RefCell::default(),
            mailboxes: shape.cpus.iter().map(|_| RefCell::default()).collect(),
            resting: shape.cpus.iter().map(|_| Cell::new(true)).collect(),
            hotplug: Cell::new(false),
            wrong: RefCell::new(None),
            counts: Cell::default(),
            waits_in_nmi,
            at_boot: free_blocks(pages),
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Lets all CPUs begin.
    pub(crate) fn begin(&self) {
        self.resting.iter().for_each(|resting| resting.set(false));
    }

    /// Plays the list of one CPU; stops when any CPU has found something wrong.
    pub(crate) fn play(&self, cpu: usize, ops: &[Op]) {
        // Declared here, so that it is dropped with the CPU however that ends.
        let (mut stays, mut seat) = (false, None);
        for op in ops {
            if self.is_wrong() {
                break;
            }
            let mail = self.mailboxes[cpu].borrow_mut().pop();
            for op in mail.map(Op::Free).iter().chain([op]) {
                stays = if let Op::Local(on) = *op { on } else { stays };
                // Other calls may wait or take long, so the CPU is not pinned across them.
                let is_short = matches!(op, Op::Alloc { .. } | Op::Free(_) | Op::RawFree { .. });
                seat = if stays && is_short { seat.or_else(|| self.pages.local()) } else { None };
                self.turn((cpu, &seat), op);
            }
            if let Some(name) = op.defines() {
                self.tell(name);
            }
        }
        drop(seat);
        publish(cpu);
        self.resting[cpu].set(true);
    }

    fn turn(&self, (cpu, seat): (usize, &Seat<'p>), op: &Op) {
        match self.perform((cpu, seat), op) {
            Ok(true) => self.count(|counts| {
                counts.done += 1;
                counts.local += u64::from(seat.is_some());
            }),
            Ok(false) => self.count(|counts| counts.skipped += 1),
            Err(Wrong { kind, text }) => {
                self.found(Wrong { kind, text: format!("CPU {cpu}, `{op}`: {text}") });
            }
        }
    }

    /// Tells the CPU that was to free this handle before it had blocks.
    fn tell(&self, name: Handle) {
        let awaited = self.awaited.borrow_mut().remove(&name);
        if let Some(cpu) = awaited
            && self.shadow.borrow().has(name)
        {
            self.mailboxes[cpu].borrow_mut().push(name);
        }
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.wrong.borrow().is_some()
    }

    /// Notes a finding, if it is the first.
    pub(crate) fn found(&self, wrong: Wrong) {
        self.wrong.borrow_mut().get_or_insert(wrong);
    }

    /// Returns the first finding.
    pub(crate) fn verdict(&self) -> Result<(), Wrong> {
        self.wrong.borrow().clone().map_or(Ok(()), Err)
    }

    /// Carries an operation out; returns false if there was nothing to do.
    fn perform(&self, (cpu, seat): (usize, &Seat<'p>), op: &Op) -> Result<bool, Wrong> {
        if op.defines().is_some_and(|handle| self.shadow.borrow().has(handle)) {
            return Ok(false);
        }
        match *op {
            Op::Alloc { name, order, terms } => self.alloc(cpu, seat, name, &terms.request(order))?,
            Op::AllocNolock { name, order, terms } => match self.pages.alloc_nolock(&terms.request(order)) {
                Ok(pfn) => self.shadow.borrow_mut().hold(cpu, name, (pfn, order))?,
                Err(_) => self.count(|counts| counts.unserved += 1),
            },
            Op::Bulk { name, count, order, terms } => self.bulk((cpu, name), count, &terms.request(order))?,
            Op::AllocAt { name, pfn, order, gfp } => {
                let range = PfnRange::block(pfn, order);
                return self.range(cpu, name, self.pages.alloc_at(pfn, order, gfp).ok().map(|_| range));
            }
            Op::AllocRange { name, range, gfp } => {
                return self.range(cpu, name, self.pages.alloc_range(range, gfp).ok().map(|()| range));
            }
            Op::AllocContig { name, frames, align, terms } => {
                let request = terms.request(Order(0));
                return self.range(cpu, name, self.pages.alloc_contig(frames, align, &request).ok());
            }
            Op::Free(handle) => return self.free((cpu, seat), handle),
            Op::FreeNolock(handle) => {
                let Some(blocks) = self.take_or_await(cpu, handle) else { return Ok(false) };
                blocks.into_iter().try_for_each(|block| self.free_nolock(cpu, block))?;
            }
            Op::FreePart { handle, skip, frames } => return self.free_part(cpu, handle, skip, frames),
            Op::Split { handle, to } => return self.split(cpu, handle, to),
            Op::RawFree { place, order } => return self.free_wrongly((cpu, seat), place, order),
            Op::TakeOffline(range) => return self.alone(|| self.take_offline(range)),
            Op::BringOnline(range) => return self.alone(|| self.bring_online(range)),
            _ => return Ok(self.control(op)),
        }
        Ok(true)
    }

    fn alloc_block(&self, seat: &Seat<'p>, request: &Request) -> Result<Pfn, AllocError> {
        seat.as_ref().map_or_else(|| self.pages.alloc(request), |local| local.alloc(request))
    }

    fn free_block(&self, seat: &Seat<'p>, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        seat.as_ref().map_or_else(|| self.pages.free(pfn, order), |local| local.free(pfn, order))
    }

    /// Carries out an operation that concerns no block.
    fn control(&self, op: &Op) -> bool {
        match *op {
            Op::DrainAll => self.pages.drain_all(),
            Op::DrainCpu(other) => self.pages.drain_cpu(other),
            Op::OfflineCpu(other) if self.resting.get(other.index()).is_some_and(Cell::get) => {
                self.pages.offline_cpu(other)
            }
            Op::Refresh(other) => self.pages.refresh_statistics(other).drained,
            Op::SetType { pfn, migratetype } => return self.pages.set_pageblock_type(pfn, migratetype).is_ok(),
            _ => return false,
        };
        self.count(|counts| counts.drains += 1);
        true
    }

    fn alloc(&self, cpu: usize, seat: &Seat<'p>, name: Handle, request: &Request) -> Result<(), Wrong> {
        let asked = (request.order.frames(), request);
        if let Some(pool) = &self.pool {
            pool.borrow_mut().ask(cpu, asked.0);
        }
        let result = self.alloc_block(seat, request);
        if let Some(pool) = &self.pool {
            pool.borrow_mut().answer(cpu, asked, result.as_ref().ok().map_or(&[], std::slice::from_ref))?;
        }
        match result {
            Ok(pfn) => self.shadow.borrow_mut().hold(cpu, name, (pfn, request.order))?,
            Err(_) => self.count(|counts| counts.unserved += 1),
        }
        Ok(())
    }

    fn bulk(&self, (cpu, name): (usize, Handle), count: u32, request: &Request) -> Result<(), Wrong> {
        let mut blocks = vec![Pfn(u64::MAX); count as usize];
        let served = self.pages.alloc_bulk(request, &mut blocks).unwrap_or(0);
        if served < blocks.len() {
            self.count(|counts| counts.unserved += 1);
        }
        let mut shadow = self.shadow.borrow_mut();
        blocks.iter().take(served).try_for_each(|&pfn| shadow.hold(cpu, name, (pfn, request.order)))
    }

    fn range(&self, cpu: usize, name: Handle, range: Option<PfnRange>) -> Result<bool, Wrong> {
        match range {
            None => self.count(|counts| counts.unserved += 1),
            Some(range) => {
                self.count(|counts| counts.ranges += 1);
                self.shadow.borrow_mut().hold_range(cpu, name, range)?;
            }
        }
        Ok(true)
    }

    /// Takes the blocks of a handle.
    ///
    /// If another CPU got them, it must have told this one somehow, so its stores up to now are visible.
    pub(super) fn take(&self, cpu: usize, handle: Handle) -> Option<Blocks> {
        let (from, blocks) = self.shadow.borrow_mut().take(handle)?;
        if from != cpu {
            publish(from);
        }
        Some(blocks)
    }

    /// Like [`Player::take`], for a free: it is made later if the handle has no blocks yet.
    fn take_or_await(&self, cpu: usize, handle: Handle) -> Option<Blocks> {
        let blocks = self.take(cpu, handle);
        if blocks.is_none() {
            self.awaited.borrow_mut().insert(handle, cpu);
        }
        blocks
    }

    fn free(&self, (cpu, seat): (usize, &Seat<'p>), handle: Handle) -> Result<bool, Wrong> {
        let Some(blocks) = self.take_or_await(cpu, handle) else { return Ok(false) };
        if handle.0 as usize % self.resting.len() != cpu {
            self.count(|counts| counts.remote_frees += 1);
        }
        self.give_back(seat, &blocks)?;
        if let Some(pool) = &self.pool {
            pool.borrow_mut().freed(&blocks);
        }
        Ok(true)
    }

    /// Frees blocks that were taken out, by the call that suits them.
    pub(super) fn give_back(&self, seat: &Seat<'p>, blocks: &[(Pfn, Order)]) -> Result<(), Wrong> {
        let Some(&(first, order)) = blocks.first() else { return Ok(()) };
        for &(pfn, order) in blocks {
            self.shadow.borrow_mut().release(PfnRange::block(pfn, order));
        }
        let refused = |what: String| Wrong::free(format!("a right free was refused: {what}"));
        let is_run = blocks.windows(2).all(|pair| PfnRange::block(pair[0].0, pair[0].1).end == pair[1].0);
        if blocks.len() == 1 {
            self.free_block(seat, first, order).map_err(|error| refused(error.to_string()))
        } else if blocks.iter().all(|block| block.1 == order) {
            let heads: Vec<Pfn> = blocks.iter().map(|block| block.0).collect();
            let result = self.pages.free_bulk(&heads, order);
            match result.first {
                None if result.freed == heads.len() => Ok(()),
                _ => Err(refused(format!("{result:?}"))),
            }
        } else if is_run {
            let end = blocks.last().map_or(first, |&(pfn, order)| PfnRange::block(pfn, order).end);
            let run = PfnRange { start: first, end };
            self.pages.free_range(run).map_err(|error| refused(error.to_string()))
        } else {
            let mut each = blocks.iter();
            each.try_for_each(|&(pfn, order)| self.pages.free(pfn, order)).map_err(|error| refused(error.to_string()))
        }
    }

    /// Frees a block of no handle by the call for any context.
    pub(super) fn free_nolock(&self, cpu: usize, (pfn, order): (Pfn, Order)) -> Result<(), Wrong> {
        self.shadow.borrow_mut().release(PfnRange::block(pfn, order));
        match self.pages.free_nolock(pfn, order) {
            Ok(()) => Ok(()),
            // Nothing has changed.
            Err(FreeError::Busy(_)) => self.stash(cpu, (pfn, order)),
            Err(error) => Err(Wrong::free(format!("a right free was refused: {error}"))),
        }
    }

    /// Puts a block into a CPU's stash, from which only its interrupts and NMIs free.
    pub(super) fn stash(&self, cpu: usize, block: (Pfn, Order)) -> Result<(), Wrong> {
        let owner = Handle(u32::MAX - cpu as u32);
        let mut shadow = self.shadow.borrow_mut();
        shadow.hold(cpu, owner, block)?;
        let (_, blocks) = shadow.take(owner).unwrap_or_default();
        self.stashes[cpu].borrow_mut().extend(blocks);
        Ok(())
    }

    fn free_part(&self, cpu: usize, handle: Handle, skip: u64, frames: u64) -> Result<bool, Wrong> {
        let Some(blocks) = self.take(cpu, handle) else { return Ok(false) };
        let first = PfnRange::block(blocks[0].0, blocks[0].1);
        let start = Pfn(first.start.0.saturating_add(skip));
        let part = PfnRange { start, end: Pfn(start.0.saturating_add(frames)) }.intersect(first);
        if part.is_empty() {
            self.shadow.borrow_mut().put(cpu, handle, blocks);
            return Ok(false);
        }
        let rest = self.shadow.borrow_mut().cut(blocks, part);
        let result = self.pages.free_range(part);
        self.shadow.borrow_mut().put(cpu, handle, rest);
        let refused = |error| Wrong::free(format!("a right free of {part} was refused: {error}"));
        result.map(|()| true).map_err(refused)
    }

    fn split(&self, cpu: usize, handle: Handle, to: Order) -> Result<bool, Wrong> {
        let Some(blocks) = self.take(cpu, handle) else { return Ok(false) };
        let mut parts = Vec::with_capacity(blocks.len());
        let mut wrong = None;
        for (pfn, order) in blocks {
            if order <= to {
                parts.push((pfn, order));
                continue;
            }
            if let Err(error) = self.pages.split(pfn, order, to) {
                wrong = Some(Wrong::free(format!("a right split of {pfn} was refused: {error}")));
            }
            parts.extend((0..order.frames() >> to.0).map(|part| (pfn.add(part << to.0), to)));
        }
        self.shadow.borrow_mut().put(cpu, handle, parts);
        wrong.map_or(Ok(true), Err)
    }

    /// Makes a free that must be refused: inside a held block, of the wrong order, or of no memory.
    ///
    /// No other CPU touches the block meanwhile, so the answer is certain.
    fn free_wrongly(&self, (cpu, seat): (usize, &Seat<'p>), place: Place, order: Order) -> Result<bool, Wrong> {
        let (pfn, taken) = match place {
            Place::At(pfn) if self.shadow.borrow().is_memory(pfn) => return Ok(false),
            Place::At(pfn) => (pfn, None),
            Place::In(handle, skip) => {
                let Some(blocks) = self.take(cpu, handle) else { return Ok(false) };
                let (head, actual) = blocks[0];
                if skip >= actual.frames() || (skip == 0 && order == actual) {
                    self.shadow.borrow_mut().put(cpu, handle, blocks);
                    return Ok(false);
                }
                (head.add(skip), Some((handle, blocks)))
            }
        };
        let result = self.free_block(seat, pfn, order);
        if let Some((handle, blocks)) = taken {
            self.shadow.borrow_mut().put(cpu, handle, blocks);
        }
        self.count(|counts| counts.refused += 1);
        match result {
            Err(_) => Ok(true),
            Ok(()) => Err(Wrong::free(format!("a free of {pfn} with order {order}, which is wrong, was not refused"))),
        }
    }

    fn alone(&self, work: impl FnOnce() -> Result<bool, Wrong>) -> Result<bool, Wrong> {
        if self.hotplug.replace(true) {
            return Ok(false);
        }
        let result = work();
        publish(here::cpu());
        self.hotplug.set(false);
        result
    }

    fn take_offline(&self, range: PfnRange) -> Result<bool, Wrong> {
        if self.pages.take_offline(range).is_err() {
            self.count(|counts| counts.unserved += 1);
            return Ok(true);
        }
        self.count(|counts| counts.ranges += 1);
        let wrong = self.shadow.borrow_mut().withhold(range);
        wrong.map_or(Ok(true), Err)
    }

    fn bring_online(&self, range: PfnRange) -> Result<bool, Wrong> {
        let expected = self.shadow.borrow_mut().restore(range);
        let online = self.pages.bring_online(range);
        if online == expected {
            return Ok(expected != 0);
        }
        let text = format!("{online} frames came online, should be {expected}");
        Err(Wrong { kind: Kind::Census, text })
    }

    /// Checks every invariant, and that the held blocks are those that the allocator says are allocated.
    ///
    /// Context: all CPUs rest.
    pub(crate) fn check(&self) -> Result<(), Wrong> {
        let violated = |violation: framewright::Violation| Wrong {
            kind: Kind::Invariant(violation.invariant),
            text: violation.to_string(),
        };
        let census = self.pages.validate().map_err(violated)?;
        let shadow = self.shadow.borrow();
        shadow.compare(&census)?;
        let stashed = self.stashes.iter().flat_map(|stash| stash.borrow().clone());
        for (pfn, order) in shadow.blocks().chain(stashed) {
            let state = self.pages.state_of(pfn);
            if state != framewright::FrameState::Allocated(pfn, order) {
                let text = format!("block {pfn} of order {order}, which is held, is {state:?}");
                return Err(Wrong { kind: Kind::Census, text });
            }
        }
        Ok(())
    }

    /// Frees everything at the end; memory must be merged again.
    pub(crate) fn clear(&self) -> Result<(), Wrong> {
        let handles = self.shadow.borrow().handles();
        for handle in handles {
            let blocks = self.take(0, handle).unwrap_or_default();
            self.give_back(&None, &blocks)?;
        }
        for stash in &self.stashes {
            let blocks = stash.take();
            blocks.iter().try_for_each(|&block| self.give_back(&None, &[block]))?;
        }
        (0..self.stashes.len()).for_each(|cpu| {
            self.pages.offline_cpu(CpuId(cpu as u16));
        });
        self.pages.drain_all();
        self.check()?;
        let (cached, deferred) = self.pages.validate().map_or((0, 0), |census| (census.pcp, census.in_flight));
        if cached != 0 || deferred != 0 {
            let text = format!(
                "{cached} frames stay on per-CPU lists that were drained, {deferred} on zones' lists of deferred frees"
            );
            return Err(Wrong { kind: Kind::Drain, text });
        }
        let pageblock = self.pages.geometry().pageblock_order.index();
        let small = |blocks: &[u64]| blocks.iter().take(pageblock).sum::<u64>();
        let (now, boot) = (small(&free_blocks(self.pages)), small(&self.at_boot));
        if now > boot {
            let text = format!("all memory is free, but in {now} blocks smaller than a pageblock; at boot {boot}");
            return Err(Wrong { kind: Kind::Merge, text });
        }
        Ok(())
    }

    /// Brings all memory online again.
    pub(crate) fn restore(&self, shape: &Shape) -> Result<(), Wrong> {
        let end = shape.regions.last().map_or(Pfn(0), |region| region.range.end);
        self.bring_online(PfnRange { start: Pfn(0), end }).map(drop)
    }
}

/// Returns free blocks by order, of all zones.
fn free_blocks(pages: &Allocator<'_, Sim>) -> Vec<u64> {
    let mut sum = vec![0; Order::COUNT];
    for zone in zones(pages.nodes()) {
        let free = pages.zone(zone).map(|zone| zone.free_by_order()).unwrap_or_default();
        sum.iter_mut().zip(free).for_each(|(sum, blocks)| *sum += blocks);
    }
    sum
}
