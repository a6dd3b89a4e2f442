//! A machine that is [`Native`] and counts the steps of the core.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use framewright::machine::{Machine, NoPerCpu, Step};
use framewright_rt::Native;

/// The native machine, and how often each step was made.
pub(crate) struct Counting {
    native: Native,
    steps: [AtomicU64; Step::ALL.len()],
}

impl Counting {
    pub(crate) fn new(native: Native) -> Counting {
        Counting { native, steps: [const { AtomicU64::new(0) }; Step::ALL.len()] }
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, count) in Step::ALL.iter().zip(&self.steps) {
            match count.load(Ordering::Relaxed) {
                0 => {}
                count => write!(f, " {}={count}", step.name())?,
            }
        }
        Ok(())
    }
}

impl Machine for Counting {
    type U8 = <Native as Machine>::U8;
    type U16 = <Native as Machine>::U16;
    type U32 = <Native as Machine>::U32;
    type U64 = <Native as Machine>::U64;
    type Usize = <Native as Machine>::Usize;
    type Pin<'a> = <Native as Machine>::Pin<'a>;
    type Irq<'a> = <Native as Machine>::Irq<'a>;
    type PerCpu<T> = NoPerCpu;

    const SLEEPS_PINNED: bool = Native::SLEEPS_PINNED;

    fn pin(&self) -> Self::Pin<'_> {
        self.native.pin()
    }

    fn irq_save(&self) -> Self::Irq<'_> {
        self.native.irq_save()
    }

    fn keeps_interrupts_apart(&self) -> bool {
        self.native.keeps_interrupts_apart()
    }

    fn fence(&self) {
        self.native.fence();
    }

    fn light_fence(&self) {
        self.native.light_fence();
    }

    fn is_asymmetric(&self) -> bool {
        self.native.is_asymmetric()
    }

    fn front_fence(&self) {
        self.native.front_fence();
    }

    fn heavy_fence(&self) {
        self.native.heavy_fence();
    }

    fn step(&self, step: Step) {
        if let Some(count) = self.steps.get(step as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
