//! Checks the allocator while all CPUs rest, and once all memory is free again.

use framewright::CpuId;

use super::player::{Player, free_blocks};
use super::wrong::{Kind, Wrong};

impl Player<'_> {
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
}
