//! A latency checker that runs on the simulated machine, as Intel's Memory Latency Checker does on a real one.
//!
//! A model is made of latencies that were measured with such a program. If the simulated one does not print them back,
//! the model or the engine is wrong, and results about locks mean nothing. Of the model the checker knows only the
//! capacity of caches: it follows pointers through lines that it has placed itself, and reads the clock.
//!
//! | row | what touched the lines before | what is timed |
//! |---|---|---|
//! | caches | the reader itself, more lines than the level below keeps | a chase, the second time round |
//! | HIT, HITM | another core, reading or writing | a chase by CPU 0 |
//! | memory | nothing | a chase by CPU 0 |
//! | memory under load | nothing | a chase, while all other cores read at a steady rate from their own nodes |
//! | bandwidth | nothing | lines read by all CPUs at once, as fast as they can |
//!
//! All rows are at rest: the model's factor for a loaded machine ([`crate::model::Memory::load_permille`]) is 1 here,
//! because published rows were taken that way. How memory slows down under load comes from its controllers.
//!
//! Streams ask for lines ahead of their use, as a core's prefetcher does. Chases do not: their next address is in the
//! line that they wait for, so a first-level hit costs them all of its latency ([`crate::model::Costs::hit`]). Every
//! second line is left out, so that pairs of lines ([`crate::model::Model::pairs`]) make no difference.

mod table;
mod streams;
mod chase;
mod lines;

pub use lines::MlcError;
pub use table::{Row, Table, check};
