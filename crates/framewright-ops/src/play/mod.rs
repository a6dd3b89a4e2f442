//! Plays operations on an allocator and judges each answer.
//!
//! This folder carries operations out. Which answer is right belongs into `oracle/`, what an operation is into
//! `language/`.
//!
//! | file | plays |
//! |---|---|
//! | `callbacks.rs` | the machine's callbacks, which may play operations in turn |
//! | `perform.rs` | an operation, by one of the methods below |
//! | `requests.rs`, `range_requests.rs`, `frees.rs` | requests, requests by place, frees |
//! | `free_lists.rs` | free lists as a report shows them |
//! | `hotplug.rs`, `cpus.rs`, `counting.rs` | memory hotplug, CPUs and nodes, counters |
//! | `player.rs` | the state that all of them share |

mod callbacks;
mod perform;
mod free_lists;
mod hotplug;
mod cpus;
mod counting;
mod requests;
mod range_requests;
mod frees;
pub(crate) mod player;
