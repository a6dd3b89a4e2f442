//! The restartable sequence itself, for each architecture it is written for. [`super::rseq`] explains its purpose.
//!
//! A sequence is described to the kernel by 32 bytes: a version and flags (0), its first address, its length, and its
//! abort address. A *signature* must stand before the abort address. The descriptor's addresses are relocated, so it
//! lies where the loader may write once. The kernel learns of it by the store to `rseq_cs`, and forgets it when it
//! stops the thread anywhere else. So the sequence begins with the instruction after that store. Leaving it by a jump
//! ends it.
//!
//! The sequence for aarch64 is assembled but was not run by its authors.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::slots::Slot;
use crate::current::Taking;

/// The first 32 bytes of a thread's `struct rseq`, which it shares with the kernel.
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

/// Number of a processor when no slot was taken.
const NOBODY: u32 = u32::MAX;

/// Returns the address that offsets of thread-locals count from.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn thread_pointer() -> *const u8 {
    let pointer;
    // SAFETY: reads a word that holds its own address, by the ABI.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly, pure)) };
    pointer
}

/// Takes the slot of this processor by a restartable sequence, with acquire ordering.
///
/// If this processor's number is below `limit` and its slot's owner is 0: stores the area's address there and returns
/// the slot. Otherwise changes nothing.
///
/// # Safety
/// `area` is registered for the calling thread, or its processor number is above every limit; `limit` slots start at
/// `slots`, and live for `'a`.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
#[inline]
pub(super) unsafe fn take<'a>(area: &Area, slots: *const Slot, limit: u32) -> Option<&'a Slot> {
    let cpu: u32;
    let slot: *const Slot;
    // SAFETY: the access is within the slots by the comparison with `limit`. The words are atomics, and one aligned
    // `mov` reads or writes each. Interrupted or not, execution goes on after the last instruction, and only the named
    // registers and the owner have changed. Few registers, so that the calling code has some left.
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
            area = in(reg) area,
            limit = inout(reg) limit => _,
            cpu = out(reg) cpu,
            slot = inout(reg) slots => slot,
            signature = const SIGNATURE,
            options(nostack),
        );
    }
    // SAFETY: the sequence went through, so this is the slot that it took.
    (cpu != NOBODY).then(|| unsafe { &*slot })
}

/// Takes the slot that a thread noted, with acquire ordering, if it is this processor's and its owner is 0.
///
/// Otherwise changes nothing. It is shorter than [`take`], which computes the slot.
///
/// # Safety
/// The area is registered for the calling thread, or its processor number is that of no slot. The slot lives for `'a`.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
#[inline(always)]
pub(super) unsafe fn take_noted<'a>(taking: Taking) -> Option<&'a Slot> {
    let Taking { area, slot } = taking;
    // SAFETY: as in `take`. A free slot is written only by threads on its processor. One that is first sends this
    // sequence to its abort address.
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
            area = in(reg) area,
            slot = in(reg) slot,
            cpu = out(reg) _,
            at_cpu = const offset_of!(Slot, cpu),
            signature = const SIGNATURE,
            other = label { return None },
            options(nostack),
        );
    }
    // SAFETY: the slot is alive, and this thread's now.
    Some(unsafe { &*slot.cast() })
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn thread_pointer() -> *const u8 {
    let pointer;
    // SAFETY: reads the register that user space has for this.
    unsafe { std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem, pure)) };
    pointer
}

/// As on x86-64.
///
/// # Safety
/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) unsafe fn take<'a>(area: &Area, slots: *const Slot, limit: u32) -> Option<&'a Slot> {
    let cpu: u32;
    let slot: *const Slot;
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
            area = in(reg) area,
            slots = in(reg) slots,
            limit = in(reg) limit,
            cpu = out(reg) cpu,
            slot = out(reg) slot,
            owner = out(reg) _,
            signature = const SIGNATURE,
            options(nostack),
        );
    }
    // SAFETY: as on x86-64.
    (cpu != NOBODY).then(|| unsafe { &*slot })
}

/// As on x86-64.
///
/// # Safety
/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) unsafe fn take_noted<'a>(taking: Taking) -> Option<&'a Slot> {
    let Taking { area, slot } = taking;
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
            area = in(reg) area,
            slot = in(reg) slot,
            cpu = out(reg) _,
            word = out(reg) _,
            at_cpu = const offset_of!(Slot, cpu),
            signature = const SIGNATURE,
            other = label { return None },
            options(nostack),
        );
    }
    // SAFETY: as on x86-64.
    Some(unsafe { &*slot.cast() })
}

/// Never called.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn thread_pointer() -> *const u8 {
    std::ptr::null()
}

/// Never takes anything.
///
/// # Safety
/// None.
#[cfg(not(any(all(target_arch = "x86_64", target_pointer_width = "64"), target_arch = "aarch64")))]
pub(super) unsafe fn take<'a>(_: &Area, _: *const Slot, _: u32) -> Option<&'a Slot> {
    None
}

/// Never takes anything.
///
/// # Safety
/// None.
#[cfg(not(any(all(target_arch = "x86_64", target_pointer_width = "64"), target_arch = "aarch64")))]
pub(super) unsafe fn take_noted<'a>(_: Taking) -> Option<&'a Slot> {
    None
}
