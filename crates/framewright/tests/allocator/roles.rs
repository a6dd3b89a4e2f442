//! A machine whose one thread plays every CPU, with a value for each CPU or without.
//!
//! So a test compares the calls of both kinds of machine word by word. The machine also notes which blocks the
//! allocator zeroed or filled, what it told of its zones, and how often it tried a zone or
//! asked for reclaim.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::rc::Rc;

use framewright::machine::{FreeChange, LockEvent, LockName, Machine, Need, Operation, PerCpu, Reclaimed, Step};
use framewright::units::{CpuId, MigrateType, NodeId, Order, Pfn, ZoneIdx};
use framewright_rt::Solo;

use crate::seam::assert_in_turn;
use crate::told::Told;

/// Whether a machine keeps a value for each CPU.
// Not a constant parameter, which incremental builds of some compilers do not get over.
pub(crate) trait Keeping: 'static {
    const KEPT: bool;
}

pub(crate) struct Kept;
pub(crate) struct Unkept;

impl Keeping for Kept {
    const KEPT: bool = true;
}

impl Keeping for Unkept {
    const KEPT: bool = false;
}

/// The machine.
pub(crate) struct Roles<K: Keeping> {
    solo: Solo<'static>,
    cpu: Rc<Cell<CpuId>>,
    zeroed: RefCell<Vec<(Pfn, Order)>>,
    /// Frames that hold the pattern of freed memory, or zeros.
    filled: RefCell<BTreeSet<u64>>,
    pub(crate) told: RefCell<Told>,
    pub(crate) reclaims: Cell<u64>,
    /// Whether its calls come from an interrupt.
    pub(crate) interrupted: Cell<bool>,
    /// Requests that tried a zone: none that the fast path serves.
    pub(crate) zone_tries: Cell<u64>,
    /// The last event of each lock.
    locks: RefCell<BTreeMap<LockName, LockEvent>>,
    keeping: PhantomData<K>,
}

impl<K: Keeping> Roles<K> {
    pub(crate) fn new(cpus: &[NodeId]) -> Self {
        Roles {
            solo: Solo::new(cpus),
            cpu: Rc::default(),
            zeroed: RefCell::default(),
            filled: RefCell::default(),
            told: RefCell::default(),
            reclaims: Cell::default(),
            interrupted: Cell::default(),
            zone_tries: Cell::default(),
            locks: RefCell::default(),
            keeping: PhantomData,
        }
    }

    /// Calls from now on come from `cpu`.
    pub(crate) fn run_on(&self, cpu: CpuId) {
        self.cpu.set(cpu);
        self.solo.run_on(cpu);
    }

    /// The blocks that were zeroed since the last call.
    pub(crate) fn take_zeroed(&self) -> Vec<(Pfn, Order)> {
        self.zeroed.take()
    }

    /// Writes to a frame, whoever owns it.
    pub(crate) fn write(&self, pfn: Pfn) {
        self.filled.borrow_mut().remove(&pfn.0);
    }

    /// Whether a frame holds the pattern or zeros.
    pub(crate) fn is_filled(&self, pfn: Pfn) -> bool {
        self.filled.borrow().contains(&pfn.0)
    }
}

/// The values of such a machine.
pub(crate) struct RoleValues<T, K: Keeping> {
    values: Vec<T>,
    cpu: Rc<Cell<CpuId>>,
    /// Whether an operation uses a value.
    in_use: Cell<bool>,
    keeping: PhantomData<K>,
}

impl<T, K: Keeping> PerCpu<T, Roles<K>> for RoleValues<T, K> {
    const IS_KEPT: bool = K::KEPT;

    fn new(machine: &Roles<K>, cpus: usize, make: impl FnMut(CpuId) -> Option<T>) -> Self {
        let numbers = (0..cpus as u16).map(CpuId);
        let values = if K::KEPT { numbers.map_while(make).collect() } else { Vec::new() };
        RoleValues { values, cpu: Rc::clone(&machine.cpu), in_use: Cell::new(false), keeping: PhantomData }
    }

    fn with<O: Operation<T>>(&self, operation: O) -> Option<O::Output> {
        assert!(!self.in_use.replace(true), "an operation on a value calls the allocator");
        let result = self.values.get(self.cpu.get().index()).and_then(|value| operation.run(value));
        self.in_use.set(false);
        result
    }
}

impl<K: Keeping> Machine for Roles<K> {
    type U8 = <Solo<'static> as Machine>::U8;
    type U16 = <Solo<'static> as Machine>::U16;
    type U32 = <Solo<'static> as Machine>::U32;
    type U64 = <Solo<'static> as Machine>::U64;
    type Usize = <Solo<'static> as Machine>::Usize;
    type Pin<'a> = <Solo<'static> as Machine>::Pin<'a>;
    type Irq<'a> = <Solo<'static> as Machine>::Irq<'a>;
    type PerCpu<T> = RoleValues<T, K>;

    fn pin(&self) -> Self::Pin<'_> {
        self.solo.pin()
    }

    fn irq_save(&self) -> Self::Irq<'_> {
        self.solo.irq_save()
    }

    fn keeps_interrupts_apart(&self) -> bool {
        true
    }

    fn in_interrupt(&self) -> bool {
        self.interrupted.get()
    }

    fn fence(&self) {}

    fn may_fence(&self) -> bool {
        true
    }

    fn zero(&self, pfn: Pfn, order: Order) {
        self.zeroed.borrow_mut().push((pfn, order));
        self.poison(pfn, order);
    }

    fn step(&self, step: Step) {
        self.zone_tries.set(self.zone_tries.get() + u64::from(step == Step::ZoneTry));
    }

    fn poison(&self, pfn: Pfn, order: Order) {
        self.filled.borrow_mut().extend(pfn.0..pfn.add(order.frames()).0);
    }

    fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        let filled = self.filled.borrow();
        (pfn.0..pfn.add(order.frames()).0).all(|pfn| filled.contains(&pfn))
    }

    // The one thread finds each lock free.
    fn lock(&self, lock: LockName, event: LockEvent) {
        assert_in_turn(&mut self.locks.borrow_mut(), lock, event);
    }

    fn free_changed(&self, zone: ZoneIdx, change: FreeChange) {
        self.told.borrow_mut().free_changed(zone, change);
    }

    fn retyped(&self, pfn: Pfn, migratetype: MigrateType) {
        self.told.borrow_mut().retyped(pfn, migratetype);
    }

    fn reclaim(&self, _: &Need) -> Reclaimed {
        self.reclaims.set(self.reclaims.get() + 1);
        Reclaimed { frames: 0 }
    }
}
