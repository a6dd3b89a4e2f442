//! Interrupts, NMIs and faults: the table, the stubs, and where each vector leads.
//!
//! A stub saves the registers on the interrupt stack as a [`Frame`] and calls [`interrupt`]. The same frame is how
//! threads switch (`threads.rs`): the handler exchanges its contents, and the stub's end restores another thread. No
//! other code switches, so a thread that gives way does so by an interrupt too.
//!
//! Handlers run with interrupts off. One stack of each kind is enough: an interrupt meets threads only, an NMI meets
//! threads and interrupts, and the processor holds further NMIs off until the handler's `iret`.

use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;

use super::apic;
use super::cpu::{self, CODE, Stack, TablePointer};
use crate::events::{self, Event, Message};
use crate::serial;

/// Vectors of this kernel; below 32 are the processor's.
pub(super) mod vector {
    pub(crate) const NMI: u64 = 2;
    pub(crate) const TIMER: u8 = 0x20;
    pub(crate) const FENCE: u8 = 0x21;
    pub(crate) const GIVE_WAY: u8 = 0x22;
    pub(crate) const SPURIOUS: u8 = 0x2f;
}

const VECTORS: usize = 0x30;
/// Bytes of the floating-point and vector registers. Code for the bare target does not use them.
const VECTOR_STATE: usize = if cfg!(target_feature = "sse") { 512 } else { 0 };
/// Distance of two stubs.
const STUB: usize = 16;

/// What an interrupt found in the registers, and what its end restores.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Frame {
    vector_state: [u8; VECTOR_STATE],
    /// r15, r14, r13, r12, r11, r10, r9, r8, rbp, rdi, rsi, rdx, rcx, rbx, rax.
    registers: [u64; 15],
    vector: u64,
    error: u64,
    instruction: u64,
    code: u64,
    flags: u64,
    stack: u64,
    data: u64,
}

impl Frame {
    /// No registers at all.
    pub(crate) const EMPTY: Frame = Frame {
        vector_state: [0; VECTOR_STATE],
        registers: [0; 15],
        vector: 0,
        error: 0,
        instruction: 0,
        code: 0,
        flags: 0,
        stack: 0,
        data: 0,
    };

    /// Returns the frame of a thread that calls `entry(argument)` on a stack that ends at `stack`, interrupts on.
    pub(crate) fn calling(entry: extern "C" fn(usize) -> !, argument: usize, stack: u64) -> Frame {
        let mut frame = Frame {
            instruction: entry as *const () as u64,
            code: CODE,
            flags: 0x202,
            // As after a call: a return address, below a multiple of 16.
            stack: stack - 8,
            data: cpu::DATA,
            ..Frame::EMPTY
        };
        frame.registers[9] = argument as u64;
        // The control words with which every exception of floating-point code is masked.
        for (at, byte) in [(0, 0x7f), (1, 0x03), (24, 0x80), (25, 0x1f)] {
            if let Some(place) = frame.vector_state.get_mut(at) {
                *place = byte;
            }
        }
        frame
    }
}

#[repr(C, align(16))]
struct Table(UnsafeCell<[[u64; 2]; VECTORS]>);

// SAFETY: written by the first CPU before any other starts, and then read by processors alone.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new([[0; 2]; VECTORS]));

/// Fills the table. Context: the first CPU, once, before [`load`].
pub(super) fn fill() {
    // SAFETY: no CPU uses the table yet.
    let table = unsafe { &mut *TABLE.0.get() };
    for (vector, entry) in table.iter_mut().enumerate() {
        let stack = match vector {
            2 => Stack::Nmi,
            0..32 => Stack::Fault,
            _ => Stack::Interrupt,
        };
        let stub = stubs as *const () as u64 + (vector * STUB) as u64;
        // Present, an interrupt gate: interrupts are off in the handler.
        let low = (stub & 0xffff) | CODE << 16 | (stack as u64) << 32 | 0x8e << 40 | (stub >> 16 & 0xffff) << 48;
        *entry = [low, stub >> 32];
    }
}

/// Makes this CPU use the table.
pub(super) fn load() {
    let pointer = TablePointer { limit: size_of::<Table>() as u16 - 1, base: TABLE.0.get() as u64 };
    // SAFETY: the table is static and leads to the stubs, on stacks that `cpu::enter` has set.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(readonly, nostack)) };
}

/// Lets another thread run now, by an interrupt.
pub(crate) fn give_way() {
    // SAFETY: the handler restores every register, and runs on a stack of its own.
    unsafe { asm!("int {}", const vector::GIVE_WAY) };
}

/// One stub for each vector, [`STUB`] bytes apart: pushes the error code where the processor does not, and the vector.
#[unsafe(naked)]
extern "C" fn stubs() {
    naked_asm!(
        ".set stub_vector, 0",
        ".rept {vectors}",
        ".balign {stub}",
        // Vectors 8, 10 to 14, 17, 21, 29 and 30 have an error code.
        ".if (0x60227d00 >> stub_vector) & 1 == 0 || stub_vector >= 32",
        "push 0",
        ".endif",
        "push stub_vector",
        "jmp {common}",
        ".set stub_vector, stub_vector + 1",
        ".endr",
        vectors = const VECTORS,
        stub = const STUB,
        common = sym common,
    );
}

/// The rest of a stub: the frame, the handler, and the registers of the frame again.
#[unsafe(naked)]
extern "C" fn common() {
    naked_asm!(
        "push rax", "push rbx", "push rcx", "push rdx", "push rsi", "push rdi", "push rbp", "push r8",
        "push r9", "push r10", "push r11", "push r12", "push r13", "push r14", "push r15",
        "sub rsp, {state}",
        ".if {state}",
        "fxsave64 [rsp]",
        ".endif",
        "cld",
        "mov rdi, rsp",
        "call {interrupt}",
        ".if {state}",
        "fxrstor64 [rsp]",
        ".endif",
        "add rsp, {state}",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop r11", "pop r10", "pop r9", "pop r8",
        "pop rbp", "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rbx", "pop rax",
        "add rsp, 16",
        "iretq",
        state = const VECTOR_STATE,
        interrupt = sym interrupt,
    );
}

/// Where every vector leads.
extern "C" fn interrupt(frame: &mut Frame) {
    const TIMER: u64 = vector::TIMER as u64;
    const FENCE: u64 = vector::FENCE as u64;
    const GIVE_WAY: u64 = vector::GIVE_WAY as u64;
    const SPURIOUS: u64 = vector::SPURIOUS as u64;
    match frame.vector {
        vector::NMI => events::take(Event::Message(Message::Nmi), frame),
        TIMER => {
            events::take(Event::Timer, frame);
            apic::end_of_interrupt();
        }
        FENCE => {
            events::take(Event::Message(Message::Fence), frame);
            apic::end_of_interrupt();
        }
        GIVE_WAY => events::take(Event::GiveWay, frame),
        SPURIOUS => {}
        fault => {
            let Frame { error, instruction, stack, .. } = *frame;
            serial::die(format_args!("fault {fault}, error {error:#x}, at {instruction:#x}, stack {stack:#x}"));
        }
    }
}
