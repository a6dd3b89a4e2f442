//! The C interface of the kit for kernels (`framewright-kernel`): a freestanding static library, and
//! `framewright_kernel.h`.
//!
//! A kernel in C links the library, defines the `fw_hook_` functions, and boots the allocator from options. README.md
//! is the page that its author reads first. The header is made from these files by cbindgen;
//! `tests/interface/header.rs` compares them.
//!
//! # The rules of the interface
//!
//! | rule | file |
//! |---|---|
//! | a call returns its result, or a negative number of `framewright-ffi` | `calls.rs` |
//! | a frame is a number, so no result needs a pointer | `calls.rs` |
//! | hooks that the fast path calls are functions of these names, bound by the linker | `kernel.rs` |
//! | hooks that are seldom called are pointers, and may be NULL | `hooks.rs` |
//! | which contexts call is chosen by the features of the build | `kernel.rs` |
//! | arrays of the options are used as they lie: there is no memory to copy them to | `options.rs` |
//!
//! No call panics: `ci/no_panic.sh` links each and looks. A kernel has one allocator, since its contexts, its CPUs and
//! its hooks are there once.
//!
//! Cost: a call takes at most 1.2 times the instructions of the call in Rust (`examples/kernel_calls.rs`).
//!
//! Rejected: a table of functions for all hooks, which would be an indirect call for each pin; and a handle of the
//! allocator, which each call would have to check.
//!
//! The files are in call order.
#![no_std]
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "panic-handler")]
mod panic; // what a static library must have
mod calls; // allocate, free
mod ranges; // memory by its place
mod upkeep; // background work, CPUs that come and go
mod reports; // texts, counters, the check of everything
mod boot; // how much memory descriptors need, where it lies, boot
mod options; // what a kernel hands in
mod request; // flags and numbers of a call
mod kernel; // the kernel as the kit sees it; the allocator
mod hooks; // functions of the kernel that are seldom called

pub use boot::*;
pub use calls::*;
pub use framewright_ffi::numbers::*;
pub use hooks::*;
pub use kernel::*;
pub use options::*;
pub use ranges::*;
pub use reports::*;
pub use request::{FW_DMA, FW_DMA32};
pub use upkeep::*;
