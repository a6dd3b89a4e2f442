//! Interrupts: when handlers run, on which CPU, and which calls they may not make.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};

use framewright::error::Why;
use framewright::machine::{Machine, Pinned};
use framewright::request::{GFP_ATOMIC, GFP_KERNEL};
use framewright::units::{CpuId, NodeId, Order};
use framewright::{AllocError, Allocator, Config, FreeError, Layout, Region, Request};
use framewright_rt::interrupts::{self, InterruptError, Raised, Signal};
use framewright_rt::{Arena, CpuMode, Native, Storage};

const NODES: [NodeId; 3] = [NodeId(0); 3];

/// A signal to this thread, which has it before the call returns, unless it is blocked.
fn kill(signal: i32) {
    // SAFETY: a signal that has a handler, to a thread that is there.
    assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), signal) }, 0);
}

/// Like [`kill`], with a value.
fn queue(signal: i32, value: usize) {
    let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(value) };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_sigqueue(libc::pthread_self(), signal, value) }, 0);
}

/// Whether this thread's mask has a signal.
fn is_blocked(signal: i32) -> bool {
    // SAFETY: the set is filled before it is looked at.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
        libc::sigismember(&raw const mask, signal) == 1
    }
}

fn raise(handler: interrupts::Handler, value: usize) -> Result<Raised, InterruptError> {
    // SAFETY: the handlers of this file store words and use allocators with interrupts, if any.
    unsafe { interrupts::raise(handler, value) }
}

fn handle(signal: i32, handler: interrupts::Handler) -> Result<interrupts::Handling, InterruptError> {
    // SAFETY: as above.
    unsafe { interrupts::handle(signal, handler) }
}

#[test]
fn signals_wait_for_the_end_of_a_section_in_their_order() {
    static CAME: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    fn note(signal: &Signal) {
        assert!(interrupts::is_in() && is_blocked(libc::SIGUSR1));
        CAME[COUNT.fetch_add(1, SeqCst)].store(signal.value() + 1000 * signal.number() as usize, SeqCst);
    }
    let real_time = libc::SIGRTMIN() + 6;
    let _handling = [handle(libc::SIGURG, note).unwrap(), handle(real_time, note).unwrap()];
    queue(real_time, 1);
    assert_eq!(COUNT.load(SeqCst), 1);
    let before = interrupts::counts();
    let (outer, inner) = (interrupts::hold(), interrupts::hold());
    queue(real_time, 2);
    assert!(is_blocked(libc::SIGURG), "one was noted, so the kernel keeps the others");
    assert!(!is_blocked(libc::SIGSEGV));
    queue(real_time, 3);
    (0..3).for_each(|_| kill(libc::SIGURG));
    drop(outer);
    assert_eq!(COUNT.load(SeqCst), 1);
    drop(inner);
    // First the noted ones; then the pending ones, the standard signal once, as the kernel orders them.
    let came: Vec<usize> = CAME.iter().map(|value| value.load(SeqCst)).take(COUNT.load(SeqCst)).collect();
    let number = 1000 * real_time as usize;
    let mut expected = vec![number + 1, number + 2, 1000 * libc::SIGURG as usize, number + 3];
    let in_any_order = |mut values: Vec<usize>| {
        values.sort_unstable();
        values
    };
    assert_eq!(in_any_order(came.clone()), in_any_order(expected.clone()));
    expected.retain(|&value| value >= number);
    assert_eq!(came.into_iter().filter(|&value| value >= number).collect::<Vec<_>>(), expected, "values in order");
    assert!(!is_blocked(libc::SIGURG) && !is_blocked(real_time));
    assert!(interrupts::counts().deferred > before.deferred);
}

#[test]
fn handlers_do_not_nest() {
    static DEPTH: AtomicU32 = AtomicU32::new(0);
    static RAN: AtomicU32 = AtomicU32::new(0);
    fn outer(_: &Signal) {
        assert_eq!(DEPTH.fetch_add(1, SeqCst), 0);
        assert_eq!(raise(inner, 0), Ok(Raised::Deferred));
        kill(libc::SIGWINCH);
        // A section of its own does not let them in either.
        drop(interrupts::hold());
        assert_eq!(RAN.load(SeqCst), 0);
        DEPTH.fetch_sub(1, SeqCst);
    }
    fn inner(_: &Signal) {
        assert_eq!(DEPTH.load(SeqCst), 0);
        RAN.fetch_add(1, SeqCst);
    }
    let _handling = handle(libc::SIGWINCH, inner).unwrap();
    assert_eq!(raise(outer, 0), Ok(Raised::Ran));
    assert_eq!(RAN.load(SeqCst), 2);
    assert!(!interrupts::is_in() && !is_blocked(libc::SIGWINCH));
}

