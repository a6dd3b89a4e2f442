//! What the code of a running CPU may ask and tell.

use crate::engine::cpu::Spent;
use crate::engine::running;
use crate::engine::world::with;
use crate::model::Ps;

/// Returns the CPU's number; 0 while no CPU runs.
pub fn cpu() -> usize {
    with(|world| world.cpu_number()).unwrap_or(0)
}

/// Returns the CPU's clock.
pub fn clock() -> Ps {
    running::clock()
}

/// Returns whether the measured window is not over yet for the CPU.
pub fn goes_on() -> bool {
    with(|world| world.goes_on()).unwrap_or(false)
}

/// Says that the CPU has completed `operations` operations.
pub fn done(operations: u64) {
    with(|world| world.done(operations));
}

/// Begins the window now, if it has not begun.
pub(crate) fn begin_window() {
    with(|world| world.set_window(|(begin, end), now| (begin.min(now), end)));
}

/// Ends the window now, if it has not ended.
pub(crate) fn end_window() {
    with(|world| world.set_window(|(begin, end), now| (begin, end.min(now))));
}

/// Charges instructions that touch no shared memory.
pub fn work(time: Ps) {
    with(|world| world.instructions(time));
}

/// Lets the CPU do nothing for a while.
pub fn idle(time: Ps) {
    with(|world| world.spend(Spent::Asleep, time));
}

/// Sleeps until this time.
pub fn sleep_until(time: Ps) {
    running::sleep(None, time);
}

/// Waits until no other CPU has a smaller clock.
///
/// Data that CPUs share outside of shared memory is then read and written in the order of time.
pub fn turn() {
    running::await_turn(true);
}

/// Halts until the next interrupt has come, or for `time` if none will come.
pub(crate) fn halt(time: Ps) {
    with(|world| {
        let (next, now) = (world.cpu().next_interrupt, world.now.clock);
        world.spend(Spent::Asleep, if next == Ps::MAX { time } else { next.saturating_sub(now) });
    });
    running::await_turn(true);
}

/// Charges the zeroing of `lines` lines of a node.
pub fn zero(node: usize, lines: u64) {
    running::zero_lines(node, lines);
}

/// Brings private lines into the CPU's caches, which push others out.
pub fn touch_private(lines: u32) {
    with(|world| world.fill_private(lines));
}

/// Draws a random number from the seed of the run.
pub fn random() -> u64 {
    with(|world| world.queue.random()).unwrap_or(0)
}

/// Draws a random number below `limit`; 0 if `limit` is 0.
pub fn below(limit: u32) -> u32 {
    (random() % u64::from(limit.max(1))) as u32
}
