//! What the allocator tells of itself: the source of reports, the map of its words, and the check of its invariants.
//!
//! Files here read every layer and change nothing. They may be slow.

pub(crate) mod report_source;
pub mod validate;
pub(crate) mod field_map;
