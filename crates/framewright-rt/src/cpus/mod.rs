//! Threads on CPUs.
//!
//! The core thinks in CPUs: code that is *pinned* to one has the CPU's lists to itself. A process has threads, which
//! the kernel moves and stops at any point. So a CPU of the allocator is a *slot*, and the invariant is that no two
//! threads are on one slot at a time. There are two ways to a slot:
//!
//! | way | a thread's slot | pinning costs | slots |
//! |---|---|---|---|
//! | [`lease`] | its own, until it exits | a look at a thread-local | as one says; best one more than threads |
//! | [`rseq`] | that of its processor | a restartable sequence and a store | possible processors, some spares |
//!
//! Neither needs an atomic read-modify-write, which costs more than the rest of an allocation. Both fall back to
//! *shared* slots when the thread's own cannot be had. Then no lease is free, or a thread that was stopped inside an
//! operation has the CPU's slot. A shared slot is taken by compare-and-swap and given back at once, so it is slower. A
//! thread that finds all of them taken waits. It spins first, then yields, then sleeps, because the holder may be a
//! thread that does not run.
//!
//! A free, and a request that must not wait (`GFP_NOWAIT`, `GFP_ATOMIC`), gives up after the spins ([`Wait::Never`])
//! and goes to the zones without a slot. A pin that is kept for many calls ([`Wait::Kept`]) gives up as well, and never
//! takes the last slot of several: calls that wait have that one, whatever is kept. Safe code can forget a pin
//! (`std::mem::forget` of a [`crate::LocalArena`]).
//! Its slot is free when its thread exits ([`Cpus::release`]); until then only callers that may wait do so.
//!
//! A thread that already has a slot of a machine gets that slot again, so that it never waits for itself. An owned slot
//! records its owner, and how often. Pins may therefore be dropped in any order.
//!
//! A machine with interrupts ([`crate::Native::with_interrupts`]) has a second set of slots of equal size, for
//! *interrupts*. A thread's interrupt uses the slot that belongs to the thread's lease, or to the processor it runs on,
//! or else a shared one. It may wait for a shared one: the holder is an interrupt of another thread.
//!
//! Rejected: a lock per slot that is taken on every pin (an uncontended one costs 16 ns a pair). Hashing threads to
//! slots: two busy threads meet for ever, while slots lie idle. An own slot for each thread without limit: the
//! descriptors of a CPU's lists are laid out at boot.

pub(crate) mod exit;
pub(crate) mod values;
pub(crate) mod lease;
pub(crate) mod rseq;
pub(crate) mod registry;
mod topology;
mod sequence;
mod slots;
mod watch;

pub use rseq::RseqUnavailable;
pub(crate) use slots::{Cpus, Side, Slot, Wait};
pub(crate) use watch::{never, release_at_exit};

/// How threads come to their CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuMode {
    /// A thread has a CPU to itself until it exits, as long as there are enough.
    Lease,
    /// A thread uses the allocator's CPU of the processor it runs on, for any number of threads.
    ///
    /// Of those, about as many can keep a [`crate::LocalArena`] at once as there are processors.
    PerCpu,
}
