//! Protocols of the user-space runtime, compiled from its own files: a lease, a wake-up, a table, and workers that end.
//!
//! | model | file of `framewright-rt` | what is handed over |
//! |---|---|---|
//! | `rt_lease` | `holder.rs` | a CPU of the allocator, or a line of a ledger, from one thread to the next |
//! | `rt_lease_freeze` | `holder.rs` | a CPU's lists between two threads, while a third freezes the allocator |
//! | `rt_wake`, `rt_wakes` | `waiters.rs` | what a thread wrote before it woke another |
//! | `rt_table` | `set_once.rs` | a value, to every thread that finds its entry |
//! | `rt_handler`, `rt_handler_back` | `interrupts/handler_word.rs` | what was done before a handler was set |
//! | `rt_abandoned` | `movable/note.rs` | a page whose handle is gone, to the one of two threads that frees it |
//! | `rt_workers` | `arena/workers.rs` | what background work did, to a caller that needs it at rest |
//!
//! Each hand-over has a payload, so loom reports a race where it is not ordered.

use std::time::Duration;

use framewright::machine::{Ordering, Waiter, Word};
use framewright::{Machine, NodeId};

use super::tiny;
use crate::explore::{Model, Part};
use crate::kept::{Note, Payload};
use crate::loom_machine::LoomMachine;
use crate::pointer::Pointer;
use crate::rt::handler_word::HandlerWord;
use crate::rt::holder::Holder;
use crate::rt::note::{Abandoned, Fenced};
use crate::rt::set_once::OnceTable;
use crate::rt::waiters::{Sleep, Waiters};
use crate::rt::workers::Workers;
use crate::running::{lease, running_cpu, switching};
use crate::stage::Stage;

type U8 = <LoomMachine as Machine>::U8;
type U32 = <LoomMachine as Machine>::U32;
type Usize = <LoomMachine as Machine>::Usize;

/// Models of one protocol each.
pub const MODELS: &[Model<Runtime>] = &[
    model("rt_lease", Runtime::new, cpus!(0[hold()], 1[hold()])),
    model("rt_wake", Runtime::new, cpus!(0[await_wake()], 1[write_and_wake()])),
    model("rt_wakes", Runtime::new, cpus!(0[look()], 1[write_and_wake()])),
    model("rt_table", Runtime::new, cpus!(0[enter()], 1[enter()])),
    model("rt_handler", Runtime::new, cpus!(0[set_handler()], 1[handle()])),
    model("rt_handler_back", Runtime::new, cpus!(0[set_handler()], 1[set_in_vain()], 2[handle()])),
    model("rt_abandoned", Runtime::locked, cpus!(0[drop_handle()], 1[use_and_unlock()])).check(Runtime::is_freed),
    model("rt_workers", Runtime::working, cpus!(0[end_work()], 1[rest()])),
];

/// Models of leases against a fork.
pub const LEASES: &[Model<Leases>] =
    &[Model::new("rt_lease_freeze", Leases::new, cpus!(0[free()], 1[alloc()], 2[freeze()]), Leases::check).bound(2)];

const fn model(name: &'static str, stage: fn() -> Runtime, threads: &'static [(u16, Part<Runtime>)]) -> Model<Runtime> {
    Model::new(name, stage, threads, Runtime::check)
}

impl Sleep for U32 {
    /// Wakes up early, and orders nothing, as a futex may.
    fn sleep_while(&self, _: u32, _: Duration) {
        switching(loom::thread::yield_now);
    }

    fn wake_all(&self) {}
}

impl Fenced for U8 {
    #[track_caller]
    fn fence(&self) {
        LoomMachine::default().fence();
    }
}

/// A pointer as a word of loom's.
struct LoomPointer(Usize);

// SAFETY: the word has the address that was stored.
unsafe impl<T> Pointer<T> for LoomPointer {
    #[track_caller]
    fn load(&self, order: Ordering) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.0.load(order))
    }

    #[track_caller]
    fn store(&self, new: *mut T, order: Ordering) {
        self.0.store(new.expose_provenance(), order);
    }

    #[track_caller]
    fn swap(&self, new: *mut T, order: Ordering) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.0.swap(new.expose_provenance(), order))
    }

    #[track_caller]
    fn set(&self, new: *mut T, order: Ordering) -> bool {
        self.0.cas(0, new.expose_provenance(), order).is_ok()
    }
}

/// Two equal values, of which one becomes an entry.
static VALUES: [u64; 2] = [7, 7];
const OWN: Waiter = Waiter::Kswapd(NodeId(0));

/// One of each protocol, and memory that is handed over.
pub struct Runtime {
    holder: Holder<Usize>,
    waiters: Waiters<U32>,
    table: OnceTable<LoomPointer, 2>,
    handler: HandlerWord<LoomPointer>,
    workers: Workers<Usize>,
    abandoned: Abandoned<U8>,
    /// The page's lock; 1 if it is held.
    lock: U32,
    /// Threads that freed the page.
    freed: Note<u32>,
    payload: Payload,
    of_values: [Payload; 2],
    /// The number that each thread was told.
    numbers: [Note<Option<usize>>; 2],
}

