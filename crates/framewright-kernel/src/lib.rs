//! Framewright in a kernel: all that lies between its functions and the allocator.
//!
//! A kernel writes five functions ([`Kernel`]): preemption off and on, interrupts off and on, the number of the running
//! CPU. It says which contexts call the allocator ([`Contexts`]), and boots:
//!
//! ```
//! # use framewright_kernel::{Contexts, Framewright, Kernel};
//! use framewright::request::GFP_KERNEL;
//! use framewright::{Config, NodeId, Order, PfnRange, Region, Request};
//!
//! struct Mine;
//! // SAFETY: this machine has one CPU, one thread and no interrupts.
//! unsafe impl Kernel for Mine {
//!     const CONTEXTS: Contexts = Contexts::Tasks;
//!     fn pin(&self) {}
//!     fn unpin(&self) {}
//!     fn irq_save(&self) -> usize { 0 }
//!     fn irq_restore(&self, _: usize) {}
//!     fn cpu(&self) -> usize { 0 }
//! }
//!
//! static PAGES: Framewright<Mine> = Framewright::new();
//!
//! # fn phys_to_virt(_: PfnRange) -> &'static mut [u8] { Vec::leak(vec![0xa5; 8 << 20]) }
//! fn boot() -> Result<(), framewright_kernel::Error> {
//!     let map = [Region::usable(0x100, 0x4_0000, 0)]; // firmware's memory map: 1 GiB in frames of 4 KiB
//!     let image = PfnRange::new(0x100, 0x900); // in use: the kernel itself
//!     let cpus = [NodeId(0)]; // the node of each CPU
//!     let config = Config { reserved: &[image], ..Config::new(&map, &cpus) };
//!     let direct = PfnRange::new(0, 0x4_0000); // what the kernel has mapped: the descriptors lie there
//!     PAGES.boot_within(&Mine, &config, direct, |own| phys_to_virt(own))?;
//!     Ok(())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! boot()?;
//! let pages = PAGES.get().expect("booted");
//! let block = pages.alloc(&Request::new(GFP_KERNEL, 3))?; // 2^3 frames
//! pages.free(block, Order(3))?;
//! # pages.validate()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Framewright::boot_within`] finds the place of the descriptors and reserves it. A kernel that wants another place,
//! or has many ranges in use, does that itself: [`bytes`] says how much memory they need, [`place`] where there is
//! room, and [`Framewright::boot`] boots with a block.
//!
//! The files stand in the order in which a kernel meets them. All unsafe code of the crate is in `memory.rs`;
//! `machine.rs` has a function that only an unsafe call reaches ([`KernelMachine::pinned_at`]).
#![no_std]
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cell; // the static cell; boot
mod boot; // how much memory the descriptors need, and where it lies
mod machine; // from a kernel's functions to the core's seam
mod memory; // all unsafe code: descriptors in a block of bytes, a value for each CPU, a value set once
mod error; // what boot refuses
mod kernel; // what a kernel writes
mod words; // core's atomics

pub use boot::{bytes, place, tag_bytes, tag_words};
pub use cell::{Framewright, Pages};
pub use error::Error;
pub use kernel::{Context, Contexts, Fences, Kernel};
pub use machine::{IrqGuard, KernelMachine, PinGuard};
pub use memory::PerCpuValues;
pub use words::{U8, U16, U32, U64, Usize};
