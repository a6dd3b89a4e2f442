//! The second pass over a trace: each request is made on our allocator.
//!
//! The frame map has for each of the kernel's frames the place of our copy, or why there is none. Each rule of
//! fairness at the head of `mod.rs` is one function here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Instant;

use framewright::machine::Machine;
use framewright::request::{__GFP_MEMALLOC, __GFP_ZERO, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp};
use framewright::units::{MigrateType, NodeId, Order, Pfn, PfnRange};
use framewright::{AllocError, Request, Why};

use super::first_pass::{FirstPass, STRETCH};
use super::frame_map::{FrameMap, Location};
use super::frame_span::{Span, runs};
use super::gained::{GainedId, Left};
use super::high_order::HighOrderBlocks;
use super::observer::{Observer, Pages};
use super::reclaim_context::ReclaimContext;
use super::recorded_machine::RecordedMachine;
use super::relief::{EarlyReclaim, Relief};
use super::replay_error::ReplayError;
use super::run_counts::Run;
use super::thp_faults::{FirstTry, Try, is_huge};
use crate::record::{Kind, Record};
use crate::trace::Trace;

/// A task's fault that the kernel has not served so far.
#[derive(Clone, Copy)]
struct OpenFault {
    /// The huge page that our allocator served for it.
    gained: Option<GainedId>,
}

/// The kernel's objects on our allocator.
pub(super) struct Replayer<'h, W> {
    pub(super) pages: &'h Pages<'h>,
    pub(super) frame_map: &'h RefCell<FrameMap>,
    pub(super) observer: &'h RefCell<W>,
    pub(super) relief: &'h Relief<'h>,
    span: Span,
    pageblock_order: Order,
    first_try: FirstTry,
    /// Flags of base pages that a task touches: the kernel zeroes them on most machines.
    touched: Gfp,
    reclaiming: ReclaimContext,
    high_order: HighOrderBlocks,
    /// Faults that the kernel has not served so far, by task.
    faults: HashMap<u32, OpenFault>,
    pub(super) counts: Run,
    /// Whether watermarks are ever boosted, and how often background work was woken.
    boosts: bool,
    woken: u64,
}

impl<'h, W: Observer> Replayer<'h, W> {
    pub(super) fn new(
        relief: &'h Relief<'h>,
        frame_map: &'h RefCell<FrameMap>,
        observer: &'h RefCell<W>,
        first_pass: &FirstPass,
    ) -> Self {
        let pages = relief.pages();
        Replayer {
            pages,
            relief,
            observer,
            touched: if first_pass.zeroes { __GFP_ZERO } else { Gfp::NONE },
            reclaiming: ReclaimContext::default(),
            span: first_pass.span.clone(),
            pageblock_order: first_pass.pageblock_order,
            first_try: first_pass.first_try,
            frame_map,
            high_order: HighOrderBlocks::new(&first_pass.span),
            faults: HashMap::new(),
            boosts: pages.mechanisms().watermark_boost.get() != 0,
            woken: 0,
            counts: Run::default(),
        }
    }

    /// Allocates the frames that were in use when recording began, at their places.
    pub(super) fn set_up(&mut self, machine: &RecordedMachine) {
        for &(pfn, migratetype) in &machine.types {
            // A pageblock without memory has no type.
            let _ = self.pages.set_pageblock_type(pfn, migratetype);
        }
        for (pfn, movable) in machine.used() {
            let gfp = if movable { GFP_HIGHUSER_MOVABLE } else { GFP_KERNEL };
            if self.pages.alloc_at(pfn, Order(0), gfp).is_ok() {
                self.settle(pfn, Order(0), Some(pfn));
                self.relief.has_initially(pfn);
            } else if let Some(index) = self.span.index(pfn) {
                self.frame_map.borrow_mut().set(index, Location::NOWHERE);
            }
        }
    }

