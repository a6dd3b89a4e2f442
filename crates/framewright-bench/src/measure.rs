//! The method: the order, the length and the number of the measurements.
//!
//! Workload by workload: each contender is set up afresh for each number of threads (a pool that other work has
//! shuffled would be another measurement), checked once to hand out no frame twice, and tried with more and more work
//! until a try takes long enough to tell how much work fills a cell. Then come the rounds. In each, every contender
//! runs once at each number of threads, and each round starts one contender further on, so that no contender always
//! runs after one neighbour. A contender's cost is the median of its rounds. Its ratio to the limit is taken within
//! each round, before the median.
//!
//! Some contenders need much longer than a cell for the least amount of work (a batch of mapped pages). They sit out
//! two of three rounds, so that a run takes minutes. Their ratios use the rounds that they took part in.
//!
//! A contender that fails is out of that workload and named in the report; the others go on.

use crate::cell::{Cells, Held, Job, Sample};
use crate::contender::Setup;
use crate::crew::{Crew, allowed_cpus};
use crate::entry::{Entry, Role};
use crate::row::{Failure, Row, threads_text};
use crate::stats::{median, paired_ratio, range};
use crate::work::Trouble;
use crate::workload::{AGED_BATCH, Shape};

/// Frames that contenders manage: 4 GiB.
const FRAMES: usize = 1 << 20;
/// A try that takes as long tells how much work fills a cell, in nanoseconds.
const TRY_NS: f64 = 1e6;
/// Blocks that each thread allocates in the check before.
const CHECKED: usize = 1024;
/// `rand` shuffles between allocation and free, which is not timed, so its cells may be longer by this factor.
const RAND_CELLS: f64 = 8.0;
/// A contender is slow if one unit takes this many cells; it runs in one of [`SLOW_EVERY`] rounds.
const SLOW: f64 = 10.0;
const SLOW_EVERY: usize = 3;

/// The workloads, contenders and rounds of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workloads.
    pub shapes: Vec<Shape>,
    /// The contenders; the limits of the workloads must be among them for there to be ratios.
    pub entries: Vec<Entry>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// How often each cell is measured.
    pub rounds: usize,
    /// How long a cell shall take, in nanoseconds.
    pub cell_ns: f64,
    /// For shuffles.
    pub seed: u64,
    /// Mechanisms of the project's own allocator.
    pub mechanisms: framewright::Mechanisms,
    /// Frames that contenders manage, a power of two; 0 for as many as the threads need, at least 4 GiB.
    pub frames: usize,
}

impl Plan {
    /// Frames that contenders manage: at least four batches of the largest size for each thread.
    pub fn pool(&self) -> usize {
        let most = self.threads.iter().copied().max().unwrap_or(1);
        if self.frames == 0 { FRAMES.max((most * AGED_BATCH * 4).next_power_of_two()) } else { self.frames }
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Workload at work.
    pub shape: Shape,
    /// Workloads done, in parts of all of them from 0 to 1.
    pub done: f64,
}

/// The results of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    /// By workload, number of threads and contender, in the plan's order.
    pub rows: Vec<Row>,
    /// Contenders that failed.
    pub failures: Vec<Failure>,
    /// Contenders that were left out, and why.
    pub notes: Vec<String>,
}

/// A contender set up for a number of threads.
struct Seat {
    entry: Entry,
    threads: usize,
    cells: Box<dyn Cells>,
    /// Most blocks that each thread may hold.
    share: usize,
}

/// The measurements of one seat so far.
#[derive(Default)]
struct Attempts {
    units: usize,
    /// One unit takes far longer than a cell shall.
    slow: bool,
    /// By round; none where it sat out.
    samples: Vec<Option<Sample>>,
    held: Held,
    trouble: Option<Trouble>,
}

