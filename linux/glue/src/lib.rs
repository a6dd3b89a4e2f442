//! Framewright as Linux's page allocator: the part in Rust.
//!
//! Linux keeps its zonelists, watermarks, reclaim and the preparation of pages. Where it would take a block off a list
//! of a zone, or put one on it, it calls the functions here. `../kernel/` is the other side: it translates
//! zones and pages, and has the functions that the kit needs.
//!
//! | Linux | here |
//! |---|---|
//! | a zone | [`framewright::ZoneIdx`]: node and kind |
//! | a page | its frame number |
//! | `alloc_flags` | the bits `FW_LINUX_*` of `calls.rs` |
//! | tasks, soft interrupts, hard interrupts | three sets of lists for each CPU; an NMI has none |
//! | memory before `memblock_free_all` | allocated at boot, and freed by Linux part by part |
//!
//! Cost: a call from C, and three calls back to it: preemption off, the CPU's number and context, preemption on.
//!
//! Rejected: Rust's own support in Linux. It needs a kernel of 6.1 or later that was configured for Rust, one version of
//! the compiler, and an own build of `core`; this needs none of them.
//!
//! The files are in call order.
#![no_std]
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "panic-handler")]
mod panic; // what a static library must have
mod calls; // allocate, free, look at a zone
mod blocks; // single pageblocks and free blocks, for Linux's compaction and its ranges
mod reports; // what /proc shows
mod boot; // from memblock's map to the allocator
mod kernel; // Linux as the kit sees it
mod text; // texts in buffers of C

pub use blocks::*;
pub use boot::*;
pub use calls::*;
pub use kernel::{Linux, pages};
pub use reports::*;
