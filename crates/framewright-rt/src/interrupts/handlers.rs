//! Handlers of signals: set, called by the kernel, and raised by a call.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::deferral::{DEFERRED, Due, HERE, Handler, LOST, QUEUE, Signal};
use super::mask::{Errno, SIGNALS, SYNCHRONOUS, block, deferrable, errno};

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
