//! The simulated machine, and the allocator on it.

mod allocator;
mod engine;
mod hosts;
mod locks;
mod machines;
mod mlc;
mod nmis;
mod programs;
mod smp_list;
mod stress;
mod thpfioscale;
mod workloads;
