//! Carries out one operation on a thread: what it is, which fault comes with it, and whether its answer is right.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use framewright::request::{
    __GFP_RECLAIMABLE, __GFP_THISNODE, __GFP_ZERO, GFP_ATOMIC, GFP_DMA32, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT,
    GFP_TRANSHUGE,
};
use framewright::{AllocError, Gfp, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, Request};
use framewright_ops::rng::Rng;

use crate::engine::{OnPurpose, Stop};
use crate::frames::Block;
use crate::frees::Answer;
use crate::kind::Kind;
use crate::plan::{ACTIONS, Action, Effort};
use crate::thread::{Context, Power, Thread};
use crate::world::World;
use crate::wrong::{Symptom, Wrong};

/// Accesses after the begin of a call within which an interrupt comes, if one comes.
const SOON: [u64; 4] = [10, 60, 300, 3_000];
/// Orders of small requests.
const SMALL: [u8; 10] = [0, 0, 0, 0, 0, 0, 1, 1, 2, 3];

impl World {
    /// Carries out an operation on a thread.
    pub(crate) fn turn(&self, number: usize, operation: u64) {
        let engine = &self.engine;
        let thread = &engine.threads[number];
        let mut rng = self.plan.draws_of(operation);
        let action = ACTIONS[rng.weighted(&self.plan.weights)].0;
        self.log(|| format!("operation {operation}, thread {number} on CPU {}: {action:?}", thread.cpu.get()));
        if thread.power.get() == Power::Off {
            self.come_online(thread);
        }
        self.prepare(thread, action, &mut rng);
        let result = catch_unwind(AssertUnwindSafe(|| self.act(number, action, &mut rng)));
        engine.settle();
        self.measure(thread);
        thread.context.set(Context::IDLE);
        thread.interrupt_in.set(u64::MAX);
        engine.grant();
        match result {
            Ok(Ok(answer)) => {
                self.note(answer);
                self.log(|| format!("    answer {answer:#x}"));
            }
            Ok(Err(wrong)) => engine.found(Wrong { operation: Some(operation), ..wrong }),
            Err(payload) if payload.is::<Stop>() || payload.is::<OnPurpose>() => {}
            Err(payload) => {
                let text = payload.downcast_ref::<String>().cloned();
                match text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)) {
                    Some(text) => {
                        engine.found(Wrong { operation: Some(operation), ..Wrong::new(Symptom::Panic, text) });
                    }
                    // A dropped coroutine is unwound.
                    None => resume_unwind(payload),
                }
            }
        }
    }

    /// Notes what the call that a thread has ended took of its limit.
    pub(crate) fn measure(&self, thread: &Thread) {
        let Context { steps, limit, .. } = thread.context.get();
        let Some(class) = self.plan.limits.iter().position(|of_class| *of_class == limit) else { return };
        let mut longest = self.engine.longest.get();
        longest[class] = longest[class].max(steps * 10_000 / limit);
        self.engine.longest.set(longest);
    }

    /// Sets the limit of the running call by the request that it makes.
    pub(crate) fn limit_to(&self, request: &Request) {
        self.limit_by(if request.gfp.may_reclaim() { Effort::Slow } else { Effort::Request });
    }

    /// Sets the limit of the running call.
    pub(crate) fn limit_by(&self, effort: Effort) {
        let limit = self.plan.limit(effort);
        self.engine.thread().into_iter().for_each(|thread| thread.with(|context| context.limit = limit));
        self.engine.settle();
        self.engine.grant();
    }

    /// Arms a fault and an interrupt for the operation, and sets its limit.
    fn prepare(&self, thread: &Thread, action: Action, rng: &mut Rng) {
        let plan = &self.plan;
        let armed = plan.fault(action, rng);
        let effort = if matches!(action, Action::Nolock | Action::Part) { Effort::Quick } else { Effort::Slow };
        let limit = plan.limit(effort);
        thread.context.set(Context { armed, limit, ..Context::IDLE });
        thread.interruptions.set(0);
        if !plan.interrupts.is_empty() && rng.one_in(plan.interrupt_in) {
            let soon = *rng.pick(&SOON);
            thread.interrupt_in.set(1 + rng.below(soon));
            let kind = *rng.pick(&plan.interrupts);
            thread.is_nmi_next.set(!matches!(kind, Kind::InterruptAllocates | Kind::InterruptFrees));
        }
        self.engine.settle();
        self.engine.grant();
    }

    fn act(&self, number: usize, action: Action, rng: &mut Rng) -> Answer {
        let grows = matches!(action, Action::Alloc | Action::Large | Action::Nolock | Action::Bulk | Action::Range);
        if grows && self.goes_down(rng) {
            return self.free_some(action, rng);
        }
        match action {
            Action::Alloc => {
                let order = Order(*rng.pick(&SMALL)).min(self.plan.shape.geometry.max_order);
                self.alloc(order, rng)
            }
            Action::Large => {
                let order = Order(rng.below(u64::from(self.plan.shape.geometry.max_order.0) + 1) as u8);
                self.alloc(order, rng)
            }
            Action::Nolock => self.alloc_nolock(rng),
            Action::Bulk => self.bulk(rng),
            Action::Range => self.range(rng),
            Action::Part => self.part(rng),
            Action::Wrong => self.wrong_call(rng),
            Action::Drain => self.drain(rng),
            Action::Cpu => self.cpu(number, rng),
            Action::Hotplug => self.hotplug(rng),
            Action::Type => self.retype(rng),
            Action::Background => self.background(rng),
            Action::Report => self.report(rng),
            Action::Freeze => self.freeze(rng),
        }
    }

    /// Returns whether memory use is above the level of the segment.
    fn goes_down(&self, rng: &mut Rng) -> bool {
        let frames = self.frames.borrow();
        frames.count() != 0 && (frames.allocated > self.level.get() || rng.one_in(3))
    }

    /// Draws flags: requests that may wait are rarer when memory is nearly used up, because each then takes long.
    fn gfp(&self, rng: &mut Rng) -> Gfp {
        let plenty = {
            let frames = self.frames.borrow();
            frames.allocated * 10 < frames.usable() * 8
        };
        let may_wait = plenty || rng.one_in(32);
        let base = match rng.below(16) {
            0..=2 => GFP_ATOMIC,
            3 if rng.one_in(8) => GFP_DMA32 | GFP_NOWAIT,
            3..=5 => GFP_NOWAIT | __GFP_RECLAIMABLE,
            6 if may_wait => GFP_TRANSHUGE,
            7..=9 if may_wait => GFP_HIGHUSER_MOVABLE,
            10..=11 if may_wait => GFP_KERNEL,
            6..=11 => GFP_NOWAIT | framewright::request::__GFP_MOVABLE,
            12 => GFP_NOWAIT | __GFP_ZERO,
            _ => GFP_NOWAIT,
        };
        if rng.one_in(64) { base | __GFP_THISNODE } else { base }
    }

    fn request(&self, order: Order, rng: &mut Rng) -> Request {
        let mut request = Request::new(self.gfp(rng), order.0);
        let nodes = self.plan.shape.nodes() as u64;
        request.policy = match rng.below(32) {
            0 => Policy::Prefer(NodeId(rng.below(nodes) as u8)),
            1 => Policy::Bind(NodeSet(1 + rng.below((1 << nodes.min(8)) - 1))),
            2 => Policy::Interleave(NodeSet(1 + rng.below((1 << nodes.min(8)) - 1))),
            _ => Policy::Local,
        };
        if rng.one_in(64) {
            request.below = Some(Pfn(self.frames.borrow().span().end.0 / 2));
        }
        request
    }

    /// Lets other threads pick blocks that a call returned.
    fn keep(&self, pfn: Pfn, request: &Request) -> Result<(), Wrong> {
        let movable = request.gfp.migratetype() == framewright::MigrateType::Movable;
        self.frames.borrow_mut().hold(Block { pfn, order: request.order, movable })
    }

    /// Counts a request that was not served.
    fn failed(&self, error: AllocError) -> u64 {
        if matches!(error, AllocError::NoMemory { .. }) {
            self.engine.hit(Kind::Exhausted);
            // A request that fails looks everywhere, which takes as long as a hundred that are served: frees follow.
            let allocated = self.frames.borrow().allocated;
            self.level.set(allocated - allocated / 8);
        }
        2
    }

    fn alloc(&self, order: Order, rng: &mut Rng) -> Answer {
        let request = self.request(order, rng);
        self.limit_to(&request);
        self.log(|| format!("    alloc {request:?}"));
        let local = rng.one_in(16) && !request.gfp.may_reclaim();
        let result = self.guarded(|pages| match pages.local().filter(|_| local) {
            Some(local) => local.alloc(&request),
            None => pages.alloc(&request),
        });
        match result {
            Some(Ok(pfn)) => self.keep(pfn, &request).map(|()| pfn.0),
            Some(Err(error)) => Ok(self.failed(error)),
            None => Ok(1),
        }
    }

    fn alloc_nolock(&self, rng: &mut Rng) -> Answer {
        let request = self.request(Order(*rng.pick(&SMALL)).min(self.plan.shape.geometry.max_order), rng);
        match self.pages(|pages| pages.alloc_nolock(&request)) {
            Ok(pfn) => self.keep(pfn, &request).map(|()| pfn.0),
            Err(error) => Ok(self.failed(error)),
        }
    }

    fn bulk(&self, rng: &mut Rng) -> Answer {
        const UNSET: Pfn = Pfn(u64::MAX);
        let order = Order(rng.below(3) as u8).min(self.plan.shape.geometry.max_order);
        let request = self.request(order, rng);
        let mut blocks = vec![UNSET; rng.between(2, 40) as usize >> order.0.min(1)];
        let wanted = blocks.len();
        let served = self.guarded(|pages| pages.alloc_bulk(&request, &mut blocks));
        // After a panic in a callback, the blocks that were handed out before are in the array.
        let count = blocks.iter().take_while(|pfn| **pfn != UNSET).count();
        match served {
            Some(Ok(served)) if served != count => {
                let text = format!("a bulk request says {served} blocks and returned {count}");
                return Err(Wrong::new(Symptom::Answer, text));
            }
            Some(Ok(served)) if served < wanted => self.engine.hit(Kind::BulkCutShort),
            Some(Err(error)) => return Ok(self.failed(error)),
            _ => {}
        }
        blocks.iter().take(count).try_for_each(|pfn| self.keep(*pfn, &request))?;
        Ok(count as u64)
    }

    /// Draws a range of frames; some of it may be no memory.
    pub(crate) fn draw_range(&self, rng: &mut Rng) -> PfnRange {
        let (span, order) = (self.frames.borrow().span(), self.plan.shape.geometry.max_order);
        let start = span.start.0 + rng.below(span.frames());
        let frames = match rng.below(3) {
            0 => rng.between(1, 8),
            1 => rng.between(1, 130),
            _ => 1 << rng.below(u64::from(order.0.min(9)) + 1),
        };
        let start = if rng.one_in(2) { start & !(frames.next_power_of_two() - 1) } else { start };
        PfnRange::new(start.max(span.start.0), (start.max(span.start.0) + frames).min(span.end.0))
    }

    fn range(&self, rng: &mut Rng) -> Answer {
        let gfp = self.gfp(rng);
        let movable = gfp.migratetype() == framewright::MigrateType::Movable;
        let range = self.draw_range(rng);
        let order = Order((63 - range.frames().max(1).leading_zeros()) as u8);
        let result = match rng.below(4) {
            0 => {
                let at = range.start.align_down(order);
                let taken = self.guarded(|pages| pages.alloc_at(at, order, gfp));
                taken.map(|result| result.map(|_| PfnRange::block(at, order)))
            }
            1 => self.guarded(|pages| pages.alloc_range(range, gfp)).map(|result| result.map(|()| range)),
            2 => {
                let bytes = range.frames() << self.plan.shape.geometry.page_shift;
                let request = self.request(Order(0), rng);
                let request = Request { gfp, ..request };
                self.guarded(|pages| pages.alloc_exact(bytes, 1, &request))
            }
            _ => {
                let request = Request { gfp, ..self.request(Order(0), rng) };
                let align = Order(rng.below(4) as u8);
                self.guarded(|pages| pages.alloc_contig(range.frames(), align, &request))
            }
        };
        match result {
            Some(Ok(range)) => self.frames.borrow_mut().hold_range(range, movable).map(|()| range.start.0),
            Some(Err(error)) => Ok(self.failed(error)),
            None => Ok(1),
        }
    }
}
