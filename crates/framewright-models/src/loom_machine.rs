//! The machine of the models: loom's atomics, and a fixed CPU for each thread of a model.
//!
//! See [`crate::interrupt`] for the pair of fences.

use std::panic::Location;

use framewright::machine::{Fault, Machine, NoPerCpu, Pinned};
use framewright::units::{CpuId, NodeId};
use loom::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use crate::running::{is_inside, is_nowhere, pinned_cpu};
use crate::session::{self, Phase};
use crate::word::LoomWord;
use crate::{device, interrupt};

/// The machine of the models.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoomMachine {
    /// CPUs that never enter their per-CPU lists, so that all their calls go to the zone.
    pub bypass_pcp: &'static [u16],
    /// Requests that found nothing drain the cached blocks, round after round.
    ///
    /// Each round multiplies the schedules, so only the models of these drains have them.
    pub drains: bool,
}

/// A pin. Threads always stay on their CPU here.
pub struct LoomPin(CpuId);

impl Pinned for LoomPin {
    fn cpu(&self) -> CpuId {
        self.0
    }

    fn node(&self) -> NodeId {
        NodeId(0)
    }
}

/// Returns whether the fence or guard called at `place` takes effect.
fn passes(place: &'static Location<'static>) -> bool {
    let is_alone = session::phase() == Phase::Copied || std::thread::panicking();
    !is_alone && (!session::is_watched() || session::with(|session| session.fences(place)))
}

impl Machine for LoomMachine {
    type U8 = LoomWord<u8, AtomicU8>;
    type U16 = LoomWord<u16, AtomicU16>;
    type U32 = LoomWord<u32, AtomicU32>;
    type U64 = LoomWord<u64, AtomicU64>;
    type Usize = LoomWord<usize, AtomicUsize>;
    type Pin<'a> = LoomPin;
    type Irq<'a> = Option<device::Held>;
    type PerCpu<T> = NoPerCpu;

    fn pin(&self) -> LoomPin {
        LoomPin(if is_nowhere() { CpuId::NONE } else { CpuId(pinned_cpu()) })
    }

    #[track_caller]
    fn irq_save(&self) -> Option<device::Held> {
        passes(Location::caller()).then(device::Held::new)
    }

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn in_interrupt(&self) -> bool {
        is_inside()
    }

    #[track_caller]
    fn fence(&self) {
        if passes(Location::caller()) {
            interrupt::full();
        }
    }

    #[track_caller]
    fn light_fence(&self) {
        if passes(Location::caller()) {
            interrupt::light();
        }
    }

    // Not the seam's default: a bug must be planted at the call of the fast path, and not at the default's.
    #[track_caller]
    fn front_fence(&self) {
        if passes(Location::caller()) {
            interrupt::light();
        }
    }

    fn may_fence(&self) -> bool {
        true
    }

    #[track_caller]
    fn heavy_fence(&self) {
        if passes(Location::caller()) {
            interrupt::heavy();
        }
    }

    fn fault(&self, point: Fault) -> bool {
        match point {
            Fault::PcpBusy => self.bypass_pcp.contains(&pinned_cpu()),
            Fault::Drain => !self.drains,
            _ => false,
        }
    }
}
