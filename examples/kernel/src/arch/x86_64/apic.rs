//! The local APIC: this CPU's timer, and interrupts to other CPUs. And the clock, which the first CPU calibrates.
//!
//! The xAPIC's registers lie in memory. An interrupt to another CPU takes two writes, so it is sent with interrupts
//! off. NMI handlers send none.

use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::cpu;
use super::instructions::{irq_restore, irq_save, read_port, time_stamp, write_port};
use super::interrupts::vector;
use crate::events::Message;

static BASE: AtomicUsize = AtomicUsize::new(0);
static TICKS_PER_MILLISECOND: AtomicU64 = AtomicU64::new(1);

/// Registers, by their offset.
mod register {
    pub(super) const ID: usize = 0x20;
    pub(super) const TASK_PRIORITY: usize = 0x80;
    pub(super) const END_OF_INTERRUPT: usize = 0xb0;
    pub(super) const SPURIOUS_VECTOR: usize = 0xf0;
    pub(super) const COMMAND: usize = 0x300;
    pub(super) const COMMAND_TARGET: usize = 0x310;
    pub(super) const TIMER_VECTOR: usize = 0x320;
    pub(super) const TIMER_COUNT: usize = 0x380;
    pub(super) const TIMER_DIVISOR: usize = 0x3e0;
}

fn read(register: usize) -> u32 {
    // SAFETY: `set_base` noted where the registers are; reading them has no effect on memory.
    unsafe { ptr::read_volatile((BASE.load(Ordering::Relaxed) + register) as *const u32) }
}

fn write(register: usize, value: u32) {
    // SAFETY: as in `read`; the values written here make no device access memory.
    unsafe { ptr::write_volatile((BASE.load(Ordering::Relaxed) + register) as *mut u32, value) }
}

/// Notes where the registers are, silences the old interrupt controller, and calibrates the clock.
///
/// Context: the first CPU, once.
pub(super) fn set_base(base: usize) {
    BASE.store(base, Ordering::Relaxed);
    for mask in [0x21, 0xa1] {
        write_port(mask, 0xff);
    }
    TICKS_PER_MILLISECOND.store(ticks_in_50_milliseconds() / 50, Ordering::Relaxed);
}

/// Lets the third counter of the interval timer, at 1.193182 MHz, run down once.
fn ticks_in_50_milliseconds() -> u64 {
    const COUNT: u16 = 59_659;
    const CONTROL: u16 = 0x61;
    write_port(CONTROL, read_port(CONTROL) & !0b10 | 0b01);
    write_port(0x43, 0b1011_0000);
    let [low, high] = COUNT.to_le_bytes();
    write_port(0x42, low);
    write_port(0x42, high);
    let start = time_stamp();
    while read_port(CONTROL) & 1 << 5 == 0 {}
    time_stamp() - start
}

/// Switches this CPU's APIC on with its first timer interrupt, and notes its number in the CPU's area.
pub(crate) fn enable() {
    cpu::area(cpu::number()).apic.store(own_number(), Ordering::Relaxed);
    write(register::TASK_PRIORITY, 0);
    write(register::SPURIOUS_VECTOR, 0x100 | u32::from(vector::SPURIOUS));
    write(register::TIMER_DIVISOR, 0b0011); // by 16
    write(register::TIMER_VECTOR, vector::TIMER.into()); // once
    set_timer(160_000);
}

/// Returns the APIC number of this CPU.
pub(crate) fn own_number() -> u8 {
    (read(register::ID) >> 24) as u8
}

/// Sets this CPU's timer to one interrupt, after about so much time: the bus of QEMU's machine has 1 GHz.
pub(crate) fn set_timer(nanoseconds: u64) {
    write(register::TIMER_COUNT, (nanoseconds / 16).try_into().unwrap_or(u32::MAX));
}

/// Lets the APIC deliver further interrupts.
pub(super) fn end_of_interrupt() {
    write(register::END_OF_INTERRUPT, 0);
}

/// Sends a message to another CPU.
///
/// Context: not in an NMI.
pub(crate) fn send(cpu: usize, message: Message) {
    let command = match message {
        Message::Nmi => 0x4400,
        Message::Fence => 0x4000 | u32::from(vector::FENCE),
    };
    send_command(cpu::area(cpu).apic.load(Ordering::Relaxed), command);
}

/// Resets the CPU with an APIC number.
pub(super) fn send_init(apic: u8) {
    send_command(apic, 0x4500);
}

/// Makes the CPU with an APIC number begin in real mode at a page below 1 MiB.
pub(super) fn send_start(apic: u8, address: usize) {
    send_command(apic, 0x4600 | (address >> 12) as u32);
}

fn send_command(apic: u8, command: u32) {
    let saved = irq_save();
    write(register::COMMAND_TARGET, u32::from(apic) << 24);
    write(register::COMMAND, command);
    while read(register::COMMAND) & 1 << 12 != 0 {} // until it is on its way
    irq_restore(saved);
}

/// Returns the nanoseconds since the machine began.
pub(crate) fn nanoseconds() -> u64 {
    let (count, millisecond) = (time_stamp(), TICKS_PER_MILLISECOND.load(Ordering::Relaxed).max(1));
    count / millisecond * 1_000_000 + count % millisecond * 1_000_000 / millisecond
}

/// Waits for some nanoseconds without giving way.
pub(super) fn wait(time: u64) {
    let end = nanoseconds() + time;
    while nanoseconds() < end {
        core::hint::spin_loop();
    }
}
