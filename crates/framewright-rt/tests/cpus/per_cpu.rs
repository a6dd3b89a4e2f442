//! CPUs that follow the processors: no two threads on one, whatever the scheduler does.
//!
//! Where the kernel has no restartable sequences, there is nothing to test and the tests say so.

use std::cell::{RefCell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::{Barrier, Once, OnceLock};

use framewright::machine::{Machine, Pinned};
use framewright::request::GFP_KERNEL;
use framewright::units::{CpuId, NodeId, Order, Pfn};
use framewright::{Allocator, Config, Layout, Region, Request};
use framewright_rt::{CpuMode, Native, Storage};

fn machine() -> Option<Native> {
    Native::per_cpu(1).inspect_err(|error| eprintln!("not tested: {error}")).ok()
}

/// A counter for each CPU, which the pinned thread writes without synchronisation.
struct Cells(Vec<UnsafeCell<u64>>);

// SAFETY: only the thread that is pinned to a CPU uses its cell. The test is that this suffices.
unsafe impl Sync for Cells {}

impl Cells {
    fn new(machine: &Native) -> Cells {
        Cells(machine.nodes().iter().map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, cpu: CpuId) {
        let cell = &self.0[cpu.index()];
        // SAFETY: see above.
        let count = unsafe { cell.get().read_volatile() };
        // Long enough that many are stopped here: additions of another thread in between would be lost.
        (0..10).for_each(|_| std::hint::spin_loop());
        // SAFETY: see above.
        unsafe { cell.get().write_volatile(count + 1) };
    }

    fn total(self) -> u64 {
        self.0.into_iter().map(UnsafeCell::into_inner).sum()
    }
}

/// The processors that this process may use.
fn processors() -> &'static [usize] {
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    ALLOWED.get_or_init(|| {
        // SAFETY: a set of processors is a bit set that may be zero, and the calls read and write no more than it.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(libc::getpid(), size_of_val(&set), &raw mut set), 0);
            (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
        }
    })
}

/// Moves a thread to one processor, or lets it run on all again.
fn move_to(thread: i32, processor: Option<usize>) {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &each in processors().iter().filter(|&&each| processor.is_none_or(|one| one == each)) {
            libc::CPU_SET(each, &mut set);
        }
        // Where it is not allowed nothing moves.
        let _ = libc::sched_setaffinity(thread, size_of_val(&set), &raw const set);
    }
}

/// One of them, in turn.
fn processor(turn: usize) -> Option<usize> {
    processors().get(turn % processors().len()).copied()
}

fn thread_id() -> i32 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() }
}

extern "C" fn yield_here(_: libc::c_int) {
    // SAFETY: no more than a system call.
    unsafe { libc::sched_yield() };
}

/// Interrupts a thread wherever it is: the signal's handler lets another thread run.
fn interrupt(thread: i32) {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        let handler: extern "C" fn(libc::c_int) = yield_here;
        // SAFETY: the handler may run at any time, for it touches nothing.
        unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    });
    // SAFETY: a signal that has a handler; a thread that is gone does not get it.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
}

#[test]
fn threads_that_are_moved_about_count_exactly() {
    const THREADS: usize = 8;
    const TURNS: u64 = 100_000;
    let Some(machine) = machine() else { return };
    assert_eq!(machine.mode(), CpuMode::PerCpu);
    let cells = Cells::new(&machine);
    let ids = [const { AtomicI32::new(0) }; THREADS];
    let over = AtomicBool::new(false);
    let expected = std::thread::scope(|scope| {
        let counters: Vec<_> = (0..THREADS as u64)
            .map(|thread| {
                let (machine, cells, id) = (&machine, &cells, &ids[thread as usize]);
                scope.spawn(move || {
                    id.store(thread_id(), SeqCst);
                    for turn in 0..TURNS {
                        let pin = machine.pin();
                        cells.add(pin.cpu());
                        if turn % 1024 == thread {
                            // Stopped inside, and somewhere else when it goes on.
                            std::thread::yield_now();
                            drop(machine.pin());
                            cells.add(pin.cpu());
                        }
                    }
                    (0..TURNS).filter(|turn| turn % 1024 == thread).count() as u64
                })
            })
            .collect();
        scope.spawn(|| {
            for turn in 0_usize.. {
                if over.load(SeqCst) {
                    break;
                }
                let thread = ids[turn % THREADS].load(SeqCst);
                if thread != 0 {
                    interrupt(thread);
                    if turn % 64 < THREADS {
                        move_to(thread, processor(turn / 64).filter(|_| turn % 3 != 0));
                    }
                }
            }
        });
        let more: u64 = counters.into_iter().map(|counter| counter.join().unwrap()).sum();
        over.store(true, SeqCst);
        THREADS as u64 * TURNS + more
    });
    assert_eq!(cells.total(), expected);
}

