//! The roles of CPUs, and what each role does in a phase.
//!
//! | role | CPUs | does |
//! |---|---|---|
//! | writers, then readers | 4, spread over the nodes | what the load says (`load.rs`) |
//! | huge pages | ((CPUs / nodes) − 4) / 4 | a fault for each 2 MiB, and writes to all of it |
//! | background reclaim and compaction | one each for each node | sleeps until it is woken |
//! | writing to the disk, and all else | 1 | `disk.rs` |

use framewright::machine::{Machine, Waiter};
use framewright::request::__GFP_ZERO;
use framewright::units::NodeId;
use framewright::{Order, Pfn, Request};
use framewright_ops::rng::Rng;

use super::costs::FAULT;
use super::disk::Flusher;
use super::kernel::Kernel;
use super::lists::Use;
use super::options::Thpfioscale;
use super::phase_state::{HUGE, JOBS, Stage, share};
use crate::engine::here;
use crate::engine::sim::Sim;
use crate::model::{Model, Ps};
/// Lines of 64 bytes of a huge page.
const HUGE_LINES: u64 = HUGE * 64;

/// The CPUs of each role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cast {
    pub(super) jobs: Vec<usize>,
    pub(super) huge: Vec<usize>,
    pub(super) kswapd: Vec<usize>,
    pub(super) kcompactd: Vec<usize>,
    pub(super) flusher: usize,
}

impl Cast {
    /// Assigns roles; returns `None` if the machine has too few CPUs.
    pub(super) fn of(model: &Model) -> Option<Cast> {
        let nodes = usize::from(model.topology.sockets);
        let mut free: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        (0..model.topology.cpus()).rev().for_each(|cpu| free[model.topology.socket_of(cpu)].push(cpu));
        let huge = (model.topology.cpus() / nodes).saturating_sub(JOBS) / 4;
        let mut next = 0;
        let mut on_any = || {
            next += 1;
            free[(next - 1) % nodes].pop()
        };
        let jobs = (0..JOBS).map(|_| on_any()).collect::<Option<Vec<usize>>>()?;
        let huge = (0..huge.max(1)).map(|_| on_any()).collect::<Option<Vec<usize>>>()?;
        let kswapd = free.iter_mut().map(Vec::pop).collect::<Option<Vec<usize>>>()?;
        let kcompactd = free.iter_mut().map(Vec::pop).collect::<Option<Vec<usize>>>()?;
        Some(Cast { jobs, huge, kswapd, kcompactd, flusher: free[0].pop()? })
    }
}

