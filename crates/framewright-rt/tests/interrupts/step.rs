//! An interrupt at every instruction of the allocator's calls.
//!
//! The processor stops after each instruction while its trap flag (`TF`) is set, and the kernel makes a `SIGTRAP` of
//! that. So an operation is counted first, instruction by instruction. Then it is repeated, and at instruction k
//! another call is made as an interrupt of the thread ([`interrupts::raise`]). The interrupt runs at once, or at the
//! end of the section in which k lies.
//!
//! A short operation meets one interrupt in each run, so every instruction of its undisturbed path is met. A long one
//! would take as many steps as the square of its instructions. So each of its runs has interrupts at k, k + s, k + 2s
//! and so on, and there are s runs. An interrupt may change the path after it (a list that it emptied). So the
//! instructions met are those of the disturbed paths, and a few of the undisturbed one may be missed.
//!
//! After an interrupt that has to wait for the end of its section, the next comes later, so that the section ends at
//! all. Where seven wait already, further ones are refused. The test prints the points of each kind.
//!
//! After each run everything is freed, and the whole allocator validated. A mark for each frame finds one that is
//! handed out twice. The control lets the interrupt use the lists of the CPU that it met, and must fail.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use framewright::request::{__GFP_ZERO, GFP_ATOMIC, GFP_KERNEL, NodeSet, Policy};
use framewright::units::{CpuId, NodeId, Order, Pfn, ZoneIdx, ZoneKind};
use framewright::watermark::PcpSize;
use framewright::{AllocError, Allocator, Config, Geometry, Layout, Region, Request, Tuning};
use framewright_rt::interrupts::{self, Raised, Signal};
use framewright_rt::{Native, Storage};

use crate::trap_flag::{TRAP, is_stepped, set_stepped};

type Pages = Allocator<'static, Native>;

const FRAMES: usize = 2048;
const START: u64 = 0x10_0000;
const PAGEBLOCK: Order = Order(4);
/// Steps that one pair of calls may take, about; and the least distance of two interrupts in one run.
const STEPS_OF_PAIR: u64 = 20_000;
const NEAREST: u64 = 4;
/// Instructions in which one that waited has been served for sure.
const SERVED: u64 = 512;
/// Blocks that interrupts keep.
const KEPT: usize = 32;

/// The allocator in use; the interrupts' call; whether they come as such, or are the control.
static PAGES: AtomicPtr<Pages> = AtomicPtr::new(std::ptr::null_mut());
static NESTED: AtomicUsize = AtomicUsize::new(0);
static APART: AtomicBool = AtomicBool::new(true);
/// Instructions so far, the next to be interrupted, and the distance to the one after; 0 for none.
static STEP: AtomicU64 = AtomicU64::new(0);
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);
static STRIDE: AtomicU64 = AtomicU64::new(0);
/// Interrupts that ran at once, late, and that were refused because as many waited as can.
static CAME: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// Something that must not be: a block handed out twice, a call that failed.
static WRONG: AtomicU64 = AtomicU64::new(0);
/// Whether a frame begins a block that has an owner.
static OWNED: [AtomicBool; FRAMES] = [const { AtomicBool::new(false) }; FRAMES];
/// Blocks that interrupts keep, in turn: a frame, or 0.
static KEEP: [AtomicU64; KEPT] = [const { AtomicU64::new(0) }; KEPT];
static TURN: AtomicUsize = AtomicUsize::new(0);

fn expect(is_so: bool) {
    WRONG.fetch_add(u64::from(!is_so), Relaxed);
}

fn pages() -> &'static Pages {
    // SAFETY: set before any call of this, to an allocator that is never freed.
    unsafe { &*PAGES.load(Relaxed) }
}

fn mark(pfn: Pfn, owned: bool) {
    expect(OWNED[(pfn.0 - START) as usize].swap(owned, Relaxed) != owned);
}

fn take(request: &Request) -> Option<Pfn> {
    let taken = pages().alloc(request).ok();
    expect(taken.is_some());
    taken.inspect(|&pfn| mark(pfn, true))
}

