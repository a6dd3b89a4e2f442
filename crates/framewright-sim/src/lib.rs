//! A deterministic machine with shared caches, as many CPUs as one likes, and the allocator on it.

pub mod stress;
pub mod workload;
pub mod thpfioscale;
pub mod mlc;
pub mod speed;
pub mod stage;
pub mod run;
pub mod measure;
mod sim;
pub mod host;
mod words;
pub mod chance;
mod running;
mod interrupts;
mod window;
mod world;
mod cpu;
mod locks;
mod counters;
mod queue;
mod memory;
mod directory;
pub mod arena;
pub mod report;
pub mod machine;
pub mod model;

pub use sim::Sim;
pub use words::SimWord;

/// Version of all that makes a run's result: that of the crate, and a digest of the sources of simulator and allocator.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("FRAMEWRIGHT_SIM_SOURCES"));
