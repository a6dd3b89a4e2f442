//! One measurement of one contender at one workload: a cell of the table.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::contender::{Contender, Work};
use crate::crew::{Crew, Gate};
use crate::ring::Ring;
use crate::shuffle::deal;
use crate::work::{Batch, Empty, Fill, Outcome, Pass, Repeat, Timed, Trouble};
use crate::workload::{AGED_BATCH, ORDERS, Shape};

/// The work of one cell.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The workload.
    pub shape: Shape,
    /// Threads that take part.
    pub threads: usize,
    /// Units of work for each thread.
    pub units: usize,
    /// For shuffling.
    pub seed: u64,
}

/// The cost of a cell, in nanoseconds for each block.
///
/// It is a thread's time; for producer and consumer it is elapsed time.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Sample {
    /// Allocation and free.
    pub total: f64,
    /// Allocation alone, where it was told apart.
    pub alloc: Option<f64>,
    /// Free alone.
    pub free: Option<f64>,
    /// `total` of each thread, where each thread was timed.
    pub each: Vec<f64>,
    /// A sum over all blocks, so that the compiler removes no allocation.
    #[serde(skip)]
    pub checksum: u64,
}

/// Blocks that a thread keeps allocated while a pool is used.
pub type Held = Vec<Vec<u64>>;

/// A contender with its type erased, and all operations on it.
pub trait Cells: Sync {
    /// Does the job and takes the time.
    ///
    /// # Errors
    /// The contender's fault.
    fn run<'env>(&'env self, crew: &Crew<'env>, job: &Job) -> Outcome<Sample>;

    /// Allocates `blocks` blocks on each thread at once, checks that no frame is in two of them, and frees each block
    /// on the next thread.
    ///
    /// # Errors
    /// The contender's fault.
    fn check<'env>(&'env self, crew: &Crew<'env>, job: &Job, blocks: usize) -> Outcome<()>;

    /// Allocates `blocks` blocks on each thread, and frees all but an eighth in random order; returns those kept.
    ///
    /// # Errors
    /// The contender's fault.
    fn age<'env>(&'env self, crew: &Crew<'env>, job: &Job, blocks: usize) -> Outcome<Held>;

    /// Frees the blocks that `age` kept.
    ///
    /// # Errors
    /// The contender's fault.
    fn release<'env>(&'env self, crew: &Crew<'env>, held: Held) -> Outcome<()>;
}

/// Evaluates the expression with a constant for the order.
macro_rules! for_order {
    ($order:expr, $ORDER:ident => $body:expr) => {
        match $order {
            3 => {
                const $ORDER: u8 = ORDERS[0];
                $body
            }
            9 => {
                const $ORDER: u8 = ORDERS[1];
                $body
            }
            _ => {
                const $ORDER: u8 = 0;
                $body
            }
        }
    };
}

/// Runs work on each of `threads` threads of the crew, with the contender's handles.
fn each<'env, C: Contender, W>(
    contender: &'env C,
    crew: &Crew<'env>,
    threads: usize,
    mut work: impl FnMut(usize, Arc<Gate>) -> W,
) -> Vec<W::Out>
where
    W: Work + Send + 'env,
    W::Out: Send + 'env,
{
    crew.each(threads, |thread, gate| {
        let work = work(thread, gate);
        move || contender.attach(thread, work)
    })
}

impl<C: Contender> Cells for C {
    fn run<'env>(&'env self, crew: &Crew<'env>, job: &Job) -> Outcome<Sample> {
        let Job { shape, threads, units, .. } = *job;
        match shape {
            Shape::Repeat { order } => {
                let pairs = units;
                let timed = for_order!(order, ORDER => {
                    each(self, crew, threads, |_, gate| Repeat::<ORDER> { gate, pairs })
                });
                sum_up(timed, units)
            }
            Shape::Batch { pages, fifo } => batch(self, crew, job, pages, fifo),
            Shape::Aged => batch(self, crew, job, AGED_BATCH, false),
            Shape::Rand => shuffled(self, crew, job),
            Shape::ProducerConsumer => {
                let ring = Arc::new(Ring::new());
                let timed = each(self, crew, 2, |thread, gate| Pass {
                    gate,
                    ring: Arc::clone(&ring),
                    pages: units,
                    producer: thread == 0,
                });
                let timed = timed.into_iter().collect::<Outcome<Vec<_>>>()?;
                let elapsed = timed.iter().map(|timed| timed.elapsed).max().unwrap_or_default();
                let checksum = timed.first().map_or(0, |timed| timed.checksum);
                Ok(Sample { total: nanoseconds(elapsed, units), checksum, ..Sample::default() })
            }
        }
    }

    fn check<'env>(&'env self, crew: &Crew<'env>, job: &Job, blocks: usize) -> Outcome<()> {
        for_order!(job.shape.order(), ORDER => {
            let mut filled = fill::<ORDER, C>(self, crew, job.threads, blocks)?.0;
            distinct(&filled, ORDER)?;
            filled.rotate_left(1);
            empty::<ORDER, C>(self, crew, filled)?;
        });
        Ok(())
    }

    fn age<'env>(&'env self, crew: &Crew<'env>, job: &Job, blocks: usize) -> Outcome<Held> {
        let (filled, _) = fill::<0, C>(self, crew, job.threads, blocks)?;
        let mut dealt = deal(job.seed, filled);
        let kept = dealt.iter_mut().map(|blocks| blocks.split_off(blocks.len() / 8 * 7)).collect();
        empty::<0, C>(self, crew, dealt)?;
        Ok(kept)
    }

    fn release<'env>(&'env self, crew: &Crew<'env>, held: Held) -> Outcome<()> {
        empty::<0, C>(self, crew, held).map(|_| ())
    }
}

