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
//! The crate depends on no version of OSTD. The macro names what it needs of it, in the crate that has chosen one.
//!
//! The files stand in the order of a call.
//!
//! [`Allocator::alloc_exact`]: framewright::Allocator::alloc_exact
//! [`Allocator::free_exact`]: framewright::Allocator::free_exact
#![no_std]
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod glue; // what is written over OSTD's names
mod frames; // the three calls; boot
mod host; // what is asked of OSTD
mod ranges; // memory that was added before boot

pub use frames::Frames;
pub use host::{Host, Hosted};

/// The allocator of a host.
pub type Pages<H> = framewright_kernel::Pages<Hosted<H>>;
