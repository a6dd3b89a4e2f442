//! Instructions of an allocation and of a free: the work that is counted, and one way to count it.
//!
//! `examples/instructions` counts calls of a process, and `ci/instructions.sh` checks them. The modules here stand in
//! call order.

#[cfg(target_os = "linux")]
pub mod stepping;
mod work;
mod counted;
mod steps;

pub use counted::{BATCHES, PAGES};
pub use steps::Counting;
pub use work::{VARIANTS, work};
