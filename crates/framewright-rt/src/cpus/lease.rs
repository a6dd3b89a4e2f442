//! A slot for each thread, from its first pin until it exits.
//!
//! What a pin reads is [`CURRENT`]: the machine that the thread used last, and its CPU there. It is a
//! constant-initialised thread-local without destructor, so reading it is a load at a fixed distance from the thread
//! pointer, and it can be read at any time in a thread's life. Everything else happens once per thread and machine:
//! [`enter`] looks into the thread's small table of leases, or leases a slot and remembers it there.
//!
//! # When a lease ends
//!
//! A thread's leases end when it exits, through a POSIX key: keys' destructors run after those of Rust's thread-locals
//! (ours in the second round, as some C libraries have the latter hang on a key too). So pins that such destructors
//! take, or that a thread-local kept, are over by then. What pins even later shares. A slot keeps its cached pages when
//! its lease ends; the next thread that asks gets slot and pages. A thread that had to share asks again at each pin,
//! and gets a lease as soon as there is one.
//!
//! A pin that was forgotten is dropped by nobody. What the thread had of shared slots, and had pinned of others, is free as well
//! when it exits: pins cannot leave their thread, so none is used any more. A thread is watched for that from when it first has a
//! shared slot, or makes an [`crate::Arena::local`].
//!
//! The table refers to machines weakly and their numbers are never used again, so a machine may be dropped before the
//! threads that used it; what they remember of it goes when they next lease something.
//!
//! # Interrupts
//!
//! In an interrupt of a thread with a lease ([`crate::interrupts`]) [`CURRENT`] names another CPU of the machine, which
//! comes with the lease: it is exchanged when the interrupt begins and when it ends, so that a pin costs the same in there
//! and nothing outside. Whatever changes the table or [`CURRENT`] holds interrupts off meanwhile; an interrupt only looks.
//!
//! # Limits
//!
//! A pin of a leased slot counts nothing, so nobody can tell whether one is alive: giving a lease up early is therefore
//! `unsafe`. A thread that alternates between machines looks its table up on each change. Where POSIX keys have run
//! out, threads share.
//!
//! Rejected: a thread-local with a destructor (its access asks each time whether it is still alive, and it dies too
//! early); a count of pins (a dependent load and store each way, 1.4 ns a pin instead of 0.3).

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock, Weak};

use framewright::units::NodeId;

use super::{Cpus, Place, rseq};
use crate::{fork, interrupts};

/// A thread's slot of one machine.
struct Lease {
    machine: u64,
    cpus: Weak<Cpus>,
    place: Place,
}

thread_local! {
    static CURRENT: Cell<(u64, Place)> = const { Cell::new((0, Place::NOWHERE)) };
    /// What `CURRENT` is in an interrupt of the thread, at first.
    static APART: Cell<(u64, Place)> = const { Cell::new((0, Place::NOWHERE)) };
    // No destructors, on purpose: `exit` empties the table.
    static LEASES: RefCell<ManuallyDrop<Vec<Lease>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// The thread is about to be gone.
    static EXITING: Cell<bool> = const { Cell::new(false) };
    /// The thread has had shared slots, of which it may have forgotten some.
    static SHARED: Cell<bool> = const { Cell::new(false) };
    /// The thread leases nothing any more.
    static SHARES: Cell<bool> = const { Cell::new(false) };
}

/// The thread's CPU, if `machine` is the one it used last and it has a lease there.
#[inline]
pub(crate) fn current(machine: u64) -> Option<Place> {
    let (last, place) = CURRENT.get();
    (last == machine).then_some(place)
}

/// A number that no other living thread has; never 0.
pub(crate) fn mark() -> usize {
    CURRENT.with(|current| std::ptr::from_ref(current).addr())
}

/// The thread's leased CPU, leasing one if it has none. None: there is none to be had now, or the thread exits.
#[cold]
pub(crate) fn enter(cpus: &Arc<Cpus>) -> Option<Place> {
    if SHARES.get() {
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
        CURRENT.set((cpus.id, place));
        APART.set(cpus.apart(place).map_or((0, Place::NOWHERE), |apart| (cpus.id, apart)));
        Some(place)
    })
}

/// In an interrupt: the one's CPU that belongs to the thread's lease; none if it has no lease, or the machine no interrupts.
#[cold]
pub(crate) fn enter_apart(cpus: &Cpus) -> Option<Place> {
    LEASES.with(|leases| {
        let leases = leases.try_borrow().ok()?;
        let apart = cpus.apart(leases.iter().find(|lease| lease.machine == cpus.id)?.place)?;
        CURRENT.set((cpus.id, apart));
        Some(apart)
    })
}

/// The thread is in an interrupt from now on. Returns where it was, for [`end_interrupt`].
pub(crate) fn begin_interrupt() -> (u64, Place) {
    CURRENT.replace(APART.get())
}

/// The thread goes on with what was interrupted.
pub(crate) fn end_interrupt(outside: (u64, Place)) {
    CURRENT.set(outside);
}

fn lease(cpus: &Cpus) -> Option<Place> {
    if !cpus.may_lease() || !watch_exit() {
        return None;
    }
    cpus.lease(mark(), node_here())
}

/// The node that the thread runs on just now, as the kernel numbers them. From any context.
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
    if current(cpus.id).is_some() {
        forget_current();
    }
    cpus.end_lease(lease.place);
    true
}

/// Makes the thread's next pin look twice.
pub(crate) fn forget_current() {
    let _held = interrupts::hold();
    CURRENT.set((0, Place::NOWHERE));
    APART.set((0, Place::NOWHERE));
}

/// The thread shares from now on: it is about to exit, or works for all.
pub(crate) fn never() {
    SHARES.set(true);
}

/// Whether the thread is none to lease or to register anything for.
pub(super) fn shares() -> bool {
    SHARES.get()
}

/// The key whose destructor is [`exit`], made at the first call; none if there are too many.
pub(crate) fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key: libc::pthread_key_t = 0;
        // SAFETY: the call writes a key to where it is told to. `exit` stays loaded as long as this code does.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(exit)) } == 0).then_some(key)
    })
}

/// Has [`exit`] called when the thread exits. False if that cannot be.
pub(super) fn watch_exit() -> bool {
    let key = key();
    // Any value but null has the destructor called.
    let value = std::ptr::without_provenance(1);
    // SAFETY: the key was created above and is never deleted; nobody follows the value.
    key.is_some_and(|key| unsafe { libc::pthread_setspecific(key, value) } == 0)
}

/// Has what the thread then still has of any machine's slots given back when it exits, but for its leases, which are in any case.
#[cold]
pub(crate) fn release_at_exit() {
    if !SHARED.get() && !EXITING.get() && watch_exit() {
        SHARED.set(true);
    }
}

/// Ends all leases of the thread, and its registration with the kernel. From here on it shares.
extern "C" fn exit(_: *mut c_void) {
    // Destructors of keys are called in rounds. Others may pin in the first, and where Rust's thread-locals hang on a
    // key themselves, theirs are among them.
    if !EXITING.replace(true) && watch_exit() {
        return;
    }
    let _held = interrupts::hold();
    never();
    forget_current();
    let marks = [Some(mark()), rseq::mark()];
    rseq::part();
    let leases = LEASES.with(|leases| leases.try_borrow_mut().map(|mut leases| std::mem::take(&mut **leases)));
    for lease in leases.into_iter().flatten() {
        if let Some(cpus) = lease.cpus.upgrade() {
            cpus.end_lease(lease.place);
        }
    }
    if SHARED.take() {
        marks.into_iter().flatten().for_each(fork::release_all);
    }
}
