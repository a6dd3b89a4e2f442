//! What the running CPU does to other CPUs, and what it waits for.
//!
//! Each function first waits for the CPU's turn, where others can tell the difference (`schedule.rs`). None keeps a
//! reference to the world while another CPU runs.

use corosensei::Yielder;
use framewright::machine::{LockEvent, LockName, Waiter};
use framewright::units::Pfn;

use crate::engine::chances::Way;
use crate::engine::cpu::{Cpu, State};
use crate::engine::interrupts::interrupt;
use crate::engine::locks::{LockTime, Locks};
use crate::engine::schedule::Turn;
use crate::engine::world::{World, with};
use crate::memory::directory::{Access, Source};
use crate::model::Ps;

/// Charges an access to the running CPU; returns how it is to be done.
#[inline(always)]
pub(crate) fn touch(address: usize, access: Access) -> Way {
    let line = with(|world| {
        let (line, region) = world.line_of(address);
        let is_quick = matches!(access, Access::Load | Access::Store);
        if is_quick && world.touch_held(line, access) { None } else { Some((line, region)) }
    });
    match line {
        Some(Some(line)) => touch_slowly(line, address, access),
        _ => Way::Plain,
    }
}

#[inline(never)]
fn touch_slowly(line: (usize, u16), address: usize, access: Access) -> Way {
    if let Some(Some(way)) = with(|world| world.access_within_turn(line.0, address, access)) {
        return way;
    }
    if access == Access::Load && with(|world| world.touch_shared(line.0)) == Some(true) {
        return Way::Plain;
    }
    await_turn(true);
    let way = with(|world| {
        if world.chances.is_some() {
            return world.access_by_chance(line.0, address, access);
        }
        world.serve(line, address, access);
        Way::Plain
    });
    way.unwrap_or(Way::Plain)
}

/// Waits until no other CPU has a smaller clock than the running one.
///
/// Without `exact`, a difference of up to the slack is allowed. Interrupts that are due come first.
pub(crate) fn await_turn(exact: bool) {
    loop {
        match with(|world| world.turn(exact)) {
            None | Some(Turn::Go) => return,
            Some(Turn::Interrupt(level)) => interrupt(level),
            Some(Turn::Switch) => {
                switch();
                // It was chosen just now, so no other CPU has a smaller clock.
                if with(|world| world.arrives()).flatten().is_none() {
                    return;
                }
            }
        }
    }
}

/// Returns to the loop that runs CPUs, and continues when this CPU runs again.
fn switch() {
    let Some(yielder) = with(|world| world.cpu().yielder) else { return };
    // SAFETY: the pointer was noted by this CPU's coroutine when it began (`run.rs`), and its target lives on this
    // coroutine's own stack until that ends.
    let yielder: &Yielder<(), ()> = unsafe { &*yielder };
    yielder.suspend(());
}

