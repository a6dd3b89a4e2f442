//! Idle work on a background thread, which a program may do without.
//!
//! A CPU's lists keep pages that no other CPU can have. While threads work on that CPU, this is their purpose. On an
//! idle CPU the pages are lost to others, so [`DrainIdle`] frees them, and the unmerged pages in a zone's depot as
//! well. A list counts as idle when it holds as many pages as at the last look. A busy list can look idle, if pages
//! come and go evenly. It then pays one refill a second, and nothing else happens. The counters of CPUs need no such
//! care: a reader adds them up.
//!
//! [`Background`] is the thread, and knows nothing of allocators. It calls a closure at each interval, until the
//! closure breaks or the `Background` is dropped. A drop does not wait for the interval to end. A fork's child does not
//! have the thread, and gets it back only by [`Background::restart`].
//!
//! Rejected: a count of operations per list (a store on each, for a second's precision). A timer signal must not
//! allocate. Draining by the owner at its next operation fails, because an idle owner has none.

use std::io;
use std::iter::zip;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framewright::report::Source;
use framewright::units::{CpuId, NodeId, ZoneIdx, ZoneKind};
use framewright::{Allocator, Machine};

use crate::thread::Thread;

/// Drains the lists of CPUs, and the depots of zones, at which nothing happened since the last look.
#[derive(Clone, Debug, Default)]
pub struct DrainIdle {
    /// Pages that each CPU kept at the last look.
    before: Vec<u64>,
    /// Pages that each zone's depot held then.
    depots: Vec<u64>,
}

impl DrainIdle {
    /// Drains the lists and depots that did nothing since the last look.
    ///
    /// Returns the number of frames.
    pub fn look<M: Machine>(&mut self, allocator: &Allocator<'_, M>) -> u64 {
        let cpus = 0..u16::try_from(allocator.cpus()).unwrap_or(u16::MAX);
        let mut now: Vec<u64> = cpus.map(|cpu| cached(allocator, CpuId(cpu))).collect();
        let mut drained = 0;
        for cpu in idle(&self.before, &now) {
            let id = CpuId(cpu as u16);
            drained += allocator.drain_cpu(id);
            now[cpu] = cached(allocator, id);
        }
        self.before = now;
        let zones: Vec<ZoneIdx> = zones(allocator).collect();
        let mut now: Vec<u64> = zones.iter().map(|&zone| allocator.depot_frames(zone)).collect();
        for zone in idle(&self.depots, &now) {
            drained += allocator.drain_depot(zones[zone]);
            now[zone] = allocator.depot_frames(zones[zone]);
        }
        self.depots = now;
        drained
    }
}

/// Lists that keep as many pages as at the last look, if there was one.
fn idle(before: &[u64], now: &[u64]) -> Vec<usize> {
    let is_idle = |(_, (before, now)): &(usize, (&u64, &u64))| **now != 0 && before == now;
    zip(0.., zip(before, now)).filter(is_idle).map(|(index, _)| index).collect()
}

fn zones<M: Machine>(allocator: &Allocator<'_, M>) -> impl Iterator<Item = ZoneIdx> {
    let nodes = 0..u8::try_from(allocator.nodes()).unwrap_or(u8::MAX);
    nodes.flat_map(|node| ZoneKind::ALL.map(|kind| ZoneIdx::of(NodeId(node), kind)))
}

/// Frames that a CPU keeps, of all zones.
fn cached<M: Machine>(allocator: &Allocator<'_, M>, cpu: CpuId) -> u64 {
    zones(allocator).filter_map(|zone| allocator.pcp(zone, cpu)).map(|pcp| pcp.count).sum()
}

type Work = Box<dyn FnMut() -> ControlFlow<()> + Send>;

/// A thread that works now and then, until it is dropped.
pub struct Background {
    interval: Duration,
    fresh_work: Box<dyn Fn() -> Work + Send + Sync>,
    thread: Thread,
}

impl Background {
    /// Interval of background work by default.
    pub const INTERVAL: Duration = Duration::from_secs(1);

    /// Calls `work` after each `interval`, on a thread of its own, until it breaks.
    ///
    /// `work` should hold the allocator's owner weakly. If it held the last reference, the `Background` may be dropped
    /// on that thread.
    ///
    /// # Errors
    /// The operating system's, if no thread can be started.
    pub fn start<W>(interval: Duration, work: W) -> io::Result<Background>
    where
        W: FnMut() -> ControlFlow<()> + Clone + Send + Sync + 'static,
    {
        let fresh_work = move || Box::new(work.clone()) as Work;
        let thread = start(interval, fresh_work())?;
        Ok(Background { interval, fresh_work: Box::new(fresh_work), thread })
    }

    /// Whether the thread runs. Not in a fork's child, nor when the work broke off.
    pub fn is_running(&self) -> bool {
        self.thread.is_running()
    }

    /// Starts the thread again if it does not run, as in a fork's child.
    ///
    /// # Errors
    /// As [`Background::start`].
    pub fn restart(&mut self) -> io::Result<()> {
        if !self.is_running() {
            self.thread = start(self.interval, (self.fresh_work)())?;
        }
        Ok(())
    }
}

