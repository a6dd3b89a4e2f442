//! The interrupt controller GICv2: this CPU's interrupts, and interrupts to other CPUs.
//!
//! It has no NMIs. FIQs take their place:
//!
//! | group | signalled as | here | held off by |
//! |---|---|---|---|
//! | 0, higher priority | FIQ | [`id::NMI`] | the stubs, for some instructions; a running NMI |
//! | 1 | IRQ | timer, [`id::FENCE`] | `irq_save`, handlers, and what holds FIQs off |
//!
//! That holds where no other software owns group 0, which is so on `virt` without EL3. With EL3 group 0 is the secure
//! world's, and a GICv3 masks by priority instead.
//!
//! An acknowledgement returns the interrupt that comes first, of either group. So the handler of an IRQ may meet the
//! NMI that came at this moment, and treats it as what it is.

use core::ptr;
use core::sync::atomic::{AtomicU8, Ordering, fence};

use super::{clock, cpu, instructions};
use crate::cpu::MAX_CPUS;
use crate::events::Message;

const DISTRIBUTOR: usize = 0x0800_0000;
const INTERFACE: usize = 0x0801_0000;

/// Registers. Those of the distributor are this CPU's own, as far as they concern interrupts below 32.
mod register {
    use super::{DISTRIBUTOR, INTERFACE};

    pub(super) const DISTRIBUTOR_CONTROL: usize = DISTRIBUTOR;
    pub(super) const GROUPS: usize = DISTRIBUTOR + 0x80;
    pub(super) const ENABLE: usize = DISTRIBUTOR + 0x100;
    pub(super) const PRIORITIES: usize = DISTRIBUTOR + 0x400;
    pub(super) const TARGETS: usize = DISTRIBUTOR + 0x800;
    pub(super) const SEND: usize = DISTRIBUTOR + 0xf00;
    pub(super) const CONTROL: usize = INTERFACE;
    pub(super) const PRIORITY_MASK: usize = INTERFACE + 0x4;
    pub(super) const ACKNOWLEDGE: usize = INTERFACE + 0xc;
    pub(super) const END: usize = INTERFACE + 0x10;
}

/// Interrupts, by number: those below 16 are sent by CPUs, from 16 on come those of the CPU's own devices.
pub(super) mod id {
    pub(crate) const NMI: u32 = 0;
    pub(crate) const FENCE: u32 = 1;
    pub(crate) const TIMER: u32 = 27;
    /// From here on: nothing to acknowledge.
    pub(crate) const NONE: u32 = 1020;
}

/// The bit by which each CPU is addressed.
static TARGETS: [AtomicU8; MAX_CPUS] = [const { AtomicU8::new(0) }; MAX_CPUS];

fn read(register: usize) -> u32 {
    // SAFETY: `virt` has the registers there, mapped as device memory; reading them has no effect on memory.
    unsafe { ptr::read_volatile(register as *const u32) }
}

fn write(register: usize, value: u32) {
    // SAFETY: as in `read`; no device accesses memory by the values written here.
    unsafe { ptr::write_volatile(register as *mut u32, value) }
}

/// Lets the distributor forward interrupts of both groups. Context: the first CPU, once.
pub(super) fn distribute() {
    write(register::DISTRIBUTOR_CONTROL, 0b11);
}

/// Switches this CPU's interrupts on with its first timer interrupt, and FIQs at once.
pub(crate) fn enable() {
    TARGETS[cpu::number()].store(read(register::TARGETS) as u8, Ordering::Relaxed);
    write(register::GROUPS, !(1 << id::NMI));
    // A byte each: the lowest number comes first.
    (0..8).for_each(|word| write(register::PRIORITIES + 4 * word, 0x8080_8080));
    write(register::PRIORITIES, 0x8080_8000);
    write(register::ENABLE, 1 << id::NMI | 1 << id::FENCE | 1 << id::TIMER);
    write(register::PRIORITY_MASK, 0xf0);
    // Both groups; one acknowledgement for both; group 0 as FIQ.
    write(register::CONTROL, 0b1111);
    clock::set_timer(160_000);
    instructions::enable_fiqs();
}

/// Sends a message to another CPU, which is seen there after what the caller has written.
pub(crate) fn send(cpu: usize, message: Message) {
    let id = match message {
        Message::Nmi => id::NMI,
        Message::Fence => id::FENCE,
    };
    fence(Ordering::SeqCst);
    write(register::SEND, u32::from(TARGETS[cpu].load(Ordering::Relaxed)) << 16 | id);
}

/// Acknowledges the interrupt that comes first; returns the value for [`end`], whose lowest ten bits are its number.
pub(super) fn acknowledge() -> u32 {
    read(register::ACKNOWLEDGE)
}

/// Ends an interrupt: others of its priority may come.
pub(super) fn end(acknowledged: u32) {
    write(register::END, acknowledged);
}
