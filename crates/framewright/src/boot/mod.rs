//! Boot: the configuration, the sizes of the descriptor arrays, and the first fill of the zones.
//!
//! Runs once, before any other call.

pub(crate) mod boot;
pub(crate) mod layout;
pub(crate) mod sizes;
pub mod config;
