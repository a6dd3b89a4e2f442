//! A slot for each thread, from its first pin until it exits.
//!
//! A pin reads [`crate::current`]: the machine that the thread used last, and its CPU there. That is a
//! constant-initialised thread-local without destructor, so a read is a load at a fixed distance from the thread
//! pointer. It can be read at any time in a thread's life. Everything else happens once per thread and machine:
//! [`enter`] looks into the thread's small table of leases, or leases a slot and remembers it there.
//!
//! # When a lease ends
//!
//! A thread's leases end when it exits, through a POSIX key. Destructors of keys run after those of Rust's
//! thread-locals. (Ours acts in the second round, because some C libraries run the latter by a key too.) So pins that
//! such destructors take, or that a thread-local kept, are over by then. Later pins share. A slot keeps its cached
//! pages when its lease ends, and the next thread that asks gets slot and pages. A thread that had to share asks again
//! at each pin, and gets a lease as soon as there is one.
//!
//! A forgotten pin is never dropped. The thread's shared slots, and its pins of others, are free as well when it exits.
//! Pins cannot leave their thread, so none is used any more. A thread is watched for that once it has had a shared
//! slot, or has made an [`crate::Arena::local`].
//!
//! The table holds machines weakly, and their numbers are never used again. So a machine may be dropped before the
//! threads that used it. A thread removes its entry when it next leases a slot.
//!
//! # Interrupts
//!
//! In an interrupt of a thread with a lease ([`crate::interrupts`]) [`crate::current`] names another CPU of the
//! machine, which comes with the lease. It is exchanged when the interrupt begins and when it ends. So a pin costs as
//! much inside as outside, and the outside pays nothing. Code that changes the table or [`crate::current`] holds
//! interrupts off; an interrupt only reads the table.
//!
//! # Limits
//!
//! A pin of a leased slot counts nothing, so no code can tell whether one is alive: giving a lease up early is
//! therefore `unsafe`. A thread that alternates between machines looks its table up on each change. Where POSIX keys
//! have run out, threads share.
//!
//! Rejected: a thread-local with a destructor (its access asks each time whether it is still alive, and it dies too
//! early). Also rejected: a count of pins (a dependent load and store each way, 1.4 ns a pin instead of 0.3).
//!
//! # Why the unsafe code is right
//!
//! The one call here asks the kernel for two numbers and has it write them to two locals.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};

use framewright::units::NodeId;

use super::slots::Cpus;
use super::watch;
use crate::current::{self, Place};
use crate::interrupts;

/// A thread's slot of one machine.
struct Lease {
    machine: u64,
    cpus: Weak<Cpus>,
    place: Place,
}

thread_local! {
    // No destructor, on purpose: `end_all` empties the table.
    static LEASES: RefCell<ManuallyDrop<Vec<Lease>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Returns the thread's leased CPU, leasing one if it has none.
///
/// None if no lease is free, or the thread exits.
#[cold]
pub(crate) fn enter(cpus: &Arc<Cpus>) -> Option<Place> {
    if watch::shares() {
        return None;
    }
    let _held = interrupts::hold();
    LEASES.with(|leases| {
        // Borrowed already: the memory for the table comes from an allocator on top of this one.
        let mut leases = leases.try_borrow_mut().ok()?;
        let place = match leases.iter().find(|lease| lease.machine == cpus.id) {
            Some(lease) => lease.place,
            None => {
                let place = lease(cpus)?;
                leases.retain(|lease| lease.cpus.strong_count() != 0);
                leases.push(Lease { machine: cpus.id, cpus: Arc::downgrade(cpus), place });
                place
            }
        };
        current::set(cpus.id, place, cpus.apart(place));
        Some(place)
    })
}

/// In an interrupt: takes the CPU of the thread's interrupts, which comes with its lease.
///
/// None if it has no lease, or the machine has no interrupts.
#[cold]
pub(crate) fn enter_apart(cpus: &Cpus) -> Option<Place> {
    LEASES.with(|leases| {
        let leases = leases.try_borrow().ok()?;
        let apart = cpus.apart(leases.iter().find(|lease| lease.machine == cpus.id)?.place)?;
        current::set_apart(cpus.id, apart);
        Some(apart)
    })
}

fn lease(cpus: &Cpus) -> Option<Place> {
    if !cpus.may_lease() || !watch::watch_exit() {
        return None;
    }
    cpus.lease(current::mark(), node_here())
}

/// The node that the thread runs on just now, as the kernel numbers them.
///
/// From any context.
pub(crate) fn node_here() -> NodeId {
    let (mut cpu, mut node) = (0_u32, 0_u32);
    // SAFETY: the call writes two numbers to where it is told to, and there are two.
    let status = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, 0_usize) };
    if status == 0 { NodeId(u8::try_from(node).unwrap_or(0)) } else { NodeId(0) }
}

/// Ends the thread's lease with a machine. Says whether there was one.
pub(crate) fn give_up(cpus: &Cpus) -> bool {
    let _held = interrupts::hold();
    let found = LEASES.with(|leases| {
        let mut leases = leases.try_borrow_mut().ok()?;
        let index = leases.iter().position(|lease| lease.machine == cpus.id)?;
        Some(leases.swap_remove(index))
    });
    let Some(lease) = found else { return false };
    if current::of(cpus.id).is_some() {
        current::forget();
    }
    cpus.end_lease(lease.place);
    true
}

/// Ends all leases of the thread.
///
/// Context: interrupts held off.
pub(super) fn end_all() {
    let leases = LEASES.with(|leases| leases.try_borrow_mut().map(|mut leases| std::mem::take(&mut **leases)));
    for lease in leases.into_iter().flatten() {
        if let Some(cpus) = lease.cpus.upgrade() {
            cpus.end_lease(lease.place);
        }
    }
}
