//! Runs a scenario and reports what is wrong.
//!
//! A run boots a machine and carries out the operations one by one. After each, or each `n`-th, the allocator checks
//! its invariants, and its census is compared with the oracle's. At the end everything is freed and every frame
//! compared: no frame may be lost. A panic of the allocator is a failure like any other.
//!
//! [`run()`] stops at the first failure. [`follow`] reports each step, and goes on where only a statement of the list
//! does not hold: an outcome after ` -> `, an `expect` or a `#!` line.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright::FrameCounts;

use crate::language::{Op, Outcome, Scenario, Step, Wrong};
use crate::session::{Encounters, Session, with_session};

/// How a run checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// Operations between two checks of invariants and census; 0 for one at the end only.
    pub every: usize,
    /// Outcomes that the scenario expects are compared.
    pub expected: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Checks { every: 1, expected: true }
    }
}

/// Most frames that all checks of a run together read: less than a second's work.
const LOOKS: u64 = 1 << 26;

impl Checks {
    /// Returns checks after every operation on a small machine, and fewer on a large one.
    pub fn affordable(scenario: &Scenario) -> Checks {
        let frames = scenario.shape.frames();
        let looks = frames.saturating_mul(scenario.steps.len() as u64);
        Checks { every: looks.div_ceil(LOOKS).max(1) as usize, expected: true }
    }
}

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The outcome of each operation; [`Outcome::Done`] for a check that does not hold.
    pub outcomes: Vec<Outcome>,
    /// Where all frames were after the last operation.
    pub census: FrameCounts,
    /// What callbacks and faults saw, before everything was freed.
    pub encounters: Encounters,
    /// Blocks taken from another type's lists, whole pageblocks included.
    pub fallbacks: u64,
}

impl Report {
    /// Returns the number of outcomes that `wanted` selects.
    pub fn count(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.iter().filter(|outcome| wanted(outcome)).count()
    }
}

/// One step of a run that was carried out.
#[derive(Clone, Copy, Debug)]
pub struct Line<'r> {
    /// Its number, counted from 1.
    pub number: usize,
    /// The step.
    pub step: &'r Step,
    /// Its outcome; `None` for a check that does not hold.
    pub outcome: Option<Outcome>,
    /// What was found, if the list states otherwise.
    pub differs: Option<&'r str>,
}

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// The machine cannot be booted.
    Boot,
    /// The allocator panicked.
    Panic,
    /// The oracle rejects an answer.
    Answer,
    /// An invariant is violated, or the census or a counter differs from the oracle's.
    Check,
    /// A statement of the list does not hold.
    Stated,
    /// Something is wrong or missing after everything was freed.
    Lost,
}

/// A run that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Number of the operation, counted from 1.
    ///
    /// 0 is for booting, and one more than there are operations for freeing everything.
    pub step: usize,
    /// The operation, if it was one.
    pub op: Option<String>,
    /// The kind of the failure.
    pub kind: Kind,
    /// What is wrong.
    pub wrong: String,
    /// Frames that were neither held nor withheld before the operation.
    pub free: u64,
    /// The whole scenario as text.
    pub case: String,
}

