//! The boundary: pointers of a C caller, checked once and then safe to use.
//!
//! A C function turns each pointer argument into one of the types here. The conversion checks that the pointer is not
//! NULL, is aligned, and ends within the address space. It takes over the caller's promise that the memory is there.
//! All later uses are safe code.
//!
//! | the C caller passes | type |
//! |---|---|
//! | a place for one result | [`Out`] |
//! | such a place, or NULL | `Option<Out>` by [`Out::optional`] |
//! | an array of results, or of values | [`OutArray`], [`InArray`] |
//! | a buffer for text | [`Text`] |
//! | a structure that begins with its size | [`read_sized`], [`write_sized`] |
#![allow(unsafe_code, reason = "pointers of C callers are followed; each block says what was checked and promised")]

use core::ffi::{c_char, c_int};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;

use crate::numbers::{FW_E_NULL, FW_E_OVERFLOW, FW_E_STRUCT, FW_E_UNALIGNED};

/// Structures above this size are taken for a mistake: to read so far could be a fault.
const MOST_STRUCT: usize = 4096;

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
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks a place.
    ///
    /// # Errors
    /// The pointer is NULL or misaligned.
    ///
    /// # Safety
    /// If it is neither, a `T` can be written there.
    pub unsafe fn new(pointer: *mut T) -> Result<Out<T>, c_int> {
        check(pointer).map(|()| Out(pointer))
    }

    /// Checks a place that may be NULL.
    ///
    /// # Errors
    /// The pointer is misaligned.
    ///
    /// # Safety
    /// As [`Out::new`].
    pub unsafe fn optional(pointer: *mut T) -> Result<Option<Out<T>>, c_int> {
        // SAFETY: the caller's promise.
        if pointer.is_null() { Ok(None) } else { unsafe { Out::new(pointer) }.map(Some) }
    }

    /// Writes the result.
    #[inline(always)]
    pub fn put(mut self, value: T) {
        self.set(value);
    }

    /// Writes what the result is if the call ends here.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        // SAFETY: neither null nor misaligned, and writable by the promise of `new`'s caller.
        unsafe { self.0.write(value) }
    }
}

/// An array for results.
pub struct OutArray<T> {
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
    pub unsafe fn new(start: *mut T, count: usize) -> Result<OutArray<T>, c_int> {
        check_array(start, count).map(|()| OutArray { start, count })
    }

    /// Its entries, which may not be initialised.
    pub fn entries(&mut self) -> &mut [MaybeUninit<T>] {
        match self.count {
            0 => &mut [],
            // SAFETY: not null, aligned, of a size that addresses hold; writable by the promise of `new`'s caller.
            count => unsafe { core::slice::from_raw_parts_mut(self.start.cast(), count) },
        }
    }
}

impl OutArray<u8> {
    /// Returns the bytes, for good.
    ///
    /// # Safety
    /// They hold some values, and nothing else uses them from now on.
    pub unsafe fn into_bytes(self) -> &'static mut [u8] {
        match self.count {
            0 => &mut [],
            // SAFETY: not null, of a size that addresses hold; readable and writable by both callers' promises.
            count => unsafe { core::slice::from_raw_parts_mut(self.start, count) },
        }
    }
}

/// An array of values.
pub struct InArray<T> {
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
    pub unsafe fn new(start: *const T, count: usize) -> Result<InArray<T>, c_int> {
        check_array(start, count).map(|()| InArray { start, count })
    }

    /// Its values.
    pub fn values(&self) -> &[T] {
        match self.count {
            0 => &[],
            // SAFETY: not null, aligned, of a size that addresses hold; readable by the promise of `new`'s caller.
            count => unsafe { core::slice::from_raw_parts(self.start, count) },
        }
    }
}

/// A buffer for text.
pub struct Text {
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
    pub unsafe fn new(start: *mut c_char, size: usize) -> Result<Text, c_int> {
        check_array(start, size).map(|()| Text { start, size })
    }

