//! Makes scenarios and machines from a seed.
//!
//! A seed gives the same scenario for ever. Nothing here runs one.

mod scenarios;
pub mod machines;
pub mod variety;

pub use scenarios::{Limits, Weights, ops_on, scenario, scenario_within};
