//! A page-frame allocator with the semantics of Linux's, to embed.
//!
//! The core takes no memory of its own, names no atomic, thread or clock, has no `unsafe`, and does not panic. What it
//! needs of its surroundings comes in through [`machine::Machine`]; the memory of its descriptors is handed in by the
//! caller ([`boot`]).
//!
//! The modules below stand in the order in which an allocation visits them; each uses only what stands below it.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod atlas;
mod inspect;
mod statistics;
mod freeze;
mod context;
mod nolock;
mod bulk;
mod contig_search;
mod local;
mod background;
mod allocator;
pub mod report;
pub mod validate;
mod front;
mod slowpath;
mod scanners;
mod compaction;
mod contig;
mod parts;
mod migrate;
pub mod boot;
mod layout;
pub mod config;
mod refresh;
mod drain;
mod remerge;
mod boost;
mod node;
mod node_states;
mod numa_stat;
mod refill;
mod stock;
mod pcp;
mod tuned;
mod idle;
mod depot;
mod ring;
mod give;
mod owners;
mod together;
mod batch;
mod repair;
mod retype;
mod zone;
mod disown;
mod fallback;
mod census;
mod buddy;
mod list;
mod deferred;
mod search;
mod ground;
mod zone_stat;
mod node_stat;
mod diffs;
mod drifts;
mod count;
mod cluster;
mod frame;
mod map;
mod estate;
mod pageblock;
pub mod watermark;
mod vmstat;
mod zone_lock;
pub mod mechanisms;
pub mod queued;
pub mod smp_list;
mod lock;
mod field;
mod lines;
pub mod machine;
mod step;
pub mod event;
pub mod request;
pub mod error;
pub mod pfn;

pub use allocator::{Allocator, FrameState};
pub use background::Balanced;
pub use boot::Parts;
pub use bulk::BulkFree;
pub use cluster::Cluster;
pub use compaction::Compacted;
pub use config::{Config, Region};
pub use context::{AnyContext, Interrupt};
pub use depot::{Magazine, Shard};
pub use diffs::Diffs;
pub use error::{AllocError, BootError, FreeError, Why};
pub use event::Event;
pub use field::Field;
pub use frame::Geometry;
pub use freeze::Frozen;
pub use ground::Cpu;
pub use inspect::Counters;
pub use layout::Layout;
pub use local::Local;
pub use machine::Machine;
pub use map::Run;
pub use mechanisms::Mechanisms;
pub use node_stat::{NodeDiffs, NodeStat};
pub use pcp::Pcp;
pub use pfn::{CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
pub use refresh::Refreshed;
pub use request::{Gfp, NodeSet, Policy, Request};
pub use smp_list::Link;
pub use validate::{Census, Violation};
pub use watermark::Tuning;
pub use zone::Zone;
