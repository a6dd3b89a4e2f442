//! Interrupts and faults: the vectors, their stub, and where each leads.
//!
//! The stub saves the registers on the interrupt stack as a [`Frame`] and calls [`interrupt`]. The same frame is how
//! threads switch (`threads.rs`): the handler exchanges its contents, and the stub's end restores another thread.
//!
//! An exception turns IRQs and FIQs off. The handler of an IRQ turns FIQs on again: they use the same stack below it.
//! The stub's end turns them off before it restores the registers that an FIQ overwrites.

use core::arch::{asm, global_asm};

use super::{clock, gic, instructions};
use crate::events::{self, Event, Message};
use crate::serial;

/// Vectors: of a thread (`SP_EL0`), or of a handler (`SP_EL1`).
mod vector {
    pub(super) const CALL: u64 = 0;
    pub(super) const IRQ: u64 = 1;
    pub(super) const FIQ: u64 = 2;
    pub(super) const FIQ_IN_HANDLER: u64 = 6;
}

/// Vector registers that a frame has. Code for the target without them does not use them.
const VECTOR_REGISTERS: usize = if cfg!(target_feature = "neon") { 32 } else { 0 };

/// What an interrupt found in the registers, and what its end restores.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Frame {
    registers: [u64; 31],
    /// `SP_EL0`.
    stack: u64,
    /// `ELR_EL1`.
    instruction: u64,
    /// `SPSR_EL1`: flags, masks, and which stack pointer is used.
    state: u64,
    /// `TPIDR_EL0`: the thread's pins (`cpu.rs`).
    word: u64,
    /// `FPCR` and `FPSR`.
    vector_control: [u32; 2],
    vector_registers: [u128; VECTOR_REGISTERS],
}

impl Frame {
    /// No registers at all.
    pub(crate) const EMPTY: Frame = Frame {
        registers: [0; 31],
        stack: 0,
        instruction: 0,
        state: 0,
        word: 0,
        vector_control: [0; 2],
        vector_registers: [0; VECTOR_REGISTERS],
    };

    /// Returns the frame of a thread that calls `entry(argument)` on a stack that ends at `stack`, interrupts on.
    pub(crate) fn calling(entry: extern "C" fn(usize) -> !, argument: usize, stack: u64) -> Frame {
        // EL1 with `SP_EL0`; debug exceptions and system errors are off.
        let mut frame = Frame { instruction: entry as *const () as u64, state: 0x304, stack, ..Frame::EMPTY };
        frame.registers[0] = argument as u64;
        frame
    }
}

/// Lets another thread run now, by an exception.
pub(crate) fn give_way() {
    // SAFETY: the handler restores every register, and runs on a stack of its own.
    unsafe { asm!("svc #0") };
}

