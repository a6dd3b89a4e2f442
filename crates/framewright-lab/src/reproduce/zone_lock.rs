//! `zone-lock`: processes that fault memory in and give it back on 112 CPUs, under the six kernels of a series of 2018 and under
//! our own default.
//!
//! The published table (`data/published/zone-lock.toml`) has faults a second, how much CPU time went into waiting for the zone's
//! lock, and for four kernels the free blocks by order that were left. We run the same workload on the machine that the table
//! is from, with each kernel's preset of mechanisms, and ask for all three.
//!
//! # What is not as it was
//!
//! Memory is a fraction of the published ([`Scale`]): processes are smaller, and the free memory of a node by as much, so that the
//! share of it that is ever used stays the same. A run goes through a few passes, in each of which every process maps and unmaps its memory
//! once on average, instead of three minutes; the first passes are not measured. Everything else of a kernel is in
//! `page_fault.rs` of the simulator.
//!
//! - [`published`]: the table;
//! - [`plan`]: what is run;
//! - [`others`]: other workloads, under every preset;
//! - [`result`]: theirs and ours;
//! - [`judge`]: what has to hold;
//! - [`text`]: all of it for a terminal.

pub mod published;
pub mod plan;
pub mod others;
pub mod result;
pub mod judge;
pub mod text;

pub use others::Other;
pub use plan::{Kernel, Lengths, Plan, Runs, Scale};
pub use published::Published;
pub use result::Reproduction;
