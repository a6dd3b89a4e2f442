//! The state that all threads share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framewright::{Allocator, FreeError, Mechanisms, Order, PfnRange};
use framewright_rt::{Arena, ArenaError, Backing, CpuMode, Native, Placement};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::gate::Gate;
use crate::shadow::{self, Shadow};
use crate::watchdog;

/// A fault that was found, if any.
pub(crate) type Checked<T = ()> = Result<T, String>;

/// The configuration of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How long, and how many operations of all threads: whichever is over first.
    pub(crate) time: Duration,
    pub(crate) operations: u64,
    /// Operations between two checks at rest.
    pub(crate) rest: u64,
    pub(crate) threads: usize,
    pub(crate) cpus: CpuMode,
    pub(crate) mechanisms: Mechanisms,
    pub(crate) seed: u64,
    pub(crate) backing: Backing,
    /// In bytes, for both nodes together.
    pub(crate) memory: u64,
    /// Whether children are forked.
    pub(crate) forks: bool,
    /// How long threads may take to come to rest before they are called stuck.
    pub(crate) patience: Option<Duration>,
}

/// Random numbers as indices.
pub(crate) struct Rng(framewright_ops::rng::Rng);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(framewright_ops::rng::Rng::new(seed))
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }

    pub(crate) fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        *self.0.pick(choices)
    }
}

