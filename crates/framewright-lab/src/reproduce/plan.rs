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
use super::variation::{Band, FACTORS, Reach, Round, Varied, choose, parameters};

/// The set of runs that the published table is made again from.
pub const TABLE: &str = "table";

/// Figures that the runs of a table show, by name.
pub type Figures = BTreeMap<String, f64>;

/// Runs of one kind on one machine.
#[derive(Clone, Debug)]
pub struct Set<'p> {
    /// Name of the set.
    pub name: &'static str,
    /// The machine.
    pub machine: &'p Spec,
    /// The runs.
    pub runs: Vec<Run<'p>>,
}

/// Runs with their names, and what came of each.
pub type Outcomes = [(String, Outcome)];

/// Outcomes of a plan.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// The sets by name, each with its runs in their order.
    pub sets: BTreeMap<&'static str, Vec<(String, Outcome)>>,
    /// Figures of the table's runs.
    pub figures: Figures,
    /// Those figures with the machine's numbers changed, if that was asked for.
    pub variations: Option<Variations>,
}

/// The table's figures with one number of the machine changed at a time.
#[derive(Clone, Debug)]
pub struct Variations {
    /// Numbers that were varied, and their effects.
    pub varied: Varied,
    /// Figures of runs of the second round's length with the machine as it is.
    pub base: Figures,
    /// Figures of such runs with each change.
    pub samples: Vec<Figures>,
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

    /// Returns the numbers that were varied, if any.
    pub fn varied(&self) -> Option<&Varied> {
        self.variations.as_ref().map(|variations| &variations.varied)
    }

    /// How far a figure of the table moves: by the differences of the samples that have it. None without variations,
    /// and of a figure that is not varied.
    pub fn band(&self, figure: &str) -> Option<Band> {
        let Variations { base, samples, .. } = self.variations.as_ref()?;
        let (ours, still) = (self.figures.get(figure)?, base.get(figure)?);
        Some(Band::of(*ours, samples.iter().filter_map(|sample| Some(sample.get(figure)? - still))))
    }
}

/// Plan of an experiment's runs.
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

    /// The runs that are varied, with a number of the machine changed and as long as they are in a round; no runs if
    /// nothing is to be varied.
    ///
    /// # Errors
    /// As [`Plan::sets`].
    fn varied<'p>(&self, change: Change<'p>, round: Round) -> anyhow::Result<Vec<Run<'p>>>;

    /// Returns the figures of the table's runs; none of runs that were not made.
    fn figures(&self, table: &Outcomes) -> Figures;

    /// By how many points a change of the machine moves what moves most.
    fn reach(&self, still: &Figures, moved: &Figures) -> f64 {
        let both = still.iter().filter_map(|(name, was)| Some((moved.get(name)? - was).abs()));
        both.fold(0.0, f64::max)
    }

    /// Runs all of it.
    ///
    /// # Errors
    /// The first run that failed, and which it was.
    fn run(&self, progress: Progress<'_>) -> anyhow::Result<Runs> {
        let sets = self.sets()?;
        let of_sets = sets.iter().map(|set| runs::weight(&set.runs)).sum::<u64>();
        let parameters = parameters(self.machine()).len();
        let changes = [(Round::Screen, parameters), (Round::Band, Self::CHOSEN.min(parameters) * FACTORS.len())];
        let mut of_changes = 0;
        for (round, changes) in changes {
            of_changes += (1 + changes) as u64 * runs::weight(&self.varied(None, round)?);
        }
        let total = of_sets + of_changes;
        let all: Vec<(&Spec, &Run<'_>)> =
            sets.iter().flat_map(|set| set.runs.iter().map(|run| (set.machine, run))).collect();
        let outcomes = runs::all(&all, &mut |now| progress(now, total))?;
        let named = all.iter().map(|(_, run)| run.name.clone()).zip(outcomes);
        let variations = match of_changes {
            0 => None,
            _ => Some(vary(self, &mut |now| progress(of_sets + now, total))?),
        };
        Ok(Runs { variations, ..self.found(&sets, named) })
    }

    /// Sorts the outcomes of the sets' runs, which come in their order.
    fn found(&self, sets: &[Set<'_>], outcomes: impl IntoIterator<Item = (String, Outcome)>) -> Runs {
        let mut outcomes = outcomes.into_iter();
        let sets = sets.iter().map(|set| (set.name, outcomes.by_ref().take(set.runs.len()).collect()));
        let mut runs = Runs { sets: sets.collect(), ..Runs::default() };
        runs.figures = self.figures(runs.of(TABLE));
        runs
    }
}

/// Varies the machine's numbers in two rounds, in the second those that matter. `progress` is told the weight of
/// what has been done.
fn vary<P: Plan + ?Sized>(plan: &P, progress: &mut dyn FnMut(u64)) -> anyhow::Result<Variations> {
    let machine = plan.machine();
    let mut before = 0;
    let mut sample = |changes: &[Change<'_>], round: Round| {
        let tables = changes.iter().map(|&change| plan.varied(change, round)).collect::<anyhow::Result<Vec<_>>>()?;
        let all: Vec<(&Spec, &Run<'_>)> = tables.iter().flatten().map(|run| (machine, run)).collect();
        let outcomes = runs::all(&all, &mut |now| progress(before + now))?;
        let mut outcomes = all.iter().map(|(_, run)| run.name.clone()).zip(outcomes);
        before += tables.iter().map(|table| runs::weight(table)).sum::<u64>();
        let of = |table: &Vec<Run<'_>>| plan.figures(&outcomes.by_ref().take(table.len()).collect::<Vec<_>>());
        anyhow::Ok(tables.iter().map(of).collect::<Vec<Figures>>())
    };
    let parameters = parameters(machine);
    let larger = parameters.iter().map(|&path| Some((path, FACTORS[1])));
    let samples = sample(&[None].into_iter().chain(larger).collect::<Vec<_>>(), Round::Screen)?;
    let reach = |(path, sample): (&&str, &Figures)| Reach {
        parameter: (*path).to_owned(),
        points: plan.reach(&samples[0], sample),
    };
    let varied = choose(parameters.iter().zip(&samples[1..]).map(reach).collect(), P::CHOSEN);
    let both = varied.chosen.iter().flat_map(|reach| FACTORS.map(|factor| Some((reach.parameter.as_str(), factor))));
    let mut samples = sample(&[None].into_iter().chain(both).collect::<Vec<_>>(), Round::Band)?;
    Ok(Variations { base: samples.remove(0), samples, varied })
}
