//! The boundary: pointers of a C program, checked once and then safe to use.
//!
//! A C function turns each pointer argument into one of the types here. The conversion checks that the pointer is not
//! NULL, is aligned, and ends within the address space. It takes over the caller's promise that the memory is there.
//! All later uses are safe code.
//!
//! | the C program passes | type |
//! |---|---|
//! | a place for one result | [`Out`] |
//! | such a place, or NULL | `Option<Out>` by [`Out::optional`] |
//! | an array of results, or of values | [`OutArray`], [`InArray`] |
//! | a buffer for text | [`Text`] |
//! | a structure that begins with its size | [`read_sized`], [`write_sized`] |
#![allow(unsafe_code, reason = "pointers of C programs are followed; each block says what was checked and promised")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{FW_E_ARENA, FW_E_INTERNAL, FW_E_NULL, FW_E_OVERFLOW, FW_E_STRUCT, FW_E_UNALIGNED, FW_OK};
use crate::handles::{ArenaRecord, Living, fw_arena};
use crate::options::fw_options;

/// Structures above this size are taken for a mistake: to read so far could be a fault.
const MOST_STRUCT: usize = 4096;

/// Calls code that could have a bug: a panic becomes `FW_E_INTERNAL`, an error its number.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), c_int>) -> c_int {
    let called = catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(FW_E_INTERNAL));
    called.err().unwrap_or(FW_OK)
}

/// Returns the living arena of a handle.
///
/// # Errors
/// There is none.
#[inline(always)]
pub(crate) fn living(arena: *const fw_arena) -> Result<Living<'static>, c_int> {
    ArenaRecord::of(arena).ok_or(FW_E_ARENA)
}

/// Whether a request is one that a short call may serve: for one page, with a place for the result.
///
/// The flags are not looked at. A first stage compares them with those of an earlier request, which were known ones.
#[inline(always)]
pub(crate) fn is_simple(order: c_uint, block: *mut *mut c_void) -> bool {
    // One branch for two of the three conditions.
    let low_bits = block.addr() as u32 & (align_of::<*mut c_void>() as u32 - 1);
    order | low_bits == 0 && !block.is_null()
}

/// Checks that a pointer is neither NULL nor misaligned.
fn check<T>(pointer: *const T) -> Result<(), c_int> {
    match pointer.is_aligned() {
        _ if pointer.is_null() => Err(FW_E_NULL),
        true => Ok(()),
        false => Err(FW_E_UNALIGNED),
    }
}

/// Checks an array of `count` entries; one without entries may be NULL.
fn check_array<T>(array: *const T, count: usize) -> Result<(), c_int> {
    if count == 0 {
        return Ok(());
    }
    check(array)?;
    let bytes = count.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    bytes.and_then(|bytes| array.addr().checked_add(bytes)).map(|_| ()).ok_or(FW_E_OVERFLOW)
}

/// A place for one result.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks a place.
    ///
    /// # Errors
    /// The pointer is NULL or misaligned.
    ///
    /// # Safety
    /// If it is neither, a `T` can be written there.
    pub(crate) unsafe fn new(pointer: *mut T) -> Result<Out<T>, c_int> {
        check(pointer).map(|()| Out(pointer))
    }

    /// Checks a place that may be NULL.
    ///
    /// # Errors
    /// The pointer is misaligned.
    ///
    /// # Safety
    /// As [`Out::new`].
    pub(crate) unsafe fn optional(pointer: *mut T) -> Result<Option<Out<T>>, c_int> {
        // SAFETY: the caller's promise.
        if pointer.is_null() { Ok(None) } else { unsafe { Out::new(pointer) }.map(Some) }
    }

    /// Writes the result.
    #[inline(always)]
    pub(crate) fn put(self, value: T) {
        // SAFETY: neither null nor misaligned, and writable by the promise of `new`'s caller.
        unsafe { self.0.write(value) }
    }
}

/// An array for results.
pub(crate) struct OutArray<T> {
    start: *mut T,
    count: usize,
}

impl<T> OutArray<T> {
    /// Checks an array.
    ///
    /// # Errors
    /// The pointer is NULL or misaligned, or the array reaches over the end of the address space.
    ///
    /// # Safety
    /// If it does not, `count` values can be written there.
    pub(crate) unsafe fn new(start: *mut T, count: usize) -> Result<OutArray<T>, c_int> {
        check_array(start, count).map(|()| OutArray { start, count })
    }

    /// Its entries, which may not be initialised.
    pub(crate) fn entries(&mut self) -> &mut [MaybeUninit<T>] {
        match self.count {
            0 => &mut [],
            // SAFETY: not null, aligned, of a size that addresses hold; writable by the promise of `new`'s caller.
            count => unsafe { std::slice::from_raw_parts_mut(self.start.cast(), count) },
        }
    }
}

/// An array of values.
pub(crate) struct InArray<T> {
    start: *const T,
    count: usize,
}

impl<T: Copy> InArray<T> {
    /// Checks an array.
    ///
    /// # Errors
    /// As [`OutArray::new`].
    ///
    /// # Safety
    /// If there is none, `count` values can be read there, and do not change meanwhile.
    pub(crate) unsafe fn new(start: *const T, count: usize) -> Result<InArray<T>, c_int> {
        check_array(start, count).map(|()| InArray { start, count })
    }

