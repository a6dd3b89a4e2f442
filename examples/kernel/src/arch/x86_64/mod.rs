//! x86-64: PVH entry, ACPI, local APICs, `%gs`, and NMIs that are NMIs.
//!
//! The files stand below in the order in which the machine comes up. `main.rs` says what each name below means.

mod boot; // the first instructions of every CPU
mod instructions; // those that Rust has no name for
mod console; // the serial port, and the way out
mod pvh; // what the loader tells: memory, command line
mod acpi; // which CPUs there are
mod cpu; // a CPU's own words in %gs: number, preemption, context
mod interrupts; // the table, the stubs, where vectors lead
mod apic; // timer, interrupts to other CPUs, the clock
mod wake; // the other CPUs
#[cfg(not(target_os = "none"))]
mod memory_functions; // memcpy and others, for the host's target

pub(crate) use apic::{enable, nanoseconds, own_number as own_name, send, set_timer};
pub(crate) use console::{exit, put};
pub(crate) use cpu::{end_pin, is_preemptible, number, pin, running, set_running};
pub(crate) use instructions::{enable_interrupts, irq_restore, irq_save, is_interruptible, wait_for_interrupt};
pub(crate) use interrupts::{Frame, give_way};
pub(crate) use pvh::Loaded;
pub(crate) use wake::wake;

use crate::serial;

/// What firmware calls a CPU: the number of its local APIC.
pub(crate) type Name = u8;

/// End of the physical memory that the page tables map.
pub(crate) const MAPPED: u64 = 512 << 30;

/// Makes the calling CPU the CPU of that number.
///
/// Context: once for each CPU, first of all, with interrupts off; the first CPU is the first to call.
pub(crate) fn enter(number: usize) {
    cpu::enter(number);
    if number == 0 {
        interrupts::fill();
    }
    interrupts::load();
}

/// Finds the interrupt controllers and calibrates the clock; calls `visit` with the name of each CPU.
///
/// Context: the first CPU, once.
pub(crate) fn prepare(loaded: Loaded, visit: impl FnMut(Name)) {
    let Some(base) = acpi::cpus(loaded.acpi_root(), visit) else {
        serial::refuse(format_args!("firmware has no table of CPUs"))
    };
    apic::set_base(base);
}