impl Runtime {
    fn new() -> Runtime {
        Runtime {
            holder: Holder::default(),
            waiters: Waiters::default(),
            table: OnceTable([0, 0].map(|address| LoomPointer(Word::new(address)))),
            handler: HandlerWord(LoomPointer(Word::new(0))),
            workers: Workers::default(),
            abandoned: Abandoned::default(),
            lock: Word::new(0),
            freed: Note::new(0),
            payload: Payload::default(),
            of_values: Default::default(),
            numbers: [None, None].map(Note::new),
        }
    }

    fn working() -> Runtime {
        let runtime = Runtime::new();
        runtime.workers.begin();
        runtime
    }

    fn locked() -> Runtime {
        let runtime = Runtime::new();
        runtime.lock.store(1, Ordering::Relaxed);
        runtime
    }

    /// Holds what the word guards, if no other thread does.
    fn hold(&self) {
        if self.holder.take(usize::from(running_cpu()) + 1).is_ok() {
            self.payload.write();
            self.holder.give_back();
        }
    }

    fn await_wake(&self) {
        self.waiters.wait(OWN, 0, Duration::MAX);
        self.payload.read();
    }

    fn look(&self) {
        if self.waiters.wakes(OWN) != 0 {
            self.payload.read();
        }
    }

    fn write_and_wake(&self) {
        self.payload.write();
        self.waiters.wake(OWN);
    }

    /// Enters a value of its own, or finds the other thread's.
    fn enter(&self) {
        let own = usize::from(running_cpu());
        let is_equal = |entry: &u64| {
            let at = usize::from(std::ptr::eq(entry, &raw const VALUES[1]));
            self.of_values[at].read();
            *entry == VALUES[own]
        };
        let make = || {
            self.of_values[own].write();
            &VALUES[own]
        };
        self.numbers[own].set(self.table.number_of(0, is_equal, make));
    }

    /// Sets the first handler, which needs the payload.
    fn set_handler(&self) {
        self.payload.write();
        self.handler.replace((&raw const VALUES[0]).cast_mut());
    }

    /// Sets the second handler, is refused, and puts the one before back.
    fn set_in_vain(&self) {
        let before = self.handler.replace((&raw const VALUES[1]).cast_mut());
        self.handler.put_back(before);
    }

    /// Runs the handler, as a signal does.
    fn handle(&self) {
        if self.handler.get().is_some_and(|handler| std::ptr::eq(handler.as_ptr(), &raw const VALUES[0])) {
            self.payload.read();
        }
    }

    fn end_work(&self) {
        self.payload.write();
        self.workers.end();
    }

    fn rest(&self) {
        if self.workers.is_none() {
            self.payload.write();
        }
    }

    /// Frees the page if its handle is gone and it is not locked.
    fn settle(&self) {
        if self.abandoned.is_noted() && self.lock.cas(0, 1, Ordering::Acquire).is_ok() {
            self.payload.write();
            self.freed.set(self.freed.get() + 1);
        }
    }

    fn drop_handle(&self) {
        self.abandoned.note();
        self.settle();
    }

    fn use_and_unlock(&self) {
        self.payload.write();
        self.lock.store(0, Ordering::Release);
        self.settle();
    }

    /// Checks that one thread freed the page.
    fn is_freed(&self) {
        assert_eq!(self.freed.get(), 1, "frees of the page");
    }

    /// Checks that nothing is held, and that equal values have one number.
    fn check(&self) {
        assert_eq!(self.holder.mark(), 0, "nobody holds it");
        let [first, second] = [0, 1].map(|thread| self.numbers[thread].get());
        assert_eq!(first, second, "one number for equal values");
    }
}

/// An allocator, and the lease of CPU 1 there. Another CPU's thread holds the allocator still.
pub struct Leases {
    stage: Stage,
    holder: Holder<Usize>,
}

impl Leases {
    /// One page is allocated, and CPU 1 keeps none.
    fn new() -> Leases {
        Leases { stage: tiny().then(does!([alloc_into(0, 0)])), holder: Holder::default() }
    }

    /// Does something on CPU 1, if no other thread leases it.
    fn leased(&self, act: impl FnOnce(&Stage)) {
        if self.holder.take(usize::from(running_cpu()) + 1).is_ok() {
            lease(Some(1));
            act(&self.stage);
            lease(None);
            self.holder.give_back();
        }
    }

    fn free(&self) {
        self.leased(|stage| stage.free_from(0));
    }

    fn alloc(&self) {
        self.leased(|stage| stage.alloc_into(1, 0));
    }

    fn freeze(&self) {
        self.stage.freeze();
    }

    fn check(&self) {
        self.stage.check();
    }
}
