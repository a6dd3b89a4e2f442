//! `zone-lock`: processes that fault memory in and give it back on 112 CPUs, under the six kernels of a series of 2018
//! and under our own default.
//!
//! The published table (`data/published/zone-lock.toml`) has faults a second, how much CPU time went into waiting for
//! the zone's lock, and for four kernels the free blocks by order that were left. The same workload runs on the machine
//! that the table is from, with each kernel's preset of mechanisms, and is asked for all three.
//!
//! # What is not as it was
//!
//! Memory is a fraction of the published ([`MemoryScale`]): processes are smaller, and the free memory of a node by as
//! much, so that the share of it that is ever used stays the same. A run goes through a few passes, in each of which
//! every process maps and unmaps its memory once on average, instead of three minutes; the first passes are not
//! measured.
//! Everything else of a kernel is in `page_fault.rs` of the simulator.
//!
//! - [`mod@found`]: what came of it: its tables in their order, and the figures to look at first;
//! - `checks`: what has to hold of the table, and of our kernel;
//! - `memory`: what kernels left of memory;
//! - `others`: pages on LRU lists, and other workloads under every preset;
//! - `table`: the table, its reasons, its curves and its shares of time;
//! - [`plan`]: what is run;
//! - [`published`]: the table.

pub mod found;
mod checks;
mod memory;
mod others;
mod table;
pub mod plan;
pub mod published;

pub use found::found;
pub use plan::{KernelPreset, MemoryScale, Other, ZoneLockLengths, ZoneLockPlan};
pub use published::ZoneLockTable;
