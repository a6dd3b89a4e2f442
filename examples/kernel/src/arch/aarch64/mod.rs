//! AArch64 at EL1 on QEMU's machine `virt`: PSCI, GICv2, generic timer, `TPIDR_EL1`, and FIQs for NMIs.
//!
//! The files stand below in the order in which the machine comes up. `main.rs` says what each name below means.
//! The addresses of the devices are those that `virt` has; a kernel for more than one board reads them from the device
//! tree too.

mod boot; // the first instructions of every CPU
mod instructions; // those that Rust has no name for
mod console; // the serial port, and the way out
mod device_tree; // what the loader tells: memory, command line, CPUs
mod cpu; // number, preemption and context, in system registers
mod clock; // the time, and this CPU's timer
mod gic; // interrupts of this CPU and to others
mod interrupts; // the vectors, and where they lead
mod wake; // the other CPUs

pub(crate) use clock::{nanoseconds, set_timer};
pub(crate) use console::{exit, put};
pub(crate) use cpu::{end_pin, is_preemptible, number, own_name, pin, running, set_running};
pub(crate) use device_tree::Loaded;
pub(crate) use gic::{enable, send};
pub(crate) use instructions::{enable_interrupts, irq_restore, irq_save, is_interruptible, wait_for_interrupt};
pub(crate) use interrupts::{Frame, give_way};
pub(crate) use wake::wake;

/// What firmware calls a CPU: its affinity in `MPIDR_EL1`.
pub(crate) type Name = u64;

/// End of the physical memory that the page table maps.
pub(crate) const MAPPED: u64 = 512 << 30;

/// Makes the calling CPU the CPU of that number.
///
/// Context: once for each CPU, first of all, with interrupts off.
pub(crate) fn enter(number: usize) {
    if number == 0 {
        console::enable();
    }
    cpu::enter(number);
}

/// Lets the interrupt controller distribute; calls `visit` with the name of each CPU.
///
/// Context: the first CPU, once.
pub(crate) fn prepare(loaded: Loaded, visit: impl FnMut(Name)) {
    gic::distribute();
    loaded.cpus().for_each(visit);
}
