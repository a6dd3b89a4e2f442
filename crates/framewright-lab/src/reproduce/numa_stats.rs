//! `numa-stats`: an allocation and a free on 88 CPUs, by how much of the NUMA counters a CPU may keep before it tells the zone.
//!
//! The published table (`data/published/numa-stats.toml`) has cycles and throughput at nine thresholds and without the counters. We run
//! the same loop on the machine that the table is from, with the counters of each row, and below it what the table does not have: the
//! kernel before the series, counters on lines of their own, those of Linux ≥ 5.14, and our default with and without.
//!
//! # What the rows say
//!
//! Above a few thousand the threshold does not matter any more. What is left there is the time of the instructions of one
//! kernel or the other, which is not ours: those four rows are *restated*, by numbers in [`plan`], and flagged. What is predicted is how much
//! dearer it gets when the zone is told more often: nobody waits for the counters, but all CPUs read the number of free CMA frames
//! beside them.
//!
//! - [`published`]: the table;
//! - [`plan`]: what is run;
//! - [`result`]: theirs and ours;
//! - [`judge`]: what has to hold;
//! - [`text`]: all of it for a terminal.

pub mod published;
pub mod plan;
pub mod result;
pub mod judge;
pub mod text;

pub use plan::{Lengths, Plan, Runs};
pub use published::Published;
pub use result::Reproduction;
