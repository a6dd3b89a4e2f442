//! What this machine measures of itself: latencies, transfers of lines, bandwidths and the costs of instructions.
//!
//! A simulated machine is a list of such numbers. `framewright machine check` measures them with these programs and
//! writes a file, so that a machine can be simulated that nobody has published.
//!
//! # Method
//!
//! Every thread stays on one CPU. Latencies come from loads whose address is in the line that was loaded before, in
//! random order, in pages of 2 MiB where the kernel gives them. Memory lies on the node of the thread that touched it
//! first. A line to be transferred is prepared by its owner, which then spins while the reader is timed. Each number is
//! the median of several rounds and is shown with the smallest and the largest, because a machine has other work too.
//!
//! # What was rejected
//!
//! Turning prefetchers off needs a register that only a kernel writes; random order makes them useless instead. Reading
//! with vector instructions: one load of each line asks for as many lines.

mod check;
mod costs;
mod streams;
mod transfers;
mod latencies;
mod pins;
mod lines;
mod sizes;
mod host;
mod reading;

pub use check::{ROUNDS, check};
pub use host::{Caches, Host, HostCpu, HostError, SYSFS};
pub use reading::{LoadedPoint, Missing, Reading, Readings};