    /// Its values.
    pub(crate) fn values(&self) -> &[T] {
        match self.count {
            0 => &[],
            // SAFETY: not null, aligned, of a size that addresses hold; readable by the promise of `new`'s caller.
            count => unsafe { std::slice::from_raw_parts(self.start, count) },
        }
    }
}

/// A buffer for text.
pub(crate) struct Text {
    start: *mut c_char,
    size: usize,
}

impl Text {
    /// Checks a buffer of `size` bytes; one of 0 bytes may be NULL.
    ///
    /// # Errors
    /// As [`OutArray::new`].
    ///
    /// # Safety
    /// If there is none, `size` bytes can be written there.
    pub(crate) unsafe fn new(start: *mut c_char, size: usize) -> Result<Text, c_int> {
        check_array(start, size).map(|()| Text { start, size })
    }

    /// Writes a text, cut to fit and with NUL at its end; returns the length that it has without the cut.
    pub(crate) fn put(&self, text: &str) -> c_int {
        if self.size != 0 {
            let kept = text.len().min(self.size - 1);
            // SAFETY: `kept` bytes and a NUL fit into the buffer, which is writable by the promise of `new`'s caller.
            unsafe {
                self.start.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), kept);
                self.start.add(kept).write(0);
            }
        }
        c_int::try_from(text.len()).unwrap_or(c_int::MAX)
    }
}

/// A structure of the interface: numbers and raw pointers, the first field its size.
///
/// # Safety
/// The structure is `repr(C)`, begins with a `usize`, and all bytes are a value of it.
pub(crate) unsafe trait Versioned: Copy {
    /// Size of the first version, which every program has.
    const FIRST_VERSION: usize;
}

// SAFETY: `repr(C)`, begins with its size, and has numbers and raw pointers alone.
unsafe impl Versioned for fw_options {
    const FIRST_VERSION: usize = offset_of!(fw_options, limit_bytes) + size_of::<u64>();
}

/// Returns the size that a structure says it has.
///
/// # Safety
/// If the pointer is neither NULL nor misaligned, a `usize` can be read there.
unsafe fn size_of_pointed<T: Versioned>(pointer: *const T) -> Result<usize, c_int> {
    check(pointer)?;
    // SAFETY: not null and aligned; readable by the caller's promise.
    let size = unsafe { pointer.cast::<usize>().read() };
    check_size::<T>(size).map(|()| size)
}

/// Checks a size that a program gives for a structure.
fn check_size<T: Versioned>(size: usize) -> Result<(), c_int> {
    if (T::FIRST_VERSION..=MOST_STRUCT).contains(&size) { Ok(()) } else { Err(FW_E_STRUCT) }
}

/// Reads a structure over its defaults.
///
/// # Errors
/// It is NULL, misaligned, smaller than the first version, or has values in fields that this version does not know.
///
/// # Safety
/// If the pointer is neither NULL nor misaligned, as many bytes can be read there as the first field says.
pub(crate) unsafe fn read_sized<T: Versioned>(pointer: *const T, mut known: T) -> Result<T, c_int> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_pointed(pointer) }?;
    let bytes = pointer.cast::<u8>();
    // SAFETY: the smaller of both sizes, and any bytes are values of the structure.
    unsafe { bytes.copy_to_nonoverlapping((&raw mut known).cast(), size.min(size_of::<T>())) };
    // SAFETY: readable by the caller's promise.
    let mut unknown = (size_of::<T>()..size).map(|at| unsafe { bytes.add(at).read() });
    if unknown.any(|byte| byte != 0) { Err(FW_E_STRUCT) } else { Ok(known) }
}

/// Clears a structure and stores its size.
///
/// # Errors
/// The pointer is NULL or misaligned, or no version has this size.
///
/// # Safety
/// If there is none, `size` bytes can be written there.
pub(crate) unsafe fn clear_sized<T: Versioned>(pointer: *mut T, size: usize) -> Result<(), c_int> {
    check(pointer)?;
    check_size::<T>(size)?;
    // SAFETY: not null and aligned; writable by the caller's promise.
    unsafe {
        pointer.cast::<u8>().write_bytes(0, size);
        pointer.cast::<usize>().write(size);
    }
    Ok(())
}

/// Writes a structure, as far as the program knows it; fields that only the program knows become 0.
///
/// # Errors
/// The pointer is NULL or misaligned, or no version has the size in its first field. That field stays.
///
/// # Safety
/// If the pointer is neither NULL nor misaligned, as many bytes can be written there as the first field says.
pub(crate) unsafe fn write_sized<T: Versioned>(pointer: *mut T, value: impl FnOnce() -> T) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_pointed(pointer) }?;
    let (bytes, known, kept) = (pointer.cast::<u8>(), value(), size_of::<usize>());
    let from = (&raw const known).cast::<u8>();
    // SAFETY: the smaller of both sizes is copied, the rest cleared; writable by the caller's promise. The first field
    // is skipped by both.
    unsafe {
        bytes.add(kept).write_bytes(0, size - kept);
        bytes.add(kept).copy_from_nonoverlapping(from.add(kept), size.min(size_of::<T>()) - kept);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::fw_node;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn fields_never_move() {
        assert_eq!((offset_of!(fw_options, message_size), offset_of!(fw_options, max_order)), (56, 88));
        assert_eq!(fw_options::FIRST_VERSION, 128);
        assert_eq!((size_of::<fw_node>(), offset_of!(fw_node, placement)), (24, 16));
    }

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(guarded(|| panic!("planted")), FW_E_INTERNAL);
    }
}
