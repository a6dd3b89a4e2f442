//! The cost of this machine's primitives: the rows of the kernel's `time_bench_sample`, and their counterparts in a
//! process.
//!
//! The figures that explained why the per-CPU lists should not hold interrupts off (2017) are a table of such costs: a
//! pair that saves and restores interrupts 38 cycles, one that holds preemption off 11, the difference what a page
//! would be cheaper by. A process has neither. A row's name says what it measures. Some published rows have two
//! counterparts: the call of our seam ([`framewright::Machine`]), and the cost for a program that masks its signals.
//!
//! | published | here |
//! |---|---|
//! | `spin_lock_unlock` | the queued lock of the core, without contention |
//! | `spin_lock_unlock_irqsave` | the queued lock inside of the seam's `irq_save`, and inside of a masked section |
//! | `local_irq_save_restore` | the seam's `irq_save`, free in a process; `pthread_sigmask` twice |
//! | `preempt_disable_enable` | a pin of the seam, leased or by restartable sequences |
//! | `page_alloc_put` | a page of this allocator, allocated and freed |
//!
//! No counterparts: disabling interrupts without saving (the four rows around it) and the lower halves (`local_BH_*`).
//! As there, the loop is not taken off. Each row runs some tenths of a millisecond in each round, one after the other,
//! and its number is the median of the rounds.

use std::hint::black_box;
use std::time::Instant;

use framewright::machine::{Machine, Pinned};
use framewright::mechanisms::{Mechanisms, PRESETS, PcpProtection};
use framewright::queued_lock::{QueuedLock, WaitSlots};
use framewright::units::NodeId;
use framewright_rt::{Native, NativeWord};
use serde::Serialize;

use crate::contender::{Handle, Setup};
use crate::contenders::own::{Owned, PlainHandle, boot};
use crate::crew::{Crew, allowed_cpus};
use crate::stats::{median, paired_ratio, range};
use crate::{signals, tsc};

/// How long a row runs in a round, in nanoseconds.
const STRETCH: f64 = 5e5;
/// Frames of the allocator that pages come from: 64 MiB.
const FRAMES: usize = 1 << 14;

/// The cost of one primitive.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Primitive {
    /// Its name.
    pub name: &'static str,
    /// The row of the published table that it stands for.
    pub published_name: Option<&'static str>,
    /// Cycles of the time-stamp counter for one, median; none where there is no such counter.
    pub cycles: Option<f64>,
    /// Nanoseconds for one, median.
    pub ns: f64,
    /// Of the fastest round.
    pub ns_min: f64,
    /// Of the slowest round.
    pub ns_max: f64,
}

/// The cost of a page, allocated and freed, with one protection of the per-CPU lists.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProtectionPair {
    /// The preset that the protection was set in.
    pub preset: &'static str,
    /// The choice of `pcp-protection`.
    pub protection: &'static str,
    /// Cycles of the time-stamp counter, median; none where there is no such counter.
    pub cycles: Option<f64>,
    /// Nanoseconds, median.
    pub ns: f64,
    /// Of the fastest round.
    pub ns_min: f64,
    /// Of the slowest round.
    pub ns_max: f64,
    /// Ratio to `interrupts-off` of that preset: median of the ratios within rounds.
    pub ratio: f64,
}

/// Something to be done again and again, as often as the argument says.
struct Repeated<'a> {
    name: &'static str,
    published: Option<&'static str>,
    work: Box<dyn FnMut(u64) + 'a>,
}

/// The cost of one execution, by round.
#[derive(Default)]
struct Taken {
    cycles: Vec<f64>,
    ns: Vec<f64>,
}

impl Taken {
    /// Medians of cycles and nanoseconds, and the range of the latter.
    fn summed_up(&self) -> (Option<f64>, f64, f64, f64) {
        let (low, high) = range(&self.ns).unwrap_or_default();
        (median(&self.cycles), median(&self.ns).unwrap_or_default(), low, high)
    }
}

