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

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, compiler_fence};

use crate::current;

/// Signals by number: 1 to 64, as far as Linux has them.
const SIGNALS: c_int = 64;
/// Signals that the processor causes, or that must not wait for another reason.
const SYNCHRONOUS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];
/// Entries that can wait in a thread: one signal, and one less raised handlers than this.
const QUEUE: usize = 8;

/// Why a handler runs. The default is that of a handler raised with 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Signal {
    number: c_int,
    code: c_int,
    value: usize,
}

impl Signal {
    const NONE: Signal = Signal { number: 0, code: 0, value: 0 };

    /// The signal's number; 0 if it was raised by [`raise`].
    pub const fn number(&self) -> i32 {
        self.number
    }

    /// Where it comes from, as in `si_code`; 0 if it was raised by [`raise`].
    pub const fn code(&self) -> i32 {
        self.code
    }

    /// Value sent with it, by `sigqueue`, a timer or [`raise`]; otherwise 0.
    pub const fn value(&self) -> usize {
        self.value
    }
}

/// Code that runs in an interrupt.
pub type Handler = fn(&Signal);

/// Outcome of raising a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raised {
    /// It ran, and has ended.
    Ran,
    /// It runs when the section in which the thread is has ended, or the handler that runs there.
    Deferred,
}

/// Why a handler was not set, or did not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InterruptError {
    /// The signal cannot wait, for the processor reports something with it: its number.
    Synchronous(i32),
    /// The kernel allows no handler for the signal.
    Refused {
        /// The signal's number.
        signal: i32,
        /// The error number.
        errno: i32,
    },
    /// As many handlers as there can be wait in this thread already.
    Full,
}

impl fmt::Display for InterruptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            InterruptError::Synchronous(signal) => {
                write!(f, "signal {signal} reports what the processor met, and cannot wait: it has no handler here")
            }
            InterruptError::Refused { signal, errno } => {
                write!(f, "no handler for signal {signal}: {}", std::io::Error::from_raw_os_error(errno))
            }
            InterruptError::Full => write!(f, "{} handlers wait in this thread already", QUEUE - 1),
        }
    }
}

impl std::error::Error for InterruptError {}

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
static DEFERRED: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns the counts of this process so far.
pub fn counts() -> Counts {
    Counts { ran: RAN.load(Relaxed), deferred: DEFERRED.load(Relaxed), lost: LOST.load(Relaxed) }
}

/// The handler of each signal.
static HANDLERS: [AtomicPtr<()>; SIGNALS as usize + 1] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; SIGNALS as usize + 1];

/// A signal's handler. Dropping it restores the signal's earlier action.
///
/// A handler that runs or waits at that moment still runs.
#[derive(Debug)]
#[must_use = "the handler goes when this is dropped"]
pub struct Handling {
    signal: c_int,
    before: libc::sigaction,
}

/// Lets `handler` run in an interrupt of any thread that gets `signal`.
///
/// # Errors
/// The signal is one that cannot wait, or the kernel refuses.
///
/// # Safety
/// The handler does only what POSIX allows in a signal handler, and calls allocators of machines with interrupts. It
/// does not unwind.
pub unsafe fn handle(signal: i32, handler: Handler) -> Result<Handling, InterruptError> {
    if SYNCHRONOUS.contains(&signal) {
        return Err(InterruptError::Synchronous(signal));
    }
    let refused = |errno| InterruptError::Refused { signal, errno };
    let entry = usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal)).ok_or(refused(libc::EINVAL))?;
    let replaced = entry.swap(handler as *mut (), SeqCst);
    let (mut action, mut before) = (MaybeUninit::<libc::sigaction>::zeroed(), MaybeUninit::<libc::sigaction>::zeroed());
    let function: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = arrive;
    // SAFETY: an action of zeros is one without flags, and all fields that the kernel reads are set. `arrive` stays
    // loaded as long as this code, and the caller promises that the handler may run at any time.
    let status = unsafe {
        let action = &mut *action.as_mut_ptr();
        action.sa_sigaction = function as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        deferrable().for_each(|signal| {
            libc::sigaddset(&raw mut action.sa_mask, signal);
        });
        libc::sigaction(signal, action, before.as_mut_ptr())
    };
    if status != 0 {
        entry.store(replaced, SeqCst);
        return Err(refused(errno()));
    }
    // SAFETY: zeros are valid, and the kernel has filled it.
    Ok(Handling { signal, before: unsafe { before.assume_init() } })
}

