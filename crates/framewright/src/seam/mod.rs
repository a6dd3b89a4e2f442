//! The world outside: the machine that the core runs on, the points at which it is told what the core does, and the names of
//! its words.

pub(crate) mod field;
pub mod machine;
pub(crate) mod lock_event;
pub(crate) mod step;
pub mod event;
