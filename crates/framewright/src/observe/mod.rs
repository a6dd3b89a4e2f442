//! Observation: the source of reports, the map of the allocator's words, and the check of its invariants.
//!
//! The files here read every layer and change nothing. They may be slow.

pub(crate) mod report_source;
pub mod validate;
mod violation;
pub(crate) mod field_map;