impl Drop for Handling {
    fn drop(&mut self) {
        // The entry stays: a signal may be on its way.
        // SAFETY: this action was valid for the signal before.
        let _ = unsafe { libc::sigaction(self.signal, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Runs `handler` as an interrupt of the calling thread, with `value`.
///
/// It runs now, or when the thread's section has ended. From any context, also from a signal handler that this code did
/// not set.
///
/// # Errors
/// [`InterruptError::Full`]: nothing happened.
///
/// # Safety
/// As of [`handle`].
pub unsafe fn raise(handler: Handler, value: usize) -> Result<Raised, InterruptError> {
    HERE.with(|here| {
        // The last entry is a signal's.
        if here.waiting() >= QUEUE as u32 - 1 {
            return Err(InterruptError::Full);
        }
        let is_first = here.blocked.load(Relaxed) == 0;
        here.note(Due { handler, signal: Signal { value, ..Signal::NONE } });
        if !here.run_now() {
            DEFERRED.fetch_add(1, Relaxed);
            return Ok(Raised::Deferred);
        }
        if is_first {
            // Signals that came meanwhile have blocked others here.
            here.lift();
        }
        Ok(Raised::Ran)
    })
}

/// Whether the calling thread is in an interrupt: in a handler of [`handle`] or [`raise`].
pub fn is_in() -> bool {
    HERE.with(|here| here.inside.load(Relaxed))
}

/// All signals that can be held back.
fn deferrable() -> impl Iterator<Item = c_int> {
    (1..=SIGNALS).filter(|signal| !SYNCHRONOUS.contains(signal))
}

/// A handler that will run, and why.
#[derive(Clone, Copy)]
struct Due {
    handler: Handler,
    signal: Signal,
}

/// A thread's state of its interrupts.
struct Here {
    /// How many guards hold them off: sections of an allocator's ([`Section`]), and others.
    held: AtomicU32,
    /// How many of these are others ([`Held`]), under which the thread may call an allocator.
    apart: AtomicU32,
    /// An entry was noted: the code that drops the last guard must act.
    noted: AtomicBool,
    /// A handler runs.
    inside: AtomicBool,
    /// How many handlers were noted, and how many of these were begun. Both wrap around.
    came: AtomicU32,
    begun: AtomicU32,
    /// Signals that were added to the thread's mask, a bit each.
    blocked: AtomicU64,
    queue: [Cell<Due>; QUEUE],
}

thread_local! {
    static HERE: Here = const {
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
    fn waiting(&self) -> u32 {
        self.came.load(Relaxed).wrapping_sub(self.begun.load(Relaxed))
    }

    /// Puts a handler into the queue.
    ///
    /// Another call may interrupt this one anywhere: the entry is reserved first, and filled then.
    fn note(&self, due: Due) {
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
    fn run_now(&self) -> bool {
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
    fn lift(&self) {
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
    let _errno = Errno(errno());
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

/// The handler that the kernel calls.
extern "C" fn arrive(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let entry = usize::try_from(number).ok().and_then(|number| HANDLERS.get(number));
    let Some(handler) = entry.map(|entry| entry.load(SeqCst)).filter(|handler| !handler.is_null()) else { return };
    // SAFETY: not null, so `handle` has put it there.
    let handler = unsafe { std::mem::transmute::<*mut (), Handler>(handler) };
    // SAFETY: the kernel's own.
    let signal = unsafe { signal(number, &*info) };
    HERE.with(|here| {
        if here.waiting() >= QUEUE as u32 {
            LOST.fetch_add(1, Relaxed);
            return;
        }
        let is_first = here.blocked.load(Relaxed) == 0;
        here.note(Due { handler, signal });
        if !here.run_now() {
            let _errno = Errno(errno());
            DEFERRED.fetch_add(1, Relaxed);
            // SAFETY: the context is the kernel's, and a handler may change it.
            let added = unsafe { block(context.cast()) };
            here.blocked.fetch_or(added, Relaxed);
        } else if is_first {
            // Signals that a handler let through have blocked others here, until the return.
            here.blocked.store(0, Relaxed);
            here.noted.store(false, Relaxed);
        }
    });
}

/// # Safety
/// `info` is the kernel's information about a signal.
unsafe fn signal(number: c_int, info: &libc::siginfo_t) -> Signal {
    let has_value = [libc::SI_QUEUE, libc::SI_TIMER, libc::SI_MESGQ, libc::SI_ASYNCIO].contains(&info.si_code);
    // SAFETY: signals of these codes carry a value.
    let value = if has_value { unsafe { info.si_value() }.sival_ptr.addr() } else { 0 };
    Signal { number, code: info.si_code, value }
}

/// Blocks all signals that can be blocked in the interrupted code.
///
/// Returns those that were not blocked before, a bit each.
///
/// # Safety
/// `context` is the kernel's, of a handler that has not returned yet.
unsafe fn block(context: *mut libc::ucontext_t) -> u64 {
    // SAFETY: the kernel's mask has 64 bits, of which these functions touch the one they are asked about.
    unsafe {
        let mask = &raw mut (*context).uc_sigmask;
        let open = deferrable().filter(|&signal| libc::sigismember(mask, signal) == 0);
        open.filter(|&signal| libc::sigaddset(mask, signal) == 0).fold(0, |added, signal| added | 1 << (signal - 1))
    }
}

/// Lets these signals come.
fn unblock(signals: u64) {
    let _errno = Errno(errno());
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a set of zeros is empty; only this thread's mask changes.
    unsafe {
        for signal in deferrable().filter(|signal| signals & 1 << (signal - 1) != 0) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

fn errno() -> c_int {
    // SAFETY: the thread's own error number.
    unsafe { *libc::__errno_location() }
}

/// Keeps the thread's error number as it was.
struct Errno(c_int);

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
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
/// No allocator calls other code from there. So a caller that finds it so is a signal handler that [`handle`] did not
/// set, or a hook that must not call.
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
