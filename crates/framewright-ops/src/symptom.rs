//! Makes a failing scenario small without changing its failure.
//!
//! A smaller list that fails in another way explains nothing. Two failures count as one if their [`Symptom`]s are
//! equal: the kind, and the invariant, the first words of the message or the step.
//!
//! A statement of a list has no oracle: `-> >=15000` fails on any machine that is small enough. So the step stays as it
//! is, and at least as many frames must be free before it as in the failure. If the caller names mechanisms under which
//! the list is right, the smaller list must be right under them too.

use framewright::Mechanisms;

use crate::language::Scenario;
use crate::run::{Checks, Failure, Kind, run_with};
use crate::shrink::shrink;

/// The identity of a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symptom {
    kind: Kind,
    /// The step itself, or the first words of the message.
    subject: String,
}

impl Symptom {
    /// Returns the symptom of a failure.
    pub fn of(failure: &Failure) -> Symptom {
        let subject = match (failure.kind, &failure.op) {
            (Kind::Stated, Some(op)) => op.clone(),
            _ => gist(&failure.wrong),
        };
        Symptom { kind: failure.kind, subject }
    }
}

/// Returns the first words of a message, without numbers.
fn gist(wrong: &str) -> String {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let words: Vec<&str> = wrong.split_whitespace().filter(|word| !is_number(word)).take(4).collect();
    words.join(" ")
}

/// How much is tried to make a failure small.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Most lists to try.
    pub tries: usize,
    /// Mechanisms under which the list is right.
    pub right_under: Option<Mechanisms>,
    /// How the failure was found. Every step is checked only if the failure needs that.
    pub checks: Checks,
}

/// Returns the smallest list found that fails as `failure` does, after `effort`.
///
/// `progress` hears how many operations are left and which share of the tries is done.
pub fn shrink_failure(
    scenario: &Scenario,
    failure: &Failure,
    effort: &Effort,
    progress: &mut dyn FnMut(usize, f64),
) -> Scenario {
    let symptom = Symptom::of(failure);
    let every = if failure.kind == Kind::Check { effort.checks.every } else { 0 };
    let checks = Checks { every, ..effort.checks };
    let fails = |proposal: &Scenario| {
        let found = match run_with(proposal, checks) {
            Err(found) if Symptom::of(&found) == symptom => found,
            _ => return false,
        };
        let is_fair = failure.kind != Kind::Stated || found.free >= failure.free;
        is_fair && effort.right_under.is_none_or(|mechanisms| is_right(proposal, mechanisms, checks))
    };
    let start = prepared(scenario, failure).into_iter().rfind(|simpler| fails(simpler));
    let start = start.unwrap_or_else(|| scenario.clone());
    let (mut left, mut tried) = (start.steps.len(), 0);
    shrink(start, effort.tries, |proposal| {
        progress(left, f64::from(tried) / effort.tries as f64);
        tried += 1;
        let fails = fails(proposal);
        left = if fails { proposal.steps.len() } else { left };
        fails
    })
}

/// Returns whether the list is right under these mechanisms.
pub fn is_right(scenario: &Scenario, mechanisms: Mechanisms, checks: Checks) -> bool {
    let mut other = scenario.clone();
    other.shape.mechanisms = mechanisms;
    run_with(&other, checks).is_ok()
}

/// Returns the list up to the failure, and that list without the statements of other steps.
fn prepared(scenario: &Scenario, failure: &Failure) -> Vec<Scenario> {
    let mut cut = scenario.clone();
    cut.steps.truncate(failure.step);
    let mut bare = cut.clone();
    let last = bare.steps.len().saturating_sub(1);
    bare.steps.iter_mut().take(last).for_each(|step| step.expected = None);
    if failure.kind != Kind::Stated {
        bare.steps.iter_mut().for_each(|step| step.expected = None);
    }
    vec![cut, bare]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\nmemory 0x40..0x80 node 1\n\
                           cpus 0 0\ndma-end 0x0\ndma32-end 0x0\nmarks 0 Normal 0 0 0\nmarks 1 Normal 0 0 0\n";

    fn small(steps: &str, right_under: Option<Mechanisms>) -> (Scenario, Failure, Failure) {
        let scenario: Scenario = format!("{MACHINE}{steps}").parse().unwrap();
        let checks = Checks::default();
        let failure = run_with(&scenario, checks).unwrap_err();
        let effort = Effort { tries: 5_000, right_under, checks };
        let small = shrink_failure(&scenario, &failure, &effort, &mut |_, _| {});
        let found = run_with(&small, checks).unwrap_err();
        assert_eq!(Symptom::of(&found), Symptom::of(&failure), "{small}");
        (small, failure, found)
    }

    /// The failing step stays as it is, and no shortage is made up: neither less memory, nor more of it in use.
    #[test]
    fn statements_keep_their_sense() {
        let steps = "a1 = alloc order 1 GFP_KERNEL -> served\na2 = bulk 4 order 0 GFP_ATOMIC\nrun-on 1\n\
                     a3 = bulk 40 order 0 GFP_KERNEL|__GFP_THISNODE\nfree a1 -> served\n\
                     a4 = bulk 64 order 0 GFP_KERNEL|__GFP_THISNODE -> >=60\nvalidate\nfree a3";
        let (small, failure, found) = small(steps, None);
        let last = "a4 = bulk 64 order 0 GFP_KERNEL|__GFP_THISNODE -> >=60";
        assert_eq!(small.steps.last().map(ToString::to_string).as_deref(), Some(last), "{small}");
        assert!(small.steps.len() <= 3, "{small}");
        assert!(small.steps.iter().rev().skip(1).all(|step| step.expected.is_none()), "{small}");
        assert!(found.free >= failure.free, "{} of {} frames are free\n{small}", found.free, failure.free);
    }

    /// A statement that other mechanisms satisfy is not confused with one that none does.
    #[test]
    fn a_list_stays_right_under_others() {
        let steps = "a1 = bulk 4 order 0 GFP_KERNEL\na2 = alloc order 0 GFP_KERNEL\nfree a2\nrun-on 1\n\
                     #! vmstat compact_stall 0";
        let mechanisms = Mechanisms::DEFAULT;
        let (small, ..) = small(steps, Some(mechanisms));
        assert_eq!(small.steps.len(), 1, "{small}");
        assert!(is_right(&small, mechanisms, Checks::default()));
    }

    #[test]
    fn numbers_do_not_tell_failures_apart() {
        let scenario: Scenario = format!("{MACHINE}#! cached 7").parse().unwrap();
        let failure = run_with(&scenario, Checks::default()).unwrap_err();
        let of = |kind, wrong: &str| Symptom::of(&Failure { kind, wrong: wrong.to_owned(), ..failure.clone() });
        assert_eq!(of(Kind::Check, "3 frames are pcp, should be 4"), of(Kind::Check, "7 frames are pcp, should be 0"));
        assert_ne!(of(Kind::Check, "invariant B1 is violated"), of(Kind::Check, "invariant B2 is violated"));
        assert_ne!(of(Kind::Check, "invariant B1 is violated"), of(Kind::Lost, "invariant B1 is violated"));
    }
}
