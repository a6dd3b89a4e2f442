//! `--workload storm`: the cost of signal handlers that allocate, for the threads that they interrupt.
//!
//! Threads allocate a page and free it, again and again, while timers send the process a fixed number of signals a
//! second, shared out among the threads. Each round measures three times, in turn: without signals, with handlers that
//! do nothing, and with handlers that allocate a page and free it. The kernel's own work for a signal is in the second
//! and in the third. The handlers' calls are the difference, so the number that counts is the ratio of the third to the
//! second, within a round.
//!
//! Signals come from a timer for each thread, which the kernel delivers to that thread and no other: a helper thread
//! that sent them would need a CPU of its own. A timer that finds its last signal still pending sends none, so the rate
//! is counted, not assumed.
#![allow(
    unsafe_code,
    reason = "timers, and a handler that finds its allocator by address; each block says why it is sound"
)]

use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use framewright::request::{GFP_ATOMIC, GFP_KERNEL};
use framewright::{Mechanisms, NodeId, Order, Request};
use framewright_rt::Native;
use framewright_rt::interrupts::{self, Signal};
use framewright_table::{Table, cells};
use serde::Serialize;

use crate::contender::Setup;
use crate::contenders::own::{Booted, boot};
use crate::crew::allowed_cpus;
use crate::machine::MachineFacts;
use crate::stats::{median, paired_ratio, range};

/// Name of the workload.
pub(crate) const NAME: &str = "storm";
/// Version of the form of [`StormReport`].
const SCHEMA: &str = "framewright-bench-storm/1";
/// Signals a second to the process.
const RATE: u64 = 10_000;
/// The least that the ratio shall be.
const GOAL: f64 = 0.95;
/// The share of the signals asked for that has to come, and of one storm's that the other's has to be, for the ratio to
/// say anything.
const ENOUGH: f64 = 0.9;
/// Frames of the allocator: 64 MiB.
const FRAMES: usize = 1 << 14;
/// Pairs between two looks at whether the time is over.
const STRIDE: u64 = 256;

/// The work of the handlers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storm {
    /// There are no signals.
    None,
    /// Nothing.
    Empty,
    /// Allocate a page and free it.
    Allocating,
}

impl Storm {
    const ALL: [Storm; 3] = [Storm::None, Storm::Empty, Storm::Allocating];

    fn name(self) -> &'static str {
        match self {
            Storm::None => "no signals",
            Storm::Empty => "empty handlers",
            Storm::Allocating => "handlers that allocate",
        }
    }
}

/// The measurement under one storm.
#[derive(Clone, Debug, Serialize)]
pub struct StormRow {
    /// The storm.
    pub handlers: Storm,
    /// Pages that all threads allocated and freed in a second: the median over rounds, the smallest and the largest.
    pub pages_per_second: f64,
    /// Smallest of the rounds.
    pub min: f64,
    /// Largest of the rounds.
    pub max: f64,
    /// Handlers that ran in a second: the median over rounds.
    pub signals_per_second: f64,
    /// Handlers in all rounds that had to wait for the end of a section.
    pub deferred: u64,
}

/// The complete result of a storm.
#[derive(Clone, Debug, Serialize)]
pub struct StormReport {
    /// Name and version of this form.
    pub schema: String,
    /// The machine.
    pub machine: MachineFacts,
    /// The mechanisms of the allocator.
    pub mechanisms: String,
    /// Threads at work.
    pub threads: usize,
    /// Rounds that numbers are medians of.
    pub rounds: usize,
    /// Length of each measurement, in milliseconds.
    pub cell_ms: u64,
    /// Signals a second that were asked for.
    pub signals_asked: u64,
    /// One for each storm.
    pub rows: Vec<StormRow>,
    /// Pages a second with handlers that allocate to those with empty ones, paired by rounds: the median.
    pub ratio: f64,
    /// The least that it shall be.
    pub goal: f64,
    /// Pages that handlers allocated and freed.
    pub handled: u64,
    /// Calls of handlers that failed.
    pub failed: u64,
}

impl StormReport {
    /// Whether the goal is met, as far as the storms were as strong as they should be, and as each other.
    fn verdict(&self) -> &'static str {
        let rates: Vec<f64> = self.rows.iter().skip(1).map(|row| row.signals_per_second).collect();
        let (least, most) = range(&rates).unwrap_or_default();
        if least < ENOUGH * self.signals_asked as f64 || least < ENOUGH * most {
            "unknown: too few signals came"
        } else if self.ratio >= self.goal {
            "met"
        } else {
            "not met"
        }
    }
}

