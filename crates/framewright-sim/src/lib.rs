//! A deterministic machine with shared caches and up to 1,024 CPUs, and the page allocator on it.
//!
//! The modules stand in call order: each uses only what is declared below it. From the top:
//!
//! | module | what it is |
//! |---|---|
//! | [`stress`] | the allocator under a random schedule, with everything checked |
//! | [`thpfioscale`] | one fragmentation experiment, with the parts of a kernel that it needs |
//! | [`workload`] | what CPUs do in measured runs, and the runs themselves |
//! | [`mlc`], [`speed`] | checks of the simulator: its latencies, its own speed |
//! | [`stage`] | an allocator in the memory of a simulated machine |
//! | [`measure`], [`report`] | what a run found |
//! | `engine` | virtual CPUs: turns, costs, interrupts, locks |
//! | `memory` | the memory system: lines, the directory, memory controllers |
//! | [`machine`], [`model`] | a machine as a file, and as numbers to compute with |

pub mod stress;
pub mod thpfioscale;
pub mod workload;
pub mod mlc;
pub mod speed;
mod settings;
pub mod stage;
pub mod measure;
mod engine;
mod memory;
pub mod report;
pub mod machine;
pub mod model;

pub use engine::sim::Sim;
pub use engine::words::SimWord;
pub use engine::{host, plant as chance, run};
pub use memory::arena;

/// Version of the program that makes a run's result.
///
/// It is the crate's version, and a digest of the sources of simulator and allocator.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("FRAMEWRIGHT_SIM_SOURCES"));
