//! The functions of C that compiled Rust calls, for the host's target: its C library has them, and is not linked.
//!
//! The bare target's core library has its own. Each is one repeated instruction, or reads that the compiler must leave
//! as they are: it would compile a plain loop to a call of the very function.

use core::arch::asm;

/// # Safety
/// As C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear, as the calling convention says.
    unsafe {
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") length => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= length {
        // SAFETY: the caller's promise; no byte is overwritten before it is read.
        return unsafe { memcpy(to, from, length) };
    }
    // SAFETY: as above, from the last byte to the first; the flag is clear again at the end.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rdi") to.wrapping_add(length).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(length).wrapping_sub(1) => _, inout("rcx") length => _, options(nostack));
    }
    to
}

/// # Safety
/// As C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, length: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear.
    unsafe {
        asm!("rep stosb", inout("rdi") to => _, in("al") byte as u8, inout("rcx") length => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    for at in 0..length {
        // SAFETY: the caller's promise. A volatile read keeps this loop a loop.
        let (left, right) = unsafe { (left.add(at).read_volatile(), right.add(at).read_volatile()) };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
    }
    0
}

/// # Safety
/// As C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(left, right, length) }
}

/// # Safety
/// As C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    // SAFETY: the caller's promise. Volatile as in `memcmp`.
    (0..).take_while(|&at| unsafe { text.add(at).read_volatile() } != 0).count()
}
