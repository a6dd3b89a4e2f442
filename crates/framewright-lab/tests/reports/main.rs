//! What people and tools see of results, most of which are made up.

mod compare;
mod fragmentation;
mod irq_safe;
mod numa_stats;
mod overview;
mod reproduce;
#[path = "../sim_samples/mod.rs"]
mod sim_samples;
mod sim_output;
mod sim_page;
mod sim_sweep;
mod sweep_files;
mod zone_layout;
