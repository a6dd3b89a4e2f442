//! `zone-layout`: what it costs to have the zone's lock on the cache line of the lists that its owner changes.
//!
//! In 2014 Linux put the lock right before the lists of order 0, so that its owner gets the lists with it. On a machine
//! with very many CPUs aim7 then lost nearly half of its throughput: CPUs that wait for the lock read its line over and
//! over, and every change of a list has to get the line back from all of them. In 2015 the lock went behind the lists.
//! Both measurements are in `data/published/zone-layout.toml`; here they are made again with the real offsets of our
//! zone ([`framewright::mechanisms::LockPlace`]), a ticket lock, and the per-CPU lists of that time.
//!
//! # What is derived
//!
//! A run lasts until a number of processes have ended. A job is a fixed number of processes, so jobs per minute change
//! as processes per second do, and the time of a fixed number of jobs inversely. *System time* is the CPU time of these
//! jobs in which no process computes. CPUs of the model are never idle and never switch: theirs were idle for 7 to 18 %
//! of the time, by the published seconds, and what they switched to is not modelled.

//!
//! - [`mod@found`]: what came of it, table by table, and what has to hold;
//! - [`plan`]: the published table, and what is run.

pub mod found;
pub mod plan;

pub use found::found;
pub use plan::{ZoneLayoutLengths, ZoneLayoutPlan, ZoneLayoutTable};
