//! The content of a document as points: one figure of one run, with all that it depends on.
//!
//! A figure of a deterministic run is one number for a seed; one of `framewright bench` is a number for each round. A
//! direction is part of a figure: more faults a second are better, more nanoseconds a page are worse, and some figures
//! have no direction. Only the needed fields of a document are read, so that a later version may add others.

use serde::Deserialize;
use serde_json::Value;

use super::read::{Document, Kind, ReadError};
use crate::mechanisms;

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More.
    Higher,
    /// Less.
    Lower,
    /// Neither.
    Neither,
}

/// A measured quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name, as `waiting for locks`.
    pub name: String,
    /// Its unit, as `fault/s`.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// Whether there is no chance in it: equal input gives an equal number, with no seed to draw.
    pub exact: bool,
    /// Whether it is shown unless all are asked for.
    pub usual: bool,
}

impl Metric {
    fn usual(name: &str, unit: &str, better: Better) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), better, exact: false, usual: true }
    }

    fn more(name: &str, unit: &str, better: Better) -> Self {
        Self { usual: false, ..Self::usual(name, unit, better) }
    }

    fn exact(name: &str, unit: &str, better: Better) -> Self {
        Self { exact: true, ..Self::usual(name, unit, better) }
    }
}

/// The subject of a run. An empty field plays no part in its kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Subject {
    /// Workload, or row of an experiment, or trace.
    pub name: String,
    /// CPUs or threads.
    pub cpus: Option<usize>,
    /// Contender of a benchmark.
    pub allocator: String,
    /// Mechanisms, in few words.
    pub mechanisms: String,
    /// Machine, simulated or not.
    pub machine: String,
    /// How long and how it was run.
    pub setting: String,
    /// Seed of all that was random.
    pub seed: Option<u64>,
}

/// One figure of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct FigurePoint {
    /// Its subject.
    pub subject: Subject,
    /// Which figure.
    pub metric: Metric,
    /// Its value, or one for each round.
    pub values: Vec<f64>,
}

/// Everything that a document says, in its order.
///
/// # Errors
/// A document that does not hold what its schema promises.
pub fn points(document: &Document) -> Result<Vec<FigurePoint>, ReadError> {
    let mut all = match document.kind {
        Kind::Sim => match document.parse::<Several>()?.runs {
            Some(runs) => runs.into_iter().flat_map(SimRun::points).collect(),
            None => document.parse::<SimRun>()?.points(),
        },
        Kind::Bench => document.parse::<Benchmark>()?.points(),
        Kind::Reproduce => experiment(&document.parse::<Value>()?),
        Kind::Replay => document.parse::<Replayed>()?.points(),
    };
    all.iter_mut().for_each(|point| point.values.retain(|value| value.is_finite()));
    all.retain(|point| !point.values.is_empty());
    Ok(all)
}

/// The notes of a document, to read with its numbers.
pub fn remarks(document: &Document) -> Vec<String> {
    #[derive(Deserialize)]
    struct Noted {
        #[serde(default)]
        notes: Vec<String>,
    }
    let noted = (document.kind == Kind::Bench).then(|| document.parse::<Noted>().ok()).flatten();
    noted.map_or(Vec::new(), |noted| noted.notes)
}

/// Mechanisms in few words, if this version knows them.
fn few_words(switches: &str) -> String {
    mechanisms::parse(switches).map_or_else(|_| switches.to_owned(), |set| mechanisms::label(&set))
}

/// Runs of `framewright sim`; one run alone is a document of its own.
#[derive(Deserialize)]
struct Several {
    runs: Option<Vec<SimRun>>,
}

#[derive(Deserialize)]
struct SimRun {
    machine: String,
    workload: String,
    mechanisms: String,
    cpus: usize,
    seed: u64,
    schedule: String,
    warm_up_ns: u64,
    window_ns: u64,
    unit: String,
    per_second: Option<f64>,
    cycles_per_operation: Option<f64>,
    figures: Vec<SimFigure>,
    locks: Vec<Lock>,
    per_cpu: Vec<Cpu>,
}