fn give(pfn: Pfn, order: Order) {
    mark(pfn, false);
    expect(pages().free(pfn, order).is_ok());
}

/// The calls of interrupts: name and function.
const INTERRUPTS: [(&str, fn()); 6] = [
    ("alloc", keep_one),
    ("free", free_one),
    ("bulk", bulk),
    ("order 3", || pair(Order(3))),
    ("pageblock", || pair(PAGEBLOCK)),
    ("policy", || {
        let policy = Policy::Interleave(NodeSet::only(NodeId(0)));
        if let Some(pfn) = take(&Request { policy, ..Request::page(GFP_ATOMIC) }) {
            give(pfn, Order(0));
        }
    }),
];

/// Calls that any context may make: these come as no interrupt, but right there, inside of sections as well.
const ANYWHERE: [(&str, fn()); 2] = [("alloc_nolock", keep_one_nolock), ("free_nolock", free_one_nolock)];

fn keep_one_nolock() {
    let pfn = match pages().alloc_nolock(&Request::page(GFP_ATOMIC)) {
        Ok(pfn) => pfn,
        Err(error) => return expect(matches!(error, AllocError::Locked | AllocError::NoMemory { .. })),
    };
    mark(pfn, true);
    give_nolock(KEEP[TURN.fetch_add(1, Relaxed) % KEPT].swap(pfn.0, Relaxed));
}

fn free_one_nolock() {
    match KEEP.iter().map(|kept| kept.swap(0, Relaxed)).find(|&kept| kept != 0) {
        Some(kept) => give_nolock(kept),
        None => keep_one_nolock(),
    }
}

fn give_nolock(pfn: u64) {
    if pfn != 0 {
        mark(Pfn(pfn), false);
        expect(pages().free_nolock(Pfn(pfn), Order(0)).is_ok());
    }
}

/// Allocates a page that is freed some interrupts later.
fn keep_one() {
    let Some(pfn) = take(&Request::page(GFP_ATOMIC)) else { return };
    let turn = TURN.fetch_add(1, Relaxed);
    let before = KEEP[turn % KEPT].swap(pfn.0, Relaxed);
    if before != 0 {
        give(Pfn(before), Order(0));
    }
}

/// Frees a page that was allocated before, outside.
fn free_one() {
    match KEEP.iter().map(|kept| kept.swap(0, Relaxed)).find(|&kept| kept != 0) {
        Some(kept) => give(Pfn(kept), Order(0)),
        None => keep_one(),
    }
}

fn bulk() {
    let mut some = [Pfn(0); 6];
    let served = pages().alloc_bulk(&Request::page(GFP_ATOMIC), &mut some).unwrap_or(0);
    expect(served == some.len());
    some[..served].iter().for_each(|&pfn| mark(pfn, true));
    some[..served].iter().for_each(|&pfn| mark(pfn, false));
    expect(pages().free_bulk(&some[..served], Order(0)).freed == served);
}

fn pair(order: Order) {
    if let Some(pfn) = take(&Request::new(GFP_ATOMIC, order.0)) {
        give(pfn, order);
    }
}

fn interrupt(_: &Signal) {
    // An interrupt that waited for the end of a section runs in the thread, and need not be stepped through.
    let stepped = is_stepped();
    if stepped {
        set_stepped(false);
    }
    INTERRUPTS[NESTED.load(Relaxed)].1();
    if stepped {
        set_stepped(true);
    }
}

