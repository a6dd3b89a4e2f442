//! A page-frame allocator with the semantics of Linux's, to embed.
//!
//! The core takes no memory of its own, names no atomic, thread or clock, has no `unsafe`, and does not panic. What it
//! needs of its surroundings comes in through [`machine::Machine`]; the memory of its descriptors is handed in by the
//! caller ([`Parts`]).
//!
//! The folders below stand in the order of a call: each uses only what stands below it, and within a folder each file
//! only what its `mod.rs` declares below it. `ci/layers.sh` checks both.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![deny(unnameable_types)]

mod saved; // the exact state, as bytes
pub mod tags; // a layer above the calls: the owner of each block
mod observe; // reads everything, changes nothing
pub mod report; // the files of /proc, as data: knows no allocator
mod api; // the public calls
mod boot; // from a memory map to an allocator
mod reclaim; // when memory is short
mod compaction; // which pageblock is emptied
mod range; // memory by its place: ranges, hotplug, migration
mod upkeep; // drains, deferred merging, counters
mod zonelist; // which zone next
mod pcp; // a CPU's blocks of one zone
mod free_path; // from per-CPU lists to the zone
mod zone; // all that needs the zone lock
mod buddy; // free lists, split, merge, fallback
mod shared; // what every layer above stands on
mod frame; // what is known of a frame
mod stat; // counters
mod sync; // locks and waiting
mod seam; // the world outside
mod policy; // switches and formulas
mod types; // units, requests, errors

/// The switches, their numbers, and the presets.
pub mod mechanisms {
    pub use crate::policy::mechanisms::*;
    pub use crate::policy::presets::PRESETS;
}

/// Units: frame numbers, orders, nodes, CPUs, zones, mobilities.
pub mod units {
    pub use crate::types::migratetype::MigrateType;
    pub use crate::types::units::*;
}

/// Sizes that are computed from others at boot: watermarks, reserves, per-CPU lists.
pub mod watermark {
    pub use crate::policy::pcp_size::PcpSize;
    pub use crate::policy::watermark::*;
}

pub use api::allocator::{Allocator, FrameState};
pub use api::bulk::BulkFree;
pub use api::context::{AnyContext, Interrupt};
pub use api::cpu_handle::CpuHandle;
pub use api::fork::Frozen;
pub use api::local::Local;
pub use api::reporting::{Reporting, Unreported};
pub use api::zone_calls::InZone;
pub use boot::boot::Parts;
pub use boot::config::{self, Config, Region};
pub use boot::layout::Layout;
pub use compaction::progress::Compacted;
pub use frame::cluster::Cluster;
pub use frame::frame::Geometry;
pub use frame::map::Run;
pub use observe::report_source::{Counters, Totals, ZoneMemory};
pub use observe::validate::{self, FrameCounts, Violation};
pub use pcp::pcp::Pcp;
pub use pcp::shard::{Magazine, Shard};
pub use policy::features::Features;
pub use policy::mechanisms::Mechanisms;
pub use policy::watermark::Tuning;
pub use reclaim::kswapd::Balanced;
pub use reclaim::one_zone::Rights;
pub use saved::calls::{self as saved_state, RestoreError, SaveError};
pub use seam::event::{self, Event};
pub use seam::field::Field;
pub use seam::machine::{self, Machine};
pub use shared::Cpu;
pub use stat::node_stat::{NodeDiffs, NodeStat};
pub use stat::zone_diffs::ZoneDiffs;
pub use sync::queued_lock;
pub use sync::smp_list::{self, Link};
pub use types::error::{self, AllocError, BootError, FreeError, Shortage, Why};
pub use types::migratetype::MigrateType;
pub use types::request::{self, Gfp, NodeSet, Policy, Request};
pub use types::units::{CpuId, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
pub use upkeep::vmstat_refresh::Refreshed;
pub use zone::zone::Zone;
