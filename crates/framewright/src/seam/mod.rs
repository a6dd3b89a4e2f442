//! Seam between the core and its surroundings: the machine below it, the events it reports, and the names of its words.

pub(crate) mod field;
pub(crate) mod compiled;
pub mod machine;
pub(crate) mod per_cpu;
pub(crate) mod fault;
pub(crate) mod free_change;
pub(crate) mod lock_event;
pub(crate) mod step;
pub mod event;
