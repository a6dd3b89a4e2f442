//! What shows of a run, for tests that compare two: with another mechanism, or before and after a change.

use std::convert::Infallible;
use std::fmt::{self, Write};

use framewright::report::{
    BuddyInfo, ExtfragIndex, NodeNumaStat, NodeVmStat, PageTypeInfo, UnusableIndex, VmStat, ZoneInfo,
};
use framewright::{Allocator, NodeId};
use framewright_rt::Solo;

use crate::language::{Row, Scenario, Step, Wrong, zones};
use crate::session::{Session, with_session};

/// What shows of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transcript {
    /// Each operation and its outcome.
    pub outcomes: Vec<String>,
    /// The rows of free blocks, per-CPU frames and boosts after each operation, which stands above them.
    pub lists: Vec<String>,
    /// After booting and at the end: the files of `/proc` and what else the allocator counts.
    pub reports: Vec<String>,
    /// The words of the allocator at the end, as it saves them.
    pub words: Vec<u8>,
}

/// Plays a scenario and returns what shows of it. Outcomes that the list states are not compared.
///
/// # Errors
/// The machine cannot be booted, or an answer or the state at the end is wrong.
pub fn transcript(scenario: &Scenario) -> Result<Transcript, Wrong> {
    with_session(&scenario.shape, |session| {
        let mut seen = Transcript::default();
        seen.reports(session)?;
        scenario.steps.iter().try_for_each(|step| seen.step(session, step))?;
        seen.end(session)?;
        session.give_everything_back()?;
        Ok(seen)
    })
}

/// Plays half of a scenario, the rest on a machine that got the first one's state, and returns what shows there.
///
/// # Errors
/// As [`transcript`], and if the state was not saved or not restored.
pub fn transcript_moved(scenario: &Scenario) -> Result<Transcript, Wrong> {
    let (before, after) = scenario.steps.split_at(scenario.steps.len() / 2);
    with_session(&scenario.shape, |here| {
        before.iter().try_for_each(|step| here.perform(&step.op).map(drop))?;
        let mut seen = Transcript::default();
        here.moved(|there| {
            seen.reports(there)?;
            after.iter().try_for_each(|step| seen.step(there, step))?;
            seen.end(there)
        })?;
        Ok(seen)
    })
}

impl Transcript {
    fn step(&mut self, session: &Session<'_>, step: &Step) -> Result<(), Wrong> {
        let outcome = session.perform(&step.op).map_err(|wrong| format!("`{}`: {wrong}", step.op))?;
        self.outcomes.push(format!("{} -> {outcome}", step.op));
        self.lists.push(step.op.to_string());
        self.lists.extend(session.rows().iter().map(Row::to_string));
        Ok(())
    }

    fn end(&mut self, session: &Session<'_>) -> Result<(), Wrong> {
        session.check()?;
        self.reports(session)?;
        self.reports.push(format!("{:?}", session.encounters()));
        let mut sink = |bytes: &[u8]| {
            self.words.extend_from_slice(bytes);
            Ok::<_, Infallible>(())
        };
        session.pages().save(&mut sink).map(drop).map_err(|error| error.to_string())
    }

    fn reports(&mut self, session: &Session<'_>) -> Result<(), Wrong> {
        let text = reports(session.pages()).map_err(|error| error.to_string())?;
        self.reports.extend(text.lines().map(str::to_owned));
        Ok(())
    }
}

fn reports(pages: &Allocator<'_, Solo<'_>>) -> Result<String, fmt::Error> {
    let mut text = String::new();
    write!(text, "{}{}", BuddyInfo(pages), PageTypeInfo(pages))?;
    write!(text, "{}{}", UnusableIndex(pages), ExtfragIndex(pages))?;
    write!(text, "{}{}", ZoneInfo(pages), VmStat(pages))?;
    for node in (0..pages.nodes()).map(|node| NodeId(node as u8)) {
        write!(text, "{}{}", NodeVmStat { source: pages, node }, NodeNumaStat { source: pages, node })?;
    }
    writeln!(text, "{:?}\n{:?}", pages.totals(), pages.counters())?;
    for zone in zones(pages.nodes()).filter_map(|zone| pages.zone_memory(zone)) {
        writeln!(text, "{zone:?}")?;
    }
    Ok(text)
}
