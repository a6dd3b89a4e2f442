//! The contenders of this crate: the project's own allocator, the limits, and the peers.

pub(crate) mod limits;
pub(crate) mod own;
pub(crate) mod peers;
pub(crate) mod rings;
pub(crate) mod system;

use crate::entry::Entry;

/// The contenders of this crate, the project's own first.
pub fn contenders() -> Vec<Entry> {
    [own::ENTRIES, limits::ENTRIES, rings::ENTRIES, peers::ENTRIES, system::ENTRIES].concat()
}
