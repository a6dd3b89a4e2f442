//! Signal handlers of a C program that allocate and free.
//!
//! The runtime calls handlers of its own kind ([`framewright_rt::interrupts`]). One handler here serves all signals,
//! and calls the C function that the table has for the signal's number.
#![allow(unsafe_code, reason = "a C function is called by its address; each block says why it is one")]
#![allow(non_camel_case_types, reason = "names of the C interface")]

use std::ffi::c_int;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};

use framewright_rt::interrupts::{Handling, InterruptError, Signal, handle};

use crate::boundary::guarded;
use crate::errno;
use framewright_ffi::numbers::{FW_E_OPTION, FW_E_OS};

/// A function that is called for a signal, with the signal's number and the value that came with it.
///
/// It does what POSIX allows in a handler, and calls arenas with FW_OPTION_INTERRUPTS.
pub type fw_signal_handler = Option<unsafe extern "C" fn(signal: c_int, value: usize)>;

/// Signals have numbers below this one.
const SIGNALS: usize = 65;

/// The C function of each signal.
static FUNCTIONS: [AtomicPtr<()>; SIGNALS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; SIGNALS];
/// What restores the signals' earlier actions.
static SET: Mutex<[Option<Handling>; SIGNALS]> = Mutex::new([const { None }; SIGNALS]);

/// Sets the handler of a signal that may allocate and free; NULL restores the signal's earlier action.
///
/// A handler set in another way must not call the library. A signal that arrives while its thread changes an arena
/// waits until that is done.
///
/// @return 0; FW_E_OPTION for a signal that reports a fault and cannot wait (SIGSEGV), or that does not exist; FW_E_OS
///         if the system refuses.
///
/// Threads: any; not in a signal handler.
///
/// # Safety
/// The handler keeps to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_on_signal(signal: c_int, handler: fw_signal_handler) -> c_int {
    guarded(|| {
        let number = usize::try_from(signal).ok().filter(|&number| number < SIGNALS).ok_or(FW_E_OPTION)?;
        let mut set = SET.lock().unwrap_or_else(PoisonError::into_inner);
        let (entry, restores) = (&FUNCTIONS[number], &mut set[number]);
        let Some(function) = handler else {
            *restores = None;
            return Ok(());
        };
        let before = entry.swap(function as *mut (), SeqCst);
        if restores.is_none() {
            // SAFETY: the caller's promise; `arrive` only calls the function of the table.
            *restores = Some(unsafe { handle(signal, arrive) }.map_err(|error| {
                entry.store(before, SeqCst);
                let InterruptError::Refused { errno, .. } = error else { return FW_E_OPTION };
                errno::set(errno);
                FW_E_OS
            })?);
        }
        Ok(())
    })
}

/// Calls the C function of a signal.
fn arrive(signal: &Signal) {
    let number = usize::try_from(signal.number()).ok();
    let function = number.and_then(|number| FUNCTIONS.get(number)).map(|function| function.load(SeqCst));
    if let Some(function) = function.filter(|function| !function.is_null()) {
        // SAFETY: not null, so `fw_on_signal` has put a function of this type there.
        unsafe {
            std::mem::transmute::<*mut (), unsafe extern "C" fn(c_int, usize)>(function)(
                signal.number(),
                signal.value(),
            )
        };
    }
}
