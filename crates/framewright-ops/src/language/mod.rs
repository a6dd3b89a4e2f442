//! The language: a machine and operations on it, as data and as text.
//!
//! This folder runs no operation. It does read an allocator's state, because a list may state what is read.
//!
//! | file | what for |
//! |---|---|
//! | `scenario.rs`, `shape.rs` | a whole case, and its machine |
//! | `op.rs`, `parse.rs` | one operation: print, parse |
//! | `assertion.rs`, `expected.rs`, `row.rs` | what a list may state |
//! | `counter.rs`, `outcome.rs`, `words.rs` | counters, outcomes, and a line as words |

pub mod scenario;
pub mod shape;
mod parse;
pub mod op;
pub mod assertion;
pub mod expected;
pub mod row;
mod counter;
mod outcome;
mod words;

pub use counter::Counter;
pub(crate) use counter::{OF_NODES, OF_ZONES};
pub use op::{Handle, OnMigrate, OnReclaim, Op, Place, Terms};
pub use outcome::Outcome;
pub(crate) use outcome::Wrong;
pub use row::{Row, zones};
pub use scenario::{ParseError, Scenario, Step};
pub use shape::Shape;