    /// Writes a text, cut to fit and with NUL at its end; returns the length that it has without the cut.
    pub fn put(&self, text: impl fmt::Display) -> c_int {
        let mut written = Written { text: self, length: 0 };
        // Nothing here fails.
        let _ = write!(written, "{text}");
        if self.size != 0 {
            // SAFETY: within the buffer, which is writable by the promise of `new`'s caller.
            unsafe { self.start.add(written.length.min(self.size.saturating_sub(1))).write(0) };
        }
        c_int::try_from(written.length).unwrap_or(c_int::MAX)
    }
}

/// A text that is being written to a buffer.
struct Written<'t> {
    text: &'t Text,
    /// Bytes so far, with those that were cut off.
    length: usize,
}

impl Write for Written<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        // A byte for NUL is left.
        let room = self.text.size.saturating_sub(1).saturating_sub(self.length);
        let kept = piece.len().min(room);
        if kept != 0 {
            // SAFETY: `length` and `kept` bytes fit into the buffer, which is writable by the promise of `Text::new`'s
            // caller.
            unsafe {
                let end = self.text.start.cast::<u8>().add(self.length);
                end.copy_from_nonoverlapping(piece.as_ptr(), kept);
            }
        }
        self.length = self.length.saturating_add(piece.len());
        Ok(())
    }
}

/// A structure of the interface: numbers and raw pointers, the first field its size.
///
/// # Safety
/// The structure is `repr(C)`, begins with a `usize`, and all bytes are a value of it.
pub unsafe trait Versioned: Copy {
    /// Size of the first version, which every program has.
    const FIRST_VERSION: usize;
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
pub unsafe fn read_sized<T: Versioned>(pointer: *const T, mut known: T) -> Result<T, c_int> {
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
pub unsafe fn clear_sized<T: Versioned>(pointer: *mut T, size: usize) -> Result<(), c_int> {
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
pub unsafe fn write_sized<T: Versioned>(pointer: *mut T, value: impl FnOnce() -> T) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_pointed(pointer) }?;
    let (bytes, known, kept) = (pointer.cast::<u8>(), value(), size_of::<usize>());
    let from = (&raw const known).cast::<u8>();
    // SAFETY: the smaller of both sizes is copied, the rest cleared; writable by the caller's promise. The first field
    // is skipped by both.
    unsafe {
        bytes.add(kept).write_bytes(0, size.saturating_sub(kept));
        bytes.add(kept).copy_from_nonoverlapping(from.add(kept), size.min(size_of::<T>()).saturating_sub(kept));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use super::*;

    #[test]
    fn a_text_is_cut_to_fit() {
        for (size, kept) in [(0, ""), (1, ""), (3, "so"), (9, "some 123"), (20, "some 123")] {
            let mut buffer = vec![0x7f_u8; size];
            // SAFETY: the buffer has this size.
            let text = unsafe { Text::new(buffer.as_mut_ptr().cast(), size) }.unwrap();
            assert_eq!(text.put(format_args!("some {}", 123)), 8);
            let written = buffer.split(|&byte| byte == 0).next().unwrap();
            assert_eq!(written, kept.as_bytes());
            assert!(buffer.iter().skip(kept.len() + 1).all(|&byte| byte == 0x7f));
        }
    }

    #[test]
    fn arrays_that_cannot_be_are_refused() {
        let place = 7_u64;
        // SAFETY: what is not refused is one number.
        let array = |start: *const u64, count| unsafe { InArray::new(start, count) }.map(|array| array.values().len());
        assert_eq!(array(core::ptr::null(), 0), Ok(0));
        assert_eq!(array(core::ptr::null(), 1), Err(FW_E_NULL));
        assert_eq!(array((&raw const place).cast::<u8>().wrapping_add(4).cast(), 1), Err(FW_E_UNALIGNED));
        assert_eq!(array(&raw const place, usize::MAX / 4), Err(FW_E_OVERFLOW));
        assert_eq!(array(&raw const place, 1), Ok(1));
    }
}
