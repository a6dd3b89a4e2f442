//! Framewright in a user-space process.
//!
//! An [`Arena`] serves most programs. It maps memory (private, shared or of huge pages, on chosen nodes of the
//! machine). It hands that memory out as [`Pages`], which read as slices and free themselves. `examples/buffer_pool.rs`
//! shows one in use. Its [`MovablePage`]s may move while they are in use, and may be evicted. The parts below serve
//! other uses, and memory that is not the process' own:
//!
//! | machine | words | for |
//! |---|---|---|
//! | [`Native`] | atomics | threads of a process, each pinned to one of the allocator's CPUs while it allocates |
//! | [`Solo`] | plain cells | one thread that plays all CPUs: replay, tests, deterministic runs |
//!
//! [`Storage`] is the memory of the descriptors, for either.

#![deny(unnameable_types)]

pub mod arena;
mod background;
pub mod export;
mod movable;
mod owner;
mod thread;
mod native;
mod fork;
mod error;
mod ledger;
mod cpus;
pub mod interrupts;
mod current;
pub mod cgroup;
pub mod os;
mod bytes;
mod fences;
mod callbacks;
mod contents;
mod view;
mod waiters;
mod holder;
mod set_once;
mod solo;
mod prefetch;
mod storage;
mod words;
mod pointer;

/// What requests are made of, for programs that need nothing else of the core.
pub use framewright::{AllocError, NodeId, Order, Request, request};

pub use arena::pages::{Block, Handle, OwnedPages, Pages, Split};
pub use arena::{
    Arena, ArenaBuilder, ArenaReport, ArenaState, ArenaStats, BackgroundReclaim, Backing, Cause, Change, Commit,
    Contents, ContentsMut, HeldFrames, HugePage, LocalArena, LowMemory, MovablePage, NodeReport, Outcome, OwnedBlock,
    OwnerTotal, Owners, PageRange, Placement, RecoverError, Recovered, Relief, Transparent, Trimmed, pages,
};
pub use background::{Background, DrainIdle};
pub use callbacks::Callbacks;
pub use contents::Memory;
pub use cpus::registry::{Freeze, Rest};
pub use cpus::values::CpuValues;
pub use cpus::{CpuMode, RseqUnavailable};
pub use current::mark as thread_mark;
pub use error::ArenaError;
pub use export::{Export, ReportFile};
pub use ledger::format::LedgerFault;
pub use movable::{Leaving, MovableReport, Moving, PageOwner, Scan, Shrink};
pub use native::{Native, NativePin};
pub use owner::Owner;
pub use solo::{Solo, SoloIrq, SoloPin, SoloWord};
pub use storage::Storage;
pub use words::NativeWord;

/// The readme's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/project.md")]
struct Readme;

/// So is that of the embedder's guide.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;

/// And that of the page on arenas that grow.
#[cfg(doctest)]
#[doc = include_str!("../docs/growing-arenas.md")]
struct GrowingArenas;

/// And that of the page on crash recovery.
#[cfg(doctest)]
#[doc = include_str!("../docs/recovery.md")]
struct Recovery;

/// And that of the page on movable memory.
#[cfg(doctest)]
#[doc = include_str!("../docs/movable-pages.md")]
struct MovablePages;
