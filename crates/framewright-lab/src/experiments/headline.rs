//! The few figures of an experiment that one looks at first: theirs, ours, how ours stand, and what our own mechanisms come to.

use serde::Serialize;

use super::band::Bands;
use crate::reproduce::check::{Check, Standing, points};
use crate::reproduce::fragmentation::plan::OURS;
use crate::reproduce::irq_safe::published::Statistic;
use crate::reproduce::variation::Band;
use crate::reproduce::{fragmentation, irq_safe, numa_stats, zone_layout, zone_lock};
use crate::sim::figures::{change_percent, grouped, percent, ratio};

/// Thresholds that are shown.
const THRESHOLDS: [&str; 4] = ["64", "125", "512", "4096"];
/// A change of fragmentation is as published within so many points, as one of the zone lock's table is.
const POINTS: f64 = 10.0;
/// Batches whose saving is shown: of an allocation and its free.
const BATCHES: [u32; 2] = [1, 64];

/// The figures.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Headline {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// What the figures are of.
    pub what: String,
    /// They; the last is of our own mechanisms, which nobody published.
    pub rows: Vec<Row>,
    /// What our own mechanisms change, in short: the first kernel's figure, and theirs.
    pub gain: Gain,
    /// Why, and at what price, in a sentence.
    pub ours: String,
    /// What had to hold in a full run, and does not in this one.
    pub fails: Vec<Check>,
}

/// What our own mechanisms change.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub struct Gain {
    /// What the two are of.
    pub what: String,
    /// With the first kernel's mechanisms, and with ours, in words.
    pub from_to: [String; 2],
}

/// A figure.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// What it is of.
    pub name: String,
    /// Its unit; `%` is a change.
    pub unit: &'static str,
    /// Theirs; none of what nobody published.
    pub published: Option<f64>,
    /// Ours.
    pub ours: f64,
    /// Where ours may lie; none if that was not recorded.
    pub band: Option<Band>,
    /// How ours stands.
    pub verdict: Verdict,
}

/// How a figure of ours stands.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A number was fitted so that it comes out: no evidence.
    Fitted,
    /// As near to theirs as the experiment asks.
    AsPublished,
    /// Not so near, but the band holds theirs.
    InBand,
    /// Neither, but it is less or more as theirs is.
    SameWay,
    /// None of these.
    Differs,
    /// Our own mechanisms: there is nothing to hold it against but what it was.
    Default,
    /// Ours is not where it was when bands were recorded.
    LeftBand,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::AsPublished => "as published",
            Self::InBand => "in band",
            Self::SameWay => "same way",
            Self::Differs => "differs",
            Self::Default => "our default",
            Self::LeftBand => "LEFT ITS BAND",
        }
    }

    /// As the style sheet of pages calls it.
    pub fn class(self) -> &'static str {
        match self {
            Self::Fitted => "assumed",
            Self::AsPublished => "holds",
            Self::Default => "own",
            Self::InBand | Self::SameWay | Self::Differs => "unseen",
            Self::LeftBand => "fails",
        }
    }
}

impl Gain {
    fn new(what: &str, from_to: [String; 2]) -> Self {
        Self { what: what.to_owned(), from_to }
    }
}

impl Row {
    /// Theirs and ours, whether it is fitted, and whether ours is near enough.
    pub fn new(name: &str, unit: &'static str, [published, ours]: [f64; 2], fitted: bool, near: bool) -> Self {
        let verdict = match (fitted, near) {
            (true, _) => Verdict::Fitted,
            (false, true) => Verdict::AsPublished,
            (false, false) if unit == "%" && published * ours > 0.0 => Verdict::SameWay,
            (false, false) => Verdict::Differs,
        };
        Self { name: name.to_owned(), unit, published: Some(published), ours, band: None, verdict }
    }

    /// Of our own mechanisms.
    pub fn of_default(name: &str, unit: &'static str, ours: f64) -> Self {
        Self { name: name.to_owned(), unit, published: None, ours, band: None, verdict: Verdict::Default }
    }

    /// A figure with its sign, if it is a change, and unit; a dash if there is none.
    pub fn told(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".to_owned() };
        if self.unit == "%" { format!("{} %", points(value)) } else { format!("{value:.1} {}", self.unit) }
    }
}

impl Headline {
    /// The same with the bands that were recorded; of runs whose seed was not, nothing is said to have left one.
    #[must_use]
    pub fn within(mut self, bands: &Bands, was_recorded: bool) -> Self {
        for row in &mut self.rows {
            row.band = bands.of(self.experiment, &row.name);
            let Some(band) = row.band else { continue };
            row.verdict = match row.verdict {
                _ if was_recorded && !band.holds(row.ours) => Verdict::LeftBand,
                Verdict::SameWay | Verdict::Differs if row.published.is_some_and(|theirs| band.holds(theirs)) => {
                    Verdict::InBand
                }
                verdict => verdict,
            };
        }
        self
    }

