//! Threads on CPUs.
//!
//! The core thinks in CPUs: whoever is *pinned* to one has its lists to itself. A process has threads, which the kernel
//! moves and stops where it likes, so a CPU of the allocator is a *slot*, and what must hold is that no two threads are
//! on one slot at a time. There are two ways to a slot:
//!
//! | way | a thread's slot | pinning costs | slots |
//! |---|---|---|---|
//! | [`lease`] | its own, until it exits | a look at a thread-local | as one says; best one more than threads |
//! | [`rseq`] | that of the processor it runs on | a restartable sequence and a store | possible processors, some spares |
//!
//! Neither needs an atomic read-modify-write, of which one costs more than all the rest of an allocation. Both have
//! *shared* slots behind their own, for when a thread's own is not to be had: no lease is free, or the thread that was
//! stopped in the middle of an operation has the CPU's slot. Those are taken by compare-and-swap and given back at
//! once, so they are slower, and one who finds all of them taken waits. The wait spins first, then yields, then sleeps,
//! because the holder may be a thread that does not run.
//!
//! A free, and a request that must not wait (`GFP_NOWAIT`, `GFP_ATOMIC`), gives up after the spins ([`Wait::Never`]) and goes to the
//! zones without a slot. A pin can be forgotten in safe code (`std::mem::forget` of a [`crate::LocalArena`]); its slot is
//! free when its thread exits ([`Cpus::release`]), and until then only those wait who may.
//!
//! A thread that has a slot of a machine already is given the same again instead of waiting for itself: an owned slot
//! says who has it, and how often. Pins may therefore be dropped in any order.
//!
//! A machine with interrupts ([`crate::Native::with_interrupts`]) has as many slots more, for the *interrupts* of the
//! former ones, shared ones among them. A thread's interrupt uses the one that belongs to the thread's lease, or to the
//! processor it runs on, or else a shared one. It may wait for that: whoever has it is in an interrupt of another thread.
//!
//! Rejected: a lock per slot that is taken on every pin (an uncontended one costs 16 ns a pair); hashing threads to
//! slots (two busy threads meet for ever, while slots lie idle); an own slot for each thread without limit (the
//! descriptors of a CPU's lists are laid out at boot).

pub(crate) mod exit;
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
    PerCpu,
}
