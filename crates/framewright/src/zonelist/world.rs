//! Everything of one allocator, and how a call is pinned to its CPU.

use crate::frame::frame::Part;
use crate::pcp::pcp_guard::Pcps;
use crate::seam::machine::{Busy, Machine, Pinned};
use crate::shared::{CallCx, Shared};
use crate::types::units::{Frame, NodeId, Order, ZoneIdx};
use crate::zone::zone::Zone;
use crate::zonelist::node_states::NodeStates;

/// Everything of one allocator.
pub(crate) struct World<'a, M: Machine> {
    pub(crate) shared: Shared<'a, M>,
    pub(crate) zones: &'a [Zone<M>],
    pub(crate) pcps: Pcps<'a, M>,
    /// For each node, the zones with memory in the order of trial from there.
    pub(crate) zonelists: &'a [ZoneIdx],
    pub(crate) nodes: usize,
    pub(crate) node_states: NodeStates<M>,
    /// Frames to keep free in all zones, and the gap between marks; see `Config`.
    pub(crate) min_free_frames: u64,
    pub(crate) scale: u64,
    /// Names of the embedder's counters, of zones and of nodes.
    pub(crate) zone_counters: &'static [&'static str],
    pub(crate) node_counters: &'static [&'static str],
}

impl<'a, M: Machine> World<'a, M> {
    pub(crate) fn zones_of(&self, node: NodeId) -> impl Iterator<Item = &'a Zone<M>> + use<'a, M> {
        self.zones.iter().filter(move |zone| zone.node() == node && zone.is_populated())
    }

    /// Pins the caller to its CPU and runs `operation` there.
    ///
    /// `None` if the machine names a CPU that does not exist, or if the call interrupted a locked section of the core.
    pub(crate) fn pinned<T>(&self, operation: impl FnOnce(CallCx<'_, 'a, M>) -> T) -> Option<T> {
        self.pinned_by(self.shared.machine.pin(), operation)
    }

    /// Like [`World::pinned`], but never waits for a CPU's holder.
    ///
    /// `None` as well if it would have to wait.
    pub(crate) fn pinned_now<T>(&self, operation: impl FnOnce(CallCx<'_, 'a, M>) -> T) -> Option<T> {
        self.pinned_by(self.shared.machine.pin_now(), operation)
    }

    fn pinned_by<T>(&self, pin: M::Pin<'_>, operation: impl FnOnce(CallCx<'_, 'a, M>) -> T) -> Option<T> {
        let cpu = pin.cpu();
        let own = self.shared.cpus.get(cpu.index()).filter(|_| !self.shared.machine.is_in_section())?;
        Some(operation(CallCx { shared: &self.shared, cpu, node: pin.node(), own, waits: true }))
    }

    /// Pins a caller that must not wait, until its call ends.
    ///
    /// All nested pins are this pin again, so no step of the call waits either. `None` where pins never wait.
    ///
    /// # Errors
    /// [`Busy`]: no CPU is available at once.
    pub(crate) fn hold_now(&self) -> Result<Option<M::Pin<'_>>, Busy> {
        let pin = M::SLEEPS_PINNED.then(|| self.shared.machine.pin_now());
        if pin.as_ref().is_some_and(Pinned::is_busy) { Err(Busy) } else { Ok(pin) }
    }

    pub(crate) fn zone(&self, idx: ZoneIdx) -> Option<&'a Zone<M>> {
        self.zones.get(idx.index())
    }

    /// Returns the zone that a frame belongs to.
    pub(crate) fn zone_of(&self, frame: Frame) -> Option<&'a Zone<M>> {
        self.zone(self.shared.frames.pageblock(frame).zone()?)
    }

    /// Returns what a frame is part of.
    ///
    /// Takes the zone lock, so that the zone's memory neither comes nor goes meanwhile.
    pub(crate) fn look_locked(&self, frame: Frame) -> Part {
        let looked = self.pinned(|cx| {
            let _guard = self.zone_of(frame).map(|zone| zone.lock(cx));
            self.shared.frames.part_of(frame)
        });
        looked.unwrap_or(Part::Hole)
    }

    /// Returns what a frame is part of, with the lock only if it does not look allocated.
    ///
    /// Without the lock, a block that is being cut may look as if it were no block at all. A frame that looks allocated
    /// was allocated at that moment.
    pub(crate) fn look_settled(&self, frame: Frame) -> Part {
        let is_allocated = |part: &Part| matches!(part, Part::Allocated(..));
        Some(self.shared.frames.part_of(frame)).filter(is_allocated).unwrap_or_else(|| self.look_locked(frame))
    }

    pub(crate) fn max_order(&self) -> Order {
        self.shared.frames.geometry.max_order
    }
}
