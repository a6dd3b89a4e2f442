//! The five experiments at a glance: what was published, ours, how ours stand, and what our own mechanisms add.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use framewright_table::{Table, cells};
use serde::Serialize;

use super::band::Bands;
use super::experiment::{Ask, Experiment, Made};
use crate::reproduce::fitted;
use crate::reproduce::headline::{Headline, HeadlineRow, Verdict};
use crate::reproduce::runs::Change;
use crate::reproduce::show::broken;
use crate::reproduce::variation::FACTORS;
use crate::sim::pool;

/// Version of the JSON.
pub const SCHEMA: &str = "framewright-reproduce-all/1";
/// Seeds that bands are recorded with; more where one run says little.
const SEEDS: u64 = 5;
const MANY: u64 = 10;
/// Parts of a unit of weight in which progress is counted.
const PARTS: u64 = 1000;

/// Head of the checks that do not hold in a run that is too short for them.
const NOT_JUDGED: &str = "not judged in a quick run";
/// Meaning of that head.
const NOT_JUDGED_MEANS: &str =
    "not judged in a quick run: does not hold in it, framewright reproduce EXPERIMENT judges it";
/// Remark on a seed of the user's own.
const OTHER_SEEDS: &str = "bands are of other seeds: this run is not held against them";
/// Message about a figure that has left its band.
const LEFT: &str = "LEFT ITS BAND: what comes out has changed by more than chance; `framewright reproduce EXPERIMENT --quick` shows the \
                    runs, docs/reproduce.md says what to do";

/// All of it.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct All {
    /// Version of this format.
    pub schema: &'static str,
    /// The command that prints it.
    pub command: String,
    /// Whether runs were short and few.
    pub quick: bool,
    /// Seed of all that is random.
    pub seed: u64,
    /// The experiments.
    pub experiments: Vec<Headline>,
}

impl All {
    /// Of experiments that were run; figures of quick ones are held against the recorded bands.
    ///
    /// # Errors
    /// The recorded bands cannot be read, or are not those of the figures, which is a mistake in this crate.
    pub fn new(made: &[Made], command: &str, (quick, seed): (bool, u64)) -> anyhow::Result<Self> {
        let bands = if quick { Bands::built_in()? } else { Bands::default() };
        for headline in made.iter().map(|made| &made.headline).filter(|_| quick) {
            let unmatched = bands.unmatched(headline);
            if !unmatched.is_empty() {
                bail!(
                    "{}: a figure without a recorded band, or a band without its figure: {}; record them anew: framewright \
                     reproduce all --quick --bands data/reproduced/quick.toml",
                    headline.experiment,
                    unmatched.join(", ")
                );
            }
        }
        let within = |made: &Made| bands.within(made.headline.clone(), was_recorded(seed));
        let experiments = made.iter().map(within).collect();
        Ok(Self { schema: SCHEMA, command: command.to_owned(), quick, seed, experiments })
    }

    /// Whether no figure has left its band.
    pub fn holds(&self) -> bool {
        self.experiments.iter().all(Headline::holds)
    }

    fn headline_rows(&self) -> impl Iterator<Item = &HeadlineRow> {
        self.experiments.iter().flat_map(|headline| &headline.rows)
    }

    /// How many figures stand how, in words.
    pub fn tally(&self) -> String {
        use Verdict::{AsPublished, Differs, Fitted, FittedMissed, InBand, LeftBand, NearOutside, SameWay};
        let all = [AsPublished, NearOutside, InBand, SameWay, Differs, Fitted, FittedMissed, LeftBand];
        let published = self.headline_rows().filter(|row| row.published.is_some()).count();
        let count = |verdict| self.headline_rows().filter(|row| row.verdict == verdict).count();
        let told = all.into_iter().map(|verdict| (count(verdict), verdict)).filter(|(count, _)| *count != 0);
        let told: Vec<String> = told.map(|(count, verdict)| format!("{} {count}", verdict.words())).collect();
        format!("Of {published} published figures: {}", told.join("; "))
    }

    /// Writes where bands and verdicts are explained, for one screen, which has no room to explain them.
    fn guide(&self) -> String {
        let parts = [
            (true, "docs/reproduce.md explains verdicts"),
            (self.leaves_open(), "framewright reproduce EXPERIMENT judges what this run does not"),
            (self.quick && !was_recorded(self.seed), OTHER_SEEDS),
        ];
        told(&parts)
    }

    /// Whether some check is left to a full run.
    fn leaves_open(&self) -> bool {
        self.experiments.iter().any(|headline| !headline.not_judged.is_empty())
    }

    /// Writes the meaning of bands and verdicts.
    pub fn legend(&self) -> String {
        let has = |verdict| self.headline_rows().any(|row| row.verdict == verdict);
        let holds = "in band: the band, of other seeds, holds it";
        let parts = [
            (true, "as published: as near as docs/reproduce.md asks, and in the band"),
            (has(Verdict::NearOutside), "near, outside band: as near, but the band does not hold it"),
            (self.quick, holds),
            (has(Verdict::FittedMissed), "fitted, missed: the number that was chosen for it is for longer runs"),
            (has(Verdict::SameWay), "same way: as theirs, by less or more"),
            (has(Verdict::Differs), "differs: docs/lab/fidelity.md and docs/lab/fragmentation.md say why"),
            (self.leaves_open(), NOT_JUDGED_MEANS),
            (self.quick && !was_recorded(self.seed), OTHER_SEEDS),
        ];
        told(&parts)
    }
}

