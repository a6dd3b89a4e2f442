//! The console, and the way out.
//!
//! Rejected: interrupts of the port. Printing is rare here, and it must work in a panic.

use core::fmt::{self, Write};

use crate::arch;
use crate::lock::Lock;

static CONSOLE: Lock<Console> = Lock::new(Console);

/// The serial port, polled.
pub(crate) struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            arch::put(byte);
        }
        Ok(())
    }
}

/// Prints one line, or several, that no other CPU's output divides.
///
/// Context: not in an NMI, which may have interrupted the lock's holder.
pub(crate) fn print(text: fmt::Arguments<'_>) {
    // The console has no errors.
    let _ = CONSOLE.lock().write_fmt(text);
}

/// Prints without the lock, from any context, and ends the machine: something is wrong.
pub(crate) fn die(text: fmt::Arguments<'_>) -> ! {
    let _ = writeln!(Console, "\nkernel: {text}");
    exit(Outcome::Wrong)
}

/// Like [`die`], for a machine or a command line that this kernel cannot run with.
pub(crate) fn refuse(text: fmt::Arguments<'_>) -> ! {
    let _ = writeln!(Console, "\nkernel: {text}");
    exit(Outcome::Refused)
}

/// How a run ends: the exit status of QEMU, which x86-64 makes odd.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    Right = 33,
    Wrong = 35,
    Refused = 37,
}

/// Ends the machine.
pub(crate) fn exit(outcome: Outcome) -> ! {
    arch::exit(outcome as u8)
}

/// Prints a line.
macro_rules! println {
    ($($text:tt)*) => { $crate::serial::print(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use println;
