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

use corosensei::Yielder;
use framewright::machine::{LockEvent, LockName, Waiter};
use framewright::pfn::Pfn;

use crate::arena::{Chunk, chunk_of};
use crate::counters::Counters;
use crate::cpu::{Cpu, Mark, Spent, State};
use crate::directory::{Access, Directory, Fills, NONE, Served, Source};
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
    fills: Fills,
    core: u16,
    cpu: u16,
}

/// What a CPU has to do before it goes on.
enum Turn {
    Go,
    Switch,
    Interrupt,
}

/// Everything of one machine. See the module's description.
pub(crate) struct World {
    pub(crate) now: Now,
    base: usize,
    chunks: Vec<Chunk>,
    l1_lines: u32,
    l1: Ps,
    store: Ps,
    pub(crate) directory: Directory,
    pub(crate) memory: Controllers,
    pub(crate) queue: Queue,
    pub(crate) cpus: Vec<Cpu>,
    /// Threads of each core that are ready.
    busy_threads: Vec<u8>,
    pub(crate) counters: Counters,
    pub(crate) locks: Locks,
    pub(crate) model: Model,
    pub(crate) switches: u64,
    /// The measured window, and from when to when all CPUs were in it.
    pub(crate) window: (Ps, Ps),
    pub(crate) counted: (Option<Ps>, Option<Ps>),
    /// What an interrupt does, and the mean time between two on a CPU.
    pub(crate) interrupts: Option<Interrupts>,
    /// Node of each run of frames: up to which frame.
    pub(crate) nodes: Vec<(u64, u16)>,
}

/// Interrupts that arrive at any step.
pub(crate) struct Interrupts {
    pub(crate) handler: *const dyn Fn(usize),
    /// Mean time between two on each CPU.
    pub(crate) every: Ps,
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

/// Makes a world that of the thread until the guard is dropped.
pub(crate) struct Entered(());

impl Entered {
    /// # Safety
    /// The world must outlive the guard, and must not be used otherwise while a CPU runs.
    pub(crate) unsafe fn new(world: *mut World) -> Entered {
        assert!(WORLD.get().is_null(), "a simulated machine cannot be run from inside of another");
        WORLD.set(world);
        Entered(())
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        WORLD.set(null_mut());
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
            l1: model.latency.l1,
            store: model.stores.issue,
            directory,
            memory: Controllers::new(&model),
            queue,
            cpus,
            busy_threads: vec![0; cores],
            counters,
            locks: Locks::default(),
            model,
            switches: 0,
            window: (0, Ps::MAX),
            counted: (None, None),
            interrupts: None,
            nodes: Vec::new(),
        }
    }

    pub(crate) fn cpu(&mut self) -> &mut Cpu {
        &mut self.cpus[usize::from(self.now.cpu)]
    }

