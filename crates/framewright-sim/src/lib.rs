//! A deterministic machine with shared caches, as many CPUs as one likes, and the allocator on it.

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

/// Version of all that makes a run's result: that of the crate, and a digest of the sources of simulator and allocator.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("FRAMEWRIGHT_SIM_SOURCES"));
