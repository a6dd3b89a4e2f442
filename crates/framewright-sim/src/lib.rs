//! A deterministic machine with shared caches, as many CPUs as one likes, and the allocator on it.

pub mod machine;
pub mod model;
pub mod report;
