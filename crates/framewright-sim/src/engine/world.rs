//! The state of one simulated machine, and how code finds it.
//!
//! Each CPU is a coroutine that runs real code on a clock of its own, in picoseconds. Code between two accesses costs
//! nothing until it calls `step`. An access costs what the directory says.
//!
//! | state | ends by |
//! |---|---|
//! | ready | its turn: the least clock, or (random schedule) the dice |
//! | parked: it spins on a word that its core has a copy of | a write to that line, an interrupt, its deadline |
//! | asleep | a wake-up, or its deadline |
//! | done | the next run |
//!
//! A thread-local pointer leads to the world of the running CPU. While no CPU runs it is null and words are plain
//! cells, so boot and checks cost nothing.

use std::cell::Cell;
use std::ptr::null_mut;

use framewright::machine::Waiter;

use crate::engine::chances::Chances;
use crate::engine::context::Interrupts;
use crate::engine::cpu::{Cpu, Now, Spent};
use crate::engine::host::Host;
use crate::engine::locks::Locks;
use crate::engine::queue::Queue;
use crate::memory::arena::{Chunk, chunk_of};
use crate::memory::controllers::Controllers;
use crate::memory::counters::Counters;
use crate::memory::directory::Directory;
use crate::model::{Model, Ps};

thread_local! {
    static WORLD: Cell<*mut World> = const { Cell::new(null_mut()) };
}

/// The whole state of one machine.
pub(crate) struct World {
    pub(crate) now: Now,
    /// Address of the arena.
    pub(crate) base: usize,
    pub(super) chunks: Vec<Chunk>,
    pub(super) l1_lines: u32,
    pub(super) l1: Ps,
    pub(super) store: Ps,
    pub(super) buffer: u64,
    pub(crate) directory: Directory,
    pub(crate) memory: Controllers,
    pub(crate) queue: Queue,
    pub(crate) cpus: Vec<Cpu>,
    /// Threads of each core that are ready.
    pub(super) busy_threads: Vec<u8>,
    pub(crate) counters: Counters,
    pub(crate) locks: Locks,
    /// Delayed stores and a planted bug, under a random schedule.
    pub(crate) chances: Option<Box<Chances>>,
    pub(crate) model: Model,
    pub(crate) switches: u64,
    /// The measured window.
    pub(crate) window: (Ps, Ps),
    /// Handlers of interrupts and of NMIs, if they come.
    pub(crate) interrupts: Option<Interrupts>,
    pub(crate) nmis: Option<Interrupts>,
    /// The embedder that answers the allocator during the run.
    pub(crate) host: Option<*const dyn Host>,
    /// Background threads that were woken while they were awake.
    pub(crate) woken: Vec<Waiter>,
    /// Added to a CPU's number in an interrupt; 0 if interrupts share the CPU's lists.
    pub(crate) apart: usize,
    /// Node of each run of frames: up to which frame.
    pub(crate) nodes: Vec<(u64, u16)>,
}

/// Runs `f` on the world of the running CPU; returns `None` if no CPU runs.
///
/// `f` must not come back here, and must not switch to another CPU.
#[inline(always)]
pub(crate) fn with<T>(f: impl FnOnce(&mut World) -> T) -> Option<T> {
    let world = WORLD.get();
    if world.is_null() {
        return None;
    }
    // SAFETY: `enter` has put a pointer here that is valid while it is here, to a world that one thread alone uses. No
    // other reference to it lives. The host loop holds none while a CPU runs. No caller comes back to this function
    // from inside of `f`, and `f` cannot keep anything of the world, because the lifetime is its own.
    Some(f(unsafe { &mut *world }))
}

/// Runs `f` as if no CPU ran: words are plain cells, and nothing costs time.
///
/// `f` must only read: no copy of a line would see a change.
pub(crate) fn between_steps<T>(f: impl FnOnce() -> T) -> T {
    struct Back(*mut World);
    impl Drop for Back {
        fn drop(&mut self) {
            WORLD.set(self.0);
        }
    }
    let _back = Back(WORLD.replace(null_mut()));
    f()
}

/// Makes a world the current thread's until the guard is dropped.
///
/// The world then loses its interrupts, its NMIs and its host.
pub(crate) struct Entered(*mut World);

impl Entered {
    /// # Safety
    /// The world must outlive the guard, and must not be used otherwise while a CPU runs.
    pub(crate) unsafe fn new(world: *mut World) -> Entered {
        assert!(WORLD.get().is_null(), "a simulated machine cannot be run from inside of another");
        WORLD.set(world);
        Entered(world)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        WORLD.set(null_mut());
        // SAFETY: the world outlives the guard, and no CPU runs.
        unsafe { ((*self.0).interrupts, (*self.0).nmis, (*self.0).host) = (None, None, None) };
    }
}

impl World {
    pub(crate) fn new(
        model: Model,
        (base, chunks): (usize, Vec<Chunk>),
        (directory, counters): (Directory, Counters),
        (cpus, queue): (Vec<Cpu>, Queue),
    ) -> World {
        let cores = usize::from(model.topology.sockets) * usize::from(model.topology.cores);
        World {
            now: Now::default(),
            base,
            chunks,
            l1_lines: model.capacity.l1,
            l1: model.costs.hit,
            store: model.stores.issue,
            buffer: model.stores.buffer.map_or(u64::MAX, u64::from),
            directory,
            memory: Controllers::new(&model),
            queue,
            cpus,
            busy_threads: vec![0; cores],
            counters,
            locks: Locks::default(),
            chances: None,
            model,
            switches: 0,
            window: (0, Ps::MAX),
            interrupts: None,
            nmis: None,
            host: None,
            woken: Vec::new(),
            apart: 0,
            nodes: Vec::new(),
        }
    }

    pub(crate) fn cpu(&mut self) -> &mut Cpu {
        &mut self.cpus[usize::from(self.now.cpu)]
    }

    pub(crate) fn cpu_number(&self) -> usize {
        usize::from(self.now.cpu)
    }

    /// Line of an address, and the number of its region.
    #[inline(always)]
    pub(crate) fn line_of(&self, address: usize) -> (usize, u16) {
        let (number, offset) = chunk_of(address.wrapping_sub(self.base));
        match self.chunks.get(number) {
            Some(chunk) if chunk.is_used => (chunk.line as usize + (offset >> chunk.shift), chunk.region),
            _ => outside(),
        }
    }

    /// Advances the running CPU's clock, and books the time under `what`.
    pub(crate) fn spend(&mut self, what: Spent, time: Ps) {
        let now = self.now;
        let cpu = &mut self.cpus[usize::from(now.cpu)];
        if now.clock + time >= cpu.next_mark {
            cpu.now = now;
            cpu.mark_within(what, time, self.window);
        }
        cpu.times.add(what, time);
        self.now.clock += time;
    }

    /// Charges instructions to the running CPU.
    ///
    /// They cost more while other threads of the core run. All that two threads do together is all that a core does, so
    /// further threads add nothing.
    #[inline]
    pub(crate) fn instructions(&mut self, time: Ps) {
        let threads = Ps::from(self.busy_threads[usize::from(self.now.core)]);
        let shared = threads > 1;
        let time = if shared { time * threads * Ps::from(self.model.costs.sibling_permille) / 2000 } else { time };
        self.spend(Spent::Instructions, time);
    }
}

#[cold]
#[inline(never)]
fn outside() -> ! {
    panic!("a CPU touched a shared word that lies in no region of the simulated machine")
}
