//! Checks of the allocator while all threads rest, and at the end, when everything was freed.

use framewright::report::Source;
use framewright::{CpuId, FrameState, PfnRange};
use framewright_ops::zones;

use crate::kind::Kind;
use crate::world::World;
use crate::wrong::{Symptom, Wrong};

impl World {
    /// Compares the allocator's counters with the table: the conservation equation, without a look at frames.
    pub(crate) fn check_sums(&self) -> Result<(), Wrong> {
        self.check_offline()?;
        let totals = self.pages(|pages| pages.totals());
        let frames = self.frames.borrow();
        // A block that was freed while its zone was locked counts as allocated until the lock is next taken.
        let deferred = totals.allocated.wrapping_sub(frames.allocated);
        let wrong = |text: String| Err(Wrong::new(Symptom::Census, text));
        if totals.present != frames.present {
            return wrong(format!("{} frames are present, should be {}", totals.present, frames.present));
        }
        if deferred > frames.usable() {
            return wrong(format!("{} frames are allocated, should be {}", totals.allocated, frames.allocated));
        }
        if totals.managed != frames.usable() {
            return wrong(format!("{} frames are managed, should be {}", totals.managed, frames.usable()));
        }
        if deferred != 0 {
            self.engine.hit(Kind::FreeDeferred);
        }
        let kept = self.kept();
        let sum = totals.free + totals.allocated + kept + frames.quarantined;
        if sum != totals.managed {
            let text = format!(
                "free {} + kept by CPUs {kept} + allocated {} + quarantined {} = {sum} of {} frames",
                totals.free, totals.allocated, frames.quarantined, totals.managed
            );
            return wrong(text);
        }
        self.note(totals.free ^ totals.allocated << 32);
        Ok(())
    }

    /// Returns the frames in CPUs' lists, depots and owned pageblocks.
    fn kept(&self) -> u64 {
        let cpus = self.plan.contexts * self.plan.shape.cpus.len();
        self.pages(|pages| {
            let of = |zone| {
                let lists: u64 =
                    (0..cpus).filter_map(|cpu| pages.pcp(zone, CpuId(cpu as u16))).map(|pcp| pcp.count).sum();
                lists + pages.depot_frames(zone) + pages.owned_frames(zone)
            };
            zones(pages.nodes()).map(of).sum()
        })
    }

    /// Checks every invariant, and that each held block is one that the allocator says is allocated.
    pub(crate) fn check_all(&self) -> Result<(), Wrong> {
        let census = self
            .pages(|pages| pages.validate())
            .map_err(|violation| Wrong::new(Symptom::Invariant(violation.invariant), violation.to_string()))?;
        let frames = self.frames.borrow();
        frames.compare(&census)?;
        for block in frames.blocks() {
            let state = self.pages(|pages| pages.state_of(block.pfn));
            if state != FrameState::Allocated(block.pfn, block.order) {
                return Err(Wrong::new(Symptom::Census, format!("{block:?}, which is held, is {state:?}")));
            }
        }
        Ok(())
    }

    /// Frees everything; memory must be in one piece again, and no CPU may keep any.
    pub(crate) fn clear(&self) -> Result<(), Wrong> {
        self.bring_online(PfnRange::new(0, u64::MAX))?;
        loop {
            let taken = self.frames.borrow_mut().take(0);
            let Some((id, block)) = taken else { break };
            self.frames.borrow_mut().release(id);
            if !self.spoils_free(false) {
                self.free_now(block)?;
            }
        }
        self.pages(|pages| {
            for cpu in 0..pages.cpus() {
                pages.offline_cpu(CpuId(cpu as u16));
            }
            pages.drain_all();
        });
        self.check_sums()?;
        self.check_all()?;
        let census = self.pages(|pages| pages.validate());
        let (cached, deferred) = census.map_or((0, 0), |census| (census.pcp, census.in_flight));
        if cached != 0 || deferred != 0 {
            let text =
                format!("{cached} frames stay with CPUs that were drained, {deferred} with zones that were locked");
            return Err(Wrong::new(Symptom::Drain, text));
        }
        Ok(())
    }
}
