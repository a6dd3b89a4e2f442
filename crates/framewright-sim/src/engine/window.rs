//! The measured part of a run: between two times, by each CPU's own clock.

use crate::engine::cpu::Mark;
use crate::engine::world::World;
use crate::model::Ps;

impl World {
    /// Counts operations of the running CPU, if it is in the window.
    pub(crate) fn done(&mut self, operations: u64) {
        if self.counts() {
            self.cpu().operations += operations;
        }
    }

    /// Returns whether the running CPU is in the window.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        (self.window.0..self.window.1).contains(&self.now.clock)
    }

    /// Returns whether the window is not over yet for the running CPU.
    pub(crate) fn goes_on(&self) -> bool {
        self.now.clock < self.window.1
    }

    /// Makes a new window of the old one and the time now.
    pub(crate) fn set_window(&mut self, change: impl Fn((Ps, Ps), Ps) -> (Ps, Ps)) {
        let now = self.now.clock;
        self.window = change(self.window, now);
        // At its next turn each CPU checks whether it has passed a bound.
        self.cpus.iter_mut().for_each(|cpu| cpu.next_mark = cpu.next_mark.min(now));
    }

    /// Marks how far the running CPU was when it entered and when it left the window.
    ///
    /// It is marked exactly at a bound if it spent time there that can be divided; otherwise now.
    pub(crate) fn pass(&mut self) {
        let (begin, end) = self.window;
        let clock = self.now.clock;
        let cpu = &mut self.cpus[usize::from(self.now.cpu)];
        let mark = Mark { clock, times: cpu.times, accesses: self.now.accesses };
        for (passed, bound) in cpu.marks.iter_mut().zip([begin, end]) {
            if clock >= bound && passed.is_none() {
                *passed = Some(mark);
            }
        }
        cpu.next_mark =
            cpu.marks.iter().zip([begin, end]).find(|(mark, _)| mark.is_none()).map_or(Ps::MAX, |(_, at)| at);
    }
}
