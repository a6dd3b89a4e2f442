//! Framewright as global frame allocator of a kernel over OSTD, the framework of Asterinas.
//!
//! OSTD has a trait for it, `GlobalFrameAllocator`, with three methods. [`frame_allocator!`] makes a type that
//! implements it.
//!
//! | the trait asks | what happens |
//! |---|---|
//! | `add_free_memory` for each range, before any `alloc` | noted; all boot together at the first `alloc` |
//! | no memory of its own, no heap | the descriptors lie in the highest range, which OSTD's metadata notes |
//! | `alloc(layout)`: any number of frames, any context | [`Allocator::alloc_exact`] with interrupts off |
//! | `dealloc`: any part of what was allocated | [`Allocator::free_exact`] |
//! | `dealloc` of frames that OSTD took early | they lie below an added range, and are allocated at boot |
//! | no node, no flags, no reason of a failure | one node, unmovable, no reserves |
//! | no zeros: OSTD clears frames itself | no flag for zeros |
//! | a safe trait | a wrong free is refused, and said on the console |
//!
//! The crate depends on no version of OSTD. The macro is expanded in the kernel's crate, so `::ostd` is the version
//! that the kernel has chosen. The names that it needs exist in OSTD 0.17, 0.18 and 0.19; one trait has moved.
//!
//! Cost: an allocation is a call through OSTD's `dyn GlobalFrameAllocator`, a switch of the interrupts, and one of the
//! core's calls.
//!
//! Rejected: a dependency on OSTD. Each of its versions needs another compiler, and a kernel over another version than
//! this crate's would have two traits of one name.
//!
//! The files stand in the order of a call.
//!
//! [`Allocator::alloc_exact`]: framewright::Allocator::alloc_exact
//! [`Allocator::free_exact`]: framewright::Allocator::free_exact
#![no_std]
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod frames; // the three calls; boot
mod host; // what is asked of OSTD
mod ranges; // memory that was added before boot

pub use frames::Frames;
pub use host::{Host, Hosted};

/// The allocator of a host.
pub type Pages<H> = framewright_kernel::Pages<Hosted<H>>;

/// Defines a type that implements OSTD's `GlobalFrameAllocator` by Framewright.
///
/// ```ignore
/// framewright_ostd::frame_allocator! {
///     /// All frames of this kernel.
///     pub struct FrameAllocator;
/// }
///
/// #[ostd::global_frame_allocator]
/// static FRAME_ALLOCATOR: FrameAllocator = FrameAllocator;
/// ```
///
/// All values of the type are one allocator. `FrameAllocator::with_pages` gives access to it, for reports. With
/// OSTD 0.17, which has a trait in another place, the declaration ends with `in ::ostd::mm::io_util;`.
#[macro_export]
macro_rules! frame_allocator {
    ($(#[$meta:meta])* $vis:vis struct $name:ident;) => {
        $crate::frame_allocator! { $(#[$meta])* $vis struct $name in ::ostd::mm::io::util; }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident in $(::$io:ident)+;) => {
        $(#[$meta])*
        $vis struct $name;

        #[allow(unsafe_code, reason = "what OSTD promises cannot be seen by the compiler")]
        const _: () = {
            static FRAMES: $crate::Frames<$name> = $crate::Frames::new();

            // SAFETY: a guard of OSTD holds the interrupts of this CPU off, which also keeps the task on it. OSTD
            // numbers the CPUs from 0. A segment made of unused frames is their only owner, and is never given up.
            unsafe impl $crate::Host for $name {
                fn cpus() -> usize {
                    ::ostd::cpu::num_cpus()
                }

                #[inline]
                fn cpu() -> usize {
                    ::core::convert::Into::<u32>::into(::ostd::cpu::CpuId::current_racy()) as usize
                }

                #[inline]
                fn without_interrupts<R>(call: impl FnOnce() -> R) -> R {
                    let _guard = ::ostd::irq::disable_local();
                    call()
                }

                fn claim(bytes: ::core::ops::Range<usize>) -> Option<&'static mut [u8]> {
                    use $(::$io)+::HasVmReaderWriter;
                    let len = bytes.end.checked_sub(bytes.start)?;
                    let segment = ::ostd::mm::Segment::<()>::from_unused(bytes, |_| ()).ok()?;
                    let start = segment.writer().cursor();
                    ::core::mem::forget(segment);
                    // SAFETY: the segment was untyped memory of that length, and nobody has it any more. Its bytes may
                    // have any values.
                    Some(unsafe { ::core::slice::from_raw_parts_mut(start, len) })
                }

                fn say(message: ::core::fmt::Arguments<'_>) {
                    ::ostd::early_println!("framewright: {}", message);
                }
            }

            impl ::ostd::mm::frame::GlobalFrameAllocator for $name {
                fn alloc(&self, layout: ::core::alloc::Layout) -> Option<usize> {
                    FRAMES.alloc(layout)
                }

                fn dealloc(&self, addr: usize, size: usize) {
                    FRAMES.dealloc(addr, size);
                }

                fn add_free_memory(&self, addr: usize, size: usize) {
                    FRAMES.add_free_memory(addr, size);
                }
            }

            impl $name {
                /// Calls `call` with the allocator and the CPU's interrupts off; `None` before the first allocation.
                #[allow(dead_code, reason = "for reports, which a kernel may not have")]
                $vis fn with_pages<R>(
                    call: impl FnOnce(&$crate::Pages<$name>) -> R,
                ) -> Option<R> {
                    FRAMES.with_pages(call)
                }
            }
        };
    };
}