/// Lets the running CPU spin until the line at `address` is written, or for `patience`.
///
/// The CPU has just read the word there. Returns false when its patience is over.
///
/// An interrupt ends the spinning, because its handler may do what the CPU waits for. An NMI does not end it. If it
/// did, CPUs that wait for each other would spin for ever and no deadlock would be found.
pub(crate) fn park(address: usize, patience: Option<Ps>) -> bool {
    let began = with(|world| {
        world.settle();
        let (line, _) = world.line_of(address);
        let clock = world.now.clock;
        let deadline = patience.map(|patience| clock + patience);
        let until = deadline.unwrap_or(Ps::MAX).min(world.next_interrupt());
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

/// Lets the running CPU sleep until `deadline`, or until it is woken as `waiter`.
///
/// A background thread that was woken since it last slept does not sleep now.
pub(crate) fn sleep(waiter: Option<Waiter>, deadline: Ps) {
    await_turn(true);
    let sleeps = with(|world| {
        let noted = world.woken.iter().position(|&woken| Some(woken) == waiter);
        if let Some(noted) = noted {
            world.woken.swap_remove(noted);
            return false;
        }
        world.settle();
        world.cpu().waiter = waiter;
        let until = deadline.max(world.now.clock);
        world.suspend(State::Asleep, (deadline != Ps::MAX).then_some(until));
        true
    });
    if sleeps == Some(true) {
        switch();
        with(|world| world.cpu().waiter = None);
    }
}

/// Wakes every CPU that sleeps as `waiter`.
///
/// A wake-up of a background thread that is awake is noted, because that thread has work to find. Other waiters look
/// for memory before they sleep, so their wake-ups need no note.
pub(crate) fn wake(waiter: Waiter) {
    await_turn(true);
    with(|world| {
        let woken = world.rouse(|cpu| cpu.waiter == Some(waiter));
        let is_background = matches!(waiter, Waiter::Kswapd(_) | Waiter::Kcompactd(_));
        if !woken && is_background && !world.woken.contains(&waiter) {
            world.woken.push(waiter);
        }
    });
}

impl World {
    /// Wakes the sleeping CPUs that `which` selects; returns false if there were none.
    fn rouse(&mut self, which: impl Fn(&Cpu) -> bool) -> bool {
        let at = self.now.clock + self.model.costs.wake;
        let sleepers = |cpu: &Cpu| cpu.state == State::Asleep && which(cpu);
        let woken: Vec<u16> =
            (0..).zip(&self.cpus).filter(|(_, cpu)| sleepers(cpu)).map(|(number, _)| number).collect();
        woken.iter().for_each(|&number| self.make_ready(number, at));
        !woken.is_empty()
    }
}

/// Returns the running CPU's clock; 0 while none runs.
pub(crate) fn clock() -> Ps {
    with(|world| world.now.clock).unwrap_or(0)
}

/// Returns how long `tries` looks at a word take.
pub(crate) fn pauses(tries: u32) -> Ps {
    with(|world| Ps::from(tries).saturating_mul(world.model.costs.pause.max(1))).unwrap_or(0)
}

/// Records that the running CPU wanted, took or released a lock.
pub(crate) fn lock(lock: LockName, event: LockEvent) {
    with(|world| {
        let moment = LockTime { clock: world.now.clock, window: world.window };
        let cpu = &mut world.cpus[usize::from(world.now.cpu)];
        match event {
            LockEvent::Wanted => {
                cpu.spun = false;
                Locks::wanted(&mut cpu.taking, lock, moment.clock);
            }
            LockEvent::Taken => world.locks.taken(&mut cpu.taking, lock, cpu.spun, moment),
            LockEvent::Released => {
                let place = (usize::from(world.now.cpu), usize::from(cpu.node));
                world.locks.released(&mut cpu.taking, lock, place, moment);
            }
        }
    });
}

/// Fetches the word's line for a write that the running CPU will soon make.
pub(crate) fn prefetch<T>(word: &T) {
    let address = std::ptr::from_ref(word).addr();
    await_turn(true);
    with(|world| {
        let (line, region) = world.line_of(address);
        let (core, clock) = (world.now.core, world.now.clock);
        let served = world.directory.prefetch(&mut world.memory, line, core, clock);
        world.now.fills = world.directory.fills(core);
        if served.source != Source::Own && world.counts() {
            let place = (region, address - world.base);
            world.counters.count(&mut world.directory.lines[line], place, Access::Store, &served, clock);
        }
    });
}

/// Charges the running CPU for zeroing the memory of a block.
pub(crate) fn zero(pfn: Pfn, lines: u64) {
    let node = with(|world| {
        let at = world.nodes.partition_point(|&(end, _)| end <= pfn.0);
        world.nodes.get(at).map_or(0, |&(_, node)| usize::from(node))
    });
    if let Some(node) = node {
        zero_lines(node, lines);
    }
}

/// Charges the running CPU for zeroing `lines` lines of a node.
pub(crate) fn zero_lines(node: usize, lines: u64) {
    await_turn(true);
    with(|world| world.zero_lines(node, lines));
}
