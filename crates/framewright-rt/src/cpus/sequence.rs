//! The restartable sequence itself, for each architecture it is written for. [`super::rseq`] explains its purpose.
//!
//! A sequence is described to the kernel by 32 bytes: a version and flags (0), its first address, its length, and its
//! abort address. A *signature* must stand before the abort address. The descriptor's addresses are relocated, so it
//! lies where the loader may write once. The kernel learns of it by the store to `rseq_cs`, and forgets it when it
//! stops the thread anywhere else. So the sequence begins with the instruction after that store. Leaving it by a jump
//! ends it.
//!
//! The sequence for aarch64 is assembled but was not run by its authors.
//!
//! # Why the unsafe code is right
//!
//! A sequence reads and writes the calling thread's area and the slots that it is given, and nothing else. [`OwnArea`]
//! names the area: it is made for the calling thread, and stays in it. The slots are a slice, or one that lives. Each
//! word is an atomic, and one aligned instruction reads or writes it. Their places are asserted below. Interrupted or
//! not, the code goes on after the last instruction, and only the named registers and one owner have changed.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::slots::Slot;

/// The first 32 bytes of a thread's `struct rseq`, which it shares with the kernel.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct Area {
    pub(super) cpu_id_start: AtomicU32,
    /// The processor that the thread runs on, or a number that no processor has.
    pub(super) cpu_id: AtomicU32,
    /// The descriptor of the sequence that the thread is in.
    pub(super) rseq_cs: AtomicU64,
    pub(super) flags: AtomicU32,
    pub(super) padding: [AtomicU32; 3],
}

/// The area of the calling thread, which it has as long as it lives.
///
/// A pointer, so that it cannot be sent to another thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnArea(*const Area);

impl OwnArea {
    /// # Safety
    /// The area is the calling thread's own: it lives as long as the thread, and is registered for no other. Where it
    /// is not registered at all, its processor number is above every limit.
    #[inline(always)]
    pub(super) unsafe fn new(area: *const Area) -> OwnArea {
        OwnArea(area)
    }

    /// Its address.
    #[inline(always)]
    pub(super) fn address(self) -> *const Area {
        self.0
    }

    /// The processor that the thread runs on, or a number that no processor has.
    #[inline]
    pub(super) fn cpu(self) -> u32 {
        // SAFETY: the area is this thread's, so it lives. Its words are atomics, because the kernel writes there.
        unsafe { &*self.0 }.cpu_id.load(Relaxed)
    }
}

/// Its size.
pub(super) const AREA_BYTES: u32 = 32;

// The sequence relies on this layout.
const _: () = assert!(offset_of!(Area, cpu_id) == 4 && offset_of!(Area, rseq_cs) == 8);
const _: () = assert!(size_of::<Area>() == AREA_BYTES as usize);
const _: () = assert!(size_of::<Slot>() == 128 && offset_of!(Slot, owner) == 0);

/// Whether there is a sequence for this architecture.
pub(super) const SUPPORTED: bool =
    cfg!(all(target_os = "linux", target_pointer_width = "64", any(target_arch = "x86_64", target_arch = "aarch64")));

/// The number that stands before each abort address, as glibc registers it too.
///
/// So no other address can be made an abort address. Part of an instruction that traps.
#[cfg(target_arch = "aarch64")]
pub(super) const SIGNATURE: u32 = 0xd428_bc00;
/// The signature of x86-64, by which glibc registers as well.
#[cfg(not(target_arch = "aarch64"))]
pub(super) const SIGNATURE: u32 = 0x5305_3053;

/// The descriptor of a sequence, at label 5: it goes from label 2 to label 3, and is sent to label 4.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! descriptor {
    ($kind:literal) => {
        concat!(
            ".pushsection .data.rel.ro.framewright_rseq, \"aw\", ",
            $kind,
            "\n.balign 32\n5:\n.long 0, 0\n.quad 2f, 3f - 2f, 4f\n.popsection"
        )
    };
}

/// Reads the thread pointer: a word that holds its own address, by the ABI.
#[cfg(target_arch = "x86_64")]
macro_rules! thread_pointer {
    () => {
        "mov {}, fs:0"
    };
}

/// Reads the thread pointer: the register that user space has for this.
#[cfg(target_arch = "aarch64")]
macro_rules! thread_pointer {
    () => {
        "mrs {}, tpidr_el0"
    };
}

/// Returns the address that offsets of thread-locals count from.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline]
pub(super) fn thread_pointer() -> *const u8 {
    let pointer;
    // SAFETY: reads what the ABI has for this.
    unsafe { std::arch::asm!(thread_pointer!(), out(reg) pointer, options(nostack, preserves_flags, readonly, pure)) };
    pointer
}

