//! Shared record: the machine, the chosen mechanisms, the descriptors, and one record per CPU.
//!
//! Every layer above uses it. [`CallCx`] adds the CPU on which one call runs.

use crate::frame::cluster::Clusters;
use crate::frame::frame::Frames;
use crate::policy::mechanisms::Mechanisms;
use crate::seam::compiled::Compiled;
use crate::seam::field::record;
use crate::seam::machine::Machine;
use crate::stat::node_stat::NodeStats;
use crate::stat::vmstat::GlobalEvents;
use crate::stat::zone_stat::Stats;
use crate::sync::queued_lock::WaitSlots;
use crate::sync::rank::Held;
use crate::types::request::Gfp;
use crate::types::units::{CpuId, NodeId, ZoneIdx, ZoneKind};

record! {
    /// Wait slot: a word where some CPU waits for a lock.
    ///
    /// That CPU need not be the CPU in whose record the slot lies.
    // Aligned so that it shares no pair of cache lines with unrelated words.
    #[repr(align(128))]
    struct WaitSlot<M: Machine> {
        word("") word: M::U32,
    }
}

record! {
    /// Words of one CPU, and a wait slot.
    // Aligned so that no two CPUs write to one pair of cache lines.
    #[repr(align(128))]
    pub struct Cpu<M: Machine> {
        pub(crate) record("held{}") held: Held<M>,
        /// Count of this CPU's interleaved requests; it selects the node of the next one.
        pub(crate) word turn: M::U32,
        record("place{}") place: WaitSlot<M>,
        pub(crate) fixed node: NodeId,
        /// Zone that serves a request without further checks, by highest kind.
        ///
        /// The index is the highest kind that the request may use. The per-CPU lists of that zone serve the request.
        ///
        /// [`ZoneIdx::NONE`] where the mechanisms check every request.
        pub(crate) fixed fast_zones: [ZoneIdx; ZoneKind::COUNT] = [ZoneIdx::NONE; ZoneKind::COUNT],
        /// Zone that a request without a policy tries first, by highest kind; [`ZoneIdx::NONE`] if there is none.
        pub(crate) fixed near_zones: [ZoneIdx; ZoneKind::COUNT] = [ZoneIdx::NONE; ZoneKind::COUNT],
        /// Whether a free on this CPU checks only that the block is allocated.
        pub(crate) fixed has_fast_path: bool,
        /// Whether the CPU was reported to have stopped for good.
        pub(crate) word offline: M::U32,
    }
}

impl<M: Machine> Cpu<M> {
    /// Returns whether a free on this CPU checks only that the block is allocated.
    #[inline(always)]
    pub(crate) fn has_fast_path(&self) -> bool {
        M::MAY_BE_FAST && self.has_fast_path
    }

    /// Returns the zone that serves a request without further checks, by the highest kind that it may use.
    ///
    /// `None` where the mechanisms check every request.
    #[inline(always)]
    pub(crate) fn fast_zone(&self, highest: ZoneKind) -> Option<ZoneIdx> {
        if M::MAY_BE_FAST { self.fast_zones.get(highest.index()).copied() } else { None }
    }

    /// Returns the zone that a request without a policy tries first, by the highest kind that it may use.
    #[inline(always)]
    pub(crate) fn near_zone(&self, highest: ZoneKind) -> Option<ZoneIdx> {
        self.near_zones.get(highest.index()).copied()
    }
}

impl<M: Machine> WaitSlots<M> for [Cpu<M>] {
    fn place(&self, number: u16) -> Option<&M::U32> {
        let index = usize::from(number).checked_rem(self.len())?;
        self.get(index).map(|cpu| &cpu.place.word)
    }
}

/// Data that all layers share; the description of this module explains it.
pub(crate) struct Shared<'a, M: Machine> {
    pub(crate) machine: M,
    /// The mechanisms of the configuration; read through [`Shared::mechanisms`].
    pub(crate) chosen: Mechanisms,
    pub(crate) frames: Frames<'a, M>,
    pub(crate) cpus: &'a [Cpu<M>],
    pub(crate) events: GlobalEvents<M>,
    pub(crate) stats: Stats<'a, M>,
    pub(crate) node_stats: NodeStats<'a, M>,
    /// One lock for each largest block, where the free path takes them.
    pub(crate) range_locks: &'a [M::U32],
    pub(crate) clusters: Clusters<'a, M>,
}

impl<M: Machine> Shared<'_, M> {
    /// Returns the mechanisms that are on.
    // Inlined, so that a machine's constant removes the code of all others.
    #[inline(always)]
    pub(crate) fn mechanisms(&self) -> &Mechanisms {
        match const { &M::MECHANISMS } {
            Some(fixed) => fixed,
            None => &self.chosen,
        }
    }

    /// Returns whether a request with these flags may wait, in the caller's context.
    pub(crate) fn may_wait(&self, gfp: Gfp) -> bool {
        gfp.may_reclaim() && !self.machine.in_interrupt()
    }
}

/// Context of one call: the CPU that it is pinned to.
pub(crate) struct CallCx<'g, 'a, M: Machine> {
    pub(crate) shared: &'g Shared<'a, M>,
    pub(crate) cpu: CpuId,
    /// Node of that CPU.
    pub(crate) node: NodeId,
    pub(crate) own: &'g Cpu<M>,
    /// Whether the call may wait; read through [`CallCx::may_wait`].
    pub(crate) waits: bool,
}

// Not derived: a derived impl would require `M: Copy`.
impl<M: Machine> Clone for CallCx<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for CallCx<'_, '_, M> {}

impl<M: Machine> CallCx<'_, '_, M> {
    /// Returns the context of a request with these flags.
    pub(crate) fn for_request(self, gfp: Gfp) -> Self {
        CallCx { waits: !M::SLEEPS_PINNED || self.shared.may_wait(gfp), ..self }
    }

    /// Returns whether this call may wait for the holder of a lock.
    ///
    /// Always, unless a pinned caller may sleep: with preemption off, a holder's section ends soon.
    pub(crate) fn may_wait(&self) -> bool {
        !M::SLEEPS_PINNED || self.waits
    }
}
