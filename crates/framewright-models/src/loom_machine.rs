//! The machine of the models: loom's atomics, and a fixed CPU for each thread of a model.
//!
//! The pair of fences is a full fence on both sides. On a real machine the light one is nothing but an order to the compiler, and the
//! heavy one makes every running CPU pass a full fence (`membarrier`, an interrupt to all): wherever in its program order a CPU
//! meets that fence, either its earlier store is visible to the heavy side, or its later load sees the heavy side's
//! store. Those are the outcomes that two full fences allow, so the heavy side promotes the light one, and loom, which knows
//! no fence that acts on another thread, is given the promoted pair.

use std::cell::Cell;
use std::panic::Location;

use framewright::machine::{Fault, Machine, Pinned};
use framewright::pfn::{CpuId, NodeId};
use loom::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crate::session;
use crate::word::LoomWord;

loom::thread_local! {
    static CPU: Cell<u16> = Cell::new(0);
}

/// The CPU that the running thread of a model plays.
pub(crate) fn running_cpu() -> u16 {
    CPU.with(Cell::get)
}

/// The running thread plays `cpu` from now on.
pub(crate) fn run_on(cpu: u16) {
    CPU.with(|own| own.set(cpu));
}

/// See the module's description.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoomMachine {
    /// Per-CPU lists are never entered by their owner, so that every call takes the zone's lock.
    pub bypass_pcp: bool,
}

/// The thread stays on its CPU, as it always does here.
pub struct LoomPin(CpuId);

impl Pinned for LoomPin {
    fn cpu(&self) -> CpuId {
        self.0
    }

    fn node(&self) -> NodeId {
        NodeId(0)
    }
}

/// Nothing interrupts a thread of a model.
pub struct LoomIrq;

#[track_caller]
fn fence_unless_planted() {
    let place = Location::caller();
    if session::with(|session| session.fences(place)) && !std::thread::panicking() {
        fence(Ordering::SeqCst);
    }
}

impl Machine for LoomMachine {
    type U8 = LoomWord<u8, AtomicU8>;
    type U16 = LoomWord<u16, AtomicU16>;
    type U32 = LoomWord<u32, AtomicU32>;
    type U64 = LoomWord<u64, AtomicU64>;
    type Usize = LoomWord<usize, AtomicUsize>;
    type Pin<'a> = LoomPin;
    type Irq<'a> = LoomIrq;

    fn pin(&self) -> LoomPin {
        LoomPin(CpuId(running_cpu()))
    }

    fn irq_save(&self) -> LoomIrq {
        LoomIrq
    }

    #[track_caller]
    fn fence(&self) {
        fence_unless_planted();
    }

    #[track_caller]
    fn light_fence(&self) {
        fence_unless_planted();
    }

    #[track_caller]
    fn heavy_fence(&self) {
        fence_unless_planted();
    }

    fn fault(&self, point: Fault) -> bool {
        self.bypass_pcp && point == Fault::PcpBusy
    }
}