#[test]
fn more_than_can_wait_is_refused_and_nothing_is_lost() {
    static SUM: AtomicUsize = AtomicUsize::new(0);
    fn add(signal: &Signal) {
        SUM.fetch_add(signal.value(), SeqCst);
    }
    let _handling = handle(libc::SIGRTMIN() + 5, add).unwrap();
    let held = interrupts::hold();
    let raised: Vec<_> = (0..9).map(|at| raise(add, 1 << at)).collect();
    assert_eq!(raised[..7], [Ok(Raised::Deferred); 7]);
    assert_eq!(raised[7..], [Err(InterruptError::Full); 2]);
    assert!(InterruptError::Full.to_string().contains('7'));
    // There is room for a signal still.
    queue(libc::SIGRTMIN() + 5, 1 << 20);
    drop(held);
    assert_eq!(SUM.load(SeqCst), (1 << 7) - 1 + (1 << 20));
    assert_eq!(interrupts::counts().lost, 0);
}

#[test]
fn what_cannot_wait_is_refused_and_what_was_is_restored() {
    fn nothing(_: &Signal) {}
    for signal in [libc::SIGSEGV, libc::SIGTRAP, libc::SIGABRT] {
        assert_eq!(handle(signal, nothing).unwrap_err(), InterruptError::Synchronous(signal));
    }
    for signal in [libc::SIGKILL, 0, -1, 65, i32::MAX] {
        let error = handle(signal, nothing).unwrap_err();
        assert_eq!(error, InterruptError::Refused { signal, errno: libc::EINVAL }, "{error}");
    }
    let action = || {
        // SAFETY: the kernel fills the action, for which zeros are valid.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            assert_eq!(libc::sigaction(libc::SIGIO, std::ptr::null(), &raw mut action), 0);
            action.sa_sigaction
        }
    };
    let before = action();
    let handling = handle(libc::SIGIO, nothing).unwrap();
    assert_ne!(action(), before);
    drop(handling);
    assert_eq!(action(), before);
}

#[test]
fn a_handler_leaves_the_error_number_alone() {
    fn fail(_: &Signal) {
        // SAFETY: no such file descriptor.
        assert_eq!(unsafe { libc::close(-1) }, -1);
    }
    let _handling = handle(libc::SIGPROF, fail).unwrap();
    // SAFETY: the thread's own error number.
    unsafe { *libc::__errno_location() = libc::EXDEV };
    kill(libc::SIGPROF);
    let held = interrupts::hold();
    kill(libc::SIGPROF);
    drop(held);
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, libc::EXDEV);
}

/// Where an interrupt of this thread pins to, the CPU's number; none if the machine does not let it.
fn apart(machine: &Native) -> Option<u16> {
    static MACHINE: Mutex<usize> = Mutex::new(0);
    static CPUS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    fn look(signal: &Signal) {
        // SAFETY: the caller below keeps the machine until this has run.
        let machine = unsafe { &*std::ptr::with_exposed_provenance::<Native>(signal.value()) };
        assert!(machine.in_interrupt());
        let outer = machine.pin();
        CPUS[0].store(outer.cpu().0.into(), SeqCst);
        let inner = machine.pin();
        CPUS[1].store(inner.cpu().0.into(), SeqCst);
        drop(outer);
    }
    let one = MACHINE.lock().unwrap();
    let address = std::ptr::from_ref(machine).expose_provenance();
    assert_eq!(raise(look, address), Ok(Raised::Ran));
    let [outer, inner] = [0, 1].map(|at| CPUS[at].load(SeqCst) as u16);
    drop(one);
    if machine.mode() == CpuMode::Lease {
        assert_eq!(outer, inner);
    }
    (outer != u16::MAX).then_some(outer)
}