    /// The same with the names of checks that fail.
    #[must_use]
    pub fn with(mut self, checks: &[Check]) -> Self {
        self.fails = checks.iter().filter(|check| check.passed == Some(false)).cloned().collect();
        self
    }

    /// Whether no figure has left its band.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.verdict != Verdict::LeftBand)
    }
}

/// Page faults on 112 CPUs.
pub fn zone_lock(found: &zone_lock::Reproduction) -> Headline {
    let first = found.rows.first();
    let name = first.map_or("", |row| row.name.as_str());
    let row = |row: &zone_lock::result::Row| {
        let theirs = row.published.as_ref()?.figures.change_percent?;
        let ours = row.simulated.as_ref()?.figures.change_percent?;
        let near = zone_lock::judge::change(row) == Some(Standing::Near);
        Some(Row::new(&row.name, "%", [theirs, ours], row.fitted, near))
    };
    let both = || Some((first?.simulated.as_ref()?, found.row(zone_lock::plan::OURS)?.simulated.as_ref()?));
    let (from, ours) = both().unzip();
    let ours_row = ours.and_then(|ours| ours.figures.change_percent);
    let waiting = [from, ours].map(|of| of.map_or(f64::NAN, |of| of.figures.zone_lock_contention_percent));
    let unusable = [from, ours].map(|of| of.map_or(f64::NAN, |of| of.unusable_index_order5 * 100.0));
    Headline {
        experiment: zone_lock::result::NAME,
        what: format!("page faults a second of {} CPUs, against {name}", found.cpus),
        rows: (found.rows.iter().skip(1).filter_map(row))
            .chain(ours_row.map(|percent| Row::of_default("default", "%", percent)))
            .collect(),
        gain: Gain::new("of CPU time waits for the zone lock", waiting.map(|share| format!("{} %", percent(share)))),
        ours: format!(
            "time waiting for the zone lock {1} % ({name}: {0}), free memory unfit for order 5 {3} % ({2})",
            percent(waiting[0]),
            percent(waiting[1]),
            percent(unusable[0]),
            percent(unusable[1]),
        ),
        fails: Vec::new(),
    }
}

/// NUMA counters on 88 CPUs.
pub fn numa_stats(found: &numa_stats::Reproduction) -> Headline {
    let shown = found.rows.iter().filter(|row| THRESHOLDS.contains(&row.threshold.as_str()));
    let row = |row: &numa_stats::result::Row| {
        let near = matches!(numa_stats::judge::standing(row), Some((Standing::Near, _)));
        let name = format!("threshold {}", row.threshold);
        Row::new(&name, "cycles", [row.published.cycles, row.simulated.cycles], row.fitted, near)
    };
    let gain = found.gain_percent;
    let near = numa_stats::judge::is_gain(gain);
    let all_patches = Row::new("all patches, throughput", "%", [gain.published, gain.simulated], false, near);
    let of = |name: &str| found.beside.iter().find(|row| row.name == name).map_or(f64::NAN, |row| row.simulated.cycles);
    let [ours, without] = numa_stats::plan::OURS.map(of);
    let [first, least] = [found.rows.first(), found.rows.last()];
    Headline {
        experiment: numa_stats::result::NAME,
        what: format!("cycles of an allocation and its free on {} CPUs, by what a CPU counts on its own", found.cpus),
        rows: shown.map(row).chain([all_patches, Row::of_default("default", "cycles", ours)]).collect(),
        gain: Gain::new(
            "cycles of an allocation and its free",
            [first.map_or(f64::NAN, |row| row.simulated.cycles), ours].map(|cycles| format!("{cycles:.1}")),
        ),
        ours: format!(
            "of its {ours:.1} cycles counters take {:.1} (published with counters {}: {:.1})",
            (ours - without).abs(),
            least.map_or("", |row| row.threshold.as_str()),
            least.map_or(f64::NAN, |row| row.published.cycles)
        ),
        fails: Vec::new(),
    }
}

