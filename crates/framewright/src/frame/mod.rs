//! What is known of a frame, a pageblock and a section: the descriptor arrays and the map of memory.

pub(crate) mod frame;
pub(crate) mod state;
pub(crate) mod head;
pub(crate) mod owned_pageblock;
pub(crate) mod pageblock;
pub(crate) mod map;
pub(crate) mod cluster;
