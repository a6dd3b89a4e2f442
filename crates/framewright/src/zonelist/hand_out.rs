//! Hands out a block: its head becomes "allocated", and counters record where it came from.

use crate::frame::head::Head;
use crate::policy::watermark::AllocFlags;
use crate::seam::machine::{Machine, Step, Waiter};
use crate::shared::CallCx;
use crate::stat::vmstat::{GlobalEvent, ZoneEvent};
use crate::types::migratetype::MigrateType;
use crate::types::units::Frame;
use crate::zone::zone::Zone;
use crate::zonelist::numa_stat::{Counted, ServedFrom};
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    /// Returns the first zone of a plan that has memory; `or` if none does.
    #[cold]
    pub(crate) fn first_with_memory<'z>(&'z self, plan: &Plan, or: &'z Zone<M>) -> &'z Zone<M> {
        self.zonelist(plan).find(|zone| zone.has_memory()).unwrap_or(or)
    }

    /// Marks a block as allocated and counts where it came from.
    pub(crate) fn hand_out(
        &self,
        cx: CallCx<'_, 'a, M>,
        frame: Frame,
        from: ServedFrom<'_, M>,
        plan: &Plan,
        counted: Counted<'_, M>,
    ) {
        let ServedFrom { zone, preferred } = from;
        self.shared.machine.step(Step::HandOut);
        let movable = plan.migratetype == MigrateType::Movable;
        self.shared.frames.set_head(frame, Head::allocated(plan.order, movable));
        let is_miss = zone.node() != preferred.node();
        // No request preferred a zone whose memory is all offline.
        let preferred = if is_miss && !preferred.has_memory() { self.first_with_memory(plan, zone) } else { preferred };
        self.pcps.count_numa(cx, ServedFrom { zone, preferred }, plan.turn, counted);
    }

    /// Hands out a block that was taken from a zone, bypassing the per-CPU lists.
    ///
    /// Caller holds: the lock of that zone.
    pub(crate) fn hand_out_aside(
        &self,
        cx: CallCx<'_, 'a, M>,
        frame: Frame,
        from: ServedFrom<'_, M>,
        plan: &Plan,
    ) -> Option<Frame> {
        let own = self.pcps.record(cx.cpu, from.zone.idx.index())?;
        own.aside.count_alloc(plan.order);
        self.hand_out(cx, frame, from, plan, Counted::aside(own));
        Some(frame)
    }

    /// Whether a zone may serve a request, at this moment.
    pub(crate) fn may_serve(&self, zone: &Zone<M>, plan: &Plan, alloc_flags: AllocFlags) -> bool {
        zone.may_take_racy(&self.shared, plan.order, plan.highest, alloc_flags)
    }

    /// Wakes background reclaim if a zone's marks were raised and no caller did so yet.
    ///
    /// Context: no lock held.
    pub(crate) fn wake_boosted(&self, zone: &Zone<M>) {
        if zone.stat.take_note() {
            self.shared.events.count(GlobalEvent::KswapdWake);
            self.shared.machine.wake(Waiter::Kswapd(zone.node()));
        }
    }

    /// Counts frames that were taken by place.
    ///
    /// No request preferred a zone for them.
    ///
    /// Context: interrupts off.
    pub(crate) fn count_range(&self, cx: CallCx<'_, 'a, M>, zone: &Zone<M>, frames: u64) {
        if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
            own.aside.count(ZoneEvent::AllocFrames, frames);
        }
    }
}
