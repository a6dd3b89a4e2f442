//! The language: a machine and operations on it, as data and as text.
//!
//! Nothing here runs an operation. What reads an allocator's state is here, because a list may state it.

pub mod scenario;
pub mod shape;
mod parse;
pub mod op;
pub mod assertion;
pub mod expected;
pub mod row;
pub(crate) mod counter;
pub(crate) mod outcome;
pub(crate) mod words;
