//! The panic handler that a static library must have.
//!
//! No call reaches it in a release build; a build without optimisation may keep code for it.
#![allow(unsafe_code, reason = "a function of Linux is called")]

use core::panic::PanicInfo;

unsafe extern "C" {
    /// Stops the kernel: a bug of the library, in this line of this file.
    fn fw_linux_bug(file: *const u8, length: usize, line: u32) -> !;
}

#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    let (file, line) = info.location().map_or(("", 0), |place| (place.file(), place.line()));
    // SAFETY: the text has this length.
    unsafe { fw_linux_bug(file.as_ptr(), file.len(), line) }
}
