//! Answers as data: the machine-readable form of the list and of one explanation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::requester::Requester;
use super::zonelist::ZoneThen;

/// Version of the JSON form; raised when a field changes its meaning.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// How the JSON form calls the two kinds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentKind {
    /// A block was taken from the free lists of another mobility.
    Fallback,
    /// A request got nothing.
    Failure,
}

/// What can be asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// Version of this form.
    pub schema_version: u32,
    /// The trace's file.
    pub trace: String,
    /// The mechanisms.
    pub mechanisms: String,
    /// All that happened, the worst first, fallbacks before failures.
    pub happenings: Vec<Row>,
}

/// A fallback or a failure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its number, counted from 1 in the order of time.
    pub number: u64,
    /// Which of the two.
    pub kind: IncidentKind,
    /// For whose request it was.
    pub by: Requester,
    /// Order of our request: that of `by`, or of a page for a CPU's list.
    pub order: u8,
    /// Its mobility.
    pub migratetype: &'static str,
    /// Its flags: those of `by`, or of the second try that the kernel did not need.
    pub gfp: String,
    /// Of a fallback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<FallbackRow>,
    /// Of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRow>,
}

/// Where a fallback's block came from, and what harm it did.
#[derive(Clone, Debug, Serialize)]
pub struct FallbackRow {
    /// First frame of the block.
    pub pfn: u64,
    /// Order of the block that was found.
    pub found_order: u8,
    /// Mobility of the list that it was on.
    pub from: &'static str,
    /// Whether the block was smaller than a pageblock.
    pub fragmenting: bool,
    /// Whether its pageblock has the request's mobility now.
    pub claimed: bool,
    /// How long pages of the request's mobility were in the pageblock from then to the end of the trace.
    pub held_ns: u64,
    /// How many are there at the end.
    pub left: u64,
    /// Requests for huge pages that failed while any were there.
    pub failed_meanwhile: u64,
}

/// What a failed request met.
#[derive(Clone, Debug, Serialize)]
pub struct FailureRow {
    /// Why it failed.
    pub why: &'static str,
    /// Free frames above the min mark in the zones that it could use.
    pub free: u64,
    /// Order of the largest free block in the zones where there are any.
    pub largest: Option<u8>,
}

/// Why something happened, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Version of this form.
    pub schema_version: u32,
    /// The trace's file.
    pub trace: String,
    /// The mechanisms.
    pub mechanisms: String,
    /// How many happenings there are.
    pub of: u64,
    /// What happened.
    #[serde(flatten)]
    pub row: Row,
    /// The zones that the request could use, in the order in which they are asked, as they were just before.
    pub zones: Vec<ZoneThen>,
    /// What was done for it.
    pub tried: Tried,
    /// Of a fallback: its pageblocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pageblocks: Option<Taken>,
    /// Of a failure: what was in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacles: Option<Obstacles>,
}

/// What was done for a request, in this order.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// A fallback was for the refill of a CPU's list, which first takes what the lists of its own mobility have.
    pub refill: bool,
    /// Background reclaim was woken, and the min mark was enough from then on.
    pub woke_reclaim: bool,
    /// It waited for background reclaim rather than mix mobilities.
    pub stalled: bool,
    /// Compaction was asked for.
    pub compacted: bool,
    /// Frames that it looked at.
    pub scanned: u64,
    /// Frames that could not be moved when it tried.
    pub stayed: u64,
    /// The pageblocks that it moved frames out of.
    pub moved: Vec<Emptied>,
    /// Frames that came back from the CPUs' lists.
    pub drained: u64,
    /// It tried to free memory itself. In a replay nobody has any to give.
    pub reclaimed: bool,
}

/// A pageblock that compaction moved something out of.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Emptied {
    /// First frame of the pageblock.
    pub pfn: u64,
    /// Frames moved.
    pub frames: u64,
    /// Whether nothing was left in it, but for the request's own block.
    pub emptied: bool,
}

/// Pages of one request, or some of them.
#[derive(Clone, Debug, Serialize)]
pub struct Holding {
    /// First frame of them that was met.
    pub pfn: u64,
    /// How many.
    pub frames: u64,
    /// Their mobility.
    pub migratetype: &'static str,
    /// Whose; none if they were in use when recording began.
    pub by: Option<Requester>,
}

/// The pageblocks that a fallback took a block in, and what became of them.
#[derive(Clone, Debug, Serialize)]
pub struct Taken {
    /// First frames of the pageblocks.
    pub pfns: Vec<u64>,
    /// Fallbacks on them before, by number.
    pub earlier: Vec<u64>,
    /// Frames of them that are memory.
    pub memory: u64,
    /// What was in use there just before, and whose it was; most first.
    pub held: Vec<Holding>,
    /// Of the first of the pageblocks, which the request was served from: most frames of the request's mobility there at once.
    pub most: u64,
    /// When it was free as a whole again for the first time.
    pub free_again_ns: Option<u64>,
    /// Requests for huge pages that failed while frames of the request's mobility were in it, by number.
    pub failures: Vec<u64>,
    /// How many of these came when nothing else was in use in it.
    pub alone: u64,
}

/// What was in the way of a request that failed: in the pageblocks of its zones.
#[derive(Clone, Debug, Serialize)]
pub struct Obstacles {
    /// Pageblocks by what is in use in them, and by mobility.
    pub classes: Vec<Class>,
    /// Pageblocks that the fewest pages hold which cannot be moved.
    pub nearest: Vec<Near>,
    /// Whose pages those are that cannot be moved, in all pageblocks; most pageblocks first.
    pub holders: Vec<Group>,
    /// When a request for a huge page was served next.
    pub next_served: Option<Requester>,
}

/// Pageblocks that are alike.
#[derive(Clone, Debug, Serialize)]
pub struct Class {
    /// What is in use in them.
    pub class: &'static str,
    /// How many, by mobility.
    pub pageblocks: BTreeMap<&'static str, u64>,
}

/// A pageblock that little keeps from being free.
#[derive(Clone, Debug, Serialize)]
pub struct Near {
    /// First frame.
    pub pfn: u64,
    /// Mobility.
    pub migratetype: &'static str,
    /// Frames that are movable, and that are not.
    pub movable: u64,
    /// See `movable`.
    pub pinned: u64,
    /// Whose those are that cannot be moved.
    pub held: Vec<Holding>,
    /// Fallbacks on it up to then, by number: the first is what mixed it.
    pub fallbacks: Vec<u64>,
}

/// What one task asked for with the same flags.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The task; none for what was in use when recording began.
    pub task: Option<String>,
    /// Its flags.
    pub gfp: Option<String>,
    /// Pages.
    pub frames: u64,
    /// Pageblocks that they are in.
    pub pageblocks: u64,
}
