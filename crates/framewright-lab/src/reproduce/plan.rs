//! The runs that an experiment consists of, as one plan, and what came of them by name.
//!
//! An experiment says which [`Set`]s of runs it has, which of them are run again with the machine's numbers changed,
//! and which figures they show. [`Plan::run`] then runs everything on all CPUs of the host; a figure's band comes from
//! the same figure of the runs with a number changed, so there is nothing to say of it.

use std::collections::BTreeMap;

use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use framewright_sim::workload::Outcome;

use super::runs::{self, Change, Progress, Run};
use super::variation::{self, Band, Round, Variations, Varied, vary};

/// The set of runs that the published table is made again from.
pub const TABLE: &str = "table";

/// Figures that the runs of a table show, by name.
pub type Figures = BTreeMap<String, f64>;

/// Runs of one kind on one machine.
#[derive(Clone, Debug)]
pub struct Set<'p> {
    /// What they are asked for by.
    pub name: &'static str,
    /// The machine.
    pub machine: &'p Spec,
    /// The runs.
    pub runs: Vec<Run<'p>>,
}

/// Runs with their names, and what came of each.
pub type Outcomes = [(String, Outcome)];

/// What came of a plan.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// The sets by name, each with its runs in their order.
    pub sets: BTreeMap<&'static str, Vec<(String, Outcome)>>,
    /// What the table's runs show.
    pub figures: Figures,
    /// Those figures with the machine's numbers changed, if that was asked for.
    pub variations: Option<Variations<Figures>>,
}

impl Runs {
    /// Runs of a set; none of one that was not planned.
    pub fn of(&self, set: &str) -> &Outcomes {
        self.sets.get(set).map_or(&[], Vec::as_slice)
    }

    /// The run of this name in a set.
    pub fn outcome(&self, set: &str, name: &str) -> Option<&Outcome> {
        self.of(set).iter().find(|(known, _)| known == name).map(|(_, outcome)| outcome)
    }

    /// Its report.
    pub fn report(&self, set: &str, name: &str) -> Option<&Report> {
        self.outcome(set, name).map(|outcome| &outcome.report)
    }

    /// What was varied, if anything was.
    pub fn varied(&self) -> Option<&Varied> {
        self.variations.as_ref().map(|variations| &variations.varied)
    }

    /// How far a figure of the table moves; none without variations, and of a figure that is not varied.
    pub fn band(&self, figure: &str) -> Option<Band> {
        self.variations.as_ref()?.band(*self.figures.get(figure)?, |sample| sample.get(figure).copied())
    }
}

/// What is to be run.
pub trait Plan {
    /// How many of the machine's numbers are varied both ways.
    const CHOSEN: usize;

    /// The machine whose numbers are varied.
    fn machine(&self) -> &Spec;

    /// All runs with the machines as they are.
    ///
    /// # Errors
    /// A run cannot be as it was asked for.
    fn sets(&self) -> anyhow::Result<Vec<Set<'_>>>;

    /// The runs that are varied, with a number of the machine changed and as long as they are in a round; none if
    /// nothing is to be varied.
    ///
    /// # Errors
    /// As [`Plan::sets`].
    fn varied<'p>(&self, change: Change<'p>, round: Round) -> anyhow::Result<Option<Vec<Run<'p>>>>;

    /// What runs of the table show; of runs that are not among these, nothing.
    fn figures(&self, table: &Outcomes) -> Figures;

    /// By how many points a change of the machine moves what moves most.
    fn reach(&self, still: &Figures, moved: &Figures) -> f64 {
        let both = still.iter().filter_map(|(name, was)| Some((moved.get(name)? - was).abs()));
        both.fold(0.0, f64::max)
    }

    /// The runs that are varied; none if nothing is.
    ///
    /// # Errors
    /// As [`Plan::sets`].
    fn changed<'p>(&self, change: Change<'p>, round: Round) -> anyhow::Result<Vec<Run<'p>>> {
        Ok(self.varied(change, round)?.unwrap_or_default())
    }

    /// Runs all of it.
    ///
    /// # Errors
    /// The first run that failed, and which it was.
    fn run(&self, progress: Progress<'_>) -> anyhow::Result<Runs> {
        let machine = self.machine();
        let sets = self.sets()?;
        let is_varied = self.varied(None, Round::Screen)?.is_some();
        let done: u64 = sets.iter().map(|set| runs::weight(&set.runs)).sum();
        let total = done
            + if is_varied {
                variation::weight(machine, Self::CHOSEN, |change, round| self.changed(change, round))?
            } else {
                0
            };
        let all: Vec<(&Spec, &Run<'_>)> =
            sets.iter().flat_map(|set| set.runs.iter().map(|run| (set.machine, run))).collect();
        let outcomes = runs::all(&all, &mut |now| progress(now, total))?;
        let named = all.iter().map(|(_, run)| run.name.clone()).zip(outcomes);
        let variations = match is_varied {
            true => {
                let shown = |outcomes: &Outcomes| self.figures(outcomes);
                let reach = |still: &Figures, moved: &Figures| self.reach(still, moved);
                let progress = &mut |now| progress(done + now, total);
                Some(vary(machine, Self::CHOSEN, |change, round| self.changed(change, round), shown, reach, progress)?)
            }
            false => None,
        };
        Ok(Runs { variations, ..self.found(&sets, named) })
    }

    /// What came of the sets' runs, from the outcomes in their order.
    fn found(&self, sets: &[Set<'_>], outcomes: impl IntoIterator<Item = (String, Outcome)>) -> Runs {
        let mut outcomes = outcomes.into_iter();
        let sets = sets.iter().map(|set| (set.name, outcomes.by_ref().take(set.runs.len()).collect()));
        let mut runs = Runs { sets: sets.collect(), ..Runs::default() };
        runs.figures = self.figures(runs.of(TABLE));
        runs
    }
}