fn start(interval: Duration, mut work: Work) -> io::Result<Thread> {
    let stop = Arc::new(Stop::default());
    let stopped = Arc::clone(&stop);
    let tell = move || {
        *stop.lock() = true;
        stop.changed.notify_all();
    };
    Thread::start(tell, move || while stopped.wait(interval) && work().is_continue() {})
}

/// Says when to stop.
#[derive(Default)]
struct Stop {
    now: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an interval. Says whether it passed.
    fn wait(&self, interval: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), interval, |now| !*now);
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*now
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use framewright::request::GFP_KERNEL;
    use framewright::{Config, Layout, Order, Region, Request};

    use super::*;
    use crate::{Native, Solo, Storage};

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(3600);
    const NODES: [NodeId; 3] = [NodeId(0); 3];

    #[test]
    fn idle_is_what_keeps_as_much_as_before() {
        let cases: [(&[u64], &[u64], &[usize]); 6] = [
            (&[], &[5, 5], &[]),
            (&[5, 5], &[5, 5], &[0, 1]),
            (&[5, 5], &[4, 5], &[1]),
            (&[0, 5], &[0, 6], &[]),
            (&[5, 0, 5], &[0, 5, 5], &[2]),
            (&[5], &[5, 5], &[0]),
        ];
        for (before, now, expected) in cases {
            let cpus = idle(before, now);
            assert_eq!(cpus, expected, "{before:?} {now:?}");
        }
    }

    #[test]
    fn only_idle_lists_are_drained() {
        let map = [Region::usable(0x100000, 0x110000, 0)];
        let config = Config::new(&map, &NODES);
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let pages = Allocator::boot(Solo::new(&NODES), &config, storage.parts()).unwrap();
        let alloc_on = |cpu| {
            pages.machine().run_on(CpuId(cpu));
            pages.alloc(&Request::page(GFP_KERNEL)).unwrap()
        };
        let kept = || [0, 1].map(|cpu| cached(&pages, CpuId(cpu)));
        let mut drain = DrainIdle::default();
        let taken = [0, 1, 1].map(alloc_on);
        let before = kept();
        assert!(before[0] > 1 && before[1] > 1);
        assert_eq!(drain.look(&pages), 0, "the first look knows nothing");
        let more = alloc_on(1);
        assert_eq!(drain.look(&pages), before[0]);
        assert_eq!(kept(), [0, before[1] - 1]);
        assert_eq!(drain.look(&pages), before[1] - 1);
        assert_eq!((kept(), drain.look(&pages)), ([0, 0], 0));
        taken.into_iter().chain([more]).for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
    }

    /// Work that tells a channel its thread's name.
    fn telling() -> (impl FnMut() -> ControlFlow<()> + Clone, mpsc::Receiver<Option<String>>) {
        let (sender, receiver) = mpsc::channel();
        let tell = move || {
            let sent = sender.send(thread::current().name().map(str::to_owned));
            if sent.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        (tell, receiver)
    }

    #[test]
    fn work_is_done_again_and_again() {
        let (work, told) = telling();
        let background = Background::start(SHORT, work).unwrap();
        for _ in 0..3 {
            assert_eq!(told.recv().unwrap().as_deref(), Some("framewright"));
        }
        assert!(background.is_running());
        drop(background);
        // Ends when all senders are gone.
        while told.recv().is_ok() {}
    }

    #[test]
    fn dropping_does_not_sleep_out() {
        let (work, told) = telling();
        drop(Background::start(LONG, work).unwrap());
        assert!(told.recv().is_err(), "never worked");
    }

    #[test]
    fn work_may_break_off_and_be_started_again() {
        let (sender, receiver) = mpsc::channel();
        let work = move || {
            sender.send(()).unwrap();
            ControlFlow::Break(())
        };
        let mut background = Background::start(SHORT, work).unwrap();
        receiver.recv().unwrap();
        while background.is_running() {
            thread::yield_now();
        }
        background.restart().unwrap();
        receiver.recv().unwrap();
    }

    #[test]
    fn the_work_may_own_its_thread() {
        let owner: Arc<Mutex<Option<Background>>> = Arc::default();
        let (sender, receiver) = mpsc::channel();
        let owned = Arc::clone(&owner);
        let work = move || {
            let Some(background) = owned.lock().unwrap().take() else { return ControlFlow::Continue(()) };
            drop(background);
            sender.send(()).unwrap();
            ControlFlow::Continue(())
        };
        *owner.lock().unwrap() = Some(Background::start(SHORT, work).unwrap());
        receiver.recv().unwrap();
    }

    #[test]
    fn the_thread_leases_no_cpu() {
        let machine = Arc::new(Native::new(&NODES));
        let (sender, receiver) = mpsc::channel();
        let pinned = Arc::clone(&machine);
        let work = move || {
            let cpu = framewright::machine::Pinned::cpu(&pinned.pin());
            let _ = sender.send(cpu);
            ControlFlow::Continue(())
        };
        let _background = Background::start(SHORT, work).unwrap();
        assert_eq!([(); 2].map(|()| receiver.recv().unwrap()), [CpuId(2); 2], "the shared one");
    }
}