impl fmt::Display for StormReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = crate::row::threads_text(self.threads);
        writeln!(f, "repeat on {threads}, {} signals a second asked for, {} rounds", self.signals_asked, self.rounds)?;
        let mut table = Table::new("<24>13>26>11>10");
        table.row(cells!["", "M pages/s", "min-max", "signals/s", "deferred"]);
        for found in &self.rows {
            let [pages, min, max] = [found.pages_per_second, found.min, found.max].map(|rate| rate / 1e6);
            let (name, signals, deferred) = (found.handlers.name(), found.signals_per_second, found.deferred);
            table.row(cells!["{name}", "{pages:.2}", "{min:.2}-{max:.2}", "{signals:.0}", "{deferred}"]);
        }
        write!(f, "{table}")?;
        let (percent, verdict) = (self.ratio * 100.0, self.verdict());
        writeln!(
            f,
            "handlers that allocate leave {percent:.1} % of the pages (goal: {:.0} %, {verdict})",
            self.goal * 100.0
        )?;
        writeln!(f, "{} pages came and went in handlers, {} calls failed, nothing is lost", self.handled, self.failed)
    }
}

/// The allocator that handlers use; none between measurements.
static TARGET: AtomicPtr<Booted<'static>> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

fn on_signal(_: &Signal) {
    let target = TARGET.load(SeqCst);
    // SAFETY: `run_cell` keeps the allocator there until all threads that could get a signal have ended.
    let Some(pages) = (unsafe { target.as_ref() }) else { return };
    let freed = pages.alloc(const { &Request::new(GFP_ATOMIC, 0) }).map(|page| pages.free(page, Order(0)));
    let count = if matches!(freed, Ok(Ok(()))) { &HANDLED } else { &FAILED };
    count.fetch_add(1, Relaxed);
}

/// A timer that signals the thread that made it.
struct Timer(libc::timer_t);

impl Timer {
    fn start(signal: i32, every: Duration) -> std::io::Result<Timer> {
        let every = libc::timespec { tv_sec: 0, tv_nsec: every.as_nanos() as libc::c_long };
        let times = libc::itimerspec { it_interval: every, it_value: every };
        // SAFETY: zeros are a valid event, whose fields that the kernel reads are set; both calls write where they are
        // told to.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            let timer = Timer(timer);
            if libc::timer_settime(timer.0, 0, &raw const times, std::ptr::null_mut()) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: made by `start`, deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// One measurement.
#[derive(Clone, Copy)]
struct Cell {
    pages: f64,
    signals: f64,
    deferred: u64,
}

/// Runs the threads for a while under a storm.
fn run_cell(pages: &Booted<'_>, storm: Storm, threads: usize, length: Duration) -> anyhow::Result<Cell> {
    let signal = libc::SIGRTMIN() + 6;
    if storm == Storm::Allocating {
        TARGET.store(std::ptr::from_ref(pages).cast_mut().cast(), SeqCst);
    }
    let (over, barrier) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let every = Duration::from_nanos(1_000_000_000 * threads as u64 / RATE);
    let work = || {
        // A thread's first call does work that later calls do not.
        let warm = repeat(pages, &AtomicBool::new(true));
        let timer = (storm != Storm::None).then(|| Timer::start(signal, every)).transpose();
        barrier.wait();
        warm?;
        let start = Instant::now();
        let done = timer.map_err(anyhow::Error::from).and_then(|_timer| repeat(pages, &over))?;
        Ok(done as f64 / start.elapsed().as_secs_f64())
    };
    let before = interrupts::counts();
    let (rates, elapsed) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        barrier.wait();
        let start = Instant::now();
        std::thread::sleep(length);
        over.store(true, Relaxed);
        let rates: anyhow::Result<Vec<f64>> =
            workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect();
        (rates, start.elapsed())
    });
    TARGET.store(std::ptr::null_mut(), SeqCst);
    let after = interrupts::counts();
    let signals = (after.ran - before.ran) as f64 / elapsed.as_secs_f64();
    Ok(Cell { pages: rates?.iter().sum(), signals, deferred: after.deferred - before.deferred })
}