#[derive(Deserialize)]
struct SimFigure {
    name: String,
    value: Option<f64>,
    unit: String,
}

#[derive(Deserialize)]
struct Lock {
    contention_percent: Option<f64>,
}

#[derive(Deserialize)]
struct Cpu {
    time: Times,
}

#[derive(Deserialize)]
struct Times {
    asleep: Option<f64>,
}

/// Name of what the simulator's runs are about.
pub(crate) const THROUGHPUT: &str = "throughput";
/// Name of a block's time in cycles, of those kinds that have it.
pub(crate) const CYCLES: &str = "cycles";
/// Name of a block's time in nanoseconds.
pub const TIME: &str = "time";
/// Name of the share of time that CPUs slept.
pub(crate) const ASLEEP: &str = "asleep";

impl SimRun {
    fn points(self) -> Vec<FigurePoint> {
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let (window, warm_up) = (milliseconds(self.window_ns), milliseconds(self.warm_up_ns));
        let subject = Subject {
            name: self.workload,
            cpus: Some(self.cpus),
            mechanisms: few_words(&self.mechanisms),
            machine: self.machine,
            setting: format!("{window} ms after {warm_up} ms, next by {}", self.schedule),
            seed: Some(self.seed),
            ..Subject::default()
        };
        let unit = &self.unit;
        let waiting = self.locks.iter().filter_map(|lock| lock.contention_percent).sum();
        let whole = (self.window_ns as f64 * self.cpus as f64).max(1.0);
        let asleep: f64 = self.per_cpu.iter().filter_map(|cpu| cpu.time.asleep).sum();
        let time = self.per_second.map(|per_second| self.cpus as f64 * 1e9 / per_second);
        let mut found = vec![
            (Metric::usual(THROUGHPUT, &format!("{unit}/s"), Better::Higher), self.per_second),
            (Metric::usual(CYCLES, &format!("cycles/{unit}"), Better::Lower), self.cycles_per_operation),
            (Metric::usual("waiting for locks", "% of CPU time", Better::Lower), Some(waiting)),
            (Metric::more(ASLEEP, "% of CPU time", Better::Neither), Some(asleep / whole * 100.0)),
            (Metric::more(TIME, &format!("ns/{unit}"), Better::Lower), time),
        ];
        let figures = self.figures.iter();
        found.extend(figures.map(|figure| (Metric::more(&figure.name, &figure.unit, Better::Neither), figure.value)));
        of_one_run(&subject, found)
    }
}

/// Points with one value each; a missing value gives no point.
fn of_one_run(subject: &Subject, found: impl IntoIterator<Item = (Metric, Option<f64>)>) -> Vec<FigurePoint> {
    let point = |(metric, value): (Metric, Option<f64>)| {
        Some(FigurePoint { subject: subject.clone(), metric, values: vec![value?] })
    };
    found.into_iter().filter_map(point).collect()
}

/// The document of `framewright bench`.
#[derive(Deserialize)]
struct Benchmark {
    machine: Facts,
    mechanisms: String,
    rounds: usize,
    cell_ms: u64,
    frames: usize,
    rows: Vec<BenchRow>,
}

#[derive(Deserialize)]
struct Facts {
    cpu: String,
    cpus: usize,
    kernel: String,
    tsc_ghz: Option<f64>,
}

#[derive(Deserialize)]
struct BenchRow {
    workload: String,
    threads: usize,
    allocator: String,
    ns_per_page: Option<f64>,
    ratio_to_limit: Option<f64>,
    limit: String,
    alloc_ns: Option<f64>,
    free_ns: Option<f64>,
    /// Not in files of before there was something to compare them.
    #[serde(default)]
    samples: Vec<BenchRound>,
}

#[derive(Deserialize)]
struct BenchRound {
    total: Option<f64>,
    alloc: Option<f64>,
    free: Option<f64>,
}

impl BenchRow {
    /// One of the figures of each round; of files without rounds its median.
    fn rounds(&self, of: fn(&BenchRound) -> Option<f64>, median: Option<f64>) -> Vec<f64> {
        if self.samples.is_empty() {
            median.into_iter().collect()
        } else {
            self.samples.iter().filter_map(of).collect()
        }
    }

