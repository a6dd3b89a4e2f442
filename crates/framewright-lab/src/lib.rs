//! The laboratory around the allocator: the library of the `framewright` command.
//!
//! It records a kernel's trace, sweeps the simulated machine, reproduces published tables, compares results and shows
//! them. The modules stand in call order: each uses only modules below it.
//!
//! It serves the command, its tests and the fuzz targets. Its interface may change with any version.
#![forbid(unsafe_code)]

#[cfg(test)]
mod errors;
pub mod experiments;
pub mod calibrate;
pub mod machine_check;
pub mod top;
pub mod sweep;
pub mod compare;
pub mod reproduce;
pub mod why;
pub mod html;
pub mod record;
pub mod sim;
pub mod mechanisms;
