//! What the adapter asks of OSTD, and OSTD as the kit sees it.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

use framewright::{Features, Mechanisms};
use framewright_kernel::{Contexts, Kernel};

/// What the adapter asks of OSTD. [`frame_allocator!`](crate::frame_allocator) implements it.
///
/// # Safety
/// - [`Host::without_interrupts`] calls its argument on the running CPU, where until its end neither an interrupt nor
///   another task runs.
/// - In there, [`Host::cpu`] returns the CPU's number, which no other CPU has.
/// - [`Host::claim`] returns the memory at these addresses, which nothing else uses from then on.
#[allow(unsafe_code, reason = "the kit's contract rests on it")]
pub unsafe trait Host: Sized + 'static {
    /// Returns the number of CPUs, from before the first allocation on.
    fn cpus() -> usize;

    /// Returns the number of the running CPU, below that of [`Host::cpus`].
    fn cpu() -> usize;

    /// Calls `call` with the CPU's interrupts off.
    fn without_interrupts<R>(call: impl FnOnce() -> R) -> R;

    /// Takes whole frames for good, and returns their memory; none if some frame is in use.
    fn claim(bytes: Range<usize>) -> Option<&'static mut [u8]>;

    /// Prints a line.
    fn say(message: fmt::Arguments<'_>);
}

/// A kernel over OSTD. All its calls are made with interrupts off.
pub struct Hosted<H>(PhantomData<fn() -> H>);

impl<H: Host> Hosted<H> {
    pub(crate) const KERNEL: &'static Hosted<H> = &Hosted(PhantomData);
}

// SAFETY: `Frames` alone has the allocator, and calls it in `Host::without_interrupts` only. So interrupts are off, and
// the task stays on its CPU, during each pin. The number is right by the contract of `Host`.
#[allow(unsafe_code, reason = "the kit's trait is unsafe to implement")]
unsafe impl<H: Host> Kernel for Hosted<H> {
    const CONTEXTS: Contexts = Contexts::InterruptsOff;
    const MECHANISMS: Option<Mechanisms> = Some(Mechanisms::DEFAULT);
    /// Mobility, for ranges larger than the largest block; no nodes, limits and reclaim, which OSTD cannot name.
    const FEATURES: Features = Features { mobility: true, repair: true, section_init: true, ..Features::NONE };

    fn pin(&self) {}

    fn unpin(&self) {}

    fn irq_save(&self) -> usize {
        0
    }

    fn irq_restore(&self, _: usize) {}

    #[inline]
    fn cpu(&self) -> usize {
        H::cpu()
    }
}