#[test]
fn pins_of_one_thread_nest_and_end_in_any_order() {
    let Some(machine) = machine() else { return };
    move_to(0, processor(0));
    let pins: Vec<_> = (0..5).map(|_| machine.pin()).collect();
    let mine = pins[0].cpu();
    assert!(pins.iter().all(|pin| pin.cpu() == mine));
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            move_to(0, processor(0));
            assert_ne!(machine.pin().cpu(), mine, "a spare");
            barrier.wait();
            barrier.wait();
            assert_eq!(machine.pin().cpu(), mine, "free again");
        });
        barrier.wait();
        let mut pins = pins;
        for index in [2, 0, 1, 1, 0] {
            drop(pins.remove(index));
        }
        barrier.wait();
    });
    move_to(0, None);
}

/// A thread that has a CPU already never waits for a spare: otherwise these would wait for each other.
#[test]
fn threads_that_nest_everywhere_do_not_deadlock() {
    let Some(machine) = machine() else { return };
    std::thread::scope(|scope| {
        for thread in 0..12 {
            let machine = &machine;
            scope.spawn(move || {
                for turn in 0..200 {
                    let _pins: Vec<_> = (0..4)
                        .map(|depth| {
                            move_to(0, processor(thread + turn + depth));
                            machine.pin()
                        })
                        .collect();
                }
            });
        }
    });
}

#[test]
fn every_cpu_has_a_node_that_the_memory_has() {
    for nodes in [1, 2] {
        let Ok(machine) = Native::per_cpu(nodes) else { return };
        assert!(machine.nodes().len() > processors().len());
        assert!(machine.nodes().iter().all(|node| node.index() < nodes));
        assert!(machine.pin().node().index() < nodes);
    }
}

#[test]
fn auto_falls_back_to_leases() {
    let leased = [NodeId(0); 3];
    let machine = Native::auto(1, &leased);
    match machine.mode() {
        CpuMode::PerCpu => assert!(Native::per_cpu(1).is_ok()),
        CpuMode::Lease => assert_eq!(machine.nodes(), leased),
    }
}

/// Pins the machine when its thread exits.
struct AtExit(&'static Native);

impl Drop for AtExit {
    fn drop(&mut self) {
        assert!(self.0.pin().cpu().index() < self.0.nodes().len());
    }
}

#[test]
fn destructors_of_thread_locals_may_pin() {
    thread_local!(static LAST: RefCell<Option<AtExit>> = const { RefCell::new(None) });
    let Some(machine) = machine() else { return };
    let machine: &'static Native = Box::leak(Box::new(machine));
    for _ in 0..20 {
        let thread = std::thread::spawn(move || LAST.set(Some(AtExit(machine))));
        thread.join().unwrap();
    }
}

#[test]
fn an_allocator_loses_nothing() {
    let Some(machine) = machine() else { return };
    let map = [Region::usable(0x100000, 0x110000, 0)];
    let cpus = machine.nodes().to_vec();
    let config = Config::new(&map, &cpus);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(machine, &config, storage.parts()).unwrap();
    let before = pages.validate().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let pages = &pages;
            scope.spawn(move || {
                let mut held: Vec<(Pfn, Order)> = Vec::new();
                for turn in 0..10_000_u64 {
                    if held.len() > 60 || (turn % 3 == 0 && !held.is_empty()) {
                        let (pfn, order) = held.swap_remove((turn * 31 % held.len() as u64) as usize);
                        pages.free(pfn, order).unwrap();
                    } else {
                        let order = [0, 0, 0, 1, 3, 9][((turn + thread) % 6) as usize];
                        let pfn = pages.alloc(&Request::new(GFP_KERNEL, order));
                        held.extend(pfn.map(|pfn| (pfn, Order(order))));
                    }
                    if turn % 997 == thread {
                        pages.drain_all();
                    }
                }
                held.into_iter().for_each(|(pfn, order)| pages.free(pfn, order).unwrap());
            });
        }
    });
    pages.drain_all();
    assert_eq!(pages.validate().unwrap().free, before.free);
}
