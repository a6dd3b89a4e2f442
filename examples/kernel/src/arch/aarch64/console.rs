//! The first serial port of `virt`, a PL011, polled. And the way out: semihosting, by which QEMU exits with a status.

use core::arch::asm;
use core::ptr;

use super::instructions::halt;

const PORT: usize = 0x0900_0000;
const DATA: usize = PORT;
const FLAGS: usize = PORT + 0x18;
const CONTROL: usize = PORT + 0x30;
/// Flag: the queue of bytes to send is full.
const FULL: u32 = 1 << 5;

/// Switches the port and its sender on. Context: the first CPU, before the first byte.
pub(super) fn enable() {
    // SAFETY: `virt` has the port's registers there, mapped as device memory.
    unsafe { ptr::write_volatile(CONTROL as *mut u32, 0x101) };
}

/// Writes a byte to the port.
pub(crate) fn put(byte: u8) {
    // SAFETY: as in `enable`.
    unsafe {
        while ptr::read_volatile(FLAGS as *const u32) & FULL != 0 {}
        ptr::write_volatile(DATA as *mut u32, byte.into());
    }
}

/// Ends the machine; `status` is QEMU's exit status.
pub(crate) fn exit(status: u8) -> ! {
    const SYS_EXIT: usize = 0x18;
    const APPLICATION_EXIT: u64 = 0x20026;
    let reason = [APPLICATION_EXIT, status.into()];
    // SAFETY: the call of semihosting reads the two words and does not return.
    unsafe { asm!("hlt #0xf000", in("x0") SYS_EXIT, in("x1") &raw const reason, options(nostack)) };
    halt()
}