/// The zone's lock at its places on 120 CPUs.
pub fn zone_layout(found: &zone_layout::Reproduction) -> Headline {
    let row = |row: &zone_layout::result::Row| {
        let ours = row.simulated?.change_percent;
        let near = zone_layout::judge::change(row) == Some(Standing::InBand);
        Some(Row::new(&row.name, "%", [row.published.change_percent, ours], row.fitted, near))
    };
    let of = |number: usize| found.variants.get(number);
    let beside_queued = of(zone_layout::plan::PLACES.len());
    let (first, best) = (of(0), found.variants.last());
    let jobs = [first, best].map(|of| of.map_or(f64::NAN, |of| of.performance));
    let against_cure = [best, beside_queued].map(|of| points(of.map_or(f64::NAN, |of| of.change_percent)));
    Headline {
        experiment: zone_layout::result::NAME,
        what: format!("aim7 on {} CPUs, the lock beside the order-0 lists or apart", found.cpus),
        rows: (found.rows.iter().filter(|row| !row.fitted).filter_map(row))
            .chain([Row::of_default("beside -> default's lock", "%", change_percent(jobs[0], jobs[1]))])
            .collect(),
        gain: Gain::new("processes of aim7 a second, by the lock", jobs.map(grouped)),
        ours: format!(
            "queued, on a line of its own: {} % against separate; beside the lists {} % still",
            against_cure[0], against_cure[1]
        ),
        fails: Vec::new(),
    }
}

/// Interrupts and per-CPU lists.
pub fn irq_safe(found: &irq_safe::Reproduction) -> Headline {
    use irq_safe::judge::{SAVING, is_gain, is_loss, is_pair};
    let pair = &found.page_bench02;
    let mut rows = vec![Row::new(
        "page_bench02, saves",
        "cycles",
        [pair.published.saving(), pair.simulated.saving()],
        false,
        is_pair(pair),
    )];
    let total = |batch: u32| {
        let row = found.rows.iter().find(|row| row.name() == format!("total {batch}"))?;
        let both = [row.corrected.saving(), row.simulated.saving()];
        let near = row.off_percent().abs() <= SAVING;
        Some(Row::new(&format!("batch of {batch}, saves"), "cycles", both, row.fitted, near))
    };
    rows.extend(BATCHES.into_iter().filter_map(total));
    let tests = found.aim9.iter().filter(|row| row.statistic == Statistic::Hmean);
    rows.extend(tests.map(|row| {
        let both = [row.published_gain_percent, row.simulated_gain_percent];
        Row::new(row.test.name(), "%", both, false, is_gain(row) == Some(true))
    }));
    let packets = found.softirq.iter().filter_map(|row| Some((row, row.published_change_percent?)));
    rows.extend(packets.filter(|(row, _)| !row.fitted).map(|(row, theirs)| {
        Row::new("packets in interrupts", "%", [theirs, row.change_percent], false, is_loss(row))
    }));
    let of_default = found.softirq.last().map_or(f64::NAN, |row| row.change_percent);
    rows.push(Row::of_default("packets in interrupts, default", "%", of_default));
    let ours = pair.modes.last().map_or(f64::NAN, |(_, cycles)| *cycles);
    Headline {
        experiment: irq_safe::result::NAME,
        what: "what lists that interrupts do not use save, and cost".to_owned(),
        rows,
        gain: Gain::new(
            "cycles of a pair, and interrupts may allocate",
            [pair.simulated.vanilla, ours].map(|cycles| format!("{cycles:.1}")),
        ),
        ours: format!(
            "interrupts bring lists of their own: {ours:.1} cycles a pair, not {:.1}",
            pair.simulated.irqsafe
        ),
        fails: Vec::new(),
    }
}

/// Fragmentation avoidance, in the first configuration that was run.
pub fn fragmentation(found: &fragmentation::Reproduction) -> Headline {
    let config = found.configs.first().map_or("", |config| config.name);
    let first = found.rows.first().map_or("", |row| row.kernel);
    let row = |row: &fragmentation::result::Row| {
        let (theirs, ours) = (row.change_percent.published, row.change_percent.simulated?);
        if row.kernel == OURS {
            return Some(Row::of_default(row.kernel, "%", ours));
        }
        let theirs = theirs?;
        let near = fragmentation::judge::is_fewer(row) == Some(true) && (ours - theirs).abs() <= POINTS;
        Some(Row::new(row.kernel, "%", [theirs, ours], row.fitted, near))
    };
    let of = |kernel: &str| found.of(config).find(|row| row.kernel == kernel).map(|row| &row.simulated);
    let both = [of(first), of(OURS)];
    let events = both.map(|of| grouped(of.map_or(f64::NAN, |of| of.events.mean)));
    let held = both.map(|of| ratio(of.map_or(f64::NAN, |of| of.zone_lock_held_max_us.mean)));
    Headline {
        experiment: fragmentation::result::NAME,
        what: format!("requests that mix mobilities, {config}, against {first}"),
        rows: found.of(config).filter_map(row).collect(),
        ours: format!(
            "{} such requests ({first}: {}); the zone lock is held for {} µs at most ({})",
            events[1], events[0], held[1], held[0]
        ),
        gain: Gain::new("requests that mix mobilities", events),
        fails: Vec::new(),
    }
}
