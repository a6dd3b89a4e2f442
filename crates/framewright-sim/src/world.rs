//! Virtual CPUs, and whose turn it is.
//!
//! Each CPU is a coroutine that runs real code on a clock of its own, in picoseconds. What it does between two accesses costs
//! nothing until it says so ([`step`]); an access costs what the directory says. The CPU with the least clock goes on.
//! A CPU that touches only what it holds may run ahead of the others by the model's `slack`; whoever needs a line from
//! elsewhere waits until no other is behind, so that requests for a line come in the order of their times.
//!
//! | state | ends by |
//! |---|---|
//! | ready | its turn: the least clock, or (random schedule) the dice |
//! | parked: it spins on a word of a line that it has a copy of | a write to that line, an interrupt, the end of its patience |
//! | asleep | [`wake`], or its deadline |
//! | done | the next run |
//!
//! The world of the running CPU is found through a variable of the thread; there is none while no CPU runs, and words are plain
//! cells then: boot and checks cost nothing.

use std::cell::Cell;
use std::ptr::null_mut;

use framewright::machine::Waiter;

use crate::arena::{Chunk, chunk_of};
use crate::chance::Chances;
use crate::counters::Counters;
use crate::cpu::{Cpu, Spent, State};
use crate::directory::{Access, Directory, Fills, NONE, Served, Source};
use crate::host::Host;
use crate::interrupts::{Interrupts, Level};
use crate::locks::Locks;
use crate::memory::Controllers;
use crate::model::{Model, Ps};
use crate::queue::Queue;

thread_local! {
    static WORLD: Cell<*mut World> = const { Cell::new(null_mut()) };
}

/// The running CPU, as far as every access needs it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Now {
    pub(crate) clock: Ps,
    /// Up to when it may go on without a look at anybody else.
    limit: Ps,
    /// Accesses so far.
    pub(crate) accesses: u64,
    /// Stores so far, and up to how many it may make without a look at those that are under way.
    stores: u64,
    enough: u64,
    pub(crate) fills: Fills,
    pub(crate) core: u16,
    pub(crate) cpu: u16,
}

/// What a CPU has to do before it goes on.
pub(crate) enum Turn {
    Go,
    Switch,
    Interrupt(Level),
}

/// Everything of one machine. See the module's description.
pub(crate) struct World {
    pub(crate) now: Now,
    /// Address of the arena.
    pub(crate) base: usize,
    chunks: Vec<Chunk>,
    l1_lines: u32,
    l1: Ps,
    store: Ps,
    buffer: u64,
    pub(crate) directory: Directory,
    pub(crate) memory: Controllers,
    pub(crate) queue: Queue,
    pub(crate) cpus: Vec<Cpu>,
    /// Threads of each core that are ready.
    busy_threads: Vec<u8>,
    pub(crate) counters: Counters,
    pub(crate) locks: Locks,
    /// What the random schedule may do besides.
    pub(crate) chances: Option<Box<Chances>>,
    pub(crate) model: Model,
    pub(crate) switches: u64,
    /// The measured window.
    pub(crate) window: (Ps, Ps),
    /// What interrupts, and NMIs, do.
    pub(crate) interrupts: Option<Interrupts>,
    pub(crate) nmis: Option<Interrupts>,
    /// What the allocator is embedded in.
    pub(crate) host: Option<*const dyn Host>,
    /// Background threads that were woken while they were awake.
    pub(crate) woken: Vec<Waiter>,
    /// What is added to a CPU's number in an interrupt.
    pub(crate) apart: usize,
    /// Node of each run of frames: up to which frame.
    pub(crate) nodes: Vec<(u64, u16)>,
}

/// Runs `f` on the world of the running CPU; nothing if there is none.
///
/// `f` must not come back here, and must not switch to another CPU.
#[inline(always)]
pub(crate) fn with<T>(f: impl FnOnce(&mut World) -> T) -> Option<T> {
    let world = WORLD.get();
    if world.is_null() {
        return None;
    }
    // SAFETY: `enter` has put a pointer here that is valid while it is here, to a world that one thread alone uses. No
    // other reference to it lives: the host loop holds none while a CPU runs, and no caller of this function comes back
    // to it from inside of `f` or keeps anything of the world behind it (`f` cannot: the lifetime is its own).
    Some(f(unsafe { &mut *world }))
}

/// Runs `f` between two steps of the machine, as if no CPU ran: words are plain cells for it, and nothing costs anything.
///
/// `f` only looks; what it changed would be seen by no copy of a line.
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

