//! How to replay.

use crate::text::TextOptions;

/// How to replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayOptions {
    /// How to read a text trace.
    pub text: TextOptions,
    /// How many bytes the tables may take: those with an entry for each frame or CPU of the recorded machine, which a trace can
    /// claim to be of any size. A machine of 1 GiB has 6 MiB of tables.
    pub memory_limit: u64,
}

impl Default for ReplayOptions {
    /// Up to 4 GiB of tables, enough for a machine of 680 GiB.
    fn default() -> ReplayOptions {
        ReplayOptions { text: TextOptions::default(), memory_limit: 4 << 30 }
    }
}
