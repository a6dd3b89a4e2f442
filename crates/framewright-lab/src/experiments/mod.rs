//! The experiments of [`crate::reproduce`], all run, told and judged in one way; and the five together.
//!
//! - [`experiment`]: one of them: its machine, its runs, and what they come to as text, JSON and a page;
//! - [`headline`]: the few figures of it that one looks at first, theirs and ours;
//! - [`band`]: where those figures may lie: recorded, and how they are recorded;
//! - [`all`]: the five on one screen, and as data.

pub mod band;
pub mod headline;
pub mod experiment;
pub mod all;

pub use all::All;
pub use experiment::{Ask, Experiment, Made};