    fn totals(&self) -> Vec<f64> {
        self.rounds(|sample| sample.total, self.ns_per_page)
    }
}

impl Benchmark {
    fn points(self) -> Vec<FigurePoint> {
        let Facts { cpu, cpus, kernel, tsc_ghz } = &self.machine;
        let machine = format!("{cpu}, {cpus} CPUs, {kernel}");
        let setting = format!("{} ms a round, {} frames", self.cell_ms, self.frames);
        let mechanisms = few_words(&self.mechanisms);
        let of = |row: &BenchRow| {
            let subject = Subject {
                name: row.workload.clone(),
                cpus: Some(row.threads),
                allocator: row.allocator.clone(),
                mechanisms: mechanisms.clone(),
                machine: machine.clone(),
                setting: setting.clone(),
                seed: None,
            };
            let total = row.totals();
            let cycles = tsc_ghz.map_or(Vec::new(), |ghz| total.iter().map(|ns| ns * ghz).collect());
            let found = [
                (Metric::usual("limit", "x limit", Better::Lower), self.ratios(row)),
                (Metric::usual(TIME, "ns/page", Better::Lower), total),
                (Metric::more("alloc", "ns/page", Better::Lower), row.rounds(|sample| sample.alloc, row.alloc_ns)),
                (Metric::more("free", "ns/page", Better::Lower), row.rounds(|sample| sample.free, row.free_ns)),
                (Metric::more(CYCLES, "cycles/page", Better::Lower), cycles),
            ];
            found.map(|(metric, values)| FigurePoint { subject: subject.clone(), metric, values })
        };
        self.rows.iter().flat_map(of).collect()
    }

    /// A row against its limit, within each round; where rounds cannot be paired, the median that the file has.
    fn ratios(&self, row: &BenchRow) -> Vec<f64> {
        let is_limit = |other: &&BenchRow| {
            (&other.workload, other.threads, &other.allocator) == (&row.workload, row.threads, &row.limit)
        };
        let limit = self.rows.iter().find(is_limit).map(BenchRow::totals).unwrap_or_default();
        let total = row.totals();
        if limit.len() != self.rounds || total.len() != self.rounds {
            return row.ratio_to_limit.into_iter().collect();
        }
        total.iter().zip(limit).filter(|(_, limit)| *limit > 0.0).map(|(total, limit)| total / limit).collect()
    }
}

/// The document of `framewright replay`.
#[derive(Deserialize)]
struct Replayed {
    trace: String,
    machine: ReplayedMachine,
    columns: Vec<ReplayedColumn>,
}

#[derive(Deserialize)]
struct ReplayedMachine {
    cpus: usize,
    frames: u64,
}

#[derive(Deserialize)]
struct ReplayedColumn {
    mechanisms: String,
    #[serde(flatten)]
    figures: Value,
}

impl Replayed {
    fn points(self) -> Vec<FigurePoint> {
        let name = self.trace.rsplit('/').next().unwrap_or(&self.trace).to_owned();
        let ReplayedMachine { cpus, frames } = self.machine;
        let counts: [(&str, &str, Better); 9] = [
            ("huge faults served", "/order9_faults_served", Better::Higher),
            ("served where Linux failed", "/served_where_linux_failed", Better::Higher),
            ("failed where Linux served", "/failed_where_linux_served", Better::Lower),
            ("smaller requests failed", "/failed_smaller", Better::Lower),
            ("pages moved", "/page_moves", Better::Lower),
            ("pages reclaimed early", "/reclaimed_early", Better::Lower),
            ("fallbacks", "/extfrag_events", Better::Lower),
            ("fallbacks, fragmenting", "/extfrag_fragmenting", Better::Lower),
            ("most huge pages held", "/peak_blocks_held", Better::Higher),
        ];
        let of = |column: &ReplayedColumn| {
            let subject = Subject {
                name: name.clone(),
                mechanisms: few_words(&column.mechanisms),
                machine: format!("{frames} frames, {cpus} CPUs"),
                ..Subject::default()
            };
            let figure = |pointer: &str| column.figures.pointer(pointer).and_then(Value::as_f64);
            let counted = counts.iter().map(|(name, at, better)| (Metric::exact(name, "count", *better), figure(at)));
            let unusable = ["3", "5", "9"].map(|order| {
                let name = format!("free memory unusable for order {order}");
                (Metric::exact(&name, "share", Better::Lower), figure(&format!("/unusable_index/{order}")))
            });
            let speed = (Metric::more("speed", "event/s", Better::Higher), figure("/events_per_second"));
            of_one_run(&subject, counted.chain(unusable).chain([speed]))
        };
        self.columns.iter().flat_map(of).collect()
    }
}