/// Called after each instruction of an operation.
extern "C" fn trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // One that waited for the end of a section is none of the operation's.
    if interrupts::is_in() {
        return;
    }
    let step = STEP.fetch_add(1, Relaxed);
    if step != NEXT.load(Relaxed) {
        return;
    }
    match STRIDE.load(Relaxed) {
        0 => {
            // SAFETY: the context is the kernel's, and a handler may change it.
            unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP };
        }
        stride => NEXT.store(step + stride, Relaxed),
    }
    if let Some((_, call)) = NESTED.load(Relaxed).checked_sub(INTERRUPTS.len()).and_then(|at| ANYWHERE.get(at)) {
        call();
        CAME[0].fetch_add(1, Relaxed);
        return;
    }
    if !APART.load(Relaxed) {
        interrupt(&Signal::default());
        return;
    }
    // SAFETY: the handler uses an allocator with interrupts, and words.
    let kind = match unsafe { interrupts::raise(interrupt, 0) } {
        Ok(Raised::Ran) => 0,
        Ok(Raised::Deferred) => 1,
        Err(_) => 2,
    };
    CAME[kind].fetch_add(1, Relaxed);
    let stride = STRIDE.load(Relaxed);
    if kind != 0 && stride != 0 {
        // To serve one that waited takes instructions too. If as many came meanwhile, the section would never end.
        NEXT.store(step + stride + SERVED, Relaxed);
    }
}

/// Runs an operation step by step. Returns the number of its instructions, if it was stepped to its end.
fn stepped(next: u64, stride: u64, operation: impl FnOnce()) -> u64 {
    STEP.store(0, Relaxed);
    NEXT.store(next, Relaxed);
    STRIDE.store(stride, Relaxed);
    set_stepped(true);
    operation();
    set_stepped(false);
    STEP.load(Relaxed)
}

/// The blocks of the interrupted thread.
struct Scene {
    held: [Pfn; 64],
    count: usize,
    /// How many pages are freed before the one that overflows.
    overflow: usize,
}

impl Scene {
    fn take(&mut self, request: &Request) {
        if let Some(pfn) = take(request) {
            self.held[self.count] = pfn;
            self.count += 1;
        }
    }

    fn give_last(&mut self, order: Order) {
        self.count -= 1;
        give(self.held[self.count], order);
    }

    fn fill(&mut self, count: usize) {
        (0..count).for_each(|_| self.take(&Request::page(GFP_KERNEL)));
    }

    fn warm(&mut self) {
        self.fill(4);
        (0..4).for_each(|_| self.give_last(Order(0)));
    }
}

/// An operation: its name, its preparation, the call, and the order of the blocks it leaves.
struct Operation {
    name: &'static str,
    prepare: fn(&mut Scene),
    call: fn(&mut Scene),
    order: Order,
}

const fn operation(name: &'static str, prepare: fn(&mut Scene), call: fn(&mut Scene)) -> Operation {
    Operation { name, prepare, call, order: Order(0) }
}

fn drained(_: &mut Scene) {
    pages().drain_all();
}

const OPERATIONS: [Operation; 14] = [
    operation("alloc, hit", Scene::warm, |scene| scene.take(&Request::page(GFP_KERNEL))),
    operation("alloc, refill", drained, |scene| scene.take(&Request::page(GFP_KERNEL))),
    Operation {
        order: Order(3),
        ..operation("alloc, order 3", drained, |scene| scene.take(&Request::new(GFP_KERNEL, 3)))
    },
    Operation {
        order: PAGEBLOCK,
        ..operation("alloc, pageblock", drained, |scene| scene.take(&Request::new(GFP_KERNEL, PAGEBLOCK.0)))
    },
    Operation {
        order: Order(6),
        ..operation("alloc, above lists", drained, |scene| scene.take(&Request::new(GFP_KERNEL, 6)))
    },
    operation("alloc, zeroed", Scene::warm, |scene| scene.take(&Request::page(GFP_KERNEL | __GFP_ZERO))),
    operation("alloc, policy", Scene::warm, |scene| {
        let policy = Policy::Bind(NodeSet::only(NodeId(0)));
        scene.take(&Request { policy, ..Request::page(GFP_KERNEL) });
    }),
    operation(
        "free, hit",
        |scene| {
            scene.warm();
            scene.fill(1);
        },
        |scene| scene.give_last(Order(0)),
    ),
    operation("free, over high", before_overflow, |scene| scene.give_last(Order(0))),
    operation("bulk alloc", drained, |scene| {
        let Ok(served) = pages().alloc_bulk(&Request::page(GFP_KERNEL), &mut scene.held[..12]) else {
            return expect(false);
        };
        scene.held[..served].iter().for_each(|&pfn| mark(pfn, true));
        scene.count = served;
    }),
    operation(
        "bulk free",
        |scene| scene.fill(12),
        |scene| {
            scene.held[..scene.count].iter().for_each(|&pfn| mark(pfn, false));
            expect(pages().free_bulk(&scene.held[..scene.count], Order(0)).refused == 0);
            scene.count = 0;
        },
    ),
    operation("drain a CPU", Scene::warm, |_| {
        pages().drain_cpu(CpuId(0));
    }),
    operation("drain all", Scene::warm, |_| {
        pages().drain_all();
    }),
    operation("statistics", Scene::warm, |_| {
        pages().refresh_statistics(CpuId(0));
    }),
];

