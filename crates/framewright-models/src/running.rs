//! The running thread of a model: its CPU, and the interrupt it is in.
//!
//! loom runs the threads of a model in turn, as coroutines of one thread, and has thread locals for them. It finds
//! those by a hash map, and a model asks for its CPU at each access to a word. So the state of the running thread is in
//! a plain cell. A thread that returns from an operation in which others may have run ([`switching`]) restores it.

use std::cell::Cell;

/// The state of one thread of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Running {
    cpu: u16,
    /// The CPU that the thread leases instead.
    leased: Option<u16>,
    /// Guards that mask interrupts.
    off: u16,
    /// The thread is in an interrupt.
    inside: bool,
    /// The thread is in an interrupt that cannot be masked.
    nowhere: bool,
}

thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(Running { cpu: 0, leased: None, off: 0, inside: false, nowhere: false }) };
}

/// Begins a thread of a model, on CPU 0 and outside of interrupts.
pub(crate) fn begin() {
    RUNNING.set(Running::default());
}

/// Does an operation of loom in which other threads may run.
///
/// Each such operation must go through this function: a load, a store or an exchange of an atomic, a yield, a park, the
/// start of a thread.
pub(crate) fn switching<R>(operation: impl FnOnce() -> R) -> R {
    let own = RUNNING.get();
    let result = operation();
    RUNNING.set(own);
    result
}

/// Returns the CPU that the running thread plays.
pub(crate) fn running_cpu() -> u16 {
    RUNNING.get().cpu
}

/// Returns the CPU whose lists the running thread uses: the one that it leases, or that it plays.
pub(crate) fn pinned_cpu() -> u16 {
    let Running { cpu, leased, .. } = RUNNING.get();
    leased.unwrap_or(cpu)
}

/// Makes the running thread use the lists of `cpu`, or those of the CPU that it plays.
///
/// It stays the thread that it is: whatever it orders is its own.
pub(crate) fn lease(cpu: Option<u16>) {
    RUNNING.set(Running { leased: cpu, ..RUNNING.get() });
}

/// Makes the running thread play `cpu`.
pub(crate) fn run_on(cpu: u16) {
    RUNNING.set(Running { cpu, ..RUNNING.get() });
}

/// Makes the running thread enter or leave an interrupt, which is `nowhere` if it has no CPU to pin to.
pub(crate) fn set_inside(inside: bool, nowhere: bool) {
    RUNNING.set(Running { inside, nowhere, ..RUNNING.get() });
}

/// Returns whether the running thread is in an interrupt.
pub(crate) fn is_inside() -> bool {
    RUNNING.get().inside
}

/// Returns whether the running thread is in an interrupt that has no CPU to pin to.
pub(crate) fn is_nowhere() -> bool {
    RUNNING.get().nowhere
}

/// Returns whether the running thread masks interrupts.
pub(crate) fn is_masked() -> bool {
    RUNNING.get().off != 0
}

/// Adds a guard by which the running thread masks interrupts.
pub(crate) fn mask() {
    let own = RUNNING.get();
    RUNNING.set(Running { off: own.off.wrapping_add(1), ..own });
}

/// Removes one of these guards.
pub(crate) fn unmask() {
    let own = RUNNING.get();
    RUNNING.set(Running { off: own.off.wrapping_sub(1), ..own });
}

/// Takes the running thread out of its interrupt until the guard is dropped.
pub(crate) fn outside_interrupts() -> Outside {
    let outside = Outside(RUNNING.get());
    RUNNING.set(Running { inside: false, nowhere: false, off: 0, ..RUNNING.get() });
    outside
}

/// Guard of [`outside_interrupts`].
pub(crate) struct Outside(Running);

impl Drop for Outside {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}
