//! The thread of a model that runs: its CPU, and the interrupt it is in.
//!
//! loom runs the threads of a model in turn, as coroutines of one thread, and has thread locals for them. It finds
//! those by a hash map, and a model asks at each access to a word which CPU it plays. So what belongs to the running
//! thread lies in a plain cell. A thread that returns from an operation in which others may have run ([`switching`])
//! restores it.

use std::cell::Cell;

/// What belongs to one thread of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Running {
    cpu: u16,
    /// Guards that hold interrupts off.
    off: u16,
    /// In an interrupt.
    inside: bool,
    /// In an interrupt that cannot be masked.
    nowhere: bool,
}

thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(Running { cpu: 0, off: 0, inside: false, nowhere: false }) };
}

/// A thread of a model begins: it is on CPU 0, outside of interrupts.
pub(crate) fn begin() {
    RUNNING.set(Running::default());
}

/// Does an operation of loom in which other threads may run.
///
/// Each such operation must go through here: a load, a store or an exchange of an atomic, a yield, a park, the start of
/// a thread.
pub(crate) fn switching<R>(operation: impl FnOnce() -> R) -> R {
    let own = RUNNING.get();
    let result = operation();
    RUNNING.set(own);
    result
}

/// The CPU that the running thread of a model plays.
pub(crate) fn running_cpu() -> u16 {
    RUNNING.get().cpu
}

/// The running thread plays `cpu` from now on.
pub(crate) fn run_on(cpu: u16) {
    RUNNING.set(Running { cpu, ..RUNNING.get() });
}

/// The running thread enters an interrupt, one that has no CPU to pin to if it cannot be masked, or leaves it.
pub(crate) fn set_inside(inside: bool, nowhere: bool) {
    RUNNING.set(Running { inside, nowhere, ..RUNNING.get() });
}

/// Whether the running thread is in an interrupt.
pub(crate) fn is_inside() -> bool {
    RUNNING.get().inside
}

/// Whether the running thread is in an interrupt that has no CPU to pin to.
pub(crate) fn is_nowhere() -> bool {
    RUNNING.get().nowhere
}

/// Whether the running thread holds interrupts off.
pub(crate) fn is_masked() -> bool {
    RUNNING.get().off != 0
}

/// One more guard of the running thread holds interrupts off.
pub(crate) fn mask() {
    let own = RUNNING.get();
    RUNNING.set(Running { off: own.off.wrapping_add(1), ..own });
}

/// One of those guards is gone.
pub(crate) fn unmask() {
    let own = RUNNING.get();
    RUNNING.set(Running { off: own.off.wrapping_sub(1), ..own });
}
