//! Rows, theirs and ours, and what has to hold before one may say that the tables were reproduced.

use serde::Serialize;

use super::measured::Measured;
use super::plan::OURS;
use super::published::{FragmentationTables, KERNELS, ThpRow as Theirs};
use crate::reproduce::check::{Check, disordered, points};
use framewright_table::figures::{change_if_any, percent, ratio};

/// Points by which the first kernel's huge pages may be off.
const HUGE: f64 = 15.0;
/// Percent by which the first patch makes fallbacks of unmovable requests fewer, on one socket at least.
const UNMOVABLE: f64 = 70.0;
/// Percent by which patches 1 to 4, and 1 to 5, make events fewer at least.
const FEWER: f64 = 90.0;
/// Percent by which ours makes events fewer at least.
const OURS_FEWER: f64 = 99.0;
/// Percent of faults that ours serves with a huge page, at least, if a process asks.
const OURS_HUGE: f64 = 95.0;
/// Percent of the first round's huge pages that ours has in the last, at least.
const KEPT: f64 = 98.0;
/// How many times as much as in the first kernel background reclaim may look at under ours.
const SCANNED: f64 = 1.5;
/// The share of pages that readers get under ours, of those that they get under the first kernel, at least.
const READ: f64 = 0.98;
/// Parts of names: of configurations of one socket, and of those in which a process asks for huge pages.
const ONE_SOCKET: &str = "skylake";
const ASKED: &str = "madvise";

/// A kernel in a configuration.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub(super) struct ThpComparison {
    pub(super) config: &'static str,
    /// Which kernel.
    pub(super) kernel: &'static str,
    /// Whether something was chosen knowing this row.
    pub(super) fitted: bool,
    /// Published results, if there are any.
    pub(super) published: Option<Theirs>,
    /// Results of our runs.
    pub(super) simulated: Measured,
    /// Changes of the number of events against the first kernel, in percent.
    pub(super) change_percent: EventChange,
    /// Which requests took whose blocks, in a sentence.
    pub(super) why: String,
}

/// Changes against the first kernel, in percent. None of that kernel itself, and where it has nothing to change.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub(super) struct EventChange {
    pub(super) published: Option<f64>,
    /// Change in our runs, of means.
    pub(super) simulated: Option<f64>,
}

/// A kernel for several rounds, with one seed.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub(super) struct Rounds {
    /// Which kernel.
    pub(super) kernel: &'static str,
    /// Faults that got a huge page, by round, in percent.
    pub(super) huge_percent: Vec<f64>,
}

/// Whether something holds in a configuration, and its numbers; none if that was not run.
type Seen = Option<(bool, String)>;

/// Rows to judge, and their tables.
struct Bench<'a> {
    rows: &'a [ThpComparison],
    published: &'a FragmentationTables,
}

pub(super) fn checks(rows: &[ThpComparison], rounds: &[Rounds], published: &FragmentationTables) -> Vec<Check> {
    let bench = Bench { rows, published };
    let [first, lowzone, boost, stall] = KERNELS;
    vec![
        bench.check(&format!("{first}: huge pages within {HUGE} points of the published"), "", |config| {
            let row = bench.row(config, first)?;
            let (theirs, ours) = (row.published.as_ref()?.huge_percent, row.simulated.huge_percent.mean);
            let detail = format!("{} %, published {} %", percent(ours), percent(theirs));
            Some(((ours - theirs).abs() <= HUGE, detail))
        }),
        bench.check(&format!("{lowzone}: fewer events than {first}"), "", |config| bench.fewer(config, lowzone, 0.0)),
        bench.one_socket_most(lowzone),
        bench.check(&format!("{lowzone}: {UNMOVABLE} % fewer unmovable requests fall back"), ONE_SOCKET, |config| {
            let [from, to] = [first, lowzone].map(|kernel| bench.row(config, kernel));
            let [from, to] = [from?, to?].map(|row| row.simulated.events_by_type.unmovable.mean);
            Some(fewer(change_if_any(from, to), UNMOVABLE, ""))
        }),
        bench.check(&format!("{boost}: {FEWER} % fewer events"), "", |config| bench.fewer(config, boost, FEWER)),
        bench.check(&format!("{stall}: {FEWER} % fewer events"), "", |config| bench.fewer(config, stall, FEWER)),
        bench.check("huge pages in the published order, where that is further apart than two postings", "", |config| {
            bench.order(config)
        }),
        bench
            .check(&format!("{OURS}: {OURS_FEWER} % fewer events"), "", |config| bench.fewer(config, OURS, OURS_FEWER)),
        bench.check(&format!("{OURS}: {OURS_HUGE} % huge pages where they are asked for"), ASKED, |config| {
            let huge = bench.row(config, OURS)?.simulated.huge_percent.mean;
            Some((huge >= OURS_HUGE, format!("{} %", percent(huge))))
        }),
        kept(rounds),
        bench.check(&format!("{OURS}: background reclaim looks at {SCANNED} times {first}'s or less"), "", |config| {
            let scanned = bench.ratio(config, |row| row.simulated.kswapd_scanned.mean)?;
            Some((scanned <= SCANNED, format!("{} times", ratio(scanned))))
        }),
        bench.check(&format!("{OURS}: readers get {READ} of {first}'s pages or more"), "", |config| {
            let read = bench.ratio(config, |row| row.simulated.read_pages_per_s.mean)?;
            Some((read >= READ, format!("{read:.3}")))
        }),
    ]
}

