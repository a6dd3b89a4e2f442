//! Memory of the process with an allocator over it.
//!
//! An [`Arena`] owns three things: memory, as pages from the kernel or handed in; descriptors, in memory of their own;
//! and a [`framewright::Allocator`] over both. An [`ArenaBuilder`] describes it. It is `Send + Sync`: threads share it
//! by reference (`std::thread::scope`) or as an `Arc<Arena>`. Many arenas may exist, independent of each other.
//!
//! Blocks come as [`pages::Pages`], which know their address, read as a slice and free themselves. Frames are numbered
//! from the start of [`Arena::frames`], and lie side by side at [`Arena::address`]: frame `n` is `n` pages above frame
//! 0.
//!
//! # Soundness of slices
//!
//! `&mut [u8]` of a block is sound because the allocator hands each frame out once. Any code that knows a frame number
//! could free it. So the arena's allocator, with its interface of numbers, is reached by an `unsafe` call:
//! [`Arena::allocator`]. Calls that only read, or cannot take a block from its owner, are safe.
//!
//! # Differences from a kernel
//!
//! One zone for each node, no watermarks, and blocks of up to 1 GiB at multiples of their size: [`ArenaBuilder`] has an
//! option for each. A 1 TiB arena is ready in 15 ms and takes some 20 MiB, of which 9 are page tables.
//!
//! Rejected: an arena that is a handle by itself (`Arc` inside). A reference is enough for most programs, and costs no
//! counter that all threads share.

mod recover;
mod build;
mod file;
mod shape;
mod builder;
mod local;
mod movable_page;
mod relief;
mod trim;
mod ranges;
mod stats;
mod growth;
pub mod pages;
#[expect(clippy::module_inception, reason = "the file of the type that the folder is about")]
mod arena;
mod reclaim;
mod resize;
mod at_rest;
mod inner;
mod workers;
mod owners;
mod sizing;
mod calls;
mod room;
mod sections;
mod hooks;
mod state;
mod metadata;
mod memory;
mod backing;

pub use crate::os::{HugePage, Placement};
pub use arena::Arena;
pub use backing::{ArenaReport, Backing, NodeReport, Outcome, Transparent};
pub use builder::ArenaBuilder;
pub use hooks::{Cause, Change, Commit, LowMemory};
pub use local::LocalArena;
pub use movable_page::{Contents, ContentsMut, MovablePage};
pub use owners::{OwnedBlock, OwnerTotal, Owners};
pub use ranges::PageRange;
pub use reclaim::BackgroundReclaim;
pub use recover::{HeldFrames, RecoverError, Recovered};
pub use relief::Relief;
pub use state::ArenaState;
pub use stats::ArenaStats;
pub use trim::Trimmed;
