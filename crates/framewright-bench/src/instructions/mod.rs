//! Instructions of an allocation and of a free: the work that is counted, and one way to count it.
//!
//! `framewright bench --kernel` counts the calls of a kernel. `examples/instructions.rs` counts those of a process too,
//! and `ci/instructions.sh` checks all of them. The modules here stand in call order.

#[cfg(target_os = "linux")]
mod kernel_report;
#[cfg(target_os = "linux")]
pub mod stepping;
mod work;
mod counted;
mod steps;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod kernel;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod gs_area;

pub use counted::{BATCHES, PAGES};
#[cfg(target_os = "linux")]
pub use kernel_report::{KernelReport, KernelRow};
pub use steps::Counting;
pub use work::{KERNEL_VARIANTS, VARIANTS, kernel_steps, kernel_work, work};
