//! `thpfioscale`: files fill memory and evict each other; then a process wants huge pages.
//!
//! Linux's fragmentation avoidance series was measured with it (mmtests, `config-global-dhp__workload_thpfioscale`,
//! November 2018). Four processes write files of 64 KiB, half as much again as there is memory. They write all files at
//! once and page by page, so that allocations of the file system and the page cache lie mixed. Then four processes read
//! the files at random for as long as the writing took. They go on while another process touches half of three quarters
//! of the first node, in huge pages if it gets them.
//!
//! The main result is the number of requests that were served from a free block of another mobility smaller than a
//! pageblock. The others are the number of huge pages that were allocated, and how long a fault took.
//!
//! Unlike the workloads of `workload/` it has no window: it begins, goes through its phases and ends. It models the
//! parts of a kernel that it needs around the allocator:
//!
//! ```text
//! roles.rs     the roles of CPUs: writers, readers, faults, background threads
//! load.rs      what the machine does: fio.rs, or compile (build.rs), or serve files (network.rs)
//!   kernel.rs    how parts of a kernel get memory: files, objects, pages of processes
//!     disk.rs      what is dirty, when it is written, and the rest of a machine's activity
//!     reclaim.rs   what the allocator asks for: pages freed, pages moved (`host.rs`)
//!       files.rs     files and their pages      slab.rs      kernel objects in slabs
//!       lists.rs     frames and LRU lists       buffers.rs   blocks of the file system
//!       costs.rs     what all of that takes
//! phases.rs    one run; observe.rs and outcome.rs say what it shows; options.rs has its options
//! ```
//!
//! # Memory
//!
//! The size of the machines of 2018 is not published, but the percentages of huge pages were printed with two decimals.
//! No number of faults on a node of 16 GiB gives all five percentages of one machine; few numbers on a node of 32 GiB
//! do, and any on a node of 64 GiB. So a node here has the proportions of one of 64 GiB with 3 GiB below the gap at 4
//! GiB. Zone DMA is 1/4096 of the first node, and all memory below the gap is 3/64; each is at least a pageblock.
//!
//! What does not grow with memory is scaled, too ([`Marks`]): per-CPU lists, the log, and the memory that the kernel
//! has from the start. But pageblocks cannot shrink, and compaction needs a few free ones. So the marks are four times
//! that share, as on a node of 16 GiB with huge pages on. For huge pages khugepaged raises `min_free_kbytes`. That
//! grows with the number of zones, not with their size, and would be a twentieth of a machine of 1 GiB.
//!
//! # Left out
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
