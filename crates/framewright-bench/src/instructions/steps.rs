//! Another machine that also counts the steps of the core.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use framewright::CpuId;
use framewright::machine::{Machine, Operation, PerCpu, Step};

/// A machine, and how often each step was made.
pub struct Counting<M> {
    machine: M,
    steps: [AtomicU64; Step::ALL.len()],
}

impl<M> Counting<M> {
    /// Counts from zero.
    pub fn new(machine: M) -> Counting<M> {
        Counting { machine, steps: [const { AtomicU64::new(0) }; Step::ALL.len()] }
    }
}

impl<M> fmt::Display for Counting<M> {
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

/// The machine's values of its CPUs.
pub struct CountingValues<V>(V);

impl<T, M, V: PerCpu<T, M>> PerCpu<T, Counting<M>> for CountingValues<V> {
    const IS_KEPT: bool = V::IS_KEPT;

    fn new(machine: &Counting<M>, cpus: usize, make: impl FnMut(CpuId) -> Option<T>) -> Self {
        CountingValues(V::new(&machine.machine, cpus, make))
    }

    #[inline(always)]
    fn with<O: Operation<T>>(&self, operation: O) -> Option<O::Output> {
        self.0.with(operation)
    }

    fn with_any<R>(&self, operation: impl Fn(&T) -> Option<R>) -> Option<R> {
        self.0.with_any(operation)
    }
}

impl<M: Machine> Machine for Counting<M> {
    type U8 = M::U8;
    type U16 = M::U16;
    type U32 = M::U32;
    type U64 = M::U64;
    type Usize = M::Usize;
    type Pin<'a>
        = M::Pin<'a>
    where
        Self: 'a;
    type Irq<'a>
        = M::Irq<'a>
    where
        Self: 'a;

    type PerCpu<T> = CountingValues<M::PerCpu<T>>;

    const SLEEPS_PINNED: bool = M::SLEEPS_PINNED;

    fn pin(&self) -> Self::Pin<'_> {
        self.machine.pin()
    }

    fn irq_save(&self) -> Self::Irq<'_> {
        self.machine.irq_save()
    }

    fn keeps_interrupts_apart(&self) -> bool {
        self.machine.keeps_interrupts_apart()
    }

    fn fence(&self) {
        self.machine.fence();
    }

    fn light_fence(&self) {
        self.machine.light_fence();
    }

    fn is_asymmetric(&self) -> bool {
        self.machine.is_asymmetric()
    }

    fn front_fence(&self) {
        self.machine.front_fence();
    }

    fn heavy_fence(&self) {
        self.machine.heavy_fence();
    }

    fn step(&self, step: Step) {
        if let Some(count) = self.steps.get(step as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
