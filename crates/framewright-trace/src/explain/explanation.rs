//! Answers as data: the machine-readable form of the list and of one explanation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::requester::Requester;
use super::zonelist::ZoneThen;

/// Version of the JSON form; raised when a field changes its meaning.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// The kinds of incidents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentKind {
    /// A block was taken from the free lists of another mobility.
    Fallback,
    /// A request got nothing.
    Failure,
}

/// The incidents of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// Version of this form.
    pub schema_version: u32,
    /// The trace's file.
    pub trace: String,
    /// The mechanisms.
    pub mechanisms: String,
    /// All incidents, the worst first, fallbacks before failures.
    pub happenings: Vec<Row>,
}

/// An incident: a fallback or a failure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its number, counted from 1 in the order of time.
    pub number: u64,
    /// Its kind.
    pub kind: IncidentKind,
    /// The request of the trace that led to it.
    pub by: Requester,
    /// Order of our request: that of `by`, or of a page for a CPU's list.
    pub order: u8,
    /// Its mobility.
    pub migratetype: &'static str,
    /// Its flags: those of `by`, or of the second try that the kernel did not need.
    pub gfp: String,
    /// The details of a fallback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<FallbackRow>,
    /// The details of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRow>,
}

/// The origin of a fallback's block, and its harm.
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
    /// Time with pages of the request's mobility in the pageblock, to the end of the trace.
    pub held_ns: u64,
    /// Number of them at the end.
    pub left: u64,
    /// Requests for huge pages that failed in that time.
    pub failed_meanwhile: u64,
}

/// The state that a failed request met.
#[derive(Clone, Debug, Serialize)]
pub struct FailureRow {
    /// The reason of the failure.
    pub why: &'static str,
    /// Free frames above the min mark in the zones that it could use.
    pub free: u64,
    /// Order of the largest free block of the zones that had any.
    pub largest: Option<u8>,
}

/// The causes of an incident, and its consequences.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Version of this form.
    pub schema_version: u32,
    /// The trace's file.
    pub trace: String,
    /// The mechanisms.
    pub mechanisms: String,
    /// Number of incidents.
    pub of: u64,
    /// The incident.
    #[serde(flatten)]
    pub row: Row,
    /// The zones of the request in their order, just before it.
    pub zones: Vec<ZoneThen>,
    /// The steps that were taken for it.
    pub tried: Tried,
    /// The pageblocks of a fallback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pageblocks: Option<Taken>,
    /// The obstacles of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacles: Option<Obstacles>,
}

/// The steps that were taken for a request, in this order.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// A fallback served the refill of a CPU's list.
    ///
    /// A refill first empties the lists of its own mobility.
    pub refill: bool,
    /// Background reclaim was woken; from then on the min mark applied.
    pub woke_reclaim: bool,
    /// It waited for background reclaim rather than mix mobilities.
    pub stalled: bool,
    /// Compaction was started.
    pub compacted: bool,
    /// Frames that compaction scanned.
    pub scanned: u64,
    /// Frames that compaction failed to move.
    pub stayed: u64,
    /// The pageblocks that compaction moved frames out of.
    pub moved: Vec<Emptied>,
    /// Frames drained from the CPUs' lists.
    pub drained: u64,
    /// Direct reclaim was tried. In a replay it finds nothing.
    pub reclaimed: bool,
}

/// A pageblock that compaction moved frames out of.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Emptied {
    /// First frame of the pageblock.
    pub pfn: u64,
    /// Frames moved.
    pub frames: u64,
    /// Whether the pageblock was then empty, but for the request's own block.
    pub emptied: bool,
}

/// Pages of one request, or some of them.
#[derive(Clone, Debug, Serialize)]
pub struct Holding {
    /// The first of them that was found.
    pub pfn: u64,
    /// Number of frames.
    pub frames: u64,
    /// Their mobility.
    pub migratetype: &'static str,
    /// Their requester; none if they were in use when recording began.
    pub by: Option<Requester>,
}

/// The pageblocks of a fallback's block, and their later contents.
#[derive(Clone, Debug, Serialize)]
pub struct Taken {
    /// First frames of the pageblocks.
    pub pfns: Vec<u64>,
    /// Numbers of earlier fallbacks on them.
    pub earlier: Vec<u64>,
    /// Frames of them that are memory.
    pub memory: u64,
    /// Frames in use there just before, by requester; most first.
    pub held: Vec<Holding>,
    /// Most frames of the request's mobility at once in the first pageblock.
    ///
    /// The request was served from that one.
    pub most: u64,
    /// First time after that at which that pageblock was wholly free.
    pub free_again_ns: Option<u64>,
    /// Numbers of requests for huge pages that failed while frames of the request's mobility were in it.
    pub failures: Vec<u64>,
    /// Number of these at which nothing else was in use in it.
    pub alone: u64,
}

/// The obstacles of a failed request, in the pageblocks of its zones.
#[derive(Clone, Debug, Serialize)]
pub struct Obstacles {
    /// Pageblocks by contents and mobility.
    pub classes: Vec<Class>,
    /// Pageblocks with the fewest pages that cannot be moved.
    pub nearest: Vec<Near>,
    /// Requesters of the pages that cannot be moved, in all pageblocks; most pageblocks first.
    pub holders: Vec<Group>,
    /// The next request for a huge page that was served.
    pub next_served: Option<Requester>,
}

/// Pageblocks with similar contents.
#[derive(Clone, Debug, Serialize)]
pub struct Class {
    /// The contents.
    pub class: &'static str,
    /// Number of pageblocks, by mobility.
    pub pageblocks: BTreeMap<&'static str, u64>,
}

/// A pageblock that few pages keep from being free.
#[derive(Clone, Debug, Serialize)]
pub struct Near {
    /// First frame.
    pub pfn: u64,
    /// Mobility.
    pub migratetype: &'static str,
    /// Frames in use that can be moved.
    pub movable: u64,
    /// Frames in use that cannot be moved.
    pub pinned: u64,
    /// The frames that cannot be moved, by requester.
    pub held: Vec<Holding>,
    /// Numbers of fallbacks on it up to then. The first one mixed it.
    pub fallbacks: Vec<u64>,
}

/// The pages of one task with equal flags.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The task; none for pages that were in use when recording began.
    pub task: Option<String>,
    /// Its flags.
    pub gfp: Option<String>,
    /// Pages.
    pub frames: u64,
    /// Pageblocks that they are in.
    pub pageblocks: u64,
}
