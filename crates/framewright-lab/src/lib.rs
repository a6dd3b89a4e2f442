//! The laboratory around the allocator: what reads a kernel's trace, and what the `framewright` command is made of.
#![forbid(unsafe_code)]

pub mod mechanisms;
pub mod replay;
pub mod trace;