/// Makes a world that of the thread until the guard is dropped; then it has no interrupts, no NMIs and no host any more.
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

    /// The quick look: the core touched the line last, still has it, and may use it so.
    #[inline(always)]
    pub(crate) fn touch_held(&mut self, line: usize, access: Access) -> bool {
        let now = &mut self.now;
        let is_arriving = self.directory.is_arriving(line, now.core);
        let state = &mut self.directory.lines[line];
        let may = now.clock <= now.limit
            && state.last == now.core
            && now.fills.l1.wrapping_sub(state.l1_stamp) < self.l1_lines
            && (access == Access::Load || state.owner == now.core && state.is_dirty() && now.stores < now.enough)
            && !is_arriving;
        if may {
            state.l1_stamp = now.fills.l1;
            let is_store = access != Access::Load;
            now.clock += if is_store { self.store } else { self.l1 };
            now.stores += u64::from(is_store);
            now.accesses += 1;
        }
        may
    }

    /// The second look: a copy that others read too. Who touched the line last stays as it is, or readers would take turns
    /// at that.
    pub(crate) fn touch_shared(&mut self, line: usize) -> bool {
        let now = &mut self.now;
        let may = now.clock <= now.limit && self.directory.reads_along(line, now.core);
        if may {
            now.clock += self.l1;
            now.accesses += 1;
        }
        may
    }

    /// Whether the running CPU may go on, and if not, why. It is queued again then.
    pub(crate) fn turn(&mut self, exact: bool) -> Turn {
        if let Some(level) = self.arrives() {
            return Turn::Interrupt(level);
        }
        let Now { clock, cpu, .. } = self.now;
        if clock >= self.cpus[usize::from(cpu)].next_mark {
            self.pass();
        }
        if self.queue.must_wait(clock, cpu, if exact { 0 } else { self.model.slack }) {
            self.cpus[usize::from(cpu)].now = self.now;
            self.queue.swap(clock, cpu);
            return Turn::Switch;
        }
        self.set_limit();
        Turn::Go
    }

    pub(crate) fn set_limit(&mut self) {
        let nmi = self.cpus[usize::from(self.now.cpu)].next_nmi;
        self.now.limit = self.queue.horizon(self.model.slack).min(self.next_interrupt()).min(nmi);
    }

    /// Serves an access that the quick look did not, at the CPU's turn.
    pub(crate) fn serve(&mut self, (line, region): (usize, u16), address: usize, access: Access) {
        self.now.accesses += 1;
        match access {
            Access::Load => {}
            Access::Rmw => self.drain(),
            Access::Store | Access::Release => self.make_room(),
        }
        let cpu = usize::from(self.now.cpu);
        let now = self.now.clock;
        let served = self.directory.serve(&mut self.memory, line, (self.now.core, access), now);
        self.now.fills = self.directory.fills(self.now.core);
        if served.source != Source::Own && self.counts() {
            let offset = address - self.base;
            self.counters.count(&mut self.directory.lines[line], (region, offset), access, &served, now);
        }
        let mut visible = served.done;
        match access {
            Access::Load => self.wait_for(&served),
            Access::Rmw => {
                self.wait_for(&served);
                self.now.clock += self.model.costs.rmw;
            }
            Access::Store | Access::Release => {
                self.now.clock += self.store;
                let stores = &mut self.cpus[cpu].stores;
                if served.source != Source::Own {
                    stores.post(served.done, self.now.stores);
                }
                self.now.stores += 1;
                self.now.enough = stores.enough_for(self.buffer);
                let last = stores.last();
                if access == Access::Release && last > visible {
                    // What was written before is visible first: others get the line then.
                    visible = last;
                    let state = &mut self.directory.lines[line];
                    state.busy = state.busy.max(last);
                }
            }
        }
        if access != Access::Load && self.directory.lines[line].parked != NONE {
            self.unpark(line, visible);
        }
    }

    /// The CPU waits until it is served.
    fn wait_for(&mut self, served: &Served) {
        let queued = served.start - self.now.clock;
        let moving = served.done - served.start;
        self.now.clock = served.done;
        let times = &mut self.cpu().times;
        times.add(Spent::Queued, queued);
        match served.source {
            Source::Own => {}
            Source::Near => times.add(Spent::Near, moving),
            Source::Far => times.add(Spent::Far, moving),
            Source::Memory => times.add(Spent::Memory, moving),
        }
    }

    /// The CPU's time goes by for a reason.
    pub(crate) fn spend(&mut self, what: Spent, time: Ps) {
        self.now.clock += time;
        self.cpu().times.add(what, time);
    }

    /// Waits until there is room for one more store.
    fn make_room(&mut self) {
        let (clock, stores) = (self.now.clock, self.now.stores);
        let room = (self.model.stores.in_flight, self.buffer);
        let waited = self.cpu().stores.make_room(clock, stores, room);
        self.spend(Spent::Stores, waited);
    }

    /// Waits until all stores are visible.
    pub(crate) fn drain(&mut self) {
        let waited = self.cpu().stores.last().saturating_sub(self.now.clock);
        self.spend(Spent::Stores, waited);
    }

    /// Instructions; dearer while another thread of the core runs too.
    #[inline]
    pub(crate) fn instructions(&mut self, time: Ps) {
        let shared = self.busy_threads[usize::from(self.now.core)] > 1;
        let time = if shared { time * Ps::from(self.model.costs.sibling_permille) / 1000 } else { time };
        self.spend(Spent::Instructions, time);
    }

    /// Wakes every CPU that spins on a line that was written.
    #[cold]
    pub(crate) fn unpark(&mut self, line: usize, at: Ps) {
        let mut next = std::mem::replace(&mut self.directory.lines[line].parked, NONE);
        while next != NONE {
            let number = next;
            let cpu = &mut self.cpus[usize::from(number)];
            next = cpu.next_parked;
            let pause = self.model.costs.pause;
            let jitter = if pause == 0 { 0 } else { self.queue.random() % pause };
            self.make_ready(number, at + jitter);
        }
    }

    /// A CPU that waits may go on, at `at` or later.
    pub(crate) fn make_ready(&mut self, number: u16, at: Ps) {
        let cpu = &mut self.cpus[usize::from(number)];
        if cpu.is_timed {
            self.queue.remove(number);
            cpu.is_timed = false;
        }
        let since = cpu.now.clock;
        cpu.now.clock = since.max(at);
        cpu.times.add(if cpu.state == State::Asleep { Spent::Asleep } else { Spent::Spinning }, cpu.now.clock - since);
        cpu.state = State::Ready;
        self.busy_threads[usize::from(cpu.now.core)] += 1;
        self.queue.push_ready(cpu.now.clock, number);
        self.set_limit();
    }

    /// The running CPU waits, at most until `deadline`.
    pub(crate) fn suspend(&mut self, state: State, deadline: Option<Ps>) {
        let now = self.now;
        let cpu = self.cpu();
        cpu.now = now;
        cpu.state = state;
        cpu.is_timed = deadline.is_some();
        self.busy_threads[usize::from(now.core)] -= 1;
        if let Some(deadline) = deadline {
            self.queue.push_timed(deadline, now.cpu);
        }
    }

    /// Makes the next CPU the running one; none if all are done, or wait for each other.
    pub(crate) fn next(&mut self) -> Option<u16> {
        let (at, number) = self.queue.pop()?;
        self.start(number, at);
        Some(number)
    }

    fn start(&mut self, number: u16, at: Ps) {
        self.switches += 1;
        let cpu = &mut self.cpus[usize::from(number)];
        if cpu.is_timed {
            // Its patience or its sleep is over.
            cpu.is_timed = false;
            let (since, line) = (cpu.now.clock, cpu.parked_at);
            cpu.now.clock = since.max(at);
            let spent = if cpu.state == State::Asleep { Spent::Asleep } else { Spent::Spinning };
            cpu.times.add(spent, cpu.now.clock - since);
            self.busy_threads[usize::from(cpu.now.core)] += 1;
            if cpu.state == State::Parked {
                self.unlink(line, number);
            }
        }
        let cpu = &mut self.cpus[usize::from(number)];
        cpu.state = State::Running;
        let debt = std::mem::take(&mut cpu.debt);
        cpu.now.clock += debt;
        cpu.times.add(Spent::Interrupts, debt);
        self.now = cpu.now;
        self.now.fills = self.directory.fills(self.now.core);
        self.set_limit();
    }

    /// Takes a CPU out of those that spin on a line.
    fn unlink(&mut self, line: usize, number: u16) {
        let after = self.cpus[usize::from(number)].next_parked;
        let mut at = self.directory.lines[line].parked;
        if at == number {
            self.directory.lines[line].parked = after;
            return;
        }
        while at != NONE {
            let cpu = &mut self.cpus[usize::from(at)];
            if cpu.next_parked == number {
                cpu.next_parked = after;
                return;
            }
            at = cpu.next_parked;
        }
    }

    /// The CPU begins to take part in a run.
    pub(crate) fn admit(&mut self, number: u16) {
        let cpu = &mut self.cpus[usize::from(number)];
        cpu.state = State::Ready;
        self.busy_threads[usize::from(cpu.now.core)] += 1;
        self.queue.push_ready(cpu.now.clock, number);
    }

    /// The running CPU has done what it was to do.
    pub(crate) fn finish(&mut self) {
        self.settle();
        self.suspend(State::Done, None);
    }

    /// The running CPU writes zeros to so many lines of a node, which push others out of its caches.
    pub(crate) fn zero_lines(&mut self, node: usize, lines: u64) {
        let done = self.memory.zero(node, self.now.clock, lines);
        self.spend(Spent::Zeroing, done - self.now.clock);
        self.fill_private(lines as u32);
    }

    /// So many lines that nobody else touches come into the running CPU's caches.
    pub(crate) fn fill_private(&mut self, lines: u32) {
        self.directory.fill(self.now.core, lines);
        self.now.fills = self.directory.fills(self.now.core);
    }
}

impl Now {
    pub(crate) fn of(cpu: u16, core: u16) -> Now {
        Now { cpu, core, enough: u64::MAX, ..Now::default() }
    }
}

#[cold]
#[inline(never)]
fn outside() -> ! {
    panic!("a CPU touched a shared word that lies in no region of the simulated machine")
}
