//! A thread's handlers wait while it is in a section, and run when the section ends.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, compiler_fence};

use super::mask::{KeptErrno, unblock};
use crate::current;

/// Entries that can wait in a thread: one signal, and one less raised handlers than this.
pub(super) const QUEUE: usize = 8;

/// Why a handler runs. The default is that of a handler raised with 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Signal {
    pub(super) number: c_int,
    pub(super) code: c_int,
    pub(super) value: usize,
}

impl Signal {
    pub(super) const NONE: Signal = Signal { number: 0, code: 0, value: 0 };

    /// The signal's number; 0 if it was raised by [`raise`](super::raise).
    pub const fn number(&self) -> i32 {
        self.number
    }

    /// Where it comes from, as in `si_code`; 0 if it was raised by [`raise`](super::raise).
    pub const fn code(&self) -> i32 {
        self.code
    }

    /// Value sent with it, by `sigqueue`, a timer or [`raise`](super::raise); otherwise 0.
    pub const fn value(&self) -> usize {
        self.value
    }
}

/// Code that runs in an interrupt.
pub type Handler = fn(&Signal);

/// How often something happened in this process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Handlers ran.
    pub ran: u64,
    /// Handlers among these that had to wait for the end of a section or of another handler.
    pub deferred: u64,
    /// Signals were lost because something else than this code let them through while one waited.
    ///
    /// Stays 0.
    pub lost: u64,
}

static RAN: AtomicU64 = AtomicU64::new(0);
pub(super) static DEFERRED: AtomicU64 = AtomicU64::new(0);
pub(super) static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns the counts of this process so far.
pub fn counts() -> Counts {
    Counts { ran: RAN.load(Relaxed), deferred: DEFERRED.load(Relaxed), lost: LOST.load(Relaxed) }
}

/// Whether the calling thread is in an interrupt: in a handler of [`handle`](super::handle) or [`raise`](super::raise).
pub fn is_in() -> bool {
    HERE.with(|here| here.inside.load(Relaxed))
}

/// A handler that will run, and why.
#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) handler: Handler,
    pub(super) signal: Signal,
}

/// A thread's state of its interrupts.
pub(super) struct Here {
    /// How many guards hold them off: sections of an allocator's ([`Section`]), and others.
    held: AtomicU32,
    /// How many of these are others ([`Held`]), under which the thread may call an allocator.
    apart: AtomicU32,
    /// An entry was noted: the code that drops the last guard must act.
    pub(super) noted: AtomicBool,
    /// A handler runs.
    inside: AtomicBool,
    /// How many handlers were noted, and how many of these were begun. Both wrap around.
    came: AtomicU32,
    begun: AtomicU32,
    /// Signals that were added to the thread's mask, a bit each.
    pub(super) blocked: AtomicU64,
    queue: [Cell<Due>; QUEUE],
}

thread_local! {
    pub(super) static HERE: Here = const {
        Here {
            held: AtomicU32::new(0),
            apart: AtomicU32::new(0),
            noted: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            came: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            blocked: AtomicU64::new(0),
            queue: [const { Cell::new(Due { handler: nothing, signal: Signal::NONE }) }; QUEUE],
        }
    };
}

fn nothing(_: &Signal) {}

impl Here {
    pub(super) fn waiting(&self) -> u32 {
        self.came.load(Relaxed).wrapping_sub(self.begun.load(Relaxed))
    }

