//! Explains a replay: the chain of events that led to a fallback or a failed request.
//!
//! A replay counts fallbacks to another mobility and failed requests for huge pages. The next question is why a
//! certain one happened. [`list`] numbers these incidents, the worst first; [`why`] explains one of them:
//!
//! | of | tells |
//! |---|---|
//! | each | the zones just before, and what was tried |
//! | a fallback | the contents of the pageblock, the tasks that allocated them, and how long the harm lasted |
//! | a failure | the pages in the way, and the tasks that allocated them |
//!
//! The run that is explained reclaims nothing, so that its reasons lie in the allocator alone.
//!
//! A replay is deterministic, so an answer comes from three passes over the trace:
//!
//! 1. A first run numbers the incidents (`incidents.rs`) and tracks the owner of each frame (`page_owner.rs`).
//! 2. A second run records details of the one incident (`second_run.rs`).
//! 3. The trace is read once more for the requests that the answer names (`requester.rs`).
//!
//! `answer.rs` combines these as data (`explanation.rs`), and `answer_text.rs` prints it. The allocator provides
//! nothing special for it: only its tracepoints, counters, free lists and errors.
//!
//! Not known here: the use of a frame beyond the flags of its request, and frames that were freed to a CPU's list.
//!
//! Rejected: keeping a history of everything from a first run. It would grow with the trace, and only a question shows
//! which part is needed. Also rejected: events of the core for each pageblock that compaction scans. Each scan would
//! pay for a rare question, and the contents of the pageblocks at that moment tell as much.

mod answer_text;
mod answer;
mod second_run;
mod incidents;
mod explanation;
mod zonelist;
mod page_owner;
mod requester;

use std::cell::RefCell;
use std::collections::BTreeSet;

use framewright::Mechanisms;

pub use self::answer_text::{Answer, Overview};
pub use self::explanation::{
    Class, Emptied, Explanation, FailureRow, FallbackRow, Group, Holding, IncidentKind, Listing, Near, Obstacles, Row,
    Taken, Tried,
};
use self::incidents::{Incident, IncidentLog};
use self::page_owner::PageOwners;
pub use self::requester::Requester;
use self::second_run::SecondRun;
pub use self::zonelist::{Verdict, ZoneThen};
use crate::replay::{self, EarlyReclaim, Recording, ReplayError, ReplayOptions};
use crate::trace::Place;

/// An error of a question.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum ExplainError {
    /// The trace cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// No incident has this number.
    #[error("there is no number {number}: {}", have(*.count))]
    NoSuch { number: u64, count: u64 },
}

fn have(count: u64) -> String {
    match count {
        0 => "under these mechanisms nothing fell back and nothing failed".to_owned(),
        1 => "under these mechanisms the only one is 1".to_owned(),
        count => format!("under these mechanisms they go from 1 to {count}"),
    }
}

/// Lists the incidents of a replay under `mechanisms`.
///
/// `progress` receives the pass and the number of records that it has read.
///
/// # Errors
/// The trace cannot be replayed.
pub fn list<'a>(
    place: impl Into<Place<'a>>,
    options: &ReplayOptions,
    mechanisms: Mechanisms,
    progress: &mut dyn FnMut(usize, u64),
) -> Result<Listing, ReplayError> {
    let recording = Recording::set(place.into(), options, &mut |records| progress(0, records))?;
    let numbered = number(&recording, mechanisms, &mut |records| progress(1, records))?;
    let wanted = numbered.found.iter().map(|incident| incident.record).collect();
    let requesters = requester::look_up(&recording, &wanted, &mut |records| progress(2, records))?;
    let rows = numbered.found.iter().zip(1..);
    let mut happenings: Vec<Row> =
        rows.filter_map(|(incident, number)| answer::row(number, incident, &numbered.owners, &requesters)).collect();
    answer::worst_first(&mut happenings);
    let (trace, mechanisms) = (recording.first_pass.name, mechanisms.to_string());
    Ok(Listing { schema_version: explanation::SCHEMA_VERSION, trace, mechanisms, happenings })
}

/// Explains the incident with number `wanted` of [`list`].
///
/// # Errors
/// The trace cannot be replayed, or there is no such number.
pub fn why<'a>(
    place: impl Into<Place<'a>>,
    options: &ReplayOptions,
    mechanisms: Mechanisms,
    wanted: u64,
    progress: &mut dyn FnMut(usize, u64),
) -> Result<Explanation, ExplainError> {
    let recording = Recording::set(place.into(), options, &mut |records| progress(0, records))?;
    let numbered = number(&recording, mechanisms, &mut |records| progress(1, records))?;
    let count = numbered.found.len() as u64;
    let place = wanted.checked_sub(1).and_then(|place| usize::try_from(place).ok());
    let found = place.and_then(|place| Some((numbered.found.get(..place)?, numbered.found.get(place)?)));
    let Some((earlier, target)) = found else { return Err(ExplainError::NoSuch { number: wanted, count }) };
    let fresh = IncidentLog::new(owners(&recording)?);
    let second_run = RefCell::new(SecondRun::new(fresh, &recording.machine, (wanted, *target)));
    replay::run(&recording, (mechanisms, EarlyReclaim::Never), &second_run, &mut |records| progress(2, records))?;
    let second_run = second_run.into_inner();
    let requesters = requester::look_up(&recording, &named(&second_run, target), &mut |records| progress(3, records))?;
    let owners = &second_run.incidents.owners;
    let changed = || ReplayError::Changed { file: recording.first_pass.name.clone(), first: target.record, then: 0 };
    let row = answer::row(wanted, target, owners, &requesters).ok_or_else(changed)?;
    let before = second_run.before.as_ref().ok_or_else(changed)?;
    let is_fallback = target.fallback().is_some();
    Ok(Explanation {
        schema_version: explanation::SCHEMA_VERSION,
        trace: recording.first_pass.name.clone(),
        mechanisms: mechanisms.to_string(),
        of: count,
        row,
        zones: before.zones.clone(),
        tried: answer::tried(&second_run.done),
        pageblocks: is_fallback.then(|| answer::pageblocks(&second_run, earlier, &requesters)),
        obstacles: (!is_fallback).then(|| answer::obstacles(&second_run, before, earlier, &requesters)),
    })
}

/// The owners of frames before a replay, if they fit into memory beside the replay's own tables.
fn owners(recording: &Recording<'_>) -> Result<PageOwners, ReplayError> {
    recording.spare(PageOwners::frame_bytes(recording.machine.pageblock_order))?;
    Ok(PageOwners::new(recording.first_pass.span.clone(), &recording.machine))
}

/// Makes the first run.
fn number(
    recording: &Recording<'_>,
    mechanisms: Mechanisms,
    progress: &mut dyn FnMut(u64),
) -> Result<IncidentLog, ReplayError> {
    let incidents = RefCell::new(IncidentLog::new(owners(recording)?));
    replay::run(recording, (mechanisms, EarlyReclaim::Never), &incidents, progress)?;
    Ok(incidents.into_inner())
}

/// The records that an answer names.
fn named(second_run: &SecondRun<'_>, target: &Incident) -> BTreeSet<u64> {
    let pinned = second_run.before.iter().flat_map(|before| &before.pageblocks).map(|then| &then.pinned);
    let held = pinned.chain([&second_run.after.held]).flat_map(|held| held.keys()).map(|owner| owner.record);
    held.chain(second_run.next_served).chain([target.record]).collect()
}
