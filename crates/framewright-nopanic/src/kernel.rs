//! A machine as a small kernel writes it, for the size of its code.
//!
//! It has what a kernel cannot leave out: the words, the running CPU, an interrupt switch and a fence. Everything else
//! is the default of [`Machine`]. The features `text-...` of this crate choose what it compiles.

use core::sync::atomic::{self, AtomicBool, AtomicU16};

use framewright::machine::{Machine, NoPerCpu, Pinned};
use framewright::units::{CpuId, NodeId};
use framewright::{Features, Mechanisms};

use framewright_kernel::{U8, U16, U32, U64, Usize};

/// The machine.
pub struct Kernel {
    cpu: AtomicU16,
    interrupts_off: AtomicBool,
}

/// A pinned CPU.
pub struct Pin(CpuId);

impl Pinned for Pin {
    fn cpu(&self) -> CpuId {
        self.0
    }

    fn node(&self) -> NodeId {
        NodeId(0)
    }
}

/// Interrupts held off; the drop restores the state before.
pub struct Irq<'a> {
    kernel: &'a Kernel,
    were_off: bool,
}

impl Drop for Irq<'_> {
    fn drop(&mut self) {
        self.kernel.interrupts_off.store(self.were_off, atomic::Ordering::Relaxed);
    }
}

impl Machine for Kernel {
    type U8 = U8;
    type U16 = U16;
    type U32 = U32;
    type U64 = U64;
    type Usize = Usize;
    type Pin<'a> = Pin;
    type Irq<'a> = Irq<'a>;
    type PerCpu<T> = NoPerCpu;

    const MECHANISMS: Option<Mechanisms> = if cfg!(feature = "text-minimal") {
        Some(Mechanisms::MINIMAL)
    } else if cfg!(any(feature = "text-default", feature = "text-small")) {
        Some(Mechanisms::DEFAULT)
    } else {
        None
    };

    const FEATURES: Features = if cfg!(feature = "text-minimal") {
        Features::NONE
    } else if cfg!(feature = "text-small") {
        Features { mobility: true, ..Features::NONE }
    } else {
        Features::ALL
    };

    fn pin(&self) -> Pin {
        Pin(CpuId(self.cpu.load(atomic::Ordering::Relaxed)))
    }

    fn irq_save(&self) -> Irq<'_> {
        Irq { kernel: self, were_off: self.interrupts_off.swap(true, atomic::Ordering::Relaxed) }
    }

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn fence(&self) {
        atomic::fence(atomic::Ordering::SeqCst);
    }

    fn relax(&self) {
        core::hint::spin_loop();
    }
}
