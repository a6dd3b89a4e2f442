//! The engine: virtual CPUs, the order in which they run, and what they may do to each other.
//!
//! This folder makes one run of one machine. What memory costs belongs into `memory`, the report of a run into
//! `measure.rs`; nothing here may know a workload.
//!
//! | file | what for |
//! |---|---|
//! | `run.rs` | a machine with its CPUs, and the loop that runs them |
//! | `here.rs`, `sim.rs`, `words.rs` | what code on a CPU sees: its clock, the allocator's `Machine`, shared words |
//! | `running.rs`, `interrupts.rs` | what the running CPU does, waits for, and is interrupted by |
//! | `store_buffer.rs`, `access.rs` | the rules of an access: delayed stores, costs |
//! | `schedule.rs`, `window.rs` | whose turn it is, and what is measured |
//! | `world.rs` and below | the state that they work on |

pub mod run;
pub mod here;
pub(crate) mod sim;
pub(crate) mod words;
pub(crate) mod running;
mod interrupts;
pub(crate) mod store_buffer;
mod access;
mod schedule;
mod window;
pub(crate) mod world;
mod chances;
pub mod plant;
pub(crate) mod cpu;
mod context;
mod queue;
pub(crate) mod locks;
pub mod host;