/// Fills the lists until the next free overflows.
fn before_overflow(scene: &mut Scene) {
    drained(scene);
    scene.fill(60);
    (0..scene.overflow).for_each(|_| scene.give_last(Order(0)));
}

/// Runs one test at a time, because the statics of this file exist once.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let function: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = trap;
    // SAFETY: an action of zeros is valid, and the handler may be called after any instruction of this file's
    // operations.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = function as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
    }
    one
}

/// A fresh allocator with small lists, which is never freed.
fn boot() -> Scene {
    let machine = Native::new(&[NodeId(0); 3]).with_interrupts();
    let map = [Region::usable(START, START + FRAMES as u64, 0)];
    let cpus = machine.nodes().to_vec();
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
    let pcp = Some(PcpSize { high: 16, batch: 4 });
    let config = Config {
        geometry: Geometry { page_shift: 12, max_order: Order(8), pageblock_order: PAGEBLOCK },
        min_free_kbytes: Some(0),
        watermark_scale_factor: 0,
        tuning: &[Tuning { zone, marks: None, reserve: None, pcp }],
        ..Config::new(&map, &cpus)
    };
    let storage = Box::leak(Box::new(Storage::new(&Layout::of(&config).unwrap())));
    let pages = Box::leak(Box::new(Allocator::boot(machine, &config, storage.parts()).unwrap()));
    PAGES.store(pages, Relaxed);
    WRONG.store(0, Relaxed);
    OWNED.iter().for_each(|owned| owned.store(false, Relaxed));
    KEEP.iter().for_each(|kept| kept.store(0, Relaxed));
    Scene { held: [Pfn(0); 64], count: 0, overflow: 0 }
}

/// Runs an operation with its preparation and interrupts, and frees everything. Returns its instructions.
fn run(scene: &mut Scene, operation: &Operation, (next, stride): (u64, u64)) -> u64 {
    for kept in &KEEP[..KEPT / 2] {
        if let Some(pfn) = take(&Request::page(GFP_KERNEL)) {
            kept.store(pfn.0, Relaxed);
        }
    }
    (operation.prepare)(scene);
    let steps = stepped(next, stride, || (operation.call)(scene));
    let rest = if operation.name.starts_with("alloc") { operation.order } else { Order(0) };
    while scene.count > 0 {
        scene.give_last(rest);
    }
    for kept in &KEEP {
        match kept.swap(0, Relaxed) {
            0 => {}
            pfn => give(Pfn(pfn), Order(0)),
        }
    }
    steps
}

/// Whether nothing is wrong and nothing is lost.
fn is_sound() -> bool {
    // The next holder of the zone lock takes back the blocks that were freed while it was held.
    pair(Order(6));
    WRONG.load(Relaxed) == 0 && pages().validate().is_ok_and(|census| census.allocated == 0 && census.in_flight == 0)
}

