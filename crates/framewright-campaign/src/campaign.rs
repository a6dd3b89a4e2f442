//! A campaign: seed after seed on several threads, and its state on the disk.
//!
//! ```text
//! FOLDER/state            what is covered so far; written every minute, read when the campaign goes on
//! FOLDER/corpus           the seeds that covered a pair of kinds first, a case a line
//! FOLDER/failures/SEED.case   a seed that failed: its small case, how it fails, and the operations that lead there
//! ```
//!
//! Results are added in the order of seeds, whichever thread is done first. So the state is a function of the first
//! seed and the number of seeds, for any number of threads, and a campaign that is interrupted loses at most a minute.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use framewright_trace::output::{self, Access, Folder};

use crate::case::Case;
use crate::coverage::Coverage;
use crate::play::{Failed, Played, play};
use crate::shrink::shrink;

/// Time between two reports, and two states on the disk.
const REPORTED_EVERY: Duration = Duration::from_secs(60);
/// Seeds that threads may be ahead of the slowest one.
const AHEAD: u64 = 64;

/// What a campaign runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What each seed's case has beside the seed: a planted bug, mechanisms.
    pub template: Case,
    /// The first seed, if there is no state.
    pub seed: u64,
    /// Operations after which the campaign ends.
    pub operations: u64,
    /// Time after which it ends.
    pub time: Option<Duration>,
    /// Threads.
    pub threads: usize,
    /// Where its state is kept.
    pub folder: Option<PathBuf>,
    /// Failures after which it ends.
    pub failures: u64,
    /// Operations that may be spent to make a failure small.
    pub effort: u64,
}

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Its small case.
    pub case: Case,
    /// How the small case fails, with the operations that lead there.
    pub failed: Box<Failed>,
}

/// What a campaign reports as it goes on.
pub enum Report<'c> {
    /// A minute is over: what is covered, and operations a second since the campaign began.
    Minute(&'c Coverage, f64),
    /// A seed failed.
    Failure(&'c Failure),
}

/// Result of a seed.
type Outcome = Result<Played, Box<Failure>>;

/// Runs a campaign; `report` hears of each minute and each failure.
///
/// # Errors
/// The state on the disk cannot be read or written.
pub fn run(settings: &Settings, report: &mut dyn FnMut(Report<'_>)) -> io::Result<Coverage> {
    let mut store = Store::open(settings)?;
    let (next, first) = (AtomicU64::new(store.coverage.next), AtomicU64::new(store.coverage.next));
    let ends = AtomicBool::new(false);
    let (sender, results) = mpsc::channel::<(u64, Outcome)>();
    thread::scope(|scope| {
        for _ in 0..settings.threads.max(1) {
            let sender = sender.clone();
            scope.spawn(|| work(settings, (&next, &first), &ends, sender));
        }
        drop(sender);
        let result = store.collect(settings, &first, &results, report);
        ends.store(true, Ordering::Relaxed);
        result
    })?;
    store.save()?;
    Ok(store.coverage)
}

/// Runs seeds until the campaign ends.
fn work(
    settings: &Settings,
    (next, first): (&AtomicU64, &AtomicU64),
    ends: &AtomicBool,
    sender: mpsc::Sender<(u64, Outcome)>,
) {
    while !ends.load(Ordering::Relaxed) {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        while seed > first.load(Ordering::Relaxed) + AHEAD && !ends.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        let case = Case { seed, ..settings.template.clone() };
        let outcome = play(&case, false).map_err(|failed| {
            let (case, failed) = shrink(&case, failed, settings.effort);
            // Once more, for the operations with their answers.
            let failed = play(&case, true).err().unwrap_or(failed);
            Box::new(Failure { seed, case, failed })
        });
        if sender.send((seed, outcome)).is_err() {
            break;
        }
    }
}

/// The state of a campaign.
struct Store {
    folder: Option<PathBuf>,
    coverage: Coverage,
    corpus: Vec<Case>,
}

impl Store {
    fn open(settings: &Settings) -> io::Result<Store> {
        let mut store =
            Store { folder: settings.folder.clone(), coverage: Coverage::before(settings.seed), corpus: Vec::new() };
        let Some(folder) = &store.folder else { return Ok(store) };
        Folder::make(&folder.join("failures"), Access::Shared)?;
        if let Some(text) = read(&folder.join("state"))? {
            store.coverage = Coverage::read(&text).map_err(|error| wrong(folder, "state", &error))?;
        }
        if let Some(text) = read(&folder.join("corpus"))? {
            let cases: Result<Vec<Case>, String> = text.lines().map(str::parse).collect();
            store.corpus = cases.map_err(|error| wrong(folder, "corpus", &error))?;
        }
        Ok(store)
    }

    /// Adds results in the order of seeds until the campaign ends.
    fn collect(
        &mut self,
        settings: &Settings,
        first: &AtomicU64,
        results: &mpsc::Receiver<(u64, Outcome)>,
        report: &mut dyn FnMut(Report<'_>),
    ) -> io::Result<()> {
        let (began, mut reported) = (Instant::now(), Instant::now());
        let before = self.coverage.played.operations;
        let mut waiting: BTreeMap<u64, Outcome> = BTreeMap::new();
        loop {
            if reported.elapsed() >= REPORTED_EVERY {
                reported = Instant::now();
                let done = (self.coverage.played.operations - before) as f64;
                report(Report::Minute(&self.coverage, done / began.elapsed().as_secs_f64()));
                self.save()?;
            }
            match results.recv_timeout(Duration::from_millis(500)) {
                Ok((seed, outcome)) => drop(waiting.insert(seed, outcome)),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
            while let Some(outcome) = waiting.remove(&self.coverage.next) {
                self.add(outcome, report)?;
                first.store(self.coverage.next, Ordering::Relaxed);
                let is_enough = self.coverage.played.operations >= settings.operations;
                if is_enough || self.coverage.failures >= settings.failures {
                    return Ok(());
                }
            }
            if settings.time.is_some_and(|time| began.elapsed() >= time) {
                return Ok(());
            }
        }
    }

    fn add(&mut self, outcome: Outcome, report: &mut dyn FnMut(Report<'_>)) -> io::Result<()> {
        let seed = self.coverage.next;
        match outcome {
            Ok(played) => {
                if self.coverage.add(Some(&played)) {
                    self.corpus.push(Case::of(seed));
                }
            }
            Err(failure) => {
                self.coverage.add(None);
                report(Report::Failure(&failure));
                if let Some(folder) = &self.folder {
                    let path = folder.join("failures").join(format!("{seed}.case"));
                    output::write(&path, Access::Shared, failure.to_text().as_bytes())?;
                }
            }
        }
        Ok(())
    }

    fn save(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let corpus: String = self.corpus.iter().map(|case| format!("{case}\n")).collect();
        output::write(&folder.join("corpus"), Access::Shared, corpus.as_bytes())?;
        output::write(&folder.join("state"), Access::Shared, self.coverage.to_text().as_bytes())
    }
}

impl Failure {
    /// Returns the text of the failure: the case in its first line, the rest as comments.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n# {}\n", self.case, self.failed.wrong);
        self.failed.log.iter().for_each(|line| {
            text.push_str("# ");
            text.push_str(line);
            text.push('\n');
        });
        text
    }
}

/// Reads a file; `None` if there is none.
fn read(path: &std::path::Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn wrong(folder: &std::path::Path, file: &str, error: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", folder.join(file).display()))
}
