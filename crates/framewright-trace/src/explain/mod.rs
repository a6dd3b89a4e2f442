//! Why a replay went as it did: the chain of events behind a fallback or a failed request.
//!
//! A replay counts how often mobilities were mixed and how often a huge page was not to be had. Whoever sees such a number asks next: why that one?
//! [`list`] numbers what happened, the worst first; [`why`] explains one of it: what there was just before, what was tried, in a fallback's case
//! what the pageblock held and who had put it there, and what became of it; in a failure's case what was in the way and whose it was.
//!
//! How: a replay is the same every time. A first run numbers what happens (`happening.rs`), with a ledger of who has which frame (`ledger.rs`); a
//! second one knows where to look closer (`look.rs`). Then the trace is read once more for who made the requests that the answer names (`cite.rs`),
//! `tell.rs` puts the two together as data (`story.rs`), and `text.rs` prints it. Nothing is asked of the allocator but what it says anyway:
//! its tracepoints, its counters, its free lists and its errors.
//!
//! Rejected: keeping a history of everything from a first run. It would grow with the trace, and what a question needs is known only once it is
//! asked. And having the core say which pageblocks compaction looked at: each look would pay for a question that is rarely asked. What the
//! pageblocks held at that moment says as much.
//!
//! Not known here: what a frame holds beyond the flags with which it was asked for, and what was freed but lies on a CPU's list.

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
use std::path::Path;

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
use crate::replay::{self, Recording, ReplayError, ReplayOptions};

/// What can be wrong with a question.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The trace cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// There is no such number.
    #[error("there is no number {number}: {}", have(*.count))]
    NoSuch {
        /// What was asked for.
        number: u64,
        /// How many there are.
        count: u64,
    },
}

fn have(count: u64) -> String {
    match count {
        0 => "under these mechanisms nothing fell back and nothing failed".to_owned(),
        1 => "under these mechanisms the only one is 1".to_owned(),
        count => format!("under these mechanisms they go from 1 to {count}"),
    }
}

/// Numbers what happened in a replay under `mechanisms`. `progress` hears how many records were read in which pass.
///
/// # Errors
/// The trace cannot be replayed.
pub fn list(
    path: &Path,
    options: &ReplayOptions,
    mechanisms: Mechanisms,
    progress: &mut dyn FnMut(usize, u64),
) -> Result<Listing, ReplayError> {
    let recording = Recording::set(path, options, &mut |records| progress(0, records))?;
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

/// Explains one of what happened: the `wanted`-th of [`list`].
///
/// # Errors
/// The trace cannot be replayed, or there is no such number.
pub fn why(
    path: &Path,
    options: &ReplayOptions,
    mechanisms: Mechanisms,
    wanted: u64,
    progress: &mut dyn FnMut(usize, u64),
) -> Result<Explanation, ExplainError> {
    let recording = Recording::set(path, options, &mut |records| progress(0, records))?;
    let numbered = number(&recording, mechanisms, &mut |records| progress(1, records))?;
    let count = numbered.found.len() as u64;
    let place = wanted.checked_sub(1).and_then(|place| usize::try_from(place).ok());
    let found = place.and_then(|place| Some((numbered.found.get(..place)?, numbered.found.get(place)?)));
    let Some((earlier, target)) = found else { return Err(ExplainError::NoSuch { number: wanted, count }) };
    let fresh = IncidentLog::new(owners(&recording)?);
    let second_run = RefCell::new(SecondRun::new(fresh, &recording.machine, (wanted, *target)));
    replay::run(&recording, mechanisms, &second_run, &mut |records| progress(2, records))?;
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

/// A ledger for a replay, if there may be so much of it beside the replay's own tables.
fn owners(recording: &Recording<'_>) -> Result<PageOwners, ReplayError> {
    recording.spare(PageOwners::frame_bytes(recording.machine.pageblock_order))?;
    Ok(PageOwners::new(recording.first_pass.span.clone(), &recording.machine))
}

/// The first run.
fn number(
    recording: &Recording<'_>,
    mechanisms: Mechanisms,
    progress: &mut dyn FnMut(u64),
) -> Result<IncidentLog, ReplayError> {
    let incidents = RefCell::new(IncidentLog::new(owners(recording)?));
    replay::run(recording, mechanisms, &incidents, progress)?;
    Ok(incidents.into_inner())
}

/// Records that an answer names.
fn named(second_run: &SecondRun<'_>, target: &Incident) -> BTreeSet<u64> {
    let pinned = second_run.before.iter().flat_map(|before| &before.pageblocks).map(|then| &then.pinned);
    let held = pinned.chain([&second_run.after.held]).flat_map(|held| held.keys()).map(|owner| owner.record);
    held.chain(second_run.next_served).chain([target.record]).collect()
}