    /// Address of the arena.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    pub(crate) fn cpu_number(&self) -> usize {
        usize::from(self.now.cpu)
    }

    /// Line of an address, and the number of its region.
    #[inline(always)]
    fn line_of(&self, address: usize) -> (usize, u16) {
        let (number, offset) = chunk_of(address.wrapping_sub(self.base));
        match self.chunks.get(number) {
            Some(chunk) if chunk.is_used => (chunk.line as usize + (offset >> chunk.shift), chunk.region),
            _ => outside(),
        }
    }

    /// The quick look: the core touched the line last, still has it, and may use it so.
    #[inline(always)]
    fn touch_held(&mut self, line: usize, access: Access) -> bool {
        let now = &mut self.now;
        let state = &mut self.directory.lines[line];
        let may = state.last == now.core
            && now.fills.l1.wrapping_sub(state.l1_stamp) < self.l1_lines
            && (access == Access::Load || state.owner == now.core && state.is_dirty())
            && now.clock <= now.limit;
        if may {
            state.l1_stamp = now.fills.l1;
            now.clock += if access == Access::Load { self.l1 } else { self.store };
            now.accesses += 1;
        }
        may
    }

    /// The second look: a copy that others read too. Who touched the line last stays as it is, or readers would take turns
    /// at that.
    fn touch_shared(&mut self, line: usize) -> bool {
        let now = &mut self.now;
        let may = now.clock <= now.limit && self.directory.reads_along(line, now.core);
        if may {
            now.clock += self.l1;
            now.accesses += 1;
        }
        may
    }

    /// Whether the running CPU may go on, and if not, why. It is queued again then.
    fn turn(&mut self, exact: bool) -> Turn {
        if self.is_interrupted() {
            return Turn::Interrupt;
        }
        let Now { clock, cpu, .. } = self.now;
        if self.queue.must_wait(clock, cpu, if exact { 0 } else { self.model.slack }) {
            self.cpus[usize::from(cpu)].now = self.now;
            self.queue.swap(clock, cpu);
            return Turn::Switch;
        }
        self.set_limit();
        Turn::Go
    }

    /// Whether an interrupt is due at the running CPU.
    fn is_interrupted(&self) -> bool {
        self.now.clock >= self.cpus[usize::from(self.now.cpu)].next_interrupt && self.may_interrupt()
    }

    fn may_interrupt(&self) -> bool {
        let cpu = &self.cpus[usize::from(self.now.cpu)];
        cpu.irq_off == 0 && !cpu.in_interrupt
    }

    fn set_limit(&mut self) {
        let interrupt =
            if self.may_interrupt() { self.cpus[usize::from(self.now.cpu)].next_interrupt } else { Ps::MAX };
        self.now.limit = self.queue.horizon(self.model.slack).min(interrupt);
    }

    /// Serves an access that the quick look did not, at the CPU's turn.
    fn serve(&mut self, (line, region): (usize, u16), address: usize, access: Access) {
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
        if served.source != Source::Own {
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
                    stores.post(served.done);
                }
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

    /// Waits until fewer stores are under way than may be.
    fn make_room(&mut self) {
        let (clock, most) = (self.now.clock, self.model.stores.in_flight);
        let waited = self.cpu().stores.make_room(clock, most);
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
    fn unpark(&mut self, line: usize, at: Ps) {
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
    fn suspend(&mut self, state: State, deadline: Option<Ps>) {
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
        self.suspend(State::Done, None);
    }

    /// The running CPU has completed so many operations. See `run.rs` on windows.
    pub(crate) fn done(&mut self, operations: u64) {
        let (begin, end) = self.window;
        let clock = self.now.clock;
        let mark = Mark { clock, times: self.cpu().times, accesses: self.now.accesses };
        let cpu = self.cpu();
        match cpu.marks {
            [None, _] if clock >= begin => cpu.marks[0] = Some(mark),
            [Some(_), None] => {
                cpu.operations += operations;
                if clock >= end {
                    cpu.marks[1] = Some(mark);
                    self.counted.1 = self.counted.1.or(Some(clock));
                }
            }
            _ => return,
        }
        if self.counted.0.is_none() && self.cpus.iter().all(|cpu| cpu.marks[0].is_some()) {
            self.counted.0 = Some(clock);
            self.counters.clear();
        }
    }

    /// Whether all CPUs are in the window.
    fn counts(&self) -> bool {
        matches!(self.counted, (Some(_), None))
    }

    /// The running CPU writes zeros to so many lines of a node, which push others out of its caches.
    fn zero_lines(&mut self, node: usize, lines: u64) {
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
    pub(crate) fn core(&self) -> u16 {
        self.core
    }

    pub(crate) fn of(cpu: u16, core: u16) -> Now {
        Now { cpu, core, ..Now::default() }
    }
}

#[cold]
#[inline(never)]
fn outside() -> ! {
    panic!("a CPU touched a shared word that lies in no region of the simulated machine")
}

/// The running CPU touches a word.
#[inline(always)]
pub(crate) fn touch(address: usize, access: Access) {
    let line = with(|world| {
        let (line, region) = world.line_of(address);
        let is_quick = matches!(access, Access::Load | Access::Store);
        if is_quick && world.touch_held(line, access) { None } else { Some((line, region)) }
    });
    if let Some(Some(line)) = line {
        touch_slowly(line, address, access);
    }
}

#[inline(never)]
fn touch_slowly(line: (usize, u16), address: usize, access: Access) {
    if access == Access::Load && with(|world| world.touch_shared(line.0)) == Some(true) {
        return;
    }
    await_turn(true);
    with(|world| world.serve(line, address, access));
}

/// Waits until no other CPU is behind the running one (`exact`), or none further than the slack. Interrupts that are due
/// come first.
pub(crate) fn await_turn(exact: bool) {
    loop {
        match with(|world| world.turn(exact)) {
            None | Some(Turn::Go) => return,
            Some(Turn::Interrupt) => interrupt(),
            Some(Turn::Switch) => {
                switch();
                // It was chosen just now: nobody is behind it.
                if with(|world| world.is_interrupted()) != Some(true) {
                    return;
                }
            }
        }
    }
}

/// Gives the host back to the loop that runs CPUs; returns when this CPU runs again.
fn switch() {
    let Some(yielder) = with(|world| world.cpu().yielder) else { return };
    // SAFETY: the pointer was noted by this CPU's coroutine when it began (`run.rs`), and its target lives on this coroutine's own stack
    // until that ends.
    let yielder: &Yielder<(), ()> = unsafe { &*yielder };
    yielder.suspend(());
}

/// An interrupt arrives at the running CPU.
#[cold]
fn interrupt() {
    let handler = with(|world| {
        let cost = world.model.costs.interrupt;
        world.spend(Spent::Interrupts, cost);
        let clock = world.now.clock;
        let (handler, every) = world.interrupts.as_ref().map(|irq| (irq.handler, irq.every))?;
        let next = clock + 1 + world.queue.random() % (2 * every).max(1);
        let cpu = world.cpu();
        cpu.next_interrupt = next;
        cpu.in_interrupt = true;
        world.set_limit();
        Some((handler, world.cpu_number()))
    });
    if let Some(Some((handler, cpu))) = handler {
        // SAFETY: the run that set the handler outlives all CPUs' coroutines, and takes the handler away behind them.
        unsafe { (*handler)(cpu) };
        with(|world| {
            world.cpu().in_interrupt = false;
            world.set_limit();
        });
    } else {
        with(|world| world.cpu().next_interrupt = Ps::MAX);
    }
}

/// Interrupts are held off, or on again: then what has arrived meanwhile comes.
pub(crate) fn hold_interrupts(held: bool) {
    let due = with(|world| {
        let clock = world.now.clock;
        let cpu = world.cpu();
        if held {
            cpu.irq_off += 1;
        } else {
            cpu.irq_off -= 1;
        }
        let due = cpu.irq_off == 0 && !cpu.in_interrupt && clock >= cpu.next_interrupt;
        if cpu.next_interrupt != Ps::MAX {
            world.set_limit();
        }
        due
    });
    if due == Some(true) {
        interrupt();
    }
}

/// The running CPU, which has just read the word at `address`, spins until the line is written to, or for `patience`. False when its
/// patience is over.
pub(crate) fn park(address: usize, patience: Option<Ps>) -> bool {
    let began = with(|world| {
        let (line, _) = world.line_of(address);
        let clock = world.now.clock;
        let deadline = patience.map(|patience| clock + patience);
        let interrupt = if world.may_interrupt() { world.cpu().next_interrupt } else { Ps::MAX };
        let until = deadline.unwrap_or(Ps::MAX).min(interrupt);
        let first = std::mem::replace(&mut world.directory.lines[line].parked, world.now.cpu);
        let cpu = world.cpu();
        cpu.next_parked = first;
        cpu.parked_at = line;
        cpu.spun = true;
        world.suspend(State::Parked, (until != Ps::MAX).then_some(until.max(clock)));
        deadline
    });
    let Some(deadline) = began else { panic!("a wait that nobody can end: no CPU runs") };
    switch();
    await_turn(false);
    with(|world| deadline.is_none_or(|deadline| world.now.clock < deadline)) == Some(true)
}

/// The running CPU sleeps until `deadline` or until it is woken as `waiter`.
pub(crate) fn sleep(waiter: Waiter, deadline: Ps) {
    await_turn(true);
    let slept = with(|world| {
        world.cpu().waiter = Some(waiter);
        let until = deadline.max(world.now.clock);
        world.suspend(State::Asleep, (deadline != Ps::MAX).then_some(until));
    });
    if slept.is_some() {
        switch();
        with(|world| world.cpu().waiter = None);
    }
}

/// Wakes whoever sleeps as `waiter`.
pub(crate) fn wake(waiter: Waiter) {
    await_turn(true);
    with(|world| {
        let at = world.now.clock + world.model.costs.wake;
        let sleepers = |cpu: &Cpu| cpu.state == State::Asleep && cpu.waiter == Some(waiter);
        let woken: Vec<u16> =
            (0..).zip(&world.cpus).filter(|(_, cpu)| sleepers(cpu)).map(|(number, _)| number).collect();
        woken.into_iter().for_each(|number| world.make_ready(number, at));
    });
}

/// The running CPU's clock; 0 while none runs.
pub(crate) fn clock() -> Ps {
    with(|world| world.now.clock).unwrap_or(0)
}

/// How long so many looks at a word take.
pub(crate) fn pauses(tries: u32) -> Ps {
    with(|world| Ps::from(tries).saturating_mul(world.model.costs.pause.max(1))).unwrap_or(0)
}

/// Something happened to a lock.
pub(crate) fn lock(lock: LockName, event: LockEvent) {
    with(|world| {
        let (clock, counts) = (world.now.clock, world.counts());
        let cpu = &mut world.cpus[usize::from(world.now.cpu)];
        match event {
            LockEvent::Wanted => {
                cpu.spun = false;
                Locks::wanted(&mut cpu.taking, lock, clock);
            }
            LockEvent::Taken => world.locks.taken(&mut cpu.taking, lock, cpu.spun, clock, counts),
            LockEvent::Released => {
                let place = (usize::from(world.now.cpu), usize::from(cpu.node));
                world.locks.released(&mut cpu.taking, lock, place, clock, counts);
            }
        }
    });
}

/// The running CPU will soon write the word's line.
pub(crate) fn prefetch<T>(word: &T) {
    let address = std::ptr::from_ref(word).addr();
    await_turn(true);
    with(|world| {
        let (line, region) = world.line_of(address);
        let (core, clock) = (world.now.core, world.now.clock);
        let served = world.directory.prefetch(&mut world.memory, line, core, clock);
        world.now.fills = world.directory.fills(core);
        if served.source != Source::Own {
            let place = (region, address - world.base);
            world.counters.count(&mut world.directory.lines[line], place, Access::Store, &served, clock);
        }
    });
}

/// The running CPU writes zeros to the memory of a block.
pub(crate) fn zero(pfn: Pfn, lines: u64) {
    let node = with(|world| {
        let at = world.nodes.partition_point(|&(end, _)| end <= pfn.0);
        world.nodes.get(at).map_or(0, |&(_, node)| usize::from(node))
    });
    if let Some(node) = node {
        zero_lines(node, lines);
    }
}

/// The running CPU writes zeros to so many lines of a node.
pub(crate) fn zero_lines(node: usize, lines: u64) {
    await_turn(true);
    with(|world| world.zero_lines(node, lines));
}