/// A figure of an experiment's rows: the experiment, the place of its list of rows, the keys that tell the rows apart,
/// and the figure's name, unit, place in a row and direction.
type RowFigure =
    (&'static str, &'static str, &'static [&'static str], &'static str, &'static str, &'static str, Better);

/// The figures of ours in the experiments' documents, list by list; published figures are equal in all files.
const ROW_FIGURES: [RowFigure; 13] = {
    use Better::{Higher, Lower};
    const WAITING: (&str, &str) = ("waiting for the zone lock", "% of CPU time");
    const BATCH: &[&str] = &["operation", "batch"];
    const KERNEL: &[&str] = &["config", "kernel"];
    [
        ("zone-lock", "/rows", &["name"], "faults", "fault/s", "/simulated/performance", Higher),
        ("zone-lock", "/rows", &["name"], WAITING.0, WAITING.1, "/simulated/zone_lock_contention_percent", Lower),
        ("zone-lock", "/mix", &["name"], "beside huge pages", "fault/s", "/simulated/small_performance", Higher),
        ("zone-lock", "/mix", &["name"], "of huge pages", "fault/s", "/simulated/huge_performance", Higher),
        ("zone-layout", "/variants", &["name"], "processes", "process/s", "/performance", Higher),
        ("zone-layout", "/variants", &["name"], WAITING.0, WAITING.1, "/zone_lock_contention_percent", Lower),
        ("numa-stats", "/rows", &["threshold"], "pairs", "pair/s", "/simulated/throughput", Higher),
        ("numa-stats", "/rows", &["threshold"], "cycles of a pair", "cycles", "/simulated/cycles", Lower),
        ("irq-safe", "/rows", BATCH, "vanilla", "cycles/page", "/simulated/vanilla", Lower),
        ("irq-safe", "/rows", BATCH, "irqsafe", "cycles/page", "/simulated/irqsafe", Lower),
        ("fragmentation", "/rows", KERNEL, "external fragmentation events", "event", "/simulated/events/mean", Lower),
        ("fragmentation", "/rows", KERNEL, "huge pages", "% of faults", "/simulated/huge_percent/mean", Higher),
        ("fragmentation", "/rows", KERNEL, "pages moved", "page", "/simulated/moved/mean", Lower),
    ]
};

/// The points of a document of `framewright reproduce`.
fn experiment(document: &Value) -> Vec<FigurePoint> {
    let word = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = word("experiment");
    let quick = if word("command").contains(" --quick") { "quick" } else { "full length" };
    let subject = Subject {
        machine: word("model"),
        setting: quick.to_owned(),
        seed: document.get("seed").and_then(Value::as_u64),
        ..Subject::default()
    };
    let mut all = Vec::new();
    for list in ROW_FIGURES.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
        let (experiment, rows, keys, ..) = list[0];
        let rows = document.pointer(rows).and_then(Value::as_array).filter(|_| experiment == name);
        for row in rows.into_iter().flatten() {
            let keys = keys.iter().filter_map(|key| row.get(key)).map(plain);
            let keys: Vec<String> = [name.clone()].into_iter().chain(keys).collect();
            let subject = Subject { name: keys.join("/"), ..subject.clone() };
            let figures = list.iter().map(|(.., figure, unit, at, better)| {
                (Metric::usual(figure, unit, *better), row.pointer(at).and_then(Value::as_f64))
            });
            all.extend(of_one_run(&subject, figures));
        }
    }
    all
}

/// A value without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
