//! Signal handlers that allocate and free.
//!
//! A signal is to a thread what an interrupt is to a CPU. Its handler runs between any two instructions, and the
//! interrupted code goes on only when the handler has ended. So two things must not happen. A handler must not wait for
//! a lock that its own thread holds, and must not change lists that its own thread is changing.
//!
//! | | how it is kept from happening |
//! |---|---|
//! | locks | a flag of the thread, up while it holds one ([`framewright::Machine::irq_save`]): handlers wait |
//! | lists | a handler has another CPU than the thread ([`crate::Native::with_interrupts`]): no flag, no check |
//!
//! A signal that comes while the flag is up is noted, and its handler runs when the flag goes down. The flag costs a
//! load and two stores. Masking signals for the section instead is two system calls, 251 ns.
//!
//! # The rules
//!
//! - A handler is set by [`handle`], or is called by [`raise`]. Only there may it call an allocator, and only one whose
//!   machine was made with interrupts; others answer "no CPU".
//! - **A handler that was set by other means must not call an allocator**, as it must not call `malloc`. Neither is
//!   safe in a signal handler, and setting one is `unsafe`. No call can tell that it is in one, so this is not checked.
//!   One case is caught: a call inside a section under a lock of its own thread does not wait, because it would wait
//!   for itself. A request is refused ([`framewright::AllocError::InInterrupt`]); a free is left to the next holder of
//!   the zone's lock.
//! - A handler runs at once, or at the end of the section in which the signal came; in its own thread in either case.
//! - **Handlers do not nest.** While one runs, or waits to run, the kernel holds back all further signals of the
//!   thread. POSIX has rules for blocked signals: one of each standard number is kept; real-time signals queue up with
//!   their values, up to the kernel's limit. A handler that is raised meanwhile waits too.
//! - Signals by which the processor reports a fault (`SIGSEGV` and its like) cannot wait, so they have no handler here.
//! - A handler allocates only from such an allocator. It takes no lock that others hold while they are interrupted, and
//!   does not fork, panic or jump. `errno` is kept for it.
//!
//! # How
//!
//! The kernel calls `arrive`. It notes the signal in the thread's queue, and runs the queue unless the flag is up or a
//! handler runs already. Otherwise it adds all other signals to the mask that the interrupted code returns with, so
//! that no second one comes. So the queue needs one entry for signals, and nothing is lost. The code that takes the
//! flag down checks whether a signal was noted, runs it, and lifts the mask. That is the only system call of all this,
//! one for each signal that met a section.
//!
//! All of this belongs to one thread and its own handlers, so a compiler fence orders it. The words are atomics for
//! that reason alone. Thread-locals are constant-initialised and have no destructors, so a handler can use them at any
//! time.
//!
//! Rejected: noting any number of signals, which would need a bound and a rule for losses beyond it. Handlers that nest
//! would each need a CPU of their own.

mod handlers;
mod deferral;
mod handler_word;
mod mask;

pub use deferral::{Counts, Handler, Held, Section, Signal, counts, hold, is_in};
pub(crate) use deferral::{forget, is_in_section, section};
pub use handlers::{Handling, InterruptError, Raised, handle, raise};
pub(crate) use mask::block_all;
