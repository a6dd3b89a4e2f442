//! The laboratory around the allocator: what records a kernel's trace, what shows the runs of the simulated machine, and what
//! the `framewright` command is made of.
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod compare;
#[cfg(test)]
mod errors;
pub mod experiments;
pub mod html;
pub mod mechanisms;
pub mod record;
pub mod reproduce;
pub mod sim;
pub mod sweep;
pub mod top;
