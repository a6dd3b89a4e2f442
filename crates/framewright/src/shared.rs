//! What all layers stand on: the machine, the chosen mechanisms, the descriptors, and one record per CPU.

use crate::frame::cluster::Clusters;
use crate::frame::frame::Frames;
use crate::policy::mechanisms::Mechanisms;
use crate::seam::field::{Words, tell};
use crate::seam::machine::{Machine, Word};
use crate::stat::node_stat::NodeStats;
use crate::stat::vmstat::GlobalEvents;
use crate::stat::zone_stat::Stats;
use crate::sync::queued_lock::WaitSlots;
use crate::sync::rank::Held;
use crate::types::units::{CpuId, NodeId, ZoneIdx, ZoneKind};

/// A word where some CPU waits for a lock, not necessarily the one in whose record it lies.
// Aligned so that it shares no pair of cache lines with words that have nothing to do with it.
#[repr(align(128))]
struct WaitSlot<M: Machine>(M::U32);

/// One CPU's own words, and a place to wait.
// Aligned so that no two CPUs write to the same pair of cache lines.
#[repr(align(128))]
pub struct Cpu<M: Machine> {
    pub(crate) held: Held<M>,
    /// Whose turn it is in interleaved requests of this CPU.
    pub(crate) turn: M::U32,
    place: WaitSlot<M>,
    // Fixed at boot.
    pub(crate) node: NodeId,
    /// By the highest kind that a request may use: the zone whose per-CPU lists serve it without a further question. None
    /// where the mechanisms ask something of every request.
    pub(crate) fast_zones: [ZoneIdx; ZoneKind::COUNT],
    /// A free of this CPU's asks no more than whether the block is allocated.
    pub(crate) plain: bool,
    /// Whether it stopped running for good, as far as anybody said so.
    pub(crate) offline: M::U32,
}

impl<M: Machine> Default for Cpu<M> {
    fn default() -> Self {
        Cpu {
            held: Held::default(),
            turn: Word::new(0),
            place: WaitSlot(Word::new(0)),
            node: NodeId(0),
            fast_zones: [ZoneIdx::NONE; ZoneKind::COUNT],
            plain: false,
            offline: Word::new(0),
        }
    }
}

impl<M: Machine> Cpu<M> {
    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        tell(visit, format_args!("held"), self.held.word());
        tell(visit, format_args!("turn"), &self.turn);
        tell(visit, format_args!("offline"), &self.offline);
        tell(visit, format_args!("place"), &self.place.0);
    }
}

impl<M: Machine> WaitSlots<M> for [Cpu<M>] {
    fn place(&self, number: u16) -> Option<&M::U32> {
        let index = usize::from(number).checked_rem(self.len())?;
        self.get(index).map(|cpu| &cpu.place.0)
    }
}

/// See the module's description.
pub(crate) struct Shared<'a, M: Machine> {
    pub(crate) machine: M,
    pub(crate) mechanisms: Mechanisms,
    pub(crate) frames: Frames<'a, M>,
    pub(crate) cpus: &'a [Cpu<M>],
    pub(crate) events: GlobalEvents<M>,
    pub(crate) stats: Stats<'a, M>,
    pub(crate) node_stats: NodeStats<'a, M>,
    /// One of each largest block, where the free path takes them.
    pub(crate) range_locks: &'a [M::U32],
    pub(crate) clusters: Clusters<'a, M>,
}

/// One call's context: where it runs, pinned.
pub(crate) struct CallCx<'g, 'a, M: Machine> {
    pub(crate) shared: &'g Shared<'a, M>,
    pub(crate) cpu: CpuId,
    /// The node of that CPU.
    pub(crate) node: NodeId,
    pub(crate) own: &'g Cpu<M>,
}

// Not derived: that would ask for `M: Copy`.
impl<M: Machine> Clone for CallCx<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for CallCx<'_, '_, M> {}