impl Kernel<'_> {
    /// Runs a CPU in the writing phase.
    pub(super) fn write_phase(&self, cast: &Cast, stage: &Stage, flusher: &Flusher, cpu: usize) -> Option<()> {
        if let Some(job) = cast.jobs.iter().position(|&one| one == cpu) {
            let result = self.fill(job);
            stage.leave();
            return result;
        }
        if cpu == cast.flusher {
            let is_last = || stage.working.get() == 0;
            let result = self.flush(flusher, &is_last, &is_last);
            self.end_phase(stage);
            return result;
        }
        self.background(cast, stage, cpu)
    }

    /// Runs a CPU in the reading phase; huge pages are wanted after `warm`.
    pub(super) fn read_phase(
        &self,
        (cast, options): (&Cast, &Thpfioscale),
        (stage, flusher): (&Stage, &Flusher),
        (warm, round): (Ps, u64),
        (cpu, held): (usize, &Held),
    ) -> Option<()> {
        if let Some(job) = cast.jobs.iter().position(|&one| one == cpu) {
            let seed = options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(round << 8 | job as u64);
            let result = if options.readers { self.carry_on(job, stage, Rng::new(seed)) } else { Some(()) };
            stage.reading.set(stage.reading.get() - 1);
            return result;
        }
        if cast.huge.contains(&cpu) {
            here::sleep_until(warm);
            let result = self.fault_in(options, held, cast.huge.len());
            if stage.leave() {
                stage.stops.set(true);
            }
            return result;
        }
        if cpu == cast.flusher {
            let stops = || stage.stops.get() && stage.reading.get() == 0;
            let result = self.flush(flusher, &stops, &stops);
            self.end_phase(stage);
            return result;
        }
        self.background(cast, stage, cpu)
    }

    /// Lets background threads end.
    fn end_phase(&self, stage: &Stage) {
        stage.is_over.set(true);
        for node in (0..self.pages.nodes()).map(|node| NodeId(node as u8)) {
            Sim.wake(Waiter::Kswapd(node));
            Sim.wake(Waiter::Kcompactd(node));
        }
    }

    fn background(&self, cast: &Cast, stage: &Stage, cpu: usize) -> Option<()> {
        let of = |cpus: &[usize]| cpus.iter().position(|&one| one == cpu).map(|node| NodeId(node as u8));
        let kswapd = of(&cast.kswapd);
        let node = kswapd.or_else(|| of(&cast.kcompactd))?;
        let waiter = if kswapd.is_some() { Waiter::Kswapd(node) } else { Waiter::Kcompactd(node) };
        loop {
            Sim.sleep_until(waiter, u64::MAX);
            if stage.is_over.get() {
                return Some(());
            }
            if kswapd.is_some() {
                self.pages.balance(node);
            } else {
                self.pages.compact(node);
            }
        }
    }

    /// Faults in one thread's share: half of three quarters of the first node, divided by the threads.
    fn fault_in(&self, options: &Thpfioscale, held: &Held, threads: usize) -> Option<()> {
        let steps = held.node_frames * 3 / 4 / threads as u64 / HUGE / 2;
        let request = Request::new(options.config.gfp() | __GFP_ZERO, 9);
        for _ in 0..steps {
            here::turn();
            let began = here::clock();
            here::work(FAULT);
            held.keep(self.fixed_page()?, Order(0));
            let huge = self.pages.alloc(&request);
            let node = match huge {
                Ok(pfn) => {
                    held.keep(pfn, Order(9));
                    self.with(|memory| {
                        let frame = memory.lists.frame(pfn.0);
                        memory.lists.set_use(frame, Use::Huge);
                        memory.lists.node(frame)
                    })
                }
                Err(_) => {
                    for page in 0..HUGE {
                        here::work(if page == 0 { 0 } else { FAULT });
                        let slot = self.add_anon()?;
                        held.anon.borrow_mut().push(slot);
                    }
                    self.model.topology.socket_of(here::cpu())
                }
            };
            here::zero(node, HUGE_LINES);
            let took = here::clock() - began;
            self.with(|memory| {
                let faults = if huge.is_ok() { &mut memory.tally.huge } else { &mut memory.tally.base };
                *faults = (faults.0 + 1, faults.1 + took);
            });
        }
        Some(())
    }

    /// Ends the process with the huge pages, and deletes files.
    pub(super) fn clean_up(&self, cast: &Cast, held: &Held, cpu: usize) -> Option<()> {
        if cpu == cast.huge[0] {
            let blocks = held.blocks.take();
            for (pfn, order) in blocks {
                self.with(|memory| memory.lists.set_use(memory.lists.frame(pfn.0), Use::Other));
                self.free(pfn.0, order.0);
            }
            self.free_anon(&held.anon.take());
        }
        let job = cast.jobs.iter().position(|&one| one == cpu)?;
        for file in share(self.files(), job) {
            here::turn();
            self.forget(file);
        }
        Some(())
    }
}

/// Memory of the process with the huge pages.
#[derive(Default)]
pub(super) struct Held {
    /// Frames of the first node.
    pub(super) node_frames: u64,
    pub(super) blocks: std::cell::RefCell<Vec<(Pfn, Order)>>,
    pub(super) anon: std::cell::RefCell<Vec<u32>>,
}

impl Held {
    pub(super) fn keep(&self, pfn: Pfn, order: Order) {
        self.blocks.borrow_mut().push((pfn, order));
    }
}
