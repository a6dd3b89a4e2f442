//! Scenarios as values of a property test.
//!
//! The test runner draws a seed. [`Shrinker`] shrinks operation by operation and knows nothing of seeds.

use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::generate;
use crate::language::scenario::Scenario;
use crate::shrink::Shrinker;

/// Every scenario of [`generate::scenario`].
#[derive(Clone, Copy, Debug)]
pub struct Scenarios;

/// A scenario that may shrink.
#[derive(Clone, Debug)]
pub struct ScenarioTree {
    shrinker: Shrinker,
    /// The proposal of which it is not yet known whether it fails.
    proposal: Option<Scenario>,
}

impl Strategy for Scenarios {
    type Tree = ScenarioTree;
    type Value = Scenario;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        use proptest::prelude::RngCore;
        let seed = runner.rng().next_u64();
        Ok(ScenarioTree { shrinker: Shrinker::new(generate::scenario(seed)), proposal: None })
    }
}

impl ValueTree for ScenarioTree {
    type Value = Scenario;

    fn current(&self) -> Scenario {
        self.proposal.as_ref().unwrap_or(self.shrinker.best()).clone()
    }

    fn simplify(&mut self) -> bool {
        if let Some(proposal) = self.proposal.take() {
            self.shrinker.accept(proposal);
        }
        self.proposal = self.shrinker.propose();
        self.proposal.is_some()
    }

    fn complicate(&mut self) -> bool {
        if self.proposal.take().is_some() {
            self.shrinker.reject();
        }
        self.proposal = self.shrinker.propose();
        self.proposal.is_some()
    }
}