macro_rules! tallies {
    ($($(#[$doc:meta])* $Name:ident = $text:literal,)+) => {
        /// The things that are counted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Did { $($(#[$doc])* $Name),+ }

        impl Did {
            /// The name of each, in their order.
            pub(crate) const NAMES: &[&str] = &[$($text),+];
        }
    };
}

tallies! {
    Operations = "operations",
    Allocated = "blocks allocated",
    Freed = "blocks freed",
    FreedRemotely = "of another thread",
    Failed = "requests failed",
    Starved = "with less than half in use",
    Local = "pinned bursts",
    Bulk = "bulk calls",
    Owned = "RAII blocks",
    Split = "splits",
    Ranges = "ranges",
    Places = "blocks by place",
    WrongFrees = "wrong frees refused",
    Races = "frees at once, one refused",
    Threads = "threads",
    LastWills = "frees by exiting threads",
    LeasesGivenUp = "leases given up",
    Moved = "changes of affinity",
    Drains = "drains",
    DrainedFrames = "frames drained",
    Folded = "CPUs offline",
    Trims = "trims",
    Withheld = "ranges taken offline",
    Retyped = "pageblocks retyped",
    Rests = "checks at rest",
    Children = "children worked",
    Refused = "children refused",
}

/// Tallies of one thread, or of all.
#[derive(Default)]
pub(crate) struct Tally([u64; Did::NAMES.len()]);

impl Tally {
    pub(crate) fn add(&mut self, did: Did, count: u64) {
        self.0[did as usize] += count;
    }

    pub(crate) fn did(&mut self, did: Did) {
        self.add(did, 1);
    }

    pub(crate) fn get(&self, did: Did) -> u64 {
        self.0[did as usize]
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Did::NAMES.iter().zip(self.0).try_for_each(|(name, count)| writeln!(f, "{count:>14} {name}"))
    }
}

/// A block, or a range, and the mark that its frames carry.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) range: PfnRange,
    /// Of a block; none for a range.
    pub(crate) order: Option<Order>,
    pub(crate) mark: u64,
}

/// The state that all threads share.
pub(crate) struct Stage {
    pub(crate) plan: Plan,
    pub(crate) arena: std::sync::Arc<Arena>,
    pub(crate) shadow: Shadow,
    pub(crate) gate: Gate,
    /// Blocks on their way from one thread to another.
    pub(crate) exchange: Mutex<Vec<Block>>,
    /// Each worker's blocks, while it is at rest or between two threads.
    pub(crate) shelves: Vec<Mutex<Vec<Block>>>,
    /// Ranges that are offline.
    pub(crate) withheld: Mutex<Vec<PfnRange>>,
    /// The system's number of each worker's thread.
    pub(crate) thread_ids: Vec<AtomicI32>,
    /// Frames in use, about.
    pub(crate) in_use: AtomicU64,
    /// Threads made so far. A mark begins with that number.
    pub(crate) lives: AtomicU64,
    /// Whether children are to work; not known before the first.
    pub(crate) children_work: AtomicBool,
    pub(crate) over: AtomicBool,
    /// Where the process may run.
    pub(crate) processors: CpuSet,
    tallies: Vec<AtomicU64>,
    wrong: Mutex<Option<String>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage {
    pub(crate) fn new(plan: Plan) -> Result<Stage, ArenaError> {
        let node = (plan.memory / 2).next_multiple_of(2 << 20);
        let movable = (node / 8) >> 21 << 21;
        let arena = Arena::builder()
            .node(node, Placement::Anywhere)
            .node(node, Placement::Anywhere)
            .movable(movable)
            .min_free(plan.memory / 128)
            .backing(plan.backing)
            .cpu_mode(plan.cpus)
            // Fewer CPUs than threads that want one: one is shared, and some threads have to.
            .cpus(plan.threads + 1)
            .mechanisms(plan.mechanisms)
            .build()?;
        let stage = Stage {
            plan,
            shadow: Shadow::new(arena.frames().frames()),
            arena: std::sync::Arc::new(arena),
            gate: Gate::default(),
            exchange: Mutex::default(),
            shelves: (0..plan.threads).map(|_| Mutex::default()).collect(),
            withheld: Mutex::default(),
            thread_ids: (0..plan.threads).map(|_| AtomicI32::new(0)).collect(),
            in_use: AtomicU64::new(0),
            lives: AtomicU64::new(1),
            children_work: AtomicBool::new(false),
            over: AtomicBool::new(false),
            processors: sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new()),
            tallies: Did::NAMES.iter().map(|_| AtomicU64::new(0)).collect(),
            wrong: Mutex::default(),
        };
        watchdog::show(stage.pages());
        Ok(stage)
    }

    /// The allocator.
    pub(crate) fn pages(&self) -> &Allocator<'static, Native> {
        // SAFETY: the holder of a `Block` frees it; wrong frees are of frames that are refused.
        unsafe { self.arena.allocator() }
    }

    /// A number that no other thread's marks begin with.
    pub(crate) fn next_life(&self) -> u64 {
        self.lives.fetch_add(1, SeqCst)
    }

    /// Adds a thread's counts, and sets them to 0.
    pub(crate) fn add(&self, tally: &mut Tally) {
        for (total, count) in self.tallies.iter().zip(std::mem::take(tally).0) {
            total.fetch_add(count, SeqCst);
        }
    }

    pub(crate) fn total(&self) -> Tally {
        Tally(std::array::from_fn(|index| self.tallies[index].load(SeqCst)))
    }

    /// Notes a fault, if it is the first, and ends the run.
    pub(crate) fn note(&self, checked: Checked) {
        if let Err(wrong) = checked {
            lock(&self.wrong).get_or_insert(wrong);
            self.over.store(true, SeqCst);
        }
    }

    pub(crate) fn wrong(&self) -> Option<String> {
        lock(&self.wrong).clone()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    /// Marks a block that was just allocated as owned.
    pub(crate) fn take(&self, block: &Block, is_zero: bool) -> Checked {
        self.shadow.pass(block.range, 0, block.mark)?;
        self.in_use.fetch_add(block.range.frames(), SeqCst);
        if is_zero {
            shadow::check_zero(&self.arena, block.range, block.mark)?;
        }
        shadow::stamp(&self.arena, block.range, block.mark);
        Ok(())
    }

    /// Checks a block that is about to be freed, and marks it as without owner.
    pub(crate) fn leave(&self, block: &Block) -> Checked {
        self.check(block)?;
        self.in_use.fetch_sub(block.range.frames(), SeqCst);
        self.shadow.pass(block.range, block.mark, 0)
    }

    pub(crate) fn check(&self, block: &Block) -> Checked {
        shadow::check(&self.arena, block.range, block.mark)
    }

    /// Frees a block.
    pub(crate) fn free(&self, block: &Block) -> Checked {
        self.leave(block)?;
        let freed = match block.order {
            Some(order) => self.pages().free(block.range.start, order),
            None => self.pages().free_range(block.range),
        };
        freed.map_err(|error| refused(block, error))
    }
}

/// Describes the fault that a block's owner cannot free it.
pub(crate) fn refused(block: &Block, error: FreeError) -> String {
    format!("{block:x?} is not freed for its owner: {error}")
}
