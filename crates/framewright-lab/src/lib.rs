//! The laboratory around the allocator: what records a kernel's trace, what shows the runs of the simulated machine,
//! and what the `framewright` command is made of.
#![forbid(unsafe_code)]

#[cfg(test)]
mod errors;
pub mod html;
pub mod experiments;
pub mod calibrate;
pub mod top;
pub mod sweep;
pub mod compare;
pub mod reproduce;
pub mod record;
pub mod sim;
pub mod mechanisms;