/// Allocates and frees pages until it is over; returns how many.
fn repeat(pages: &Booted<'_>, over: &AtomicBool) -> anyhow::Result<u64> {
    let mut done = 0;
    loop {
        for _ in 0..STRIDE {
            let page = pages.alloc(const { &Request::new(GFP_KERNEL, 0) })?;
            pages.free(page, Order(0))?;
        }
        done += STRIDE;
        if over.load(Relaxed) {
            return Ok(done);
        }
    }
}

/// How a storm is measured.
pub(crate) struct StormPlan {
    pub(crate) mechanisms: Mechanisms,
    pub(crate) threads: usize,
    pub(crate) rounds: usize,
    pub(crate) cell: Duration,
}

/// Measures.
///
/// # Errors
/// The allocator cannot be set up, signals cannot be had, or something was lost.
pub(crate) fn measure(plan: &StormPlan, mut show: impl FnMut(f64)) -> anyhow::Result<StormReport> {
    let machine = MachineFacts::gather();
    let threads = plan.threads;
    let cpus = allowed_cpus().len();
    let setup = Setup { threads, cpus, frames: FRAMES, order: 0, mechanisms: plan.mechanisms };
    let native = Native::new(&vec![NodeId(0); threads + 2]).with_interrupts();
    let owned = boot(&setup, native).map_err(anyhow::Error::msg)?;
    // SAFETY: the handler counts, and uses an allocator with interrupts.
    let _handling = unsafe { interrupts::handle(libc::SIGRTMIN() + 6, on_signal) }.context("a handler of signals")?;
    let [handled, failed] = [&HANDLED, &FAILED].map(|count| count.load(SeqCst));
    let cells = owned.with_dependent(|_, pages| -> anyhow::Result<Vec<[Cell; 3]>> {
        let mut rounds = Vec::new();
        for round in 0..plan.rounds {
            let mut cells = [Cell { pages: 0.0, signals: 0.0, deferred: 0 }; 3];
            for turn in 0..3 {
                // Each comes first as often as last.
                let at = if round % 2 == 0 { turn } else { 2 - turn };
                cells[at] = run_cell(pages, Storm::ALL[at], threads, plan.cell)?;
                show((round * 3 + turn) as f64 / (plan.rounds * 3) as f64);
            }
            rounds.push(cells);
        }
        let census = pages.validate().map_err(|violation| anyhow::anyhow!("after the storm: {violation}"))?;
        ensure!(census.allocated == 0, "{} frames were lost in the storm", census.allocated);
        Ok(rounds)
    })?;
    let of = |at: usize, get: fn(&Cell) -> f64| -> Vec<f64> { cells.iter().map(|cells| get(&cells[at])).collect() };
    let pages = |at| of(at, |cell| cell.pages);
    let row = |(at, &handlers): (usize, &Storm)| {
        let (min, max) = range(&pages(at)).unwrap_or_default();
        StormRow {
            handlers,
            pages_per_second: median(&pages(at)).unwrap_or_default().round(),
            min: min.round(),
            max: max.round(),
            signals_per_second: median(&of(at, |cell| cell.signals)).unwrap_or_default().round(),
            deferred: cells.iter().map(|cells| cells[at].deferred).sum(),
        }
    };
    let paired = |at| pages(at).into_iter().map(Some).collect::<Vec<_>>();
    Ok(StormReport {
        schema: SCHEMA.to_owned(),
        machine,
        mechanisms: plan.mechanisms.to_string(),
        threads,
        rounds: plan.rounds,
        cell_ms: plan.cell.as_millis() as u64,
        signals_asked: RATE,
        rows: Storm::ALL.iter().enumerate().map(row).collect(),
        ratio: (paired_ratio(&paired(2), &paired(1)).unwrap_or_default() * 1e4).round() / 1e4,
        goal: GOAL,
        handled: HANDLED.load(SeqCst) - handled,
        failed: FAILED.load(SeqCst) - failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_storm_loses_nothing() {
        let cell = Duration::from_millis(20);
        let plan = StormPlan { mechanisms: Mechanisms::DEFAULT, threads: 2, rounds: 2, cell };
        let report = measure(&plan, |_| ()).unwrap();
        assert_eq!((report.rows.len(), report.failed), (3, 0));
        assert!(report.rows.iter().all(|row| row.pages_per_second > 0.0), "{report}");
        assert_eq!((report.rows[0].handlers, report.rows[0].signals_per_second), (Storm::None, 0.0));
        assert!(report.to_string().contains("handlers that allocate leave"));
    }
}