/// Measures the primitives on a thread of its own, pinned to the first CPU of the process.
///
/// # Panics
/// There is no memory for the descriptors of 64 MiB, or no thread to be had.
pub fn time_bench(rounds: usize) -> Vec<Primitive> {
    alone(|| {
        let subjects = Subjects {
            leased: Native::new(&[NodeId(0); 2]),
            per_cpu: Native::per_cpu(1).ok(),
            lock: QueuedLock::default(),
            allocator: booted(Mechanisms::DEFAULT).expect("the default fits every machine"),
        };
        let mut rows = rows(&subjects);
        let taken = in_rounds(&mut rows, rounds);
        rows.iter()
            .zip(taken)
            .map(|(row, taken)| {
                let (cycles, ns, ns_min, ns_max) = taken.summed_up();
                Primitive { name: row.name, published_name: row.published, cycles, ns, ns_min, ns_max }
            })
            .collect()
    })
}

/// Measures a page, allocated and freed by plain calls on one pinned thread, as `page_bench02` does: with each
/// protection of the per-CPU lists, in each of these presets.
///
/// A process has nothing to mask: `interrupts-off` pays for its way through the code, not for masking. And
/// the front serves with `own-lists` alone; the others go the long way.
///
/// # Errors
/// There is no such preset, or it does not go together with a protection.
///
/// # Panics
/// There is no thread to be had.
pub fn protection_pairs(presets: &[&'static str], rounds: usize) -> Result<Vec<ProtectionPair>, String> {
    let mut variants = Vec::new();
    for &preset in presets {
        let (_, mechanisms) = PRESETS
            .iter()
            .find(|(name, _)| *name == preset)
            .ok_or_else(|| format!("{preset}: there is no such preset"))?;
        for &pcp_protection in PcpProtection::ALL {
            let allocator = booted(Mechanisms { pcp_protection, ..*mechanisms })?;
            variants.push((preset, pcp_protection.name(), allocator));
        }
    }
    let taken = alone(|| {
        let mut rows: Vec<Repeated<'_>> =
            variants.iter().map(|(_, name, allocator)| row(name, None, page(allocator))).collect();
        in_rounds(&mut rows, rounds)
    });
    let some = |taken: &Taken| taken.ns.iter().copied().map(Some).collect::<Vec<_>>();
    Ok(variants
        .iter()
        .zip(&taken)
        .enumerate()
        .map(|(i, (&(preset, protection, _), one))| {
            let (cycles, ns, ns_min, ns_max) = one.summed_up();
            // The first of a preset's is `interrupts-off`.
            let base = &taken[i - i % PcpProtection::ALL.len()];
            let ratio = paired_ratio(&some(one), &some(base)).unwrap_or(1.0);
            ProtectionPair { preset, protection, cycles, ns, ns_min, ns_max, ratio }
        })
        .collect())
}

/// On a thread that has nothing else to do, on one CPU.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    std::thread::scope(|scope| {
        let crew = Crew::new(scope, 1, &allowed_cpus());
        crew.each(1, |_, _| work.take().expect("one thread")).remove(0)
    })
}

fn booted(mechanisms: Mechanisms) -> Result<Owned, String> {
    boot(&Setup { threads: 1, cpus: 1, frames: FRAMES, order: 0, mechanisms }, Native::new(&[NodeId(0); 3]))
}

/// Runs every row once in each round.
fn in_rounds(rows: &mut [Repeated<'_>], rounds: usize) -> Vec<Taken> {
    let loops: Vec<u64> = rows.iter_mut().map(|row| fitting(&mut row.work)).collect();
    let mut taken: Vec<Taken> = rows.iter().map(|_| Taken::default()).collect();
    for round in 0..rounds.max(1) {
        for i in 0..rows.len() {
            // No row always runs after one neighbour.
            let turn = (i + round) % rows.len();
            let (cycles, ns) = timed(&mut rows[turn].work, loops[turn]);
            taken[turn].cycles.extend(cycles);
            taken[turn].ns.push(ns);
        }
    }
    taken
}

/// How many times fill a stretch.
fn fitting(work: &mut dyn FnMut(u64)) -> u64 {
    let mut loops = 64_u64;
    loop {
        let (_, ns) = timed(work, loops);
        let elapsed = ns * loops as f64;
        if elapsed >= STRETCH / 4.0 {
            return ((STRETCH / ns.max(0.01)) as u64).max(1);
        }
        loops = loops.saturating_mul(4);
    }
}

/// Cycles and nanoseconds for one of `loops` times.
fn timed(work: &mut dyn FnMut(u64), loops: u64) -> (Option<f64>, f64) {
    let start = (tsc::cycles(), Instant::now());
    work(loops);
    let ns = start.1.elapsed().as_nanos() as f64;
    let cycles = start.0.zip(tsc::cycles()).map(|(from, to)| to.wrapping_sub(from) as f64);
    (cycles.map(|cycles| cycles / loops as f64), ns / loops as f64)
}

/// A row that does `once` as often as it is told, with a barrier for the compiler after each.
fn row<'a>(
    name: &'static str,
    published: impl Into<Option<&'static str>>,
    mut once: impl FnMut() + 'a,
) -> Repeated<'a> {
    let work = move |loops| {
        for _ in 0..loops {
            once();
            black_box(());
        }
    };
    Repeated { name, published: published.into(), work: Box::new(work) }
}

