//! A crate that breaks every rule of the check. A line that does so names the rule in a comment at its end.
#![allow(dead_code)]

pub mod top;
/// The order counts, not what stands between.
mod middle;
mod bottom;
mod top; // finds tree
mod missing; // finds tree
#[cfg(test)]
mod double;
#[macro_use]
mod macros;

pub use bottom::Ground;
pub use middle::Door; // finds circle

/// An item of the root: everybody stands below it.
pub const ROOT: u32 = 1;
