//! Plays operations on an allocator and judges each answer.
//!
//! Here lives what stands between a scenario and a machine. What is right is the oracle's to say; what an operation is, the language's.
//!
//! | file | plays |
//! |---|---|
//! | `callbacks.rs` | the machine's callbacks, which may play operations in turn |
//! | `perform.rs` | an operation: which of the methods below |
//! | `requests.rs`, `range_requests.rs`, `frees.rs` | requests, requests by place, frees |
//! | `hotplug.rs`, `cpus.rs`, `counting.rs` | memory hotplug, CPUs and nodes, counters |
//! | `player.rs` | the state that all of them share |

mod callbacks;
mod perform;
mod hotplug;
mod cpus;
mod counting;
mod requests;
mod range_requests;
mod frees;
pub(crate) mod player;