    /// Carries out a whole trace. Returns the number of records, and the seconds without those for reading.
    pub(super) fn carry_out_all(
        &mut self,
        mut trace: Trace,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(u64, f64), ReplayError> {
        let mut stretch = Vec::with_capacity(STRETCH as usize);
        let mut seconds = 0.0;
        let mut records = 0;
        loop {
            stretch.clear();
            for record in trace.by_ref().take(STRETCH as usize) {
                stretch.push(record?);
            }
            if stretch.is_empty() {
                return Ok((records, seconds));
            }
            let start = Instant::now();
            stretch.iter().for_each(|record| {
                records += 1;
                self.observer.borrow_mut().begins(records, record);
                let reclaims = self.reclaiming.follow(record, trace.comms());
                self.carry_out(record, reclaims);
                self.balance();
            });
            seconds += start.elapsed().as_secs_f64();
            progress(records);
        }
    }

    /// Lets background reclaim and compaction run if they were woken.
    ///
    /// The frees of the kernel's reclaim are in the trace. Ours adds what it needs beyond them ([`Relief`]). If it may
    /// reclaim nothing, it only works off the boost of the watermarks.
    fn balance(&mut self) {
        if self.pages.machine().woken() == self.woken {
            return;
        }
        for node in (0..self.pages.nodes() as u8).map(NodeId) {
            if self.boosts || self.relief.policy != EarlyReclaim::Never {
                self.pages.balance(node);
            }
            self.pages.compact(node);
        }
        self.woken = self.pages.machine().woken();
    }

    /// Carries out a record of a thread that reclaims memory or not.
    fn carry_out(&mut self, record: &Record, reclaims: bool) {
        self.pages.machine().run_on(record.cpu);
        self.pages.machine().set_now(record.time);
        match record.kind {
            Kind::Alloc { pfn, order, migratetype, gfp } => {
                // The kernel gives its reserves to a thread that reclaims, without a flag of the request.
                let gfp = if reclaims { gfp | __GFP_MEMALLOC } else { gfp };
                self.request(record.pid, pfn, (order, migratetype), gfp);
                if let Some(pfn) = pfn {
                    self.relief.was_served(pfn, order);
                }
            }
            Kind::Free { pfn, order } => self.free(pfn, order),
            Kind::Move { old, new } => self.moved(old, new),
            _ => {}
        }
    }

    fn request(&mut self, pid: u32, theirs: Option<Pfn>, (order, migratetype): (Order, MigrateType), gfp: Gfp) {
        if is_huge(order, migratetype, self.pageblock_order) {
            let open = self.faults.contains_key(&pid);
            match self.first_try.classify(gfp, open) {
                Try::First => return self.huge_try(pid, theirs, gfp, true),
                Try::Again => return self.huge_try(pid, theirs, gfp, false),
                Try::NoFault => {}
            }
        }
        self.alloc(pid, theirs, Request { order, ..Request::page(gfp) });
    }

    /// A request other than for a huge page.
    fn alloc(&mut self, pid: u32, theirs: Option<Pfn>, request: Request) {
        if let Some(theirs) = theirs
            && let Some(ours) = self.seat(pid, &request)
        {
            self.counts.skipped += 1;
            return self.settle(theirs, request.order, Some(ours));
        }
        let ours = self.ask(request, theirs.is_some());
        match (theirs, ours) {
            (None, Some(ours)) => self.relief.give_back(PfnRange::block(ours, request.order)),
            (theirs, ours) => {
                self.counts.failed_smaller += u64::from(theirs.is_some() && ours.is_none());
                self.settle_at(theirs, request.order, ours);
            }
        }
    }

    /// Our frame for a base page that a task takes instead of a huge page that it gained here.
    fn seat(&self, pid: u32, request: &Request) -> Option<Pfn> {
        let is_base_page = request.order.0 == 0 && request.gfp.migratetype() == MigrateType::Movable;
        let is_touched = is_base_page && request.gfp.contains(self.touched);
        if is_touched { self.relief.gained.borrow_mut().seat(pid) } else { None }
    }

    /// A task's try for a huge page. `theirs` is the kernel's answer.
    fn huge_try(&mut self, pid: u32, theirs: Option<Pfn>, gfp: Gfp, first: bool) {
        let open = self.faults.remove(&pid).filter(|_| !first);
        let gained_before = open.and_then(|fault| fault.gained);
        // None as well if the gained huge page was given back or split since.
        let mut ours = gained_before.and_then(|id| self.relief.gained.borrow().block(id));
        self.counts.faults += u64::from(first);
        if ours.is_none() && (gained_before.is_none() || theirs.is_some()) {
            ours = self.ask_huge(gfp, theirs.is_some());
            if ours.is_none() && first && theirs.is_some() {
                // The second try would come now; the kernel did not need it.
                ours = self.first_try.second(gfp).and_then(|gfp| self.ask_huge(gfp, true));
            }
            self.counts.served += u64::from(ours.is_some() && gained_before.is_none());
        }
        match theirs {
            Some(theirs) => {
                // A huge page that was gained and split since is counted as served.
                self.counts.lost += u64::from(ours.is_none() && gained_before.is_none());
                // Counted as gained when the kernel's earlier try failed.
                self.counts.gained -= u64::from(gained_before.is_some());
                gained_before.into_iter().for_each(|id| self.no_longer_gained(id));
                self.settle(theirs, self.pageblock_order, ours);
            }
            None => {
                self.counts.gained += u64::from(ours.is_some() && gained_before.is_none());
                let gain = |ours| self.relief.gained.borrow_mut().gain(pid, ours);
                let gained = gained_before.or_else(|| ours.map(gain));
                self.faults.insert(pid, OpenFault { gained });
            }
        }
    }

    /// The kernel served a retry: the huge page is that object, and base pages taken between the tries are nowhere.
    fn no_longer_gained(&mut self, id: GainedId) {
        if let Some(block) = self.relief.gained.borrow_mut().remove(id) {
            self.frame_map.borrow_mut().drop_objects(block);
        }
    }

    fn ask_huge(&mut self, gfp: Gfp, served: bool) -> Option<Pfn> {
        self.counts.huge_requests += 1;
        let ours = self.ask(Request { order: self.pageblock_order, ..Request::page(gfp) }, served);
        let held = &mut self.frame_map.borrow_mut().held;
        held.extend(ours);
        self.counts.peak_held = self.counts.peak_held.max(held.len() as u64);
        ours
    }

    /// Makes a request, which the kernel `served` or not.
    fn ask(&mut self, request: Request, served: bool) -> Option<Pfn> {
        self.observer.borrow_mut().asks(&request, self.pages);
        self.relief.asking.set(Some(request.order));
        let mut answer = self.pages.alloc(&request);
        // Each round frees memory that is not freed again, so there is an end.
        while answer.is_err() && served {
            let node = self.pages.machine().near();
            if self.relief.make_room(request.gfp, request.order, node) == 0 {
                break;
            }
            answer = self.pages.alloc(&request);
        }
        self.relief.asking.set(None);
        self.observer.borrow_mut().answered(answer, self.pages);
        self.counts.orders.entry(request.order).or_default().count(answer.is_ok());
        if let (Err(error), true) = (answer, served) {
            let reason = self.reason(error, request.order);
            *self.counts.reasons.entry(reason).or_default() += 1;
        }
        answer.ok()
    }

    /// Like [`Replayer::settle`], for an answer of the kernel; nothing to do if the kernel failed.
    fn settle_at(&mut self, theirs: Option<Pfn>, order: Order, ours: Option<Pfn>) {
        if let Some(theirs) = theirs {
            self.settle(theirs, order, ours);
        }
    }

    /// Notes that the object of the kernel's block is in our block `ours`, or nowhere.
    fn settle(&mut self, theirs: Pfn, order: Order, ours: Option<Pfn>) {
        let start = ours.and_then(|ours| self.span.index(ours));
        let mut in_use = false;
        for (offset, index) in self.span.block(theirs, order).enumerate() {
            let new = start.map_or(Location::NOWHERE, |start| Location::at(start + offset));
            let old = self.frame_map.borrow_mut().set(index, new);
            in_use |= !old.is_vacant();
            if let Some(old) = old.index() {
                // The free of the old object was lost; a frame has one object.
                let pfn = self.span.pfn(old);
                self.relief.forget(self.span.pfn(index));
                if !self.leaves_seat(pfn) {
                    self.relief.give_back(PfnRange::block(pfn, Order(0)));
                }
            }
        }
        self.counts.seen.reallocations += u64::from(in_use);
        self.high_order.put(&self.span, theirs, order);
    }

    fn free(&mut self, theirs: Pfn, order: Order) {
        self.counts.seen.splits += u64::from(self.high_order.take(&self.span, theirs, order));
        self.relief.forget(theirs);
        let frames = self.span.block(theirs, order);
        if frames.len() == 1 {
            let location = self.frame_map.borrow_mut().set(frames.start, Location::FREE);
            match location.index() {
                Some(index) if self.leaves_seat(self.span.pfn(index)) => {}
                Some(index) => self.free_ours(self.span.pfn(index), Order(0)),
                None => self.counts.seen.free_unknown += u64::from(location == Location::FREE),
            }
            return;
        }
        // Adjacent pieces of our memory are freed together.
        let relief = self.relief;
        let (mut unknown, mut whole) = (false, None);
        let without_seat = frames.filter_map(|index| {
            let location = self.frame_map.borrow_mut().set(index, Location::FREE);
            unknown |= location == Location::FREE;
            let ours = self.span.pfn(location.index()?);
            (!self.leaves_seat(ours)).then_some(ours)
        });
        for piece in runs(without_seat) {
            if piece.frames() == order.frames() {
                whole = Some(piece.start);
            } else {
                relief.give_back(piece);
            }
        }
        self.counts.seen.free_unknown += u64::from(unknown);
        if let Some(block) = whole {
            self.free_ours(block, order);
        }
    }

    /// Whether our frame is a seat in a gained huge page. The last base page that leaves frees the huge page.
    fn leaves_seat(&mut self, ours: Pfn) -> bool {
        let left = self.relief.gained.borrow_mut().leave(ours);
        if let Left::Last(block) = left {
            self.counts.given_back += 1;
            self.free_ours(block, self.pageblock_order);
        }
        left != Left::NoSeat
    }

    /// Frees a block of ours, or that part of a larger one that the kernel split.
    fn free_ours(&mut self, ours: Pfn, order: Order) {
        self.frame_map.borrow_mut().forget(PfnRange::block(ours, order));
        if self.pages.free(ours, order).is_err() {
            self.relief.give_back(PfnRange::block(ours, order));
        }
    }

    /// The kernel moved an object. Our copy stays; only its name changes.
    fn moved(&mut self, old: Pfn, new: Pfn) {
        let order = self.high_order.moved(&self.span, old, new, |order| self.is_vacant(new, order));
        if !self.is_vacant(new, order) {
            // The new page was allocated for the move: there are two until the old one is freed.
            self.counts.seen.moves_to_allocated += 1;
            return;
        }
        self.high_order.take(&self.span, old, order);
        self.high_order.put(&self.span, new, order);
        self.relief.moved(old, new);
        for (from, to) in self.span.block(old, order).zip(self.span.block(new, order)) {
            let mut frame_map = self.frame_map.borrow_mut();
            let location = frame_map.set(from, Location::LEFT);
            frame_map.set(to, location);
        }
    }

    /// Whether no frame of the kernel's block holds an object.
    fn is_vacant(&self, pfn: Pfn, order: Order) -> bool {
        self.span.covers(PfnRange::block(pfn, order))
            && self.span.block(pfn, order).all(|index| self.frame_map.borrow().get(index).is_vacant())
    }

    /// Why a request failed here that the kernel served.
    fn reason(&self, error: AllocError, order: Order) -> &'static str {
        match error {
            AllocError::NoMemory { why: Why::Fragmented, .. } => "no free block is large enough",
            AllocError::NoMemory { why: Why::Watermark | Why::WouldWait, .. } => {
                self.relief.kept(order.frames()).unwrap_or("free memory is at the watermark, as in Linux")
            }
            _ => "no zone of this machine suits the request",
        }
    }
}
