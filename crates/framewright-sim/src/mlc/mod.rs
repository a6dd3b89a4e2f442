//! A latency checker that runs on the simulated machine, as Intel's Memory Latency Checker does on a real one.
//!
//! A model is made of latencies that somebody measured with such a program. If a simulated one does not print them
//! back, the model or the engine is wrong, and there is no point in looking at locks. Of the model it knows only how
//! much caches keep: it follows pointers through lines that lie where it has put them, and looks at the clock.
//!
//! | row | who touched the lines before | what is timed |
//! |---|---|---|
//! | caches | the reader itself, more lines than the level below keeps | a chase, the second time round |
//! | HIT, HITM | another core, reading or writing | a chase by CPU 0 |
//! | memory | nobody | a chase by CPU 0 |
//! | memory under load | nobody | the same, while all other cores read at a steady rate from their own nodes |
//! | bandwidth | nobody | lines read by all CPUs at once, as fast as they can |
//!
//! All of it is at rest: the model's factor for a loaded machine ([`crate::model::Memory::load_permille`]) is 1 here,
//! because published rows were taken so. How memory gets slower under load is another matter, and comes from its
//! controllers.
//!
//! Streams ask for lines ahead of their use, as a core's prefetcher does for them. Chases do not: their next address is
//! in the line that they wait for, so a first-level hit costs them all of its latency ([`crate::model::Costs::hit`]).
//! Every other line is left out, so that pairs of lines ([`crate::model::Model::pairs`]) make no difference.

mod table;
mod streams;
mod chase;
mod lines;

pub use lines::MlcError;
pub use table::{Row, Table, check};