global_asm!(
    ".section .text.vectors, \"ax\"",
    ".balign 2048",
    ".global vectors",
    "vectors:",
    ".set vector, 0",
    ".rept 16",
    ".balign 128",
    "sub sp, sp, #{frame}",
    "stp x0, x1, [sp]",
    "mov x1, #vector",
    "b vectors_common",
    ".set vector, vector + 1",
    ".endr",
    //
    "vectors_common:",
    "stp x2, x3, [sp, #16]", "stp x4, x5, [sp, #32]", "stp x6, x7, [sp, #48]", "stp x8, x9, [sp, #64]",
    "stp x10, x11, [sp, #80]", "stp x12, x13, [sp, #96]", "stp x14, x15, [sp, #112]", "stp x16, x17, [sp, #128]",
    "stp x18, x19, [sp, #144]", "stp x20, x21, [sp, #160]", "stp x22, x23, [sp, #176]", "stp x24, x25, [sp, #192]",
    "stp x26, x27, [sp, #208]", "stp x28, x29, [sp, #224]",
    "mrs x2, sp_el0", "stp x30, x2, [sp, #240]",
    "mrs x2, elr_el1", "mrs x3, spsr_el1", "stp x2, x3, [sp, #256]",
    "mrs x2, tpidr_el0", "str x2, [sp, #272]",
    ".if {vectors}",
    "add x2, sp, #288", "mrs x3, fpcr", "mrs x4, fpsr", "stp w3, w4, [x2, #-8]",
    "stp q0, q1, [x2]", "stp q2, q3, [x2, #32]", "stp q4, q5, [x2, #64]", "stp q6, q7, [x2, #96]",
    "stp q8, q9, [x2, #128]", "stp q10, q11, [x2, #160]", "stp q12, q13, [x2, #192]", "stp q14, q15, [x2, #224]",
    "stp q16, q17, [x2, #256]", "stp q18, q19, [x2, #288]", "stp q20, q21, [x2, #320]", "stp q22, q23, [x2, #352]",
    "stp q24, q25, [x2, #384]", "stp q26, q27, [x2, #416]", "stp q28, q29, [x2, #448]", "stp q30, q31, [x2, #480]",
    ".endif",
    "mov x0, sp",
    "bl {interrupt}",
    "msr daifset, #15",
    ".if {vectors}",
    "add x2, sp, #288", "ldp w3, w4, [x2, #-8]", "msr fpcr, x3", "msr fpsr, x4",
    "ldp q0, q1, [x2]", "ldp q2, q3, [x2, #32]", "ldp q4, q5, [x2, #64]", "ldp q6, q7, [x2, #96]",
    "ldp q8, q9, [x2, #128]", "ldp q10, q11, [x2, #160]", "ldp q12, q13, [x2, #192]", "ldp q14, q15, [x2, #224]",
    "ldp q16, q17, [x2, #256]", "ldp q18, q19, [x2, #288]", "ldp q20, q21, [x2, #320]", "ldp q22, q23, [x2, #352]",
    "ldp q24, q25, [x2, #384]", "ldp q26, q27, [x2, #416]", "ldp q28, q29, [x2, #448]", "ldp q30, q31, [x2, #480]",
    ".endif",
    "ldr x2, [sp, #272]", "msr tpidr_el0, x2",
    "ldp x2, x3, [sp, #256]", "msr elr_el1, x2", "msr spsr_el1, x3",
    "ldp x30, x2, [sp, #240]", "msr sp_el0, x2",
    "ldp x28, x29, [sp, #224]", "ldp x26, x27, [sp, #208]",
    "ldp x24, x25, [sp, #192]", "ldp x22, x23, [sp, #176]", "ldp x20, x21, [sp, #160]", "ldp x18, x19, [sp, #144]",
    "ldp x16, x17, [sp, #128]", "ldp x14, x15, [sp, #112]", "ldp x12, x13, [sp, #96]", "ldp x10, x11, [sp, #80]",
    "ldp x8, x9, [sp, #64]", "ldp x6, x7, [sp, #48]", "ldp x4, x5, [sp, #32]", "ldp x2, x3, [sp, #16]",
    "ldp x0, x1, [sp]",
    "add sp, sp, #{frame}",
    "eret",
    ".text",
    frame = const size_of::<Frame>(),
    vectors = const VECTOR_REGISTERS,
    interrupt = sym interrupt,
);

/// Where every vector leads.
extern "C" fn interrupt(frame: &mut Frame, number: u64) {
    match number {
        vector::CALL if is_call() => {
            instructions::enable_fiqs();
            events::take(Event::GiveWay, frame);
        }
        vector::IRQ => {
            instructions::enable_fiqs();
            signalled(frame);
        }
        vector::FIQ | vector::FIQ_IN_HANDLER => signalled(frame),
        fault => {
            let Frame { instruction, stack, .. } = *frame;
            let (syndrome, address) = syndrome();
            serial::die(format_args!(
                "fault {fault}, syndrome {syndrome:#x}, address {address:#x}, at {instruction:#x}, stack {stack:#x}"
            ));
        }
    }
}

/// Handles what the interrupt controller signals.
fn signalled(frame: &mut Frame) {
    let acknowledged = gic::acknowledge();
    let event = match acknowledged & 0x3ff {
        gic::id::NMI => Event::Message(Message::Nmi),
        gic::id::FENCE => Event::Message(Message::Fence),
        gic::id::TIMER => {
            clock::stop_timer();
            Event::Timer
        }
        gic::id::NONE.. => return,
        other => serial::die(format_args!("interrupt {other}, which nobody has switched on")),
    };
    events::take(event, frame);
    gic::end(acknowledged);
}

/// Returns what this CPU's last exception was about, and the address that it could not access.
fn syndrome() -> (u64, u64) {
    let (syndrome, address);
    // SAFETY: reads registers.
    unsafe {
        asm!("mrs {}, esr_el1", "mrs {}, far_el1", out(reg) syndrome, out(reg) address,
            options(nomem, nostack, preserves_flags));
    }
    (syndrome, address)
}

/// Returns whether this CPU's last exception was `svc`.
fn is_call() -> bool {
    syndrome().0 >> 26 == 0x15
}