/// The objects that the rows work on.
struct Subjects {
    leased: Native,
    /// None where there are no restartable sequences.
    per_cpu: Option<Native>,
    lock: QueuedLock<Native>,
    allocator: Owned,
}

fn rows(subjects: &Subjects) -> Vec<Repeated<'_>> {
    let Subjects { leased, per_cpu, lock, allocator } = subjects;
    let locked = || lock.release(&lock.take(&NoPlaces), &NoPlaces);
    let through: fn() = black_box(called);
    let mut rows = vec![
        row("loop", "for_loop", || ()),
        row("call", "function_call_cost", called),
        row("call through a pointer", "func_ptr_call_cost", move || black_box(through)()),
        row("queued lock, taken and released", "spin_lock_unlock", locked),
        row("the same in the seam's irq_save", "spin_lock_unlock_irqsave", move || {
            let _irq = leased.irq_save();
            locked();
        }),
        row("the same with signals masked", "spin_lock_unlock_irqsave", move || signals::masked(locked)),
        row("seam's irq_save and restore", "local_irq_save_restore", || {
            let _irq = black_box(leased.irq_save());
        }),
        row("signals masked and unmasked", "local_irq_save_restore", || signals::masked(|| ())),
        row("pin of a leased CPU", "preempt_disable_enable", || {
            black_box(leased.pin().cpu());
        }),
    ];
    rows.extend(per_cpu.as_ref().map(|machine| {
        row("pin of the processor's CPU", "preempt_disable_enable", || {
            black_box(machine.pin().cpu());
        })
    }));
    rows.push(row("page allocated and freed", "page_alloc_put", page(allocator)));
    rows
}

/// One page of an allocator, there and back, by two calls.
fn page(allocator: &Owned) -> impl FnMut() + '_ {
    move || {
        allocator.with_dependent(|_, allocator| {
            let mut handle = PlainHandle(allocator);
            let page = handle.alloc::<0>().expect("one page is free");
            assert!(handle.free::<0>(page), "the page was allocated");
        })
    }
}

#[inline(never)]
fn called() {
    black_box(());
}

/// A lock's wait slots that are never used: the lock has no waiter here.
struct NoPlaces;

impl WaitSlots<Native> for NoPlaces {
    fn place(&self, _: u16) -> Option<&NativeWord<std::sync::atomic::AtomicU32>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_primitive_has_a_cost_and_most_a_published_row() {
        let rows = time_bench(1);
        assert!(rows.iter().all(|row| row.ns > 0.0 && row.ns_min <= row.ns && row.ns <= row.ns_max), "{rows:?}");
        assert!(rows.iter().all(|row| row.cycles.is_some() == cfg!(target_arch = "x86_64")), "{rows:?}");
        assert!(rows.len() >= 10 && rows.iter().all(|row| row.published_name.is_some()), "{rows:?}");
    }

    #[test]
    fn each_protection_is_measured_in_each_preset() {
        let pairs = protection_pairs(&["baseline", "default"], 1).unwrap();
        let found: Vec<_> = pairs.iter().map(|pair| (pair.preset, pair.protection)).collect();
        let protections = ["interrupts-off", "preemption-off", "trylock", "own-lists"];
        let expected: Vec<_> = ["baseline", "default"].iter().flat_map(|p| protections.map(|q| (*p, q))).collect();
        assert_eq!(found, expected);
        assert_eq!((pairs[0].ratio, pairs[4].ratio), (1.0, 1.0));
        assert_eq!(protection_pairs(&["moon"], 1), Err("moon: there is no such preset".to_owned()));
    }
}
