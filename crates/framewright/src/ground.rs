//! What all layers stand on: the machine, the chosen mechanisms, the descriptors, and one record per CPU.

use crate::field::{Words, tell};
use crate::frame::Frames;
use crate::lock::Held;
use crate::machine::{Machine, Word};
use crate::mechanisms::Mechanisms;
use crate::pfn::{CpuId, NodeId, ZoneIdx, ZoneKind};
use crate::queued::{Asker, Nodes, QueueNode};
use crate::vmstat::GlobalEvents;

/// One CPU's own words.
// Aligned so that no two CPUs write to the same pair of cache lines.
#[repr(align(128))]
pub struct Cpu<M: Machine> {
    pub(crate) held: Held<M>,
    /// Whose turn it is in interleaved requests of this CPU.
    pub(crate) turn: M::U32,
    /// Its place among those who wait for a lock.
    pub(crate) queue: QueueNode<M>,
    // Fixed at boot.
    pub(crate) node: NodeId,
    /// By the highest kind that a request may use: the zone whose per-CPU lists serve it without a further question. None
    /// where the mechanisms ask something of every request.
    pub(crate) front: [ZoneIdx; ZoneKind::COUNT],
    /// A free of this CPU's asks no more than whether the block is allocated.
    pub(crate) plain: bool,
}

impl<M: Machine> Default for Cpu<M> {
    fn default() -> Self {
        Cpu {
            held: Held::default(),
            turn: Word::new(0),
            queue: QueueNode::default(),
            node: NodeId(0),
            front: [ZoneIdx::NONE; ZoneKind::COUNT],
            plain: false,
        }
    }
}

impl<M: Machine> Cpu<M> {
    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        tell(visit, format_args!("held"), self.held.word());
        tell(visit, format_args!("turn"), &self.turn);
        for (name, word) in self.queue.words() {
            tell(visit, format_args!("queue.{name}"), word);
        }
    }
}

impl<M: Machine> Nodes<M> for [Cpu<M>] {
    fn node(&self, cpu: usize) -> Option<&QueueNode<M>> {
        self.get(cpu).map(|cpu| &cpu.queue)
    }
}

/// See the module's description.
pub(crate) struct Ground<'a, M: Machine> {
    pub(crate) machine: M,
    pub(crate) mechanisms: Mechanisms,
    pub(crate) frames: Frames<'a, M>,
    pub(crate) cpus: &'a [Cpu<M>],
    pub(crate) events: GlobalEvents<M>,
}

/// One call's context: where it runs, pinned.
pub(crate) struct Cx<'g, 'a, M: Machine> {
    pub(crate) ground: &'g Ground<'a, M>,
    pub(crate) cpu: CpuId,
    /// The node of that CPU.
    pub(crate) node: NodeId,
    pub(crate) own: &'g Cpu<M>,
}

// Not derived: that would ask for `M: Copy`.
impl<M: Machine> Clone for Cx<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Cx<'_, '_, M> {}

impl<'g, M: Machine> Cx<'g, '_, M> {
    /// This CPU, to wait for a lock. Interrupts are held off.
    pub(crate) fn asker(&self) -> Asker<'g, [Cpu<M>]> {
        Asker::cpu(self.ground.cpus, self.cpu.0)
    }
}
