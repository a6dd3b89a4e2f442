//! Which CPU runs, and for how long.
//!
//! The CPU with the least clock runs next; under a random schedule one is drawn by lot. A CPU that touches only lines
//! that it holds may run ahead of the others by the model's `slack`. A CPU that needs a line from elsewhere waits until
//! no other has a smaller clock. So requests for a line are served in the order of their times.

use crate::engine::context::Level;
use crate::engine::cpu::{Now, Spent, State};
use crate::engine::world::World;
use crate::memory::directory::NONE;
use crate::model::Ps;

/// Decision of the scheduler about a CPU that wants to go on.
pub(crate) enum Turn {
    Go,
    Switch,
    Interrupt(Level),
}

impl World {
    /// Returns whether the running CPU may go on, or what comes first.
    ///
    /// A CPU that must let another go first is queued again.
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

    /// Returns the interrupt or NMI that is due at the running CPU, if any.
    pub(crate) fn arrives(&self) -> Option<Level> {
        let clock = self.now.clock;
        if clock >= self.cpus[usize::from(self.now.cpu)].next_nmi {
            return Some(Level::Nmi);
        }
        (clock >= self.next_interrupt()).then_some(Level::Interrupt)
    }

    /// Returns when the next interrupt comes to the running CPU.
    ///
    /// It is never while interrupts are held off.
    pub(crate) fn next_interrupt(&self) -> Ps {
        let cpu = &self.cpus[usize::from(self.now.cpu)];
        let may = cpu.context.irq_off == 0 && cpu.context.level == Level::Task;
        if may { cpu.next_interrupt } else { Ps::MAX }
    }

    pub(crate) fn set_limit(&mut self) {
        let nmi = self.cpus[usize::from(self.now.cpu)].next_nmi;
        self.now.limit = self.queue.horizon(self.model.slack).min(self.next_interrupt()).min(nmi);
    }

    /// Wakes every CPU that spins on a line, which was written at `at`.
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

    /// Makes a waiting CPU ready, at `at` or later.
    pub(crate) fn make_ready(&mut self, number: u16, at: Ps) {
        let cpu = &mut self.cpus[usize::from(number)];
        if cpu.is_timed {
            self.queue.remove(number);
            cpu.is_timed = false;
        }
        cpu.end_wait(at, self.window);
        cpu.state = State::Ready;
        self.busy_threads[usize::from(cpu.now.core)] += 1;
        self.queue.push_ready(cpu.now.clock, number);
        self.set_limit();
    }

    /// Suspends the running CPU, at most until `deadline`.
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

    /// Makes the next CPU the running one; returns `None` if all are done or wait for each other.
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
            cpu.end_wait(at, self.window);
            let line = cpu.parked_at;
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

    /// Removes a CPU from those that spin on a line.
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

    /// Makes a CPU ready at the beginning of a run.
    pub(crate) fn admit(&mut self, number: u16) {
        let cpu = &mut self.cpus[usize::from(number)];
        cpu.state = State::Ready;
        self.busy_threads[usize::from(cpu.now.core)] += 1;
        self.queue.push_ready(cpu.now.clock, number);
    }
}
