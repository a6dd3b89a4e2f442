//! `thpfioscale`: files that fill memory and push each other out, and then a process that wants huge pages.
//!
//! The workload that Linux's fragmentation avoidance series was measured with (mmtests,
//! `config-global-dhp__workload_thpfioscale`, November 2018). Four processes write files of 64 KiB, half as much again
//! as there is memory, all files at once and page by page, so that what the file system and the page cache allocate
//! lies mixed. Then four read them at random for as long as the writing took, and go on while a process touches half of
//! three quarters of the first node, in huge pages if it gets them. What counts is how many requests were served from a
//! free block of another mobility smaller than a pageblock; then how many huge pages were to be had, and how long a
//! fault took.
//!
//! Unlike the workloads of `workload.rs` it has no window: it begins, goes through its phases and ends. What it needs
//! of a kernel around the allocator it brings along:
//!
//! ```text
//! roles.rs     who does what on which CPU: writers, readers, faults, background threads
//! load.rs      what else the machine may do: compile (build.rs), serve files (network.rs)
//!   kernel.rs    how parts of a kernel get memory: files, objects, pages of processes
//!     disk.rs      what is dirty, when it is written, who waits; and all else that happens on a machine
//!     reclaim.rs   what the allocator asks for: pages freed, pages moved (`host.rs`)
//!       files.rs     files and their pages      slab.rs      kernel objects in slabs
//!       lists.rs     frames and LRU lists       buffers.rs   blocks of the file system
//!       costs.rs     what all of that takes
//! outcome.rs   what is counted
//! ```
//!
//! # Memory
//!
//! How large the machines of 2018 were is not written anywhere, but the percentages of huge pages that were printed
//! have two decimals: no number of faults that a node of 16 GiB leads to has all five of one machine, few of one of 32
//! GiB do, and any of one of 64 GiB. So a node has the proportions of one of 64 GiB with 3 GiB below the gap at 4 GiB:
//! zone DMA is 1/4096 of the first node, all below the gap 3/64; each at least a pageblock. What does not grow with
//! memory is a share of it, too ([`Marks`]): per-CPU lists, the log, what the kernel has from the start. But pageblocks
//! cannot shrink, and compaction needs a few that are free: so the marks are four times that share, as on a node of 16
//! GiB, with huge pages on, for which khugepaged raises `min_free_kbytes`; that grows with the number of zones, not
//! with their size, and would be a twentieth of a machine of 1 GiB.
//!
//! # Not there
//!
//! khugepaged; swap; memory groups; batches of pages on their way to the LRU lists; readahead (fio tells the kernel
//! that it reads at random); the time that the log takes on the disk; files that are open only while they are used.

mod phases;
mod roles;
mod load;
mod fio;
mod build;
mod network;
mod whole_files;
mod phase_state;
mod disk;
mod reclaim;
mod observe;
mod kernel;
mod files;
mod buffers;
mod slab;
mod lists;
mod chain;
mod machine_memory;
pub mod outcome;
mod fio_failure;
mod options;
mod costs;
#[cfg(test)]
mod tests;

pub use fio_failure::FioFailure as Failure;
pub use options::{Config, Load, Marks, Shrinkers, Slabs, Thpfioscale};
pub use outcome::FioOutcome as Outcome;
pub use phases::run;
