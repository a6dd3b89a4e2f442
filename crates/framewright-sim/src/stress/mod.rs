//! The allocator under a random scheduler: many CPUs do everything at once, and everything is checked.
//!
//! ```text
//! run(settings)
//!   └─ episodes, each a fresh machine: a case from its seed            generate.rs, case.rs
//!        └─ segments: every CPU plays its list, by lot                 player.rs, crate::chance
//!             └─ interrupts, and NMIs at any step                      interrupts.rs
//!             └─ all rest: `validate`, the census, every block held    shadow.rs
//!        └─ everything is freed, and memory is in one piece again
//!   └─ something is wrong: the case is made small                      shrink.rs
//! ```
//!
//! An episode is a function of its seed, and the first episode of a run is that of the run's seed. What the n-th found
//! wrong is therefore found again by a run of one episode with that seed; the failure says so in a command.

mod episodes;
mod shrink;
mod play_case;
mod irq_calls;
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