#[test]
fn an_interrupt_has_the_cpu_behind_that_of_its_thread() {
    let plain = Native::new(&NODES);
    assert_eq!((plain.pin().cpu(), apart(&plain), plain.has_interrupts()), (CpuId(0), None, false), "refused");
    let machine = Native::new(&NODES).with_interrupts();
    assert!(machine.has_interrupts() && machine.keeps_interrupts_apart());
    assert_eq!(machine.nodes().len(), 6);
    assert_eq!(apart(&machine), Some(5), "no lease yet: the last, which is shared");
    assert_eq!(machine.pin().cpu(), CpuId(0));
    assert_eq!((apart(&machine), machine.pin().cpu()), (Some(3), CpuId(0)));
    // The thread used another machine last.
    let other = Native::new(&NODES).with_interrupts();
    assert_eq!((other.pin().cpu(), apart(&machine), apart(&other)), (CpuId(0), Some(3), Some(3)));
    assert_eq!((plain.pin().cpu(), apart(&machine), apart(&plain)), (CpuId(0), Some(3), None));
    std::thread::scope(|scope| {
        let leases = scope.spawn(|| (machine.pin().cpu(), apart(&machine)));
        assert_eq!(leases.join().unwrap(), (CpuId(1), Some(4)));
        let leases = scope.spawn(|| (machine.pin().cpu(), apart(&machine)));
        assert_eq!(leases.join().unwrap(), (CpuId(1), Some(4)), "both were given back");
    });
    // SAFETY: the thread has no pin.
    assert!(unsafe { machine.give_up_lease() });
    assert_eq!(apart(&machine), Some(5));
}

#[test]
fn an_interrupt_finds_a_cpu_where_they_follow_the_processors() {
    let Ok(machine) = Native::per_cpu(1) else { return };
    let processors = machine.nodes().len() as u16;
    let pin = machine.pin();
    assert_eq!(apart(&machine), None, "refused, as the thread may be in the middle of a call");
    drop(pin);
    let machine = machine.with_interrupts();
    assert_eq!(machine.nodes().len(), 2 * usize::from(processors));
    for _ in 0..1000 {
        let pin = machine.pin();
        let cpu = apart(&machine).unwrap();
        assert_ne!(cpu, pin.cpu().0);
    }
    // All slots are free again.
    let pins: Vec<_> = (0..3).map(|_| machine.pin()).collect();
    drop(pins);
    assert!(apart(&machine).is_some());
}

