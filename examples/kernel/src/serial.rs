//! The console: the first serial port, polled. And the way out: QEMU's device `isa-debug-exit`.
//!
//! Rejected: interrupts of the port. Printing is rare here, and it must work in a panic.

use core::fmt::{self, Write};

use crate::instructions::{halt, read_port, write_port};
use crate::lock::Lock;

const PORT: u16 = 0x3f8;
const LINE_STATUS: u16 = PORT + 5;
const READY: u8 = 1 << 5;
const EXIT: u16 = 0xf4;

static CONSOLE: Lock<Console> = Lock::new(Console);

/// The serial port.
pub(crate) struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while read_port(LINE_STATUS) & READY == 0 {}
            write_port(PORT, byte);
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

/// How a run ends; QEMU exits with twice the number and 1.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    Right = 0x10,
    Wrong = 0x11,
    Refused = 0x12,
}

/// Ends the machine.
pub(crate) fn exit(outcome: Outcome) -> ! {
    write_port(EXIT, outcome as u8);
    halt()
}

/// Prints a line.
macro_rules! println {
    ($($text:tt)*) => { $crate::serial::print(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use println;
