//! Result of a run of compaction, and the limit of its effort.

/// Result of a run of compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compacted {
    /// Ranges that are free now and were not.
    pub ranges: u64,
    /// Frames whose contents were moved.
    pub moved: u64,
    /// Frames that were looked at.
    pub scanned: u64,
    /// Whether there is nothing left to do.
    ///
    /// Every zone of the node has what was asked for, or enough of its free memory in whole pageblocks.
    pub is_enough: bool,
}

/// How much may be moved for one range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// No more frames than were free there.
    Worthwhile,
    /// Everything in use there: memory was freed for it.
    Any,
}
