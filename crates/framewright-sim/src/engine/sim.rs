//! The machine that the allocator sees: [`framewright::Machine`] on virtual CPUs.

use framewright::event::Event;
use framewright::machine::{Busy, LockEvent, LockName, Machine, Need, NoPerCpu, Pinned, Reclaimed, Step, Waiter};
use framewright::units::{CpuId, NodeId, Order, Pfn};

use crate::engine::context::Level;
use crate::engine::cpu::Spent;
use crate::engine::host::Host;
use crate::engine::interrupts;
use crate::engine::plant::Plant;
use crate::engine::running;
use crate::engine::words::SimWord;
use crate::engine::world::with;

/// Lines of a frame: pages of 4 KiB.
const LINES_OF_FRAME: u64 = 64;

/// The simulated machine.
///
/// Outside of a run it is a machine of one CPU on which everything is free of charge.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sim;

/// The calling context stays on its CPU while this lives.
pub struct SimPin {
    cpu: CpuId,
    node: NodeId,
}

impl Drop for SimPin {
    fn drop(&mut self) {
        with(|world| world.cpu().context.guards.unpin());
    }
}

impl Pinned for SimPin {
    fn cpu(&self) -> CpuId {
        self.cpu
    }

    fn node(&self) -> NodeId {
        self.node
    }
}

/// Interrupts of the CPU are held off while this lives.
pub struct SimIrq(());

impl Drop for SimIrq {
    fn drop(&mut self) {
        interrupts::hold_interrupts(false);
    }
}

impl Machine for Sim {
    type U8 = SimWord<u8>;
    type U16 = SimWord<u16>;
    type U32 = SimWord<u32>;
    type U64 = SimWord<u64>;
    type Usize = SimWord<usize>;
    type Pin<'a> = SimPin;
    type Irq<'a> = SimIrq;
    type PerCpu<T> = NoPerCpu;

    fn pin(&self) -> SimPin {
        let place = with(|world| {
            world.instructions(world.model.costs.pin);
            world.cpu().context.guards.pin();
            let number = CpuId(world.cpu_number() as u16);
            let level = world.cpu().context.level;
            let cpu = match level {
                Level::Task => number,
                Level::Interrupt => CpuId(number.0 + world.apart as u16),
                Level::Nmi if world.is_planted(&Plant::WaitingNmi) => number,
                Level::Nmi => CpuId::NONE,
            };
            (cpu, world.cpu().node)
        });
        let (cpu, node) = place.unwrap_or((CpuId(0), 0));
        SimPin { cpu, node: NodeId(node as u8) }
    }

    fn near(&self) -> NodeId {
        NodeId(with(|world| world.cpu().node).unwrap_or(0) as u8)
    }

    fn irq_save(&self) -> SimIrq {
        with(|world| {
            let pin = if world.cpu().context.guards.stands_for_a_pin() { world.model.costs.pin } else { 0 };
            world.instructions(world.model.costs.irq_save.saturating_sub(pin));
        });
        interrupts::hold_interrupts(true);
        SimIrq(())
    }

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn in_interrupt(&self) -> bool {
        with(|world| world.cpu().context.level != Level::Task).unwrap_or(false)
    }

    fn fence(&self) {
        with(|world| {
            world.settle();
            world.drain();
            world.instructions(world.model.costs.fence);
        });
    }

    fn light_fence(&self) {}

    fn may_fence(&self) -> bool {
        true
    }

    fn heavy_fence(&self) {
        running::await_turn(true);
        with(|world| {
            world.heavy_fence_by_chance();
            world.drain();
            let (own, others) = world.model.costs.heavy_fence;
            world.instructions(own);
            let this = world.cpu_number();
            let rest = world.cpus.iter_mut().enumerate().filter(|(number, _)| *number != this);
            rest.for_each(|(_, cpu)| cpu.debt += others);
        });
    }

    fn relax(&self) {
        with(|world| world.spend(Spent::Spinning, world.model.costs.pause));
    }

    fn now(&self) -> u64 {
        running::clock() / 1000
    }

    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        running::sleep(Some(waiter), deadline.saturating_mul(1000));
    }

    fn wake(&self, waiter: Waiter) {
        running::wake(waiter);
    }

    fn step(&self, step: Step) {
        with(|world| {
            let is_masked_free = step == Step::PcpGive && world.cpu().context.irq_off != 0;
            let more = if is_masked_free { world.model.costs.masked_free } else { 0 };
            world.instructions(world.model.costs.step(step) + more);
        });
    }

    fn lock(&self, lock: LockName, event: LockEvent) {
        running::lock(lock, event);
    }

    fn prefetch(&self, word: &SimWord<u64>) {
        running::prefetch(word);
    }

    fn zero(&self, pfn: Pfn, order: Order) {
        running::zero(pfn, LINES_OF_FRAME << order.0.min(31));
    }

    fn traces(&self) -> bool {
        ask(|host| host.traces()).unwrap_or(false)
    }

    fn event(&self, event: &Event) {
        ask(|host| host.event(event));
    }

    fn reclaim(&self, need: &Need) -> Reclaimed {
        Reclaimed { frames: ask(|host| host.reclaim(need)).unwrap_or(0) }
    }

    fn migrates(&self) -> bool {
        ask(|host| host.migrates()).unwrap_or(false)
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        ask(|host| host.migrate(from, to, order)).unwrap_or(Err(Busy))
    }

    /// Each run begins with zeroed memory.
    fn starts_zeroed(&self) -> bool {
        true
    }

    fn poison(&self, pfn: Pfn, order: Order) {
        running::zero(pfn, LINES_OF_FRAME << order.0.min(31));
    }
}

/// Asks the host of the run; returns `None` if there is none.
fn ask<T>(what: impl FnOnce(&dyn Host) -> T) -> Option<T> {
    let host = with(|world| world.host).flatten()?;
    // SAFETY: the caller that set the host outlives all CPUs' coroutines, and the world forgets the host after them.
    Some(what(unsafe { &*host }))
}
