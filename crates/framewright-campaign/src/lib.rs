//! A reliability campaign: the page allocator under faults and schedules drawn from seeds, for hours.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod campaign;
mod coverage;
mod shrink;
mod play;
mod checks;
mod perform;
mod interrupts;
mod topology;
mod frees;
mod world;
mod plan;
mod machine;
mod coroutines;
mod words;
mod engine;
mod schedule;
mod thread;
mod frames;
mod case;
mod plant;
mod kind;
mod wrong;

pub use case::{Case, OPERATIONS};
pub use coverage::Coverage;
pub use kind::{COUNT, Hits, Kind, Kinds};
pub use plant::Plant;
pub use play::{Failed, Played, play};
pub use shrink::{EFFORT, shrink};
pub use schedule::Schedule;
pub use wrong::{Symptom, Wrong};
