//! Options of a replay.

use crate::text::TextOptions;

/// Options of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayOptions {
    /// Options for reading a text trace.
    pub text: TextOptions,
    /// The most bytes of tables with an entry for each frame or CPU of the recorded machine.
    ///
    /// A trace can claim a machine of any size. One of 1 GiB has 6 MiB of tables.
    pub memory_limit: u64,
}

impl Default for ReplayOptions {
    /// Up to 4 GiB of tables, enough for a machine of 680 GiB.
    fn default() -> ReplayOptions {
        ReplayOptions { text: TextOptions::default(), memory_limit: 4 << 30 }
    }
}
