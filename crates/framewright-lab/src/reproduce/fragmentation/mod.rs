//! `fragmentation`: files that fill memory and push each other out, then huge pages, under the kernels of the
//! fragmentation avoidance series of 2018, and ours.
//!
//! The published table (`data/published/fragmentation.toml`) has four kernels on two machines, with huge pages asked
//! for and not: how many requests were served from a block of another mobility smaller than a pageblock, how many
//! faults got a huge page, how long faults took. The same workload, thpfioscale, runs on the simulated machine with
//! memory, files and log scaled down alike, each with several seeds, since one run says little. Beside it stands what
//! nobody published: each mechanism alone, huge pages by round, where unmovable pages lie.
//!
//! # What the rows say
//!
//! No number of a machine was fitted. The machines' memory and the log's size are not known, nor all that ran besides:
//! what the workload assumes of them was chosen knowing the tables, so the first kernel's rows on one socket are shown
//! as fitted. Counts of events are not comparable with theirs, only by how much a patch changes them, and the order of
//! kernels. Latencies are shown, not judged: the disk is not theirs.
//!
//! - [`mod@found`]: what came of it, table by table;
//! - `checks`: what has to hold;
//! - `map`: a picture of memory;
//! - [`measured`]: what runs show;
//! - [`plan`]: what is run;
//! - [`published`]: the tables, and what a real kernel did.

pub mod found;
mod checks;
mod map;
pub mod measured;
pub mod plan;
pub mod published;

pub use found::found;
pub use plan::{Case, CaseRuns, FragmentationLengths, FragmentationPlan, Purpose};
pub use published::FragmentationTables;
