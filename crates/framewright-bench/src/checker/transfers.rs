//! Lines that come from another CPU's caches: clean and modified ones, and one that many CPUs want at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::host::HostError;
use super::lines::{Lines, Walk};
use super::pins::{on_each, spin_while};

/// Lines of a walk, one of each pair: they fit into the first level of any core.
const FEW: usize = 256;

/// How often a line is written for its readers in one round.
const BURSTS: usize = 200;

/// The CPUs of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub(super) reader: usize,
    pub(super) owner: usize,
    /// A CPU of the node that the lines lie on.
    pub(super) home: usize,
}

/// Measures nanoseconds of a load of a line that another CPU has changed, in rounds.
pub(super) fn modified(pair: Pair, rounds: usize) -> Result<Vec<f64>, HostError> {
    transfer(
        pair,
        rounds,
        |walk, _| {
            walk.write();
            Ok(())
        },
        |_| Ok(()),
    )
}

/// Measures nanoseconds of a load of a line that another CPU has read, in rounds.
///
/// Both CPUs first read `(owner, reader)` bytes of other memory, so that no older copy of a line is left.
pub(super) fn clean(pair: Pair, rounds: usize, evicted: (usize, usize)) -> Result<Vec<f64>, HostError> {
    transfer(
        pair,
        rounds,
        |walk, others| {
            evict(others, evicted.0)?;
            walk.read();
            Ok(())
        },
        |others| evict(others, evicted.1),
    )
}

/// Reads memory until nothing else is left in the caches.
fn evict(others: &mut Option<Lines>, bytes: usize) -> Result<(), HostError> {
    let lines = match others {
        Some(lines) => lines,
        None => others.insert(Lines::new(bytes)?),
    };
    Walk::over(lines.words()).read();
    Ok(())
}

/// In each round the owner prepares the lines, and then the reader is timed.
fn transfer(
    pair: Pair,
    rounds: usize,
    prepare: impl Fn(&Walk<'_>, &mut Option<Lines>) -> Result<(), HostError> + Sync,
    before: impl Fn(&mut Option<Lines>) -> Result<(), HostError> + Sync,
) -> Result<Vec<f64>, HostError> {
    let mut placed = on_each(&[pair.home], |_, _| Lines::new(FEW * 2 * 64))?;
    let Some(lines) = placed.first_mut() else { return Ok(Vec::new()) };
    let walk = Walk::new(lines.words(), 2);
    let results = on_each(&[pair.owner, pair.reader], |number, barrier| {
        let (mut others, mut took) = (None, Vec::new());
        let mut failed = Ok(());
        for _ in 0..=rounds {
            if number == 1 {
                failed = failed.and(before(&mut others));
            }
            barrier.wait();
            if number == 0 {
                failed = failed.and(prepare(&walk, &mut others));
            }
            barrier.wait();
            if number == 1 {
                took.push(walk.follow(walk.lines));
            }
            barrier.wait();
        }
        failed.map(|()| took)
    })?;
    // The first round pays for page tables.
    Ok(results.concat().into_iter().skip(1).collect())
}

/// Measures how much later each further reader of a line gets it, which another CPU has just written; in rounds.
///
/// The first CPU writes, all others read: three of them at least, or there is no burst.
pub(super) fn burst(cpus: &[usize], rounds: usize) -> Result<Vec<f64>, HostError> {
    let mut lines = Lines::new(64)?;
    let words = lines.words();
    let Some(line) = words.first() else { return Ok(Vec::new()) };
    let (start, readers) = (Instant::now(), cpus.len() - 1);
    let seen: Vec<Vec<u64>> = on_each(cpus, |number, barrier| {
        let mut seen = Vec::new();
        for turn in 1..=(rounds * BURSTS) as u64 {
            barrier.wait();
            if number == 0 {
                // Until the readers have the line and spin on it.
                let ready = Instant::now();
                spin_while(|| ready.elapsed().as_nanos() < 2000);
                line.store(turn, Ordering::Release);
            } else {
                while line.load(Ordering::Acquire) < turn {}
                seen.push(start.elapsed().as_nanos() as u64);
            }
        }
        Ok(seen)
    })?;
    let between = |turn: usize| {
        let times = seen.iter().skip(1).filter_map(|times| times.get(turn));
        let (first, last) = (times.clone().min()?, times.max()?);
        Some((last - first) as f64 / (readers - 1).max(1) as f64)
    };
    let all: Vec<f64> = (0..rounds * BURSTS).filter_map(between).collect();
    Ok(all.chunks(BURSTS).filter_map(crate::stats::median).collect())
}

/// Measures nanoseconds from one holder of a ticket lock to the next, under CPUs that all want it; in rounds.
pub(super) fn handover(cpus: &[usize], rounds: usize) -> Result<Vec<f64>, HostError> {
    const TURNS: u64 = 20_000;
    let mut rows = Vec::new();
    for _ in 0..rounds {
        // Ticket and turn on lines of their own, and a word that the holder writes.
        let mut lines = Lines::new(8 * 64)?;
        let words = lines.words();
        let [Some(ticket), Some(turn), Some(held)] = [0, 16, 32].map(|word| words.get(word)) else { continue };
        let each = TURNS / cpus.len() as u64;
        let took = on_each(cpus, |_, barrier| {
            barrier.wait();
            let start = Instant::now();
            for _ in 0..each {
                let mine = ticket.fetch_add(1, Ordering::Relaxed);
                spin_while(|| turn.load(Ordering::Acquire) != mine);
                held.store(held.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                turn.store(mine + 1, Ordering::Release);
            }
            Ok(start.elapsed().as_nanos() as f64)
        })?;
        let longest = took.into_iter().fold(0.0, f64::max);
        rows.push(longest / (each * cpus.len() as u64) as f64);
    }
    Ok(rows)
}

/// Measures nanoseconds from a wake-up until the woken thread runs: half of handing a token there and back; in rounds.
pub(super) fn wake(cpus: [usize; 2], rounds: usize) -> Result<Vec<f64>, HostError> {
    const TURNS: u64 = 200;
    let (token, threads) = (AtomicU64::new(0), std::sync::Mutex::new(Vec::new()));
    let took = on_each(&cpus, |number, barrier| {
        let enter = |list: &mut Vec<(usize, std::thread::Thread)>| list.push((number, std::thread::current()));
        threads.lock().map(|mut list| enter(&mut list)).unwrap_or(());
        barrier.wait();
        let other = threads.lock().ok().and_then(|list| list.iter().find(|(of, _)| *of != number).cloned());
        barrier.wait();
        let mut took = Vec::new();
        for _ in 0..rounds {
            let start = Instant::now();
            for _ in 0..TURNS {
                while token.load(Ordering::Acquire) % 2 != number as u64 {
                    std::thread::park();
                }
                token.fetch_add(1, Ordering::AcqRel);
                if let Some((_, thread)) = &other {
                    thread.unpark();
                }
            }
            took.push(start.elapsed().as_nanos() as f64 / (2 * TURNS) as f64);
        }
        Ok(took)
    })?;
    Ok(took.into_iter().next().unwrap_or_default())
}