#[test]
fn without_interrupts_a_handler_is_refused_and_nothing_changes() {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    fn ask(signal: &Signal) {
        // SAFETY: the test below keeps it until this has run.
        let pages = unsafe { &*std::ptr::with_exposed_provenance::<Allocator<'_, Native>>(signal.value()) };
        let nowhere = AllocError::no_memory(Why::NoCpu);
        assert_eq!(pages.alloc(&Request::page(GFP_ATOMIC)), Err(nowhere));
        assert_eq!(pages.alloc(&Request::new(GFP_ATOMIC, 9)), Err(nowhere));
        let page = framewright::Pfn(PAGE.load(SeqCst));
        assert_eq!(pages.free(page, Order(0)), Err(FreeError::NoCpu));
        assert!(pages.local().is_none());
        ASKED.fetch_add(1, SeqCst);
    }
    static PAGE: AtomicU64 = AtomicU64::new(0);
    let map = [Region::usable(0, 0x8000, 0)];
    let config = Config::new(&map, &NODES);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(Native::new(&NODES), &config, storage.parts()).unwrap();
    let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
    PAGE.store(page.0, SeqCst);
    assert_eq!(raise(ask, std::ptr::from_ref(&pages).expose_provenance()), Ok(Raised::Ran));
    assert_eq!(ASKED.load(SeqCst), 1);
    pages.free(page, Order(0)).unwrap();
    assert_eq!(pages.validate().unwrap().allocated, 0);
}

#[test]
fn a_handler_uses_an_arena() {
    static ARENA: Mutex<usize> = Mutex::new(0);
    static LENGTH: AtomicUsize = AtomicUsize::new(0);
    fn fill(signal: &Signal) {
        // SAFETY: the test below keeps it until this has run.
        let arena = unsafe { &*std::ptr::with_exposed_provenance::<Arena>(signal.value()) };
        let mut block = arena.alloc(&Request::new(GFP_ATOMIC, 3)).unwrap();
        block.fill(7);
        let local = arena.local().unwrap();
        local.free(local.alloc(&Request::page(GFP_ATOMIC)).unwrap());
        LENGTH.store(block.len(), SeqCst);
    }
    let _one = ARENA.lock().unwrap();
    let arena = Arena::builder().size(64 << 20).cpus(3).interrupts(true).build().unwrap();
    assert_eq!(arena.report().cpus, 6);
    let page = arena.alloc(&Request::page(GFP_KERNEL)).unwrap();
    assert_eq!(raise(fill, std::ptr::from_ref(&arena).expose_provenance()), Ok(Raised::Ran));
    assert_eq!(LENGTH.load(SeqCst), 8 * arena.page_size());
    drop(page);
    assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
}

/// Boots an allocator with interrupts for each way to a CPU, as far as they are to be had.
fn with_each(body: impl Fn(&Allocator<'_, Native>)) {
    let machines = [Some(Native::new(&NODES)), Native::per_cpu(1).ok()].into_iter().flatten();
    for machine in machines.map(Native::with_interrupts) {
        let (map, cpus) = ([Region::usable(0, 0x8000, 0)], machine.nodes().to_vec());
        let config = Config::new(&map, &cpus);
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let pages = Allocator::boot(machine, &config, storage.parts()).unwrap();
        body(&pages);
    }
}

/// A thread's first call of an allocator comes in its handler, then its own, and then both by turns.
#[test]
fn a_handler_may_make_the_first_call_of_its_thread() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    fn call(signal: &Signal) {
        // SAFETY: the test below keeps it until this has run.
        let pages = unsafe { &*std::ptr::with_exposed_provenance::<Allocator<'_, Native>>(signal.value()) };
        for _ in 0..3 {
            let kept = pages.alloc(&Request::page(GFP_ATOMIC)).unwrap();
            let page = pages.alloc_pages(GFP_ATOMIC, Order(0)).unwrap();
            pages.free(page, Order(0)).unwrap();
            pages.free(kept, Order(0)).unwrap();
        }
        CALLS.fetch_add(1, SeqCst);
    }
    with_each(|pages| {
        let address = std::ptr::from_ref(pages).expose_provenance();
        let calls = CALLS.load(SeqCst);
        for _ in 0..5 {
            let turns = || {
                for turn in 0..10 {
                    assert_eq!(raise(call, address), Ok(Raised::Ran));
                    // In the second half, between two calls of the thread on one list.
                    if turn >= 5 {
                        let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
                        assert_eq!(raise(call, address), Ok(Raised::Ran));
                        pages.free(page, Order(0)).unwrap();
                    }
                }
            };
            std::thread::scope(|scope| scope.spawn(turns).join().unwrap());
        }
        assert_eq!(CALLS.load(SeqCst) - calls, 75);
        assert_eq!(pages.validate().unwrap().allocated, 0);
    });
}

/// A child that a handler forks must not use the machine, also not by what the interrupted code had noted.
#[test]
fn a_child_that_a_handler_forked_refuses() {
    static CHILD: AtomicI32 = AtomicI32::new(-1);
    fn fork(_: &Signal) {
        // SAFETY: the child takes no lock, and ends by `_exit`.
        CHILD.store(unsafe { libc::fork() }, SeqCst);
    }
    with_each(|pages| {
        for _ in 0..3 {
            let page = pages.alloc(&Request::page(GFP_KERNEL)).unwrap();
            pages.free(page, Order(0)).unwrap();
        }
        let raised = raise(fork, 0);
        if CHILD.load(SeqCst) == 0 {
            let refused = AllocError::no_memory(Why::NoCpu);
            let refuses = (0..3).all(|_| pages.alloc(&Request::page(GFP_KERNEL)) == Err(refused));
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(!refuses)) };
        }
        assert_eq!(raised, Ok(Raised::Ran));
        let mut status = 0;
        // SAFETY: waits for the child and writes one number.
        assert_eq!(unsafe { libc::waitpid(CHILD.load(SeqCst), &raw mut status, 0) }, CHILD.load(SeqCst));
        let mode = pages.machine().mode();
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{mode:?}: {status:#x}");
    });
}

/// Signals of the parent while it forks are the parent's alone, and the child has its own interrupts.
#[test]
fn a_forks_child_starts_with_nothing_noted() {
    static RAN: AtomicI32 = AtomicI32::new(0);
    fn count(_: &Signal) {
        RAN.fetch_add(1, SeqCst);
    }
    let _handling = handle(libc::SIGALRM, count).unwrap();
    let machine = Native::new(&NODES).with_interrupts();
    drop(machine.pin());
    let held = interrupts::hold();
    kill(libc::SIGALRM);
    assert_eq!(raise(count, 0), Ok(Raised::Deferred));
    // SAFETY: the child takes no lock, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(held);
        let quiet = RAN.load(SeqCst) == 0 && !is_blocked(libc::SIGALRM);
        kill(libc::SIGALRM);
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(!(quiet && RAN.load(SeqCst) == 1))) };
    }
    drop(held);
    assert_eq!(RAN.load(SeqCst), 2);
    let mut status = 0;
    // SAFETY: waits for the child and writes one number.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
}
