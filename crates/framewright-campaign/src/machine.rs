//! The campaign's machine: everything that the core asks of its surroundings, and the faults that come from there.
//!
//! Most kinds of fault need no point in the core: a clock that stands still, a CPU whose number changes, a holder that
//! is stopped, a callback that panics are all answers of a machine. The core's five points ([`Fault`]) are the rest.

use std::cell::{Cell, OnceCell};
use std::panic::resume_unwind;
use std::rc::{Rc, Weak};

use framewright::machine::{
    Busy, Fault, LockEvent, LockKind, LockName, Machine, Need, NoPerCpu, Pinned, Reclaimed, Step, Waiter,
};
use framewright::units::{CpuId, NodeId, Order, Pfn};

use crate::engine::{Engine, OnPurpose};
use crate::kind::Kind;
use crate::plant::Plant;
use crate::thread::{Level, Thread};
use crate::words::CampaignWord;
use crate::world::World;

/// Accesses of others while a thread is stopped on purpose.
const STOPPED: u64 = 4_000;
/// Nanoseconds of an access on the machine's clock.
const NS: u64 = 5;
/// Looks at the clock, or sleeps, of which one goes wrong.
const CLOCK: u64 = 4;
/// How far the clock jumps, in nanoseconds.
const JUMP: u64 = 3_000_000_000;

/// The machine.
pub(crate) struct Campaign {
    engine: Rc<Engine>,
    /// Node of each CPU.
    nodes: Vec<NodeId>,
    /// Whether interrupts have CPU records of their own.
    apart: bool,
    world: OnceCell<Weak<World>>,
    /// What sleeps and jumps add to the clock.
    ahead: Cell<u64>,
    stopped_at: Cell<Option<u64>>,
}

impl Campaign {
    pub(crate) fn new(engine: Rc<Engine>, nodes: Vec<NodeId>, apart: bool) -> Campaign {
        let (world, ahead, stopped_at) = (OnceCell::new(), Cell::new(JUMP), Cell::new(None));
        Campaign { engine, nodes, apart, world, ahead, stopped_at }
    }

    /// Tells the machine whose callbacks it makes.
    pub(crate) fn meet(&self, world: Weak<World>) {
        // A machine meets one world.
        let _ = self.world.set(world);
    }

    fn world(&self) -> Option<Rc<World>> {
        self.world.get().and_then(Weak::upgrade)
    }

    /// Gives the running thread another CPU's number, if it may change.
    fn migrate_thread(&self, thread: &Thread) {
        let engine = &self.engine;
        let number = engine.below(engine.threads.len() as u64) as usize;
        let other = &engine.threads[number];
        let is_free =
            other.context.get().pins == 0 && other.depth.get() == 0 && other.power.get() == crate::thread::Power::On;
        if number != engine.current.get() && is_free && engine.fires(Kind::CpuChanged) {
            thread.cpu.swap(&other.cpu);
        }
    }

    fn node_of(&self, cpu: u16) -> NodeId {
        self.nodes.get(usize::from(cpu)).copied().unwrap_or_default()
    }
}

/// The thread stays on its CPU while this lives.
pub(crate) struct CampaignPin<'m> {
    engine: &'m Engine,
    cpu: CpuId,
    node: NodeId,
}

impl Drop for CampaignPin<'_> {
    fn drop(&mut self) {
        if let Some(thread) = self.engine.thread() {
            thread.with(|context| context.pins = context.pins.saturating_sub(1));
        }
    }
}

impl Pinned for CampaignPin<'_> {
    fn cpu(&self) -> CpuId {
        self.cpu
    }

    fn node(&self) -> NodeId {
        self.node
    }
}

/// Interrupts of the CPU are held off while this lives.
pub(crate) struct CampaignIrq<'m>(&'m Engine);

impl Drop for CampaignIrq<'_> {
    fn drop(&mut self) {
        if let Some(thread) = self.0.thread() {
            thread.with(|context| context.irq_off = context.irq_off.saturating_sub(1));
        }
    }
}

impl Machine for Campaign {
    type U8 = CampaignWord<u8>;
    type U16 = CampaignWord<u16>;
    type U32 = CampaignWord<u32>;
    type U64 = CampaignWord<u64>;
    type Usize = CampaignWord<usize>;
    type Pin<'a> = CampaignPin<'a>;
    type Irq<'a> = CampaignIrq<'a>;
    type PerCpu<T> = NoPerCpu;