/// Finds the free with the most instructions, of those from a full ring to an empty one.
fn find_overflow(scene: &mut Scene) {
    let Some(operation) = OPERATIONS.iter().find(|operation| operation.name == "free, over high") else { return };
    let mut longest = (0, 0);
    for overflow in 0..56 {
        scene.overflow = overflow;
        longest = longest.max((run(scene, operation, (u64::MAX, 0)), overflow));
    }
    scene.overflow = longest.1;
}

fn came() -> [u64; 3] {
    CAME.each_ref().map(|count| count.load(Relaxed))
}

/// Makes a call at every instruction of an operation; returns the counts as text.
fn sweep(scene: &mut Scene, operation: &Operation, steps: u64, (nested, name): (usize, &str)) -> String {
    let stride = if steps * steps / 2 <= STEPS_OF_PAIR { 0 } else { (STEPS_OF_PAIR / steps).max(NEAREST) };
    let runs = if stride == 0 { steps } else { stride };
    NESTED.store(nested, Relaxed);
    let before = came();
    for at in 0..runs {
        run(scene, operation, (at, stride));
        assert!(is_sound(), "{} met {name} at instruction {at} of {steps}, and every {stride}", operation.name);
    }
    let now = came();
    assert_ne!(now, before, "{} never met {name}", operation.name);
    format!(" {}+{}+{}", now[0] - before[0], now[1] - before[1], now[2] - before[2])
}

#[test]
fn every_instruction_of_every_operation() {
    let _one = alone();
    APART.store(true, Relaxed);
    let mut scene = boot();
    // Twice: some work of a thread is done the first time only.
    (0..2).for_each(|_| find_overflow(&mut scene));
    let names = INTERRUPTS.map(|(name, _)| name);
    println!("{:<20} {:>12}  interrupts at once, late and refused, by {names:?}", "", "instructions");
    for operation in &OPERATIONS {
        let steps = [(); 3].map(|()| run(&mut scene, operation, (u64::MAX, 0)))[2];
        let told: String =
            names.iter().enumerate().map(|nested| sweep(&mut scene, operation, steps, (nested.0, nested.1))).collect();
        println!("{:<20} {steps:>12} {told}", operation.name);
    }
    let [now, late, refused] = came();
    println!("{} points: {now} at once, {late} late, {refused} where seven waited", now + late + refused);
    assert!(now > 1_000 && late > 100, "{now} interrupts came at once, and {late} late");
}

#[test]
fn calls_of_any_context_at_every_instruction() {
    let _one = alone();
    let mut scene = boot();
    (0..2).for_each(|_| find_overflow(&mut scene));
    for operation in OPERATIONS.iter().filter(|operation| !operation.name.starts_with("drain")) {
        let steps = [(); 3].map(|()| run(&mut scene, operation, (u64::MAX, 0)))[2];
        let told: String = (INTERRUPTS.len()..)
            .zip(ANYWHERE)
            .map(|(nested, (name, _))| sweep(&mut scene, operation, steps, (nested, name)))
            .collect();
        println!("{:<20} {steps:>12} {told}", operation.name);
    }
}

/// The control: frees of interrupts on the CPU that they met are overwritten, and this is found.
#[test]
fn interrupts_on_the_cpu_that_they_met_are_found_out() {
    let _one = alone();
    // An interrupt that only takes pages is not found: the head of its page tells, and the page is not taken twice.
    for (operation, nested) in [(0, 1), (7, 1)] {
        let operation = &OPERATIONS[operation];
        NESTED.store(nested, Relaxed);
        APART.store(true, Relaxed);
        let mut scene = boot();
        let steps = [(); 3].map(|()| run(&mut scene, operation, (u64::MAX, 0)))[2];
        APART.store(false, Relaxed);
        let found = (0..steps).filter(|&at| {
            let mut scene = boot();
            run(&mut scene, operation, (at, 0));
            !is_sound()
        });
        let found = found.count();
        println!("{} met {}: found at {found} of {steps} instructions", operation.name, INTERRUPTS[nested].0);
        assert_ne!(found, 0, "{}", operation.name);
    }
}
