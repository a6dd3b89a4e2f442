//! Descriptors of frames, pageblocks and sections, and the map of memory.

pub(crate) mod bad_free;
pub(crate) mod frame;
pub(crate) mod state;
pub(crate) mod head;
pub(crate) mod owned_pageblock;
pub(crate) mod pageblock;
pub(crate) mod map;
pub(crate) mod cluster;
