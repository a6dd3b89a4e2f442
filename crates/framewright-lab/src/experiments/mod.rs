//! The experiments of [`crate::reproduce`], all run, told and judged in one way; and the five together.
//!
//! - [`overview`]: the five as a page;
//! - [`all`]: the five on one screen, and as data;
//! - [`band`]: where the figures to look at first may lie: recorded, and how they are recorded;
//! - [`experiment`]: one of them: its machine, its runs, and what they come to as text, JSON and a page.

pub mod overview;
pub mod all;
pub mod band;
pub mod experiment;

pub use all::All;
pub use experiment::{Ask, Experiment, Made};
