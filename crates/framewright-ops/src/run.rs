//! Runs a scenario and says what is wrong.
//!
//! A run boots a machine, carries out the operations one by one, and after each (or each `n`-th) has the allocator check its
//! invariants and compares its census with the oracle's. At the end everything is given back and every frame compared: no
//! frame may be lost. A panic of the allocator is a failure like any other.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright::Census;

use crate::outcome::{Outcome, Wrong};
use crate::scenario::{Scenario, Step};
use crate::session::{Encounters, Session, with_session};

/// How a run checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// Invariants and census are checked after every so many operations; 0 for at the end only.
    pub every: usize,
    /// Outcomes that the scenario expects are compared.
    pub expected: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Checks { every: 1, expected: true }
    }
}

/// What a run did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What came of each operation.
    pub outcomes: Vec<Outcome>,
    /// Where all frames were after the last operation.
    pub census: Census,
    /// What callbacks and faults saw, before everything was given back.
    pub encounters: Encounters,
    /// Blocks taken from another type's lists, whole pageblocks included.
    pub fallbacks: u64,
}

impl Report {
    /// How many operations had an outcome such as this.
    pub fn count(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.iter().filter(|outcome| wanted(outcome)).count()
    }
}

/// A run went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Number of the operation, counted from 1; 0 for booting, and one more than there are for giving everything back.
    pub step: usize,
    /// The operation, if it was one.
    pub op: Option<String>,
    /// What is wrong.
    pub wrong: String,
    /// The whole scenario as text.
    pub case: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.op {
            Some(op) => write!(f, "operation {}, `{op}`: {}", self.step, self.wrong)?,
            None if self.step == 0 => write!(f, "booting: {}", self.wrong)?,
            None => write!(f, "giving everything back: {}", self.wrong)?,
        }
        write!(f, "\n--- the case, to be saved as a .ops file ---\n{}", self.case)
    }
}

impl std::error::Error for Failure {}

/// Runs a scenario with every check after every operation.
///
/// # Errors
/// The first thing found wrong.
pub fn run(scenario: &Scenario) -> Result<Report, Failure> {
    run_with(scenario, Checks::default())
}

/// Runs a scenario.
///
/// # Errors
/// The first thing found wrong.
pub fn run_with(scenario: &Scenario, checks: Checks) -> Result<Report, Failure> {
    let mut step = 0;
    let result = catch_unwind(AssertUnwindSafe(|| run_steps(scenario, checks, &mut step)));
    let wrong = match result {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(wrong)) => wrong,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without words"))
        }
    };
    let op = step.checked_sub(1).and_then(|index| scenario.steps.get(index)).map(Step::to_string);
    Err(Failure { step, op, wrong, case: scenario.to_string() })
}

fn run_steps(scenario: &Scenario, checks: Checks, at: &mut usize) -> Result<Report, Wrong> {
    with_session(&scenario.shape, |session| play(session, scenario, checks, at))
}

fn play(session: &Session<'_>, scenario: &Scenario, checks: Checks, at: &mut usize) -> Result<Report, Wrong> {
    session.check()?;
    session.check_frames()?;
    let mut outcomes = Vec::with_capacity(scenario.steps.len());
    for (step, number) in scenario.steps.iter().zip(1..) {
        *at = number;
        let outcome = session.perform(&step.op)?;
        outcomes.push(outcome);
        if checks.expected
            && let Some(expected) = &step.expected
            && *expected != outcome.to_string()
        {
            return Err(format!("the outcome is: {outcome}"));
        }
        if checks.every != 0 && number % checks.every == 0 {
            session.check()?;
        }
    }
    *at = scenario.steps.len() + 1;
    let census = session.check()?;
    session.check_frames()?;
    let encounters = session.encounters();
    let counters = session.pages().counters();
    session.give_everything_back()?;
    let fallbacks = counters.extfrag_fragmenting + counters.extfrag_whole;
    Ok(Report { outcomes, census, encounters, fallbacks })
}