/// Joins the parts that are so.
fn told(parts: &[(bool, &str)]) -> String {
    let told: Vec<&str> = parts.iter().filter(|(is_so, _)| *is_so).map(|(_, words)| *words).collect();
    told.join("; ")
}

/// Whether the bands of all experiments were recorded with this seed.
fn was_recorded(seed: u64) -> bool {
    (1..=SEEDS).contains(&seed)
}

/// A band in words; none is nothing.
pub fn band(row: &HeadlineRow) -> String {
    row.band.map_or(String::new(), |band| {
        let sign = |value: f64| if row.unit == "%" { format!("{value:+.1}") } else { format!("{value:.1}") };
        format!("{} … {}", sign(band.0[0]), sign(band.0[1]))
    })
}

impl fmt::Display for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quick = if self.quick { ", a quick look" } else { "" };
        writeln!(f, "Five published experiments on the simulated machine{quick}, seed {}", self.seed)?;
        let mut table = Table::new("<>>><");
        table.row(cells!["{:<34}" = "", "{:>12}" = "published", "{:>12}" = "ours", "{:>15}" = "band", "  verdict"]);
        for headline in &self.experiments {
            table.text(format!("{}: {}", headline.experiment, headline.what));
            for row in &headline.rows {
                let [theirs, ours] = [row.published, Some(row.ours)].map(|value| row.told(value));
                let verdict = row.verdict.words();
                table.row(cells![
                    "  {:<32}" = row.name,
                    "{theirs:>12}",
                    "{ours:>12}",
                    "{:>15}" = band(row),
                    "  {verdict}"
                ]);
            }
            table.text(broken(&format!("    {}", headline.ours), 4).trim_end());
            for (what, checks) in [("FAILS", &headline.fails), (NOT_JUDGED, &headline.not_judged)] {
                let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
                if !names.is_empty() {
                    table.text(broken(&format!("  {what}: {}", names.join("; ")), 4).trim_end());
                }
            }
        }
        write!(f, "{table}\n{}{}", broken(&self.tally(), 2), broken(&self.guide(), 2))?;
        if self.holds() { Ok(()) } else { f.write_str(&broken(LEFT, 2)) }
    }
}

/// Runs the experiments side by side, but first what measures the host, alone. `progress` is told the first that is not
/// done, and the share of all that is done.
///
/// # Errors
/// The first run that failed, and which it was.
pub fn run(
    experiments: &[Experiment],
    ask: &Ask<'_>,
    command: impl Fn(Experiment) -> String + Sync,
    mut progress: impl FnMut(Experiment, f64),
) -> anyhow::Result<Vec<Made>> {
    let behind: Vec<AtomicU64> = experiments.iter().map(|_| AtomicU64::new(0)).collect();
    let total: u64 = experiments.iter().map(|experiment| experiment.weight()).sum();
    let mut made: Vec<Option<Made>> = experiments.iter().map(|_| None).collect();
    for alone in [true, false] {
        let all: Vec<usize> = (0..experiments.len()).filter(|&i| experiments[i].measures_the_host() == alone).collect();
        let job = |number: usize| {
            let (experiment, behind) = (experiments[all[number]], &behind[all[number]]);
            let weight = experiment.weight() * PARTS;
            let mut advance = |done, of: u64| behind.store(weight * done / of.max(1), Ordering::Relaxed);
            let made = experiment.make(ask, &command(experiment), &mut advance)?;
            behind.store(weight, Ordering::Relaxed);
            anyhow::Ok(made)
        };
        let mut tell = |_| {
            let behind: Vec<u64> = behind.iter().map(|behind| behind.load(Ordering::Relaxed)).collect();
            let open =
                experiments.iter().zip(&behind).find(|(experiment, behind)| **behind < experiment.weight() * PARTS);
            if let Some((&open, _)) = open {
                progress(open, behind.iter().sum::<u64>() as f64 / (total * PARTS) as f64);
            }
        };
        for (&number, one) in all.iter().zip(pool::on(all.len(), all.len(), job, &mut tell)?) {
            made[number] = Some(one);
        }
    }
    Ok(made.into_iter().flatten().collect())
}

/// Records the bands of quick runs: see [`super::band`]. `progress` is told which experiment it is, and the share of
/// its runs that are done.
///
/// # Errors
/// The first run that failed, and which it was.
pub fn record(experiments: &[Experiment], mut progress: impl FnMut(Experiment, f64)) -> anyhow::Result<Bands> {
    let mut bands = Bands::default();
    for &experiment in experiments {
        let machine = experiment.spec(None)?;
        let fitted = fitted::to(experiment.name(), &machine);
        let changes =
            fitted.iter().flat_map(|fitted| FACTORS.map(|factor| (1, Some((fitted.parameter.as_str(), factor)))));
        let seeds = if experiment == Experiment::Fragmentation { MANY } else { SEEDS };
        let all: Vec<(u64, Change<'_>)> = (1..=seeds).map(|seed| (seed, None)).chain(changes).collect();
        for (number, &(seed, change)) in all.iter().enumerate() {
            let ask = Ask { quick: true, page: false, seed, mib: None, seeds: None, change };
            let mut advance = |done: u64, of: u64| {
                let share = done as f64 / of.max(1) as f64;
                progress(experiment, (number as f64 + share) / all.len() as f64);
            };
            bands.widen(&experiment.make(&ask, "", &mut advance)?.headline);
        }
    }
    Ok(bands)
}
