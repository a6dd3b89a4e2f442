//! Background reclaim and compaction of an arena, and growth before either.
//!
//! Each node has two threads, as in Linux. A request that finds memory below a mark wakes *kswapd*, which reclaims
//! until memory is above another mark ([`framewright::Allocator::balance`]). Kswapd, or a request for a large block,
//! wakes *kcompactd*, which moves used memory together ([`framewright::Allocator::compact`]). Where the mechanisms say
//! so (`proactiveness`) kcompactd also checks twice a second whether free memory is too scattered. Otherwise both
//! sleep, and hold nothing: they own the arena only while they work.
//!
//! A fork's child has neither until [`BackgroundReclaim::restart`]. If one was at work during the fork, the child's
//! copy of the arena stays mapped when it is dropped. It cannot release the share of a thread that does not exist
//! there.

use std::fmt;
use std::io;
use std::mem::replace;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use framewright::machine::{Busy, Need, Waiter};
use framewright::{NodeId, Order, Pfn};

use super::calls::Calls;
use super::inner::Inner;
use crate::callbacks::Callbacks;
use crate::thread::Thread;
use crate::waiters::Waiters;
use crate::words::NativeWord;

/// How often is looked whether memory is scattered (Linux: `HPAGE_FRAG_CHECK_INTERVAL_MSEC`).
const LOOK: Duration = Duration::from_millis(500);
/// How often, as a multiple of that, if the last look led to nothing (`COMPACT_MAX_DEFER_SHIFT`).
const IN_VAIN: u32 = 64;
/// How long a thread sleeps that is only to be woken. Any time would do.
const LONG: Duration = Duration::from_secs(3_600);
/// The arena that grows before memory is reclaimed, once it is built.
pub(super) type Grower = Arc<OnceLock<Weak<Inner>>>;

/// The callbacks of an arena's machine: growth, and then the parties that are asked.
pub(super) struct Growing {
    pub(super) arena: Grower,
    pub(super) calls: Arc<Calls>,
}

impl Callbacks for Growing {
    fn reclaim(&self, need: &Need) -> u64 {
        match self.arena.get().and_then(Weak::upgrade).map_or(0, |inner| inner.grow_for(need)) {
            0 => self.calls.reclaim(need),
            grown => grown,
        }
    }

    fn migrates(&self) -> bool {
        self.calls.migrates()
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        self.calls.migrate(from, to, order)
    }
}

/// The threads of an arena's background reclaim, if the builder was asked for them.
///
/// The handle tells whether they run, and starts them again in a fork's child. Dropped with the arena.
pub struct BackgroundReclaim {
    job: Job,
    threads: Vec<Thread>,
}

impl BackgroundReclaim {
    pub(super) fn start(job: Job) -> io::Result<BackgroundReclaim> {
        Ok(BackgroundReclaim { threads: job.start()?, job })
    }

    /// Whether they run. Not in a fork's child.
    pub fn is_running(&self) -> bool {
        self.threads.iter().all(Thread::is_running)
    }

    /// Starts them again if they do not run: in a fork's child.
    ///
    /// # Errors
    /// The operating system's, if it has no threads to give.
    pub fn restart(&mut self) -> io::Result<()> {
        if !self.is_running() {
            self.threads = self.job.start()?;
        }
        Ok(())
    }
}

impl fmt::Debug for BackgroundReclaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackgroundReclaim({} threads)", self.threads.len())
    }
}

/// The input of the threads of all nodes.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) inner: Weak<Inner>,
    /// For threads that sleep while the arena may be dropped.
    pub(super) waiters: Arc<Waiters<NativeWord<AtomicU32>>>,
    pub(super) nodes: usize,
}

impl Job {
    fn start(&self) -> io::Result<Vec<Thread>> {
        let nodes = (0..self.nodes).map(|node| NodeId(node as u8));
        nodes.flat_map(|node| [Waiter::Kswapd(node), Waiter::Kcompactd(node)]).map(|own| self.start_one(own)).collect()
    }

    fn start_one(&self, own: Waiter) -> io::Result<Thread> {
        let over = Arc::new(AtomicBool::new(false));
        let (job, is_over, waiters) = (self.clone(), Arc::clone(&over), Arc::clone(&self.waiters));
        let stop = move || {
            // The wake-up publishes it.
            over.store(true, Relaxed);
            waiters.wake(own);
        };
        Thread::start(stop, move || job.run(own, &is_over))
    }

    /// One thread's life.
    fn run(&self, own: Waiter, over: &AtomicBool) {
        let (mut seen, mut limit) = (0, Duration::ZERO);
        loop {
            let now = self.waiters.wait(own, seen, limit);
            let Some(inner) = self.inner.upgrade().filter(|_| !over.load(Relaxed)) else { return };
            let was_woken = replace(&mut seen, now) != now;
            let at_work = inner.at_work();
            limit = turn(at_work.inner(), own, was_woken);
        }
    }
}

/// Does one turn of a thread that wakes up. Returns how long it may sleep.
fn turn(inner: &Inner, own: Waiter, was_woken: bool) -> Duration {
    let allocator = inner.allocator();
    match own {
        Waiter::Kcompactd(node) if was_woken => {
            allocator.compact(node);
            LOOK
        }
        Waiter::Kcompactd(_) if allocator.mechanisms().proactiveness.get() == 0 => LONG,
        Waiter::Kcompactd(node) => {
            let run = allocator.compact_proactively(node);
            if run.is_enough || run.ranges != 0 { LOOK } else { LOOK * IN_VAIN }
        }
        Waiter::Kswapd(node) if was_woken => {
            inner.tell_low(node);
            allocator.balance(node);
            LONG
        }
        Waiter::Kswapd(_) | Waiter::Allocation(_) => LONG,
    }
}
