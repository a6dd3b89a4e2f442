//! `framewright reproduce`: published tables, made again on the simulated machine and set beside ours.
//!
//! An experiment has a file of published numbers (`data/published`), a plan of runs, and a list of checks: what has to hold
//! before one may say that a table was reproduced. Three things are kept apart in all that it prints: rows to which a
//! number of the machine was fitted, which say nothing about the model; rows that are predicted; and how far each of them
//! moves when one of the machine's numbers is a tenth smaller or larger.
//!
//! - [`check`]: what had to hold, and whether it did;
//! - [`variation`]: which of the machine's numbers matter, and how much;
//! - [`zone_lock`]: page faults on 112 CPUs under six kernels, from 2018, and ours.

pub mod check;
pub mod variation;
pub mod zone_lock;

/// Version of the JSON.
pub const SCHEMA: &str = "framewright-reproduce/1";
