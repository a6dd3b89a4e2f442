//! What the code of a running CPU may ask and tell.

use crate::engine::cpu::Spent;
use crate::engine::running;
use crate::engine::world::with;
use crate::model::Ps;

/// Its number; 0 while no CPU runs.
pub fn cpu() -> usize {
    with(|world| world.cpu_number()).unwrap_or(0)
}

/// Its clock.
pub fn clock() -> Ps {
    running::clock()
}

/// Whether the measured window is not over yet for it.
pub fn goes_on() -> bool {
    with(|world| world.goes_on()).unwrap_or(false)
}

/// It has completed so many operations.
pub fn done(operations: u64) {
    with(|world| world.done(operations));
}

/// The window begins now, if it has not.
pub fn begin_window() {
    with(|world| world.set_window(|(begin, end), now| (begin.min(now), end)));
}

/// The window ends now, if it has not.
pub fn end_window() {
    with(|world| world.set_window(|(begin, end), now| (begin, end.min(now))));
}

/// It works for a while on what is its own.
pub fn work(time: Ps) {
    with(|world| world.instructions(time));
}

/// It does nothing for a while.
pub fn idle(time: Ps) {
    with(|world| world.spend(Spent::Asleep, time));
}

/// It sleeps until this time.
pub fn sleep_until(time: Ps) {
    running::sleep(None, time);
}

/// Waits until no other CPU is behind it: what all CPUs know without sharing memory, they know at the right time.
pub fn turn() {
    running::await_turn(true);
}

/// It halts until its next interrupt has come, or for a while if none will.
pub fn halt(time: Ps) {
    with(|world| {
        let (next, now) = (world.cpu().next_interrupt, world.now.clock);
        world.spend(Spent::Asleep, if next == Ps::MAX { time } else { next.saturating_sub(now) });
    });
    running::await_turn(true);
}

/// Fills pages of a node with zeros: so many lines.
pub fn zero(node: usize, lines: u64) {
    running::zero_lines(node, lines);
}

/// Lines that are its own come into its caches: they push others out.
pub fn touch_private(lines: u32) {
    with(|world| world.fill_private(lines));
}

/// A random number, from the seed of the run.
pub fn random() -> u64 {
    with(|world| world.queue.random()).unwrap_or(0)
}

/// A random number from 0 to `limit`, not included; 0 if there is none.
pub fn below(limit: u32) -> u32 {
    (random() % u64::from(limit.max(1))) as u32
}
