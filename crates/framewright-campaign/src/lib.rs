//! A reliability campaign: the page allocator under faults and schedules drawn from seeds, for hours.
//!
//! ```
//! use framewright_campaign::{Case, play};
//!
//! // Everything follows from the seed; a part of its operations is enough here.
//! let case: Case = "seed=77 operations=0..500 schedule=pct:3".parse().unwrap();
//! let played = play(&case, false).unwrap();
//! assert_eq!(played, play(&case, false).unwrap());
//!
//! // With a bug that is planted in its machine, a seed fails in a way that repeats.
//! let case: Case = "seed=3 operations=0..500 plant=accepted-free:1".parse().unwrap();
//! println!("{}", play(&case, false).unwrap_err().wrong);
//! ```
//!
//! | file | what for |
//! |---|---|
//! | `campaign.rs`, `coverage.rs` | seed after seed on several threads, the sums, and the state on the disk |
//! | `shrink.rs` | small failing cases |
//! | `play.rs`, `checks.rs` | one case from its boot to the end, and what is checked |
//! | `perform.rs`, `frees.rs`, `topology.rs`, `interrupts.rs` | operations, and what comes in the middle of them |
//! | `world.rs`, `frames.rs` | the allocator, its callbacks, and the table of owners |
//! | `machine.rs`, `words.rs` | what the core asks of its surroundings |
//! | `engine.rs`, `schedule.rs`, `coroutines.rs`, `thread.rs` | threads that switch at any access |
//! | `plan.rs`, `case.rs`, `kind.rs`, `plant.rs` | what a seed does, and the names of faults and planted bugs |
//!
//! `docs/campaign.md` says how to leave a machine alone with it.

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
pub use schedule::Schedule;
pub use shrink::{EFFORT, shrink};
pub use wrong::{Symptom, Wrong};