/// Measures everything.
pub fn measure(plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Results {
    let mut results = Results::default();
    let count = plan.shapes.len().max(1) as f64;
    for (i, &shape) in plan.shapes.iter().enumerate() {
        let mut inner = |part: f64| progress(Progress { shape, done: (i as f64 + part) / count });
        measure_shape(plan, shape, &mut inner, &mut results);
    }
    results
}

fn measure_shape(plan: &Plan, shape: Shape, progress: &mut dyn FnMut(f64), results: &mut Results) {
    progress(0.0);
    let seats = take_seats(plan, shape, results);
    let cpus = allowed_cpus();
    let most = seats.iter().map(|seat| seat.threads).max().unwrap_or(0);
    let records = std::thread::scope(|scope| {
        let crew = Crew::new(scope, most, &cpus);
        let mut records: Vec<Attempts> = seats.iter().map(|_| Attempts::default()).collect();
        for (seat, record) in seats.iter().zip(&mut records) {
            record.trouble = prepare(plan, shape, seat, record, &crew).err();
        }
        for round in 0..plan.rounds {
            for i in 0..seats.len() {
                let turn = (i + round) % seats.len();
                let (seat, record) = (&seats[turn], &mut records[turn]);
                run_once(plan, shape, seat, (record, round), &crew);
            }
            progress((round + 1) as f64 / plan.rounds.max(1) as f64);
        }
        for (seat, record) in seats.iter().zip(&mut records) {
            let held = std::mem::take(&mut record.held);
            if !held.is_empty() && record.trouble.is_none() {
                record.trouble = seat.cells.release(&crew, held).err();
            }
        }
        records
    });
    conclude(shape, &seats, &records, results);
}

/// Sets up every contender that takes part.
fn take_seats(plan: &Plan, shape: Shape, results: &mut Results) -> Vec<Seat> {
    let mut seats = Vec::new();
    for threads in shape.threads(&plan.threads) {
        let setup = Setup {
            threads,
            cpus: allowed_cpus().len(),
            frames: plan.pool(),
            order: shape.order(),
            mechanisms: plan.mechanisms,
        };
        for entry in plan.entries.iter().filter(|entry| (entry.suits)(shape)) {
            let share = ((entry.capacity)(&setup) / threads).min(setup.share());
            if share < shape.unit() {
                results.notes.push(format!(
                    "{} is left out of {shape} on {}: it can hold {share} blocks a thread, {} are needed",
                    entry.name,
                    threads_text(threads),
                    shape.unit()
                ));
                continue;
            }
            match (entry.make)(&setup) {
                Ok(cells) => seats.push(Seat { entry: *entry, threads, cells, share }),
                Err(reason) => {
                    results.failures.push(failure(shape, entry.name, threads, &Trouble::Setup(reason)));
                }
            }
        }
    }
    seats
}

fn failure(shape: Shape, allocator: &str, threads: usize, trouble: &Trouble) -> Failure {
    Failure { workload: shape.to_string(), threads, allocator: allocator.to_owned(), reason: trouble.to_string() }
}

fn job(plan: &Plan, shape: Shape, seat: &Seat, units: usize) -> Job {
    Job { shape, threads: seat.threads, units, seed: plan.seed }
}

/// Checks a contender, ages it if the workload is about that, and finds out how much work fills a cell.
fn prepare<'env>(
    plan: &Plan,
    shape: Shape,
    seat: &'env Seat,
    record: &mut Attempts,
    crew: &Crew<'env>,
) -> Result<(), Trouble> {
    // The limit of producer and consumer waits for what was not given back.
    if seat.entry.role != Role::Limit || shape != Shape::ProducerConsumer {
        seat.cells.check(crew, &job(plan, shape, seat, 0), CHECKED.min(seat.share))?;
    }
    if shape == Shape::Aged {
        record.held = seat.cells.age(crew, &job(plan, shape, seat, 0), seat.share)?;
    }
    let most = if shape.accumulates() { seat.share } else { usize::MAX };
    let wanted = if shape.accumulates() { plan.cell_ns * RAND_CELLS } else { plan.cell_ns };
    let try_ns = TRY_NS.min(plan.cell_ns);
    let mut units = 1_usize;
    loop {
        let sample = seat.cells.run(crew, &job(plan, shape, seat, units))?;
        let elapsed = sample.total * (units * shape.unit()) as f64;
        if elapsed >= try_ns || units >= most {
            let fitting = units as f64 * wanted / elapsed.max(1.0);
            record.units = (fitting as usize).clamp(1, most);
            record.slow = fitting < 1.0 / SLOW;
            if shape.accumulates() && record.units > units {
                // A contender that keeps freed blocks in the order of the frees is shuffled only by its first full
                // round.
                seat.cells.run(crew, &job(plan, shape, seat, record.units))?;
            }
            return Ok(());
        }
        units = units.saturating_mul(4).min(most);
    }
}

fn run_once<'env>(
    plan: &Plan,
    shape: Shape,
    seat: &'env Seat,
    (record, round): (&mut Attempts, usize),
    crew: &Crew<'env>,
) {
    if record.trouble.is_some() || record.slow && !round.is_multiple_of(SLOW_EVERY) {
        record.samples.push(None);
        return;
    }
    match seat.cells.run(crew, &job(plan, shape, seat, record.units)) {
        Ok(sample) => record.samples.push(Some(sample)),
        Err(trouble) => record.trouble = Some(trouble),
    }
}

/// Rows and failures of a workload.
fn conclude(shape: Shape, seats: &[Seat], records: &[Attempts], results: &mut Results) {
    for (seat, record) in seats.iter().zip(records) {
        if let Some(trouble) = &record.trouble {
            results.failures.push(failure(shape, seat.entry.name, seat.threads, trouble));
            continue;
        }
        let totals = |name: &str, threads: usize| -> Vec<Option<f64>> {
            let mut found = seats.iter().zip(records);
            let found = found
                .find(|(seat, record)| seat.entry.name == name && seat.threads == threads && record.trouble.is_none());
            let total = |sample: &Option<Sample>| sample.as_ref().map(|sample| sample.total);
            found.map(|(_, record)| record.samples.iter().map(total).collect()).unwrap_or_default()
        };
        let own = totals(seat.entry.name, seat.threads);
        let taken: Vec<f64> = own.iter().copied().flatten().collect();
        let (Some(middle), Some((min, max))) = (median(&taken), range(&taken)) else { continue };
        let alone = if seat.threads == 1 { Vec::new() } else { totals(seat.entry.name, 1) };
        let samples: Vec<Sample> = record.samples.iter().flatten().cloned().collect();
        let part = |part: fn(&Sample) -> Option<f64>| median(&samples.iter().filter_map(part).collect::<Vec<_>>());
        results.rows.push(Row {
            workload: shape.to_string(),
            threads: seat.threads,
            allocator: seat.entry.name.to_owned(),
            role: seat.entry.role,
            ns_per_page: rounded(middle),
            min: rounded(min),
            max: rounded(max),
            ratio_to_limit: paired_ratio(&own, &totals(shape.limit(), seat.threads)).map(rounded),
            limit: shape.limit().to_owned(),
            alloc_ns: part(|sample| sample.alloc).map(rounded),
            free_ns: part(|sample| sample.free).map(rounded),
            scaling: paired_ratio(&alone, &own).map(|ratio| rounded(ratio * seat.threads as f64)),
            rounds: taken.len(),
            blocks: (record.units * shape.unit() * seat.threads) as u64,
            samples,
        });
    }
}

/// To picoseconds, and to thousandths of a ratio: further digits are noise.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
