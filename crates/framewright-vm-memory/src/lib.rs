//! Guest memory of a virtual machine, out of an arena of `framewright-rt`, for the traits of the crate `vm-memory`.
//!
//! A hypervisor that has one [`Arena`](framewright_rt::Arena) for all its guests takes the memory of each guest from
//! it. [`GuestRegionArena`] is a block of the arena at a guest address, and implements `GuestMemoryRegion`.
//! [`GuestMemoryArena`] is all regions of a guest, and implements `GuestMemoryBackend` and `GuestMemory`. When the last
//! owner of a region drops it, the block is free again.
//!
//! ```
//! use framewright_rt::Arena;
//! use framewright_vm_memory::{BalloonDevice, GuestRange, from_ranges};
//! use std::sync::Arc;
//! use vm_memory::{Bytes, GuestAddress};
//!
//! let arena = Arc::new(Arena::builder().size(256 << 20).build()?);
//! let below_hole = GuestRange::new(GuestAddress(0), 96 << 20);
//! let above_hole = GuestRange::new(GuestAddress(4 << 30), 32 << 20);
//! let memory = from_ranges::<()>(&arena, &[below_hole, above_hole])?;
//! memory.write_obj(0xaa55_u16, GuestAddress(510))?;
//!
//! let mut device = BalloonDevice::new(memory.clone()); // what virtio-balloon does on the host's side
//! let given_back = device.report(GuestAddress(2 << 20), 4 << 20)?; // the guest says: these are free
//! assert_eq!(given_back, 4 << 20);
//! device.inflate(GuestAddress(64 << 20), 4096)?; // the guest's balloon has this page
//! assert_eq!(memory.read_obj::<u16>(GuestAddress(510))?, 0xaa55);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | side | does | file |
//! |---|---|---|
//! | guest | tells of free blocks; takes blocks into its balloon | `guest.rs` |
//! | host | gives pages back to the system; counts the balloon | `device.rs`, `range_set.rs` |
//! | host | lays blocks side by side in the guest's address space | `memory.rs` |
//! | host | one block as a region | `region.rs`, which has the unsafe code |
//!
//! The files are in call order.
#![deny(unsafe_code)]

mod guest;
mod device;
mod range_set;
mod memory;
mod region;
mod error;

pub use device::{BALLOON_PAGE, BalloonDevice};
pub use error::Error;
pub use guest::{Balloon, Reported, report_free};
pub use memory::{GuestMemoryArena, GuestRange, from_ranges, from_ranges_shared};
pub use region::GuestRegionArena;
