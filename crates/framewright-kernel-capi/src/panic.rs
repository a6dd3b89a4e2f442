//! The panic handler that a static library must have.
//!
//! No call reaches it in a release build (`ci/no_panic.sh`); a build without optimisation may keep code for it.
#![allow(unsafe_code, reason = "a function of the kernel is called")]

use core::panic::PanicInfo;

use crate::kernel::fw_hook_panic;

/// Tells the kernel the place of the bug; never returns.
#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    let (file, line) = info.location().map_or(("", 0), |place| (place.file(), place.line()));
    // SAFETY: the text has this length.
    unsafe { fw_hook_panic(file.as_ptr().cast(), file.len(), line) };
    loop {
        core::hint::spin_loop();
    }
}