impl Failure {
    /// Returns what is wrong and where, without the case.
    pub fn summary(&self) -> String {
        match &self.op {
            Some(op) => format!("operation {}, `{op}`: {}", self.step, self.wrong),
            None if self.step == 0 => format!("booting: {}", self.wrong),
            None => format!("giving everything back: {}", self.wrong),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n--- the case, to be saved as a .ops file ---\n{}", self.summary(), self.case)
    }
}

impl std::error::Error for Failure {}

/// Runs a scenario with every check after every operation.
///
/// # Errors
/// The first failure.
pub fn run(scenario: &Scenario) -> Result<Report, Failure> {
    run_with(scenario, Checks::default())
}

/// Runs a scenario.
///
/// # Errors
/// The first failure.
pub fn run_with(scenario: &Scenario, checks: Checks) -> Result<Report, Failure> {
    guarded(scenario, checks, &mut |line| match (line.differs, line.outcome) {
        (Some(_), Some(outcome)) => Err(format!("the outcome is: {outcome}")),
        (Some(found), None) => Err(found.to_owned()),
        (None, _) => Ok(()),
    })
}

/// Runs a scenario and shows each step to `see`; goes on where a statement does not hold.
///
/// # Errors
/// The first failure that the oracle or a check finds.
pub fn follow(scenario: &Scenario, checks: Checks, see: &mut dyn FnMut(&Line<'_>)) -> Result<Report, Failure> {
    guarded(scenario, checks, &mut |line| {
        see(line);
        Ok(())
    })
}

/// A function that sees each step; its error ends the run.
type See<'s> = &'s mut dyn FnMut(&Line<'_>) -> Result<(), Wrong>;

/// The place of a run.
struct At {
    step: usize,
    kind: Kind,
    free: u64,
}

fn guarded(scenario: &Scenario, checks: Checks, see: See<'_>) -> Result<Report, Failure> {
    let mut at = At { step: 0, kind: Kind::Boot, free: 0 };
    let body = || with_session(&scenario.shape, |session| play(session, scenario, (checks, see), &mut at));
    let wrong = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(wrong)) => wrong,
        Err(panic) => {
            at.kind = Kind::Panic;
            let text = panic.downcast_ref::<String>().map(String::as_str);
            format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without words"))
        }
    };
    let At { step, kind, free } = at;
    let op = step.checked_sub(1).and_then(|index| scenario.steps.get(index)).map(Step::to_string);
    Err(Failure { step, op, kind, wrong, free, case: scenario.to_string() })
}

fn play(
    session: &Session<'_>,
    scenario: &Scenario,
    (checks, see): (Checks, See<'_>),
    at: &mut At,
) -> Result<Report, Wrong> {
    at.kind = Kind::Check;
    session.check()?;
    session.check_frames()?;
    let mut outcomes = Vec::with_capacity(scenario.steps.len());
    for (step, number) in scenario.steps.iter().zip(1..) {
        *at = At { step: number, kind: Kind::Answer, free: session.free_frames() };
        outcomes.push(carry_out(session, (number, step), (checks, see), at)?);
        if checks.every != 0 && number % checks.every == 0 {
            at.kind = Kind::Check;
            session.check()?;
        }
    }
    *at = At { step: scenario.steps.len() + 1, kind: Kind::Check, free: session.free_frames() };
    let census = session.check()?;
    session.check_frames()?;
    let encounters = session.encounters();
    let counters = session.pages().counters();
    at.kind = Kind::Lost;
    session.give_everything_back()?;
    let fallbacks = counters.extfrag_fragmenting + counters.extfrag_whole;
    Ok(Report { outcomes, census, encounters, fallbacks })
}

/// Carries out one step and compares it with the list's statement.
fn carry_out(
    session: &Session<'_>,
    (number, step): (usize, &Step),
    (checks, see): (Checks, See<'_>),
    at: &mut At,
) -> Result<Outcome, Wrong> {
    let outcome = match (session.perform(&step.op), &step.op) {
        (Err(found), Op::Expect(_) | Op::Assert(_)) => {
            at.kind = Kind::Stated;
            see(&Line { number, step, outcome: None, differs: Some(&found) })?;
            return Ok(Outcome::Done);
        }
        (Err(wrong), Op::Validate) => {
            at.kind = Kind::Check;
            return Err(wrong);
        }
        (result, _) => result?,
    };
    let fits = !checks.expected || step.expected.as_ref().is_none_or(|expected| expected.fits(&outcome));
    let found = (!fits).then(|| outcome.to_string());
    at.kind = Kind::Stated;
    see(&Line { number, step, outcome: Some(outcome), differs: found.as_deref() })?;
    Ok(outcome)
}