    fn pin(&self) -> CampaignPin<'_> {
        let engine = &*self.engine;
        let Some(thread) = engine.thread() else {
            return CampaignPin { engine, cpu: CpuId(0), node: self.node_of(0) };
        };
        let context = thread.context.get();
        if context.pins == 0 && matches!(context.armed, Some((Kind::CpuChanged, _))) {
            self.migrate_thread(thread);
        }
        thread.with(|context| context.pins += 1);
        let number = thread.cpu.get();
        let cpu = match context.level {
            Level::Task => CpuId(number),
            Level::Interrupt if self.apart && engine.plant != Some(Plant::SharedLists) => {
                CpuId(number + self.nodes.len() as u16)
            }
            Level::Interrupt => CpuId(number),
            Level::Nmi if engine.plant == Some(Plant::WaitingNmi) => CpuId(number),
            Level::Nmi => CpuId::NONE,
        };
        CampaignPin { engine, cpu, node: self.node_of(number) }
    }

    fn near(&self) -> NodeId {
        let cpu = self.engine.thread().map_or(0, |thread| thread.cpu.get());
        if self.engine.fires(Kind::NearIsFar) { NodeId(self.node_of(cpu).0 ^ 1) } else { self.node_of(cpu) }
    }

    fn irq_save(&self) -> CampaignIrq<'_> {
        if let Some(thread) = self.engine.thread() {
            thread.with(|context| context.irq_off += 1);
        }
        CampaignIrq(&self.engine)
    }

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn in_interrupt(&self) -> bool {
        self.engine.thread().is_some_and(|thread| thread.context.get().level != Level::Task)
    }

    /// Accesses take effect in the order in which they are made.
    fn fence(&self) {}

    fn may_fence(&self) -> bool {
        !self.engine.fires(Kind::FenceForbidden)
    }

    fn relax(&self) {
        self.engine.relax();
    }

    fn now(&self) -> u64 {
        let now = self.ahead.get() + self.engine.accesses.get() * NS;
        let engine = &self.engine;
        if engine.happens(Kind::ClockStopped, CLOCK) {
            self.stopped_at.set(Some(now));
        } else if engine.happens(Kind::ClockBack, CLOCK) {
            return now.saturating_sub(JUMP);
        } else if engine.happens(Kind::ClockAhead, CLOCK) {
            self.ahead.set(self.ahead.get() + JUMP);
        }
        self.stopped_at.get().unwrap_or(now)
    }

    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        // A clock that stands still goes on at last.
        self.stopped_at.take();
        if !self.engine.happens(Kind::SleepCutShort, CLOCK) {
            let now = self.ahead.get() + self.engine.accesses.get() * NS;
            self.ahead.set(self.ahead.get() + deadline.saturating_sub(now).min(JUMP));
        }
        let _ = waiter;
        self.engine.relax();
    }

    fn wake(&self, waiter: Waiter) {
        if let Some(world) = self.world() {
            world.woken(waiter);
        }
    }

    fn step(&self, _: Step) {
        if self.engine.fires(Kind::ThreadStopped) {
            self.engine.stop(STOPPED);
        }
    }

    fn lock(&self, lock: LockName, event: LockEvent) {
        let Some(thread) = self.engine.thread() else { return };
        let kind = match lock.kind {
            LockKind::Zone => Kind::ZoneHolderStopped,
            LockKind::Pcp => Kind::ListsHolderStopped,
            LockKind::Depot => Kind::DepotHolderStopped,
            _ => return,
        };
        match event {
            LockEvent::Taken => {
                thread.zone_locks.set(thread.zone_locks.get() + u32::from(lock.kind == LockKind::Zone));
                if self.engine.fires(kind) {
                    self.engine.stop(STOPPED);
                }
            }
            LockEvent::Released if lock.kind == LockKind::Zone => {
                thread.zone_locks.set(thread.zone_locks.get().saturating_sub(1));
            }
            _ => {}
        }
    }

    fn starts_zeroed(&self) -> bool {
        true
    }

    fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        if !self.engine.fires(Kind::WrittenAfterFree) {
            return true;
        }
        if let Some(world) = self.world() {
            world.frames.borrow_mut().quarantine(pfn, order);
        }
        false
    }

    fn reclaim(&self, need: &Need) -> Reclaimed {
        if self.engine.fires(Kind::ReclaimPanics) {
            resume_unwind(Box::new(OnPurpose));
        }
        Reclaimed { frames: self.world().map_or(0, |world| world.reclaim(need)) }
    }

    fn migrates(&self) -> bool {
        true
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        if self.engine.fires(Kind::MovePanics) {
            if self.engine.plant == Some(Plant::LostInPanic) {
                // The callee has the block at `to` from now on, and forgets it.
                return Ok(());
            }
            resume_unwind(Box::new(OnPurpose));
        }
        self.world().map_or(Err(Busy), |world| world.migrate(from, to, order))
    }

    fn fault(&self, point: Fault) -> bool {
        let kind = match point {
            Fault::Alloc => Kind::RequestFails,
            Fault::Refill => Kind::RefillFails,
            Fault::PcpBusy => Kind::ListsRefused,
            Fault::Isolate => Kind::IsolationFails,
            Fault::Drain => Kind::DrainFails,
            _ => return false,
        };
        self.engine.fires(kind)
    }
}
