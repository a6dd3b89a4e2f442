//! Scenarios and machines from a seed.

mod scenarios;
pub mod machines;
pub mod variety;

pub use scenarios::{Limits, Weights, ops_on, scenario, scenario_within};
