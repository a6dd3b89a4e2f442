//! The few figures of an experiment that one looks at first: theirs, ours, how ours stand, and what our own mechanisms come to.

use serde::Serialize;

use super::band::Bands;
use crate::reproduce::check::{Check, Standing, points};
use crate::reproduce::fragmentation::plan::OURS;
use crate::reproduce::irq_safe::published::Statistic;
use crate::reproduce::variation::Band;
use crate::reproduce::{fragmentation, irq_safe, numa_stats, zone_layout, zone_lock};
use crate::sim::figures::{grouped, percent, ratio};

/// Thresholds that are shown.
const THRESHOLDS: [&str; 4] = ["64", "125", "512", "4096"];
/// Batches whose saving is shown: of an allocation and its free.
const BATCHES: [u32; 2] = [1, 64];

/// The figures.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Headline {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// What the figures are of.
    pub what: String,
    /// They.
    pub rows: Vec<Row>,
    /// What our own mechanisms come to, which nobody published.
    pub ours: String,
    /// What had to hold in a full run, and does not in this one.
    pub fails: Vec<Check>,
}

/// A figure.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// What it is of.
    pub name: String,
    /// Its unit; `%` is a change.
    pub unit: &'static str,
    /// Theirs.
    pub published: f64,
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
    /// Neither.
    Differs,
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
            Self::Differs => "differs",
            Self::LeftBand => "LEFT ITS BAND",
        }
    }

    /// As the style sheet of pages calls it.
    pub fn class(self) -> &'static str {
        match self {
            Self::Fitted => "assumed",
            Self::AsPublished => "holds",
            Self::InBand | Self::Differs => "unseen",
            Self::LeftBand => "fails",
        }
    }
}

impl Row {
    /// Theirs and ours, whether it is fitted, and whether ours is near enough.
    pub fn new(name: &str, unit: &'static str, [published, ours]: [f64; 2], fitted: bool, near: bool) -> Self {
        let verdict = match (fitted, near) {
            (true, _) => Verdict::Fitted,
            (false, true) => Verdict::AsPublished,
            (false, false) => Verdict::Differs,
        };
        Self { name: name.to_owned(), unit, published, ours, band: None, verdict }
    }

    /// A figure with its sign, if it is a change, and unit.
    pub fn told(&self, value: f64) -> String {
        if self.unit == "%" { format!("{} %", points(value)) } else { format!("{value:.1} {}", self.unit) }
    }
}

impl Headline {
    /// The same with the bands that were recorded.
    #[must_use]
    pub fn within(mut self, bands: &Bands) -> Self {
        for row in &mut self.rows {
            row.band = bands.of(self.experiment, &row.name);
            let Some(band) = row.band else { continue };
            row.verdict = match row.verdict {
                _ if !band.holds(row.ours) => Verdict::LeftBand,
                Verdict::Differs if band.holds(row.published) => Verdict::InBand,
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
    let ours = || {
        let (ours, first) = (found.row(zone_lock::plan::OURS)?.simulated.as_ref()?, first?.simulated.as_ref()?);
        Some(format!(
            "{} %; {} % of the time waits for the zone lock ({}: {} %), {} % of free memory is unusable at order 5",
            points(ours.figures.change_percent?),
            percent(ours.figures.zone_lock_contention_percent),
            name,
            percent(first.figures.zone_lock_contention_percent),
            percent(ours.unusable_index_order5 * 100.0),
        ))
    };
    Headline {
        experiment: zone_lock::result::NAME,
        what: format!("page faults a second of {} CPUs, against {name}", found.cpus),
        rows: found.rows.iter().skip(1).filter_map(row).collect(),
        ours: ours().unwrap_or_default(),
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
    let gain = Row::new("all patches, throughput", "%", [gain.published, gain.simulated], false, near);
    let of = |name: &str| found.beside.iter().find(|row| row.name == name).map(|row| row.simulated.cycles);
    let ours = || {
        let [ours, without] = numa_stats::plan::OURS.map(of);
        let counters = ours? - without?;
        let least = found.rows.last()?;
        Some(format!(
            "{:.1} cycles, of which counters take {:.1} (published with counters {}: {:.1})",
            ours?,
            counters.abs(),
            least.threshold,
            least.published.cycles
        ))
    };
    Headline {
        experiment: numa_stats::result::NAME,
        what: format!("cycles of an allocation and its free on {} CPUs, by what a CPU counts on its own", found.cpus),
        rows: shown.map(row).chain([gain]).collect(),
        ours: ours().unwrap_or_default(),
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
    let best = found.variants.last().map(|best| {
        format!(
            "its queued lock on a line of its own: {} % against the cure, and beside the lists it does not matter ({} %)",
            points(best.change_percent),
            points(found.variants.get(zone_layout::plan::PLACES.len()).map_or(f64::NAN, |row| row.change_percent)),
        )
    });
    Headline {
        experiment: zone_layout::result::NAME,
        what: format!("aim7 on {} CPUs, the lock beside the order-0 lists or apart", found.cpus),
        rows: found.rows.iter().filter(|row| !row.fitted).filter_map(row).collect(),
        ours: best.unwrap_or_default(),
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
        Some(Row::new(
            &format!("batch of {batch}, saves"),
            "cycles",
            both,
            row.fitted,
            row.off_percent().abs() <= SAVING,
        ))
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
    let last = |modes: &[(&str, f64)]| modes.last().map_or(f64::NAN, |(_, cycles)| *cycles);
    let packets = found.softirq.last().map_or(f64::NAN, |row| row.change_percent);
    Headline {
        experiment: irq_safe::result::NAME,
        what: "what lists that interrupts do not use save, and cost".to_owned(),
        rows,
        ours: format!(
            "{:.1} cycles a pair, not {:.1}, and packets {} %: interrupts bring lists of their own",
            last(&pair.modes),
            pair.simulated.irqsafe,
            points(packets)
        ),
        fails: Vec::new(),
    }
}

/// Fragmentation avoidance, in the first configuration that was run.
pub fn fragmentation(found: &fragmentation::Reproduction) -> Headline {
    let config = found.configs.first().map_or("", |config| config.name);
    let row = |row: &fragmentation::result::Row| {
        let (theirs, ours) = (row.change_percent.published?, row.change_percent.simulated?);
        let near = fragmentation::judge::is_fewer(row) == Some(true);
        Some(Row::new(row.kernel, "%", [theirs, ours], row.fitted, near))
    };
    let of = |kernel: &str| found.of(config).find(|row| row.kernel == kernel).map(|row| &row.simulated);
    let ours = || {
        let (first, ours) = (of(found.rows.first()?.kernel)?, of(OURS)?);
        Some(format!(
            "{} events ({}: {}), and the zone lock is held for {} µs at most ({} µs)",
            grouped(ours.events.mean),
            found.rows.first()?.kernel,
            grouped(first.events.mean),
            ratio(ours.zone_lock_held_max_us.mean),
            ratio(first.zone_lock_held_max_us.mean),
        ))
    };
    let first = found.rows.first().map_or("", |row| row.kernel);
    Headline {
        experiment: fragmentation::result::NAME,
        what: format!("requests that mix mobilities, {config}, against {first}"),
        rows: found.of(config).filter_map(row).collect(),
        ours: ours().unwrap_or_default(),
        fails: Vec::new(),
    }
}
