//! The allocator under a random schedule: many CPUs make every kind of call, and everything is checked.
//!
//! ```text
//! run(settings)
//!   └─ episodes, each a fresh machine: a case from its seed            generate.rs, case.rs
//!        └─ segments: every CPU plays its list, by lot                 perform.rs, crate::chance
//!             └─ interrupts, and NMIs at any step                      irq_calls.rs
//!             └─ all rest: `validate`, the census, every block held    shadow.rs
//!        └─ everything is freed, and memory is in one piece again
//!   └─ something is wrong: the case is made small                      shrink.rs
//! ```
//!
//! An episode is a function of its seed, and the first episode of a run has the run's seed. So a run of one episode
//! with the seed of the n-th finds its failure again; the failure says so in a command.
//!
//! This folder holds cases, the players that run them, and what is checked. Calls of one thread with an oracle belong
//! into `framewright-ops`.

mod episodes;
mod shrink;
mod play_case;
mod irq_calls;
mod perform;
mod checks;
mod frees;
mod player;
mod generate;
mod pool;
mod shadow;
mod stress_failure;
mod stress_settings;
mod case;
mod wrong;
mod quiet;

pub use case::{Case, CaseError, Conditions, Segment};
pub use episodes::{Summary, replay, run};
pub use player::Counts;
pub use shrink::shrink;
pub use stress_failure::{StressError, StressFailure as Failure};
pub use stress_settings::Settings;
pub use wrong::{Kind, Wrong};
