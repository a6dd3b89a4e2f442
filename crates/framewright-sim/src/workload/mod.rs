//! What CPUs of the simulated machine do with the allocator.
//!
//! A [`Workload`] is written `name:option=value,…` and prints as it parses. A [`Job`] is one run of it, from the memory
//! map to the checks at the end; [`run()`] gives its [`Outcome`].
//!
//! Every CPU does its part of the workload over and over. The run is measured in a window (`run.rs`). Before it, lists
//! and caches reach their steady state. After it, CPUs go on until the last of them has left it, so that none is
//! measured while others rest. Then each frees what it holds. All that is random comes from the run's seed.
//!
//! This folder holds workloads with a window. What has phases instead is [`crate::thpfioscale`].
//!
//! | file | what for |
//! |---|---|
//! | `job.rs`, `catalog.rs` | one run; every workload by its name |
//! | `page_fault.rs`, `page_bench.rs`, `ops.rs` and others | one kind of workload each |
//! | `lru/` | the LRU lists of page faults |
//! | `play.rs` | the traits of a workload |
//! | `gate.rs`, `floor.rs`, `watch.rs`, `memory_map.rs` | what all CPUs of a run share |

mod job;
mod catalog;
mod aim7;
mod aim9;
mod dealt;
mod netperf;
mod ops;
mod page_fault_mix;
mod page_fault;
mod pipe;
mod page_bench;
mod lru;
mod play;
mod gate;
mod failure;
mod floor;
pub mod watch;
mod memory_map;
pub mod aftermath;

pub use crate::settings::SpecError;
pub use aftermath::Aftermath;
pub use aim7::Aim7;
pub use aim9::Aim9;
pub use catalog::Workload;
pub use dealt::{ParallelFree, Rand};
pub use failure::{Cause, Failure};
pub use floor::Progress;
pub use job::{Job, LARGE_MACHINE, Outcome, Passes, run, run_and_look, run_watched};
pub use lru::LruLists;
pub use netperf::Netperf;
pub use ops::Ops;
pub use page_bench::{Bulk, PageAlloc, PageBench01, PageBench02, PageBench03, PageBench04, Repeat};
pub use page_fault::PageFault1;
pub use page_fault_mix::PageFaultMix;
pub use pipe::{PageBench05, ProducerConsumer};
