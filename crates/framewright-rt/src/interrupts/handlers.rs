//! Handlers of signals: set, called by the kernel, and raised by a call.
//!
//! # Why the unsafe code is right
//!
//! A handler may run between any two instructions, so setting one is unsafe ([`handle`], [`raise`]): its author
//! promises that it does only what POSIX allows there. The kernel calls [`arrive`] alone, with its own information and
//! context, which are the handler's until it returns. `arrive` finds the program's handler in [`HANDLERS`], where only
//! `handle` puts addresses, and each is that of a function of this type. [`exchange`] is given actions that it returned
//! before, or such with `arrive` in them.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use super::deferral::{DEFERRED, Due, HERE, Handler, LOST, QUEUE, Signal};
use super::handler_word::HandlerWord;
use super::mask::{KeptErrno, SIGNALS, SYNCHRONOUS, block, deferrable, set_of};

/// Outcome of raising a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raised {
    /// It ran, and has ended.
    Ran,
    /// It runs when the section in which the thread is has ended, or the handler that runs there.
    Deferred,
}

/// Why a handler was not set, or did not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
#[non_exhaustive]
pub enum InterruptError {
    /// The signal cannot wait, for the processor reports something with it: its number.
    #[error("signal {0} reports what the processor met, and cannot wait: it has no handler here")]
    Synchronous(i32),
    /// The kernel allows no handler for the signal; the error number.
    #[error("no handler for signal {signal}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Refused { signal: i32, errno: i32 },
    /// As many handlers as there can be wait in this thread already.
    #[error("{} handlers wait in this thread already", QUEUE - 1)]
    Full,
}

/// The handler of each signal.
static HANDLERS: [HandlerWord<AtomicPtr<()>>; SIGNALS as usize + 1] =
    [const { HandlerWord(AtomicPtr::new(std::ptr::null_mut())) }; SIGNALS as usize + 1];

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
    let replaced = entry.replace(handler as *mut ());
    let function: extern "C" fn(c_int, &libc::siginfo_t, &mut libc::ucontext_t) = arrive;
    let set = exchange(signal, None).and_then(|mut action| {
        action.sa_sigaction = function as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        action.sa_mask = set_of(deferrable());
        exchange(signal, Some(&action))
    });
    if set.is_err() {
        entry.put_back(replaced);
    }
    set.map(|before| Handling { signal, before }).map_err(refused)
}

/// Replaces a signal's action, if there is a new one. Returns the one before, or the error number.
fn exchange(signal: c_int, action: Option<&libc::sigaction>) -> Result<libc::sigaction, c_int> {
    let mut before = MaybeUninit::zeroed();
    let action = action.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel reads the action and fills `before`, of which zeros are valid too. A new action was the
    // signal's before, or is `arrive`, which stays loaded as long as this code. The caller of `handle` promises that
    // its handler may run at any time.
    let (status, before) = unsafe { (libc::sigaction(signal, action, before.as_mut_ptr()), before.assume_init()) };
    if status == 0 { Ok(before) } else { Err(errno::errno().0) }
}

impl Drop for Handling {
    fn drop(&mut self) {
        // The entry stays: a signal may be on its way.
        let _ = exchange(self.signal, Some(&self.before));
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

/// The handler that the kernel calls. Both references are to its own memory, until this returns.
extern "C" fn arrive(number: c_int, info: &libc::siginfo_t, context: &mut libc::ucontext_t) {
    let entry = usize::try_from(number).ok().and_then(|number| HANDLERS.get(number));
    let Some(handler) = entry.and_then(HandlerWord::get) else { return };
    // SAFETY: not null, so `handle` has put it there.
    let handler = unsafe { std::mem::transmute::<*mut (), Handler>(handler.as_ptr()) };
    let signal = signal(number, info);
    HERE.with(|here| {
        if here.waiting() >= QUEUE as u32 {
            LOST.fetch_add(1, Relaxed);
            return;
        }
        let is_first = here.blocked.load(Relaxed) == 0;
        here.note(Due { handler, signal });
        if !here.run_now() {
            let _errno = KeptErrno::new();
            DEFERRED.fetch_add(1, Relaxed);
            here.blocked.fetch_or(block(context), Relaxed);
        } else if is_first {
            // Signals that a handler let through have blocked others here, until the return.
            here.blocked.store(0, Relaxed);
            here.noted.store(false, Relaxed);
        }
    });
}

/// The kernel's information about a signal.
fn signal(number: c_int, info: &libc::siginfo_t) -> Signal {
    let has_value = [libc::SI_QUEUE, libc::SI_TIMER, libc::SI_MESGQ, libc::SI_ASYNCIO].contains(&info.si_code);
    // SAFETY: signals of these codes carry a value.
    let value = if has_value { unsafe { info.si_value() }.sival_ptr.addr() } else { 0 };
    Signal { number, code: info.si_code, value }
}