    /// Puts a handler into the queue.
    ///
    /// Another call may interrupt this one anywhere: the entry is reserved first, and filled then.
    pub(super) fn note(&self, due: Due) {
        // The queue is not run before it is filled.
        self.held.fetch_add(1, Relaxed);
        compiler_fence(SeqCst);
        let entry = self.came.fetch_add(1, Relaxed);
        if let Some(cell) = self.queue.get(entry as usize % QUEUE) {
            cell.set(due);
        }
        self.noted.store(true, Relaxed);
        compiler_fence(SeqCst);
        self.held.fetch_sub(1, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Runs the queue, unless a guard or a handler is in the way.
    ///
    /// Says whether there was neither.
    pub(super) fn run_now(&self) -> bool {
        if self.held.load(Relaxed) != 0 || self.inside.load(Relaxed) {
            return false;
        }
        // Again, if something was noted between the last look and the end of the interrupt.
        while self.waiting() != 0 {
            self.inside.store(true, Relaxed);
            compiler_fence(SeqCst);
            run(self);
            compiler_fence(SeqCst);
            self.inside.store(false, Relaxed);
            compiler_fence(SeqCst);
        }
        // A caller with blocked signals still has to unblock them.
        self.noted.store(self.blocked.load(Relaxed) != 0, Relaxed);
        true
    }

    /// The last guard is gone, and something was noted.
    #[cold]
    #[inline(never)]
    fn settle(&self) {
        if self.run_now() {
            self.lift();
        }
    }

    /// Unblocks the signals that were blocked in the running code.
    pub(super) fn lift(&self) {
        let blocked = self.blocked.swap(0, Relaxed);
        self.noted.store(false, Relaxed);
        compiler_fence(SeqCst);
        if blocked != 0 {
            unblock(blocked);
        }
    }
}

/// Runs the queue, on the interrupt's CPU.
///
/// By the C calling convention, so a panic ends the process here.
extern "C" fn run(here: &Here) {
    let _errno = KeptErrno::new();
    let outside = current::begin_interrupt();
    while here.waiting() != 0 {
        let entry = here.begun.load(Relaxed);
        let due = here.queue.get(entry as usize % QUEUE).map(Cell::get);
        here.begun.store(entry.wrapping_add(1), Relaxed);
        if let Some(Due { handler, signal }) = due {
            handler(&signal);
            RAN.fetch_add(1, Relaxed);
        }
    }
    current::end_interrupt(outside);
}

/// A fork's child: signals that waited were its parent's, as are those that are pending.
pub(crate) fn forget() {
    HERE.with(|here| {
        here.begun.store(here.came.load(Relaxed), Relaxed);
        here.noted.store(here.blocked.load(Relaxed) != 0, Relaxed);
    });
}

/// Returns whether the calling thread is in an allocator's section under a lock.
///
/// No allocator calls other code from there. So a caller that finds it so is a signal handler that
/// [`handle`](super::handle) did not set, or a hook that must not call.
pub(crate) fn is_in_section() -> bool {
    HERE.with(|here| here.held.load(Relaxed) > here.apart.load(Relaxed))
}

/// The thread's interrupts wait while it lives: it is in a section of an allocator's.
///
/// Must stay in its thread.
pub struct Section {
    /// An entry was noted before: the code that this guard interrupted will find it.
    is_late: bool,
    thread: PhantomData<*const ()>,
}

/// The thread's interrupts wait while it lives, and it may call allocators meanwhile.
///
/// Must stay in its thread.
pub struct Held {
    _section: Section,
}

/// Holds off the calling thread's interrupts.
///
/// In any context: an interruption leaves the thread's flag as it was.
pub fn hold() -> Held {
    let section = section();
    HERE.with(|here| here.apart.store(here.apart.load(Relaxed).wrapping_add(1), Relaxed));
    compiler_fence(SeqCst);
    Held { _section: section }
}

impl Drop for Held {
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        HERE.with(|here| here.apart.store(here.apart.load(Relaxed).wrapping_sub(1), Relaxed));
    }
}

/// As [`hold`], for a section in which no allocator is called.
#[inline]
pub(crate) fn section() -> Section {
    HERE.with(|here| {
        // Read before the flag is up: entries noted from then on are this guard's to run.
        let noted = here.noted.load(Relaxed);
        compiler_fence(SeqCst);
        let held = here.held.load(Relaxed);
        here.held.store(held.wrapping_add(1), Relaxed);
        compiler_fence(SeqCst);
        Section { is_late: held == 0 && noted, thread: PhantomData }
    })
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        HERE.with(|here| {
            let held = here.held.load(Relaxed).wrapping_sub(1);
            here.held.store(held, Relaxed);
            compiler_fence(SeqCst);
            if held == 0 && here.noted.load(Relaxed) && !self.is_late {
                here.settle();
            }
        });
    }
}
