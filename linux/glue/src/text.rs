//! Texts in buffers of C.
#![allow(unsafe_code, reason = "the buffer is C's")]

use core::fmt::{self, Write};

/// A text of C: at most `size` bytes with the NUL.
pub(crate) struct Buffer {
    next: *mut u8,
    left: usize,
}

impl Buffer {
    /// # Safety
    /// `size` bytes can be written at `start` while this value lives.
    pub(crate) unsafe fn new(start: *mut u8, size: usize) -> Buffer {
        Buffer { next: start, left: if start.is_null() { 0 } else { size } }
    }

    /// Writes a text, as much of it as there is room for.
    pub(crate) fn put(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.write_fmt(text);
    }
}

impl Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let length = text.len().min(self.left.saturating_sub(1));
        // SAFETY: there is room for that many bytes and a NUL, by the promise of `new`.
        unsafe {
            if self.left != 0 {
                self.next.copy_from_nonoverlapping(text.as_ptr(), length);
                self.next = self.next.add(length);
                self.next.write(0);
            }
        }
        self.left = self.left.saturating_sub(length);
        if length == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