/// Whether a row has as few events as its kernel has to; none of the kernel that others are held against, and of theirs
/// where nothing was published.
pub(super) fn is_fewer(row: &ThpComparison) -> Option<bool> {
    let least = match row.kernel {
        OURS => OURS_FEWER,
        _ if row.published.is_none() => return None,
        kernel if kernel == KERNELS[1] => 0.0,
        _ => FEWER,
    };
    Some(is_less(row.change_percent.simulated?, least))
}

/// Whether a change in percent makes something fewer, and by so much at least.
fn is_less(change: f64, least: f64) -> bool {
    change < 0.0 && change <= -least
}

/// As [`is_less`], and in words with what was published; there is no change where the first kernel has nothing.
fn fewer(change: Option<f64>, least: f64, theirs: &str) -> (bool, String) {
    match change {
        Some(change) => (is_less(change, least), format!("{} %{theirs}", points(change))),
        None => (false, format!("{} has none", KERNELS[0])),
    }
}

/// Whether a row's huge pages are as many as its kernel has to have; none where nothing is asked of it, or it says
/// nothing.
pub(super) fn is_huge(row: &ThpComparison) -> Option<bool> {
    let ours = row.simulated.huge_percent.mean;
    match row.kernel {
        OURS => row.config.contains(ASKED).then_some(ours >= OURS_HUGE),
        _ if row.fitted => None,
        kernel if kernel == KERNELS[0] => Some((ours - row.published.as_ref()?.huge_percent).abs() <= HUGE),
        _ => None,
    }
}

impl Bench<'_> {
    fn row(&self, config: &str, kernel: &str) -> Option<&ThpComparison> {
        self.rows.iter().find(|row| row.config == config && row.kernel == kernel)
    }

    /// A check in each published configuration whose name has this in it. If it fails somewhere, it is told where; if
    /// not all were run, it is not seen.
    fn check(&self, name: &str, within: &str, seen: impl Fn(&str) -> Seen) -> Check {
        let names = self.published.configs.iter().map(|config| config.name.as_str());
        let all: Vec<(&str, Seen)> =
            names.filter(|config| config.contains(within)).map(|config| (config, seen(config))).collect();
        let told = |holds: bool| {
            let told = all.iter().filter_map(|(config, seen)| Some((config, seen.as_ref()?)));
            let told = told.filter(move |(_, seen)| seen.0 == holds);
            told.map(|(config, (_, detail))| format!("{config} {detail}")).collect::<Vec<_>>().join("; ")
        };
        let open: Vec<&str> = all.iter().filter(|(_, seen)| seen.is_none()).map(|(config, _)| *config).collect();
        if all.iter().any(|(_, seen)| seen.as_ref().is_some_and(|seen| !seen.0)) {
            Check::seen(name, false, told(false))
        } else if open.is_empty() {
            Check::seen(name, true, told(true))
        } else {
            let so_far = if open.len() == all.len() { String::new() } else { format!("; {}", told(true)) };
            Check::unseen(name, format!("not run: {}{so_far}", open.join(", ")))
        }
    }

    fn fewer(&self, config: &str, kernel: &str, least: f64) -> Seen {
        let row = self.row(config, kernel)?;
        let theirs = row.change_percent.published.map_or(String::new(), |change| format!(", published {change:.1} %"));
        Some(fewer(row.change_percent.simulated, least, &theirs))
    }

    /// The first patch does most on one socket.
    fn one_socket_most(&self, kernel: &str) -> Check {
        let name = format!("{kernel}: fewer by more on one socket than on two");
        let mut changes = [Vec::new(), Vec::new()];
        for config in &self.published.configs {
            let change = self.row(&config.name, kernel).and_then(|row| row.change_percent.simulated);
            let Some(change) = change else { return Check::unseen(&name, format!("not run: {}", config.name)) };
            changes[usize::from(!config.name.contains(ONE_SOCKET))].push(change);
        }
        let [one, two] = changes;
        let holds = one.iter().all(|one| two.iter().all(|two| one < two));
        let told =
            |all: &[f64]| all.iter().map(|change| format!("{} %", points(*change))).collect::<Vec<_>>().join(", ");
        Check::seen(&name, holds, format!("{} on one, {} on two", told(&one), told(&two)))
    }

    fn order(&self, config: &str) -> Seen {
        let noise = self.published.noise(config);
        let huge = |kernel| {
            let row = self.row(config, kernel)?;
            Some((kernel, [row.published.as_ref()?.huge_percent, row.simulated.huge_percent.mean]))
        };
        let all = KERNELS.iter().map(|kernel| huge(*kernel)).collect::<Option<Vec<_>>>()?;
        let wrong = disordered(&all, |less, more| more - less > noise);
        let detail = if wrong.is_empty() { format!("({noise:.1} points)") } else { wrong.join(", ") };
        Some((wrong.is_empty(), detail))
    }

    /// Returns our own kernel's value as a ratio to the first kernel's.
    fn ratio(&self, config: &str, value: fn(&ThpComparison) -> f64) -> Option<f64> {
        Some(value(self.row(config, OURS)?) / value(self.row(config, KERNELS[0])?))
    }
}

fn kept(rounds: &[Rounds]) -> Check {
    let name = format!("{OURS}: {KEPT} % of the first round's huge pages in the last");
    let rounds = rounds.iter().find(|rounds| rounds.kernel == OURS).map(|rounds| &rounds.huge_percent[..]);
    let Some([first, .., last]) = rounds else { return Check::unseen(&name, "a quick run has one round") };
    let detail =
        format!("{} % in the first, {} % in round {}", percent(*first), percent(*last), rounds.map_or(0, <[_]>::len));
    Check::seen(&name, *last >= first * KEPT / 100.0, detail)
}
