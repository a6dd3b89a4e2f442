//! Per-CPU variables of a machine, in which the core keeps what its fast path needs.

use crate::types::units::CpuId;

/// One value for each CPU of a machine: what a kernel calls a per-CPU variable.
///
/// The core keeps in it what the fast path of a CPU needs. A plain call then finds its CPU and that value in one step.
pub trait PerCpu<T, M: ?Sized>: Sized {
    /// Whether values are kept. If not, plain calls look everything up by the CPU's number.
    const IS_KEPT: bool = true;

    /// Makes the values of `cpus` CPUs.
    fn new(machine: &M, cpus: usize, make: impl FnMut(CpuId) -> Option<T>) -> Self;

    /// Pins the caller as [`crate::Machine::pin_now`] does, and calls `operation` with the value of its CPU.
    ///
    /// For the fast path: returns `None` where that takes more than a few instructions, as it does for an operation
    /// that returns `None`. The operation is called at most once, and calls neither the allocator nor its embedder's
    /// code except the machine. The value need not be safe to share: it is used by the holder of the CPU alone, and an
    /// interrupt's CPU has a value of its own.
    fn with<O: Operation<T>>(&self, operation: O) -> Option<O::Output>;

    /// Like [`PerCpu::with`], however long it takes to find the CPU; `None` as well where there is none.
    fn with_any<R>(&self, operation: impl Fn(&T) -> Option<R>) -> Option<R> {
        self.with(operation)
    }
}

/// Values of a machine that keeps none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoPerCpu;

impl<T, M: ?Sized> PerCpu<T, M> for NoPerCpu {
    const IS_KEPT: bool = false;

    fn new(_: &M, _: usize, _: impl FnMut(CpuId) -> Option<T>) -> Self {
        NoPerCpu
    }

    #[inline(always)]
    fn with<O: Operation<T>>(&self, _: O) -> Option<O::Output> {
        None
    }
}

/// What the core does with a value of one CPU.
///
/// A closure, or a type of the core whose call is always inlined: a machine that calls it in two places would otherwise
/// get a call out of line.
pub trait Operation<T> {
    /// Result of an operation that succeeds.
    type Output;

    /// Does it; `None` if it changed nothing.
    fn run(&self, value: &T) -> Option<Self::Output>;
}

impl<T, R, F: Fn(&T) -> Option<R>> Operation<T> for F {
    type Output = R;

    #[inline(always)]
    fn run(&self, value: &T) -> Option<R> {
        self(value)
    }
}
