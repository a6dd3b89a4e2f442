//! What an interrupt or an NMI does between two accesses of a call.
//!
//! An interrupt makes ordinary calls, as the mechanisms allow: on lists of its own, or past lists that are in use. An
//! NMI comes at any access, in an interrupt and in a section under a zone lock too. It makes the calls for any context,
//! which must neither wait for the interrupted code nor disturb it. There the CPU has no number, so each ordinary call
//! must be refused.

use framewright::request::{__GFP_MOVABLE, GFP_ATOMIC, GFP_NOWAIT};
use framewright::{Order, Pfn, Request};
use framewright_ops::rng::Rng;

use crate::engine::Engine;
use crate::frames::Block;
use crate::frees::{Answer, refused};
use crate::kind::Kind;
use crate::plan::Effort;
use crate::plant::Plant;
use crate::thread::{Context, Level};
use crate::world::World;
use crate::wrong::{Symptom, Wrong};

/// Largest order that an interrupt frees.
const LARGEST: u8 = 3;
/// NMIs in each other.
const DEEPEST: u32 = 3;

impl World {
    /// Handles an interrupt of a thread.
    pub(crate) fn interrupt(&self, engine: &Engine, number: usize) {
        let thread = &engine.threads[number];
        let level = thread.context.get().level;
        if engine.dead.get() || std::thread::panicking() {
            return;
        }
        let mut rng = Rng::new(engine.below(u64::MAX));
        thread.with(|context| *context = Context { limit: self.plan.limit(Effort::Quick), ..*context });
        let is_nested = thread.depth.get() < DEEPEST && engine.enabled.has(Kind::NmiNested) && rng.one_in(8);
        let has_nmis =
            [Kind::NmiAllocates, Kind::NmiFrees, Kind::NmiWrongCall].iter().any(|kind| engine.enabled.has(*kind));
        if is_nested && has_nmis {
            thread.interrupt_in.set(1 + rng.below(60));
            thread.is_nmi_next.set(true);
        }
        engine.grant();
        let is_task_like = level == Level::Interrupt || engine.plant == Some(Plant::WaitingNmi);
        let result = if is_task_like { self.play_interrupt(&mut rng) } else { self.play_nmi(&mut rng) };
        engine.settle();
        self.measure(thread);
        thread.interrupt_in.set(u64::MAX);
        match result {
            Ok(answer) => self.note(answer),
            Err(wrong) => engine.found(Wrong { text: format!("in an interrupt: {}", wrong.text), ..wrong }),
        }
    }

    /// Takes out a block that an interrupt frees.
    fn small_block(&self, rng: &mut Rng) -> Option<Block> {
        let (id, block) = self.any_block(rng)?;
        let mut frames = self.frames.borrow_mut();
        if block.order.0 > LARGEST {
            frames.put(id);
            return None;
        }
        frames.release(id);
        Some(block)
    }

    fn play_interrupt(&self, rng: &mut Rng) -> Answer {
        let (allocates, frees) = (Kind::InterruptAllocates, Kind::InterruptFrees);
        let enabled = self.engine.enabled;
        if enabled.has(allocates) && (!enabled.has(frees) || rng.one_in(2)) {
            let order = Order(rng.below(2) as u8).min(self.plan.shape.geometry.max_order);
            let gfp = *rng.pick(&[GFP_ATOMIC, GFP_NOWAIT, GFP_NOWAIT | __GFP_MOVABLE]);
            let request = Request::new(gfp, order.0);
            self.limit_to(&request);
            let Ok(pfn) = self.pages(|pages| pages.alloc(&request)) else { return Ok(2) };
            self.engine.hit(allocates);
            let movable = gfp.contains(__GFP_MOVABLE);
            return self.frames.borrow_mut().hold(Block { pfn, order, movable }).map(|()| pfn.0);
        }
        if !enabled.has(frees) {
            return Ok(4);
        }
        let Some(block) = self.small_block(rng) else { return Ok(3) };
        self.free_now(block)?;
        self.engine.hit(frees);
        Ok(block.pfn.0)
    }

    fn play_nmi(&self, rng: &mut Rng) -> Answer {
        let enabled = self.engine.enabled;
        let kinds = [Kind::NmiAllocates, Kind::NmiFrees, Kind::NmiFrees, Kind::NmiWrongCall];
        let kind = *rng.pick(&kinds);
        match kind {
            _ if !enabled.has(kind) => Ok(4),
            Kind::NmiAllocates => {
                let order = Order(rng.below(3) as u8).min(self.plan.shape.geometry.max_order);
                let gfp = *rng.pick(&[GFP_ATOMIC, GFP_NOWAIT, GFP_NOWAIT | __GFP_MOVABLE]);
                let request = Request::new(gfp, order.0);
                let Ok(pfn) = self.pages(|pages| pages.any_context().alloc(&request)) else { return Ok(2) };
                self.engine.hit(kind);
                let movable = gfp.contains(__GFP_MOVABLE);
                self.frames.borrow_mut().hold(Block { pfn, order, movable }).map(|()| pfn.0)
            }
            Kind::NmiFrees => {
                let Some(block) = self.small_block(rng) else { return Ok(3) };
                self.engine.hit(kind);
                self.free_nolock(block)?.map_err(|error| refused(block, error)).map(|()| block.pfn.0)
            }
            _ => self.refuse_in_nmi(rng),
        }
    }

    /// Makes a call that needs a CPU, or a wrong free: it must be refused, without waiting.
    fn refuse_in_nmi(&self, rng: &mut Rng) -> Answer {
        let Some((id, block)) = self.any_block(rng) else { return Ok(3) };
        let Block { pfn, order, .. } = block;
        let request = Request::new(GFP_ATOMIC, 0);
        let number = rng.below(8);
        // A drain of all CPUs asks for a CPU at each pageblock.
        self.limit_by(Effort::Slow);
        let served = self.pages(|pages| match number {
            0 => pages.alloc(&request).is_ok(),
            1 => pages.free(pfn, order).is_ok(),
            2 => pages.interrupt().is_some(),
            3 => pages.alloc_bulk(&request, &mut [Pfn(0); 3]).is_ok_and(|served| served != 0),
            4 => pages.drain_all() != 0,
            5 => pages.free_nolock(pfn, order.up()).is_ok(),
            6 => pages.local().is_some(),
            _ => order.0 != 0 && pages.free_nolock(pfn.add(1), Order(0)).is_ok(),
        });
        self.frames.borrow_mut().put(id);
        self.engine.hit(Kind::NmiWrongCall);
        if served {
            let text = format!("call {number} of those that must be refused in an NMI, at {block:?}, was not");
            return Err(Wrong::new(Symptom::Free, text));
        }
        Ok(5)
    }
}