/// Takes the slot of this processor by a restartable sequence, with acquire ordering.
///
/// If this processor has one of the slots, and its owner is 0: stores the area's address there and returns the slot.
/// Otherwise changes nothing.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
#[inline]
pub(super) fn take(here: OwnArea, slots: &[Slot]) -> Option<&Slot> {
    let cpu: u32;
    // SAFETY: the access is within the slots by the comparison with their number. Few registers, so that the calling
    // code has some left.
    unsafe {
        std::arch::asm!(
            descriptor!("@progbits"),
            "lea {cpu:r}, [rip + 5b]",
            "mov qword ptr [{area} + 8], {cpu:r}",
            "2:",
            "mov {cpu:e}, dword ptr [{area} + 4]",
            "cmp {cpu:e}, {limit:e}",
            "jae 6f",
            "mov {limit:e}, {cpu:e}",
            "shl {limit:r}, 7",
            "add {slot}, {limit:r}",
            "cmp qword ptr [{slot}], 0",
            "jne 6f",
            "mov qword ptr [{slot}], {area}",
            "3:",
            ".pushsection .text.framewright_rseq, \"ax\", @progbits",
            // ud1 edi, [rip + signature]
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {signature}",
            "4:",
            "6:",
            "mov {cpu:e}, -1",
            "jmp 7f",
            ".popsection",
            "7:",
            area = in(reg) here.0,
            limit = inout(reg) slots.len() => _,
            cpu = out(reg) cpu,
            slot = inout(reg) slots.as_ptr() => _,
            signature = const SIGNATURE,
            options(nostack),
        );
    }
    // None if the sequence did not go through: no slot has the number -1.
    slots.get(cpu as usize)
}

/// Takes the slot that a thread noted, with acquire ordering, if it is this processor's and its owner is 0.
///
/// Otherwise changes nothing. Says whether it took it. It is shorter than [`take`], which computes the slot.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
#[inline(always)]
pub(super) fn take_noted(here: OwnArea, slot: &Slot) -> bool {
    // SAFETY: both live. A free slot is written only by threads on its processor. One that is first sends this sequence
    // to its abort address.
    unsafe {
        std::arch::asm!(
            descriptor!("@progbits"),
            "lea {cpu:r}, [rip + 5b]",
            "mov qword ptr [{area} + 8], {cpu:r}",
            "2:",
            "mov {cpu:e}, dword ptr [{slot} + {at_cpu}]",
            "cmp {cpu:e}, dword ptr [{area} + 4]",
            "jne {other}",
            "cmp qword ptr [{slot}], 0",
            "jne {other}",
            "mov qword ptr [{slot}], {area}",
            "3:",
            ".pushsection .text.framewright_rseq, \"ax\", @progbits",
            // ud1 edi, [rip + signature]
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {signature}",
            "4:",
            "jmp {other}",
            ".popsection",
            area = in(reg) here.0,
            slot = in(reg) slot,
            cpu = out(reg) _,
            at_cpu = const offset_of!(Slot, cpu),
            signature = const SIGNATURE,
            other = label { return false },
            options(nostack),
        );
    }
    true
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn take(here: OwnArea, slots: &[Slot]) -> Option<&Slot> {
    let cpu: u32;
    // SAFETY: as on x86-64; the owner is read by `ldar`, for this architecture orders nothing by itself.
    unsafe {
        std::arch::asm!(
            descriptor!("%progbits"),
            "adrp {slot}, 5b",
            "add {slot}, {slot}, :lo12:5b",
            "str {slot}, [{area}, #8]",
            "2:",
            "ldr {cpu:w}, [{area}, #4]",
            "cmp {cpu:w}, {limit:w}",
            "b.hs 6f",
            "add {slot}, {slots}, {cpu:x}, lsl #7",
            "ldar {owner}, [{slot}]",
            "cbnz {owner}, 6f",
            "str {area}, [{slot}]",
            "3:",
            "b 7f",
            ".inst {signature}",
            "4:",
            "6:",
            "mov {cpu:w}, #-1",
            "7:",
            area = in(reg) here.0,
            slots = in(reg) slots.as_ptr(),
            limit = in(reg) slots.len(),
            cpu = out(reg) cpu,
            slot = out(reg) _,
            owner = out(reg) _,
            signature = const SIGNATURE,
            options(nostack),
        );
    }
    slots.get(cpu as usize)
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn take_noted(here: OwnArea, slot: &Slot) -> bool {
    // SAFETY: as on x86-64; the owner is read by `ldar`.
    unsafe {
        std::arch::asm!(
            descriptor!("%progbits"),
            "adrp {word}, 5b",
            "add {word}, {word}, :lo12:5b",
            "str {word}, [{area}, #8]",
            "2:",
            "ldr {cpu:w}, [{area}, #4]",
            "ldr {word:w}, [{slot}, #{at_cpu}]",
            "cmp {cpu:w}, {word:w}",
            "b.ne {other}",
            "ldar {word}, [{slot}]",
            "cbnz {word}, {other}",
            "str {area}, [{slot}]",
            "3:",
            "b 7f",
            ".inst {signature}",
            "4:",
            "b {other}",
            "7:",
            area = in(reg) here.0,
            slot = in(reg) slot,
            cpu = out(reg) _,
            word = out(reg) _,
            at_cpu = const offset_of!(Slot, cpu),
            signature = const SIGNATURE,
            other = label { return false },
            options(nostack),
        );
    }
    true
}

/// Never called.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn thread_pointer() -> *const u8 {
    std::ptr::null()
}

/// Never takes anything.
#[cfg(not(any(all(target_arch = "x86_64", target_pointer_width = "64"), target_arch = "aarch64")))]
pub(super) fn take(_: OwnArea, _: &[Slot]) -> Option<&Slot> {
    None
}

/// Never takes anything.
#[cfg(not(any(all(target_arch = "x86_64", target_pointer_width = "64"), target_arch = "aarch64")))]
pub(super) fn take_noted(_: OwnArea, _: &Slot) -> bool {
    false
}