fn batch<'env, C: Contender>(
    contender: &'env C,
    crew: &Crew<'env>,
    job: &Job,
    pages: usize,
    fifo: bool,
) -> Outcome<Sample> {
    let batches = job.units;
    let timed = each(contender, crew, job.threads, |_, gate| Batch { gate, pages, fifo, batches });
    sum_up(timed, batches * pages)
}

/// Fills the pool, shuffles, frees.
fn shuffled<'env, C: Contender>(contender: &'env C, crew: &Crew<'env>, job: &Job) -> Outcome<Sample> {
    let Job { threads, units, seed, .. } = *job;
    let (filled, allocating) = fill::<0, C>(contender, crew, threads, units)?;
    let checksum = filled.iter().flatten().fold(0, |sum: u64, &block| sum.wrapping_add(block));
    let freeing = empty::<0, C>(contender, crew, deal(seed, filled))?;
    let (alloc, free) = (nanoseconds(allocating, units * threads), nanoseconds(freeing, units * threads));
    Ok(Sample { total: alloc + free, alloc: Some(alloc), free: Some(free), checksum, ..Sample::default() })
}

/// Allocates on all threads; returns each thread's blocks and the sum of their times.
fn fill<'env, const ORDER: u8, C: Contender>(
    contender: &'env C,
    crew: &Crew<'env>,
    threads: usize,
    blocks: usize,
) -> Outcome<(Held, Duration)> {
    let filled = each(contender, crew, threads, |_, gate| Fill::<ORDER> { gate, blocks });
    let filled = filled.into_iter().collect::<Outcome<Vec<_>>>()?;
    let elapsed = filled.iter().map(|filled| filled.1).sum();
    Ok((filled.into_iter().map(|filled| filled.0).collect(), elapsed))
}

/// Frees on each thread the blocks dealt to it; returns the sum of the times.
fn empty<'env, const ORDER: u8, C: Contender>(
    contender: &'env C,
    crew: &Crew<'env>,
    mut dealt: Held,
) -> Outcome<Duration> {
    let threads = dealt.len();
    let freed = each(contender, crew, threads, |thread, gate| Empty::<ORDER> {
        gate,
        blocks: dealt.get_mut(thread).map(std::mem::take).unwrap_or_default(),
    });
    freed.into_iter().sum()
}

/// Whether no frame is in two blocks.
fn distinct(filled: &Held, order: u8) -> Outcome<()> {
    let mut all: Vec<u64> = filled.iter().flatten().copied().collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[1] - pair[0] < 1 << order) {
        Some(pair) => Err(Trouble::Twice { block: pair[1] }),
        None => Ok(()),
    }
}

fn nanoseconds(elapsed: Duration, blocks: usize) -> f64 {
    elapsed.as_nanos() as f64 / blocks.max(1) as f64
}

/// The mean over threads that each handled `blocks` blocks.
fn sum_up(timed: Vec<Outcome<Timed>>, blocks: usize) -> Outcome<Sample> {
    let timed = timed.into_iter().collect::<Outcome<Vec<_>>>()?;
    let elapsed: Duration = timed.iter().map(|timed| timed.elapsed).sum();
    let total = nanoseconds(elapsed, blocks * timed.len());
    let splits = timed.iter().filter_map(|timed| timed.split);
    let (allocating, freeing) =
        splits.fold((Duration::ZERO, Duration::ZERO), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let both = allocating + freeing;
    let alloc = (!both.is_zero()).then(|| total * allocating.as_secs_f64() / both.as_secs_f64());
    let checksum = timed.iter().fold(0, |sum: u64, timed| sum.wrapping_add(timed.checksum));
    let each = timed.iter().map(|timed| nanoseconds(timed.elapsed, blocks)).collect();
    Ok(Sample { total, alloc, free: alloc.map(|alloc| total - alloc), each, checksum })
}
