//! Storms of signals whose handlers allocate and free, against busy threads, threads that come and go, and drains.
//!
//! Pages change hands through an exchange: a thread or handler puts its page there and frees the one that lay there. So
//! threads free pages of handlers, and the reverse. A mark for each frame tells whether it has an owner, and finds a
//! frame that is handed out twice. Runs are bounded by signals, never by time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};

use framewright::request::{GFP_ATOMIC, GFP_KERNEL};
use framewright::units::{Order, Pfn};
use framewright::watermark::PcpSize;
use framewright::{CpuId, Mechanisms, Request};
use framewright_rt::interrupts::{self, Signal};
use framewright_rt::{Arena, CpuMode};

/// Signals of one storm.
const SIGNALS: u64 = 2_000;
const WORKERS: usize = 4;
/// Calls after which a worker's thread ends and another one takes its place.
const LIFE: u64 = 3_000;
/// Blocks that wait to be freed by another thread or handler.
const EXCHANGE: usize = 32;
/// Of these, for large ones.
const LARGE: usize = 2;
const BYTES: u64 = 32 << 20;

/// The state of one storm. Each storm has its own, because a signal does not say which it belongs to.
struct Stage {
    arena: Arena,
    /// The frame, its order and 1; or 0.
    exchange: [AtomicU64; EXCHANGE],
    /// For each frame, whether it begins a block that has an owner.
    owned: Vec<AtomicBool>,
    /// Threads of the workers; 0 for one that is not there.
    threads: [AtomicI32; WORKERS],
    /// Signals sent so far.
    sent: AtomicU64,
    /// Something that must not be.
    wrong: AtomicU64,
    /// Calls in handlers, and those of them that succeeded.
    arrived: AtomicU64,
    handled: AtomicU64,
    /// Blocks that were allocated on one side and freed on the other.
    crossed: AtomicU64,
}

/// Marks in a number of the exchange: the block was allocated in a handler; its order lies above.
const BY_HANDLER: u64 = 1 << 56;
const ORDER_SHIFT: u32 = 48;

impl Stage {
    fn new(mode: CpuMode, mechanisms: &str) -> Stage {
        let builder = Arena::builder().size(BYTES).cpu_mode(mode).cpus(WORKERS).interrupts(true);
        // Small lists, so that locks are taken often; fewer CPUs than threads, so that some share.
        let builder = builder.pcp(PcpSize { high: 64, batch: 8 }).mechanisms(Mechanisms::parse(mechanisms).unwrap());
        let arena = builder.build().unwrap();
        Stage {
            owned: (0..arena.frames().frames()).map(|_| AtomicBool::new(false)).collect(),
            arena,
            exchange: [const { AtomicU64::new(0) }; EXCHANGE],
            threads: [const { AtomicI32::new(0) }; WORKERS],
            sent: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            crossed: AtomicU64::new(0),
        }
    }

    /// Allocates a block, exchanges it for another one, and frees that. Safe in a handler.
    fn trade(&self, random: u64, order: u8) {
        let in_handler = interrupts::is_in();
        self.arrived.fetch_add(u64::from(in_handler), SeqCst);
        let gfp = if in_handler { GFP_ATOMIC } else { GFP_KERNEL };
        // SAFETY: blocks are freed here alone, by the thread or handler that took them from the exchange.
        let pages = unsafe { self.arena.allocator() };
        let Ok(pfn) = pages.alloc(&Request::new(gfp, order)) else { return };
        self.expect(!self.owned[pfn.0 as usize].swap(true, SeqCst));
        let tag = if in_handler { BY_HANDLER } else { 0 };
        let mine = (pfn.0 + 1) | (u64::from(order) << ORDER_SHIFT) | tag;
        // Few large ones at a time, so that memory is never short.
        let (first, places) = if order > 3 { (0, LARGE) } else { (LARGE, EXCHANGE - LARGE) };
        self.give_back(self.exchange[first + random as usize % places].swap(mine, SeqCst));
        if in_handler {
            self.handled.fetch_add(1, SeqCst);
        }
    }

    fn give_back(&self, block: u64) {
        if block == 0 {
            return;
        }
        let (pfn, order) = ((block & ((1 << ORDER_SHIFT) - 1)) - 1, (block >> ORDER_SHIFT & 0xff) as u8);
        if (block & BY_HANDLER != 0) != interrupts::is_in() {
            self.crossed.fetch_add(1, SeqCst);
        }
        self.expect(self.owned[pfn as usize].swap(false, SeqCst));
        // SAFETY: as above.
        let freed = unsafe { self.arena.allocator() }.free(Pfn(pfn), Order(order));
        self.expect(freed.is_ok());
    }

    /// Counts a violation; a handler cannot panic.
    fn expect(&self, is_so: bool) {
        self.wrong.fetch_add(u64::from(!is_so), SeqCst);
    }

    /// One thread of a worker: trades, and interrupts the others.
    fn live(&self, worker: usize, signal: i32, seed: u64) {
        // SAFETY: asks for a number.
        self.threads[worker].store(unsafe { libc::gettid() }, SeqCst);
        let mut random = seed;
        for turn in 0..LIFE {
            if self.sent.load(SeqCst) >= SIGNALS {
                break;
            }
            random = next(random);
            let order = [0, 0, 0, 0, 1, 3, 9][random as usize % 7];
            self.trade(random >> 8, order);
            if turn.is_multiple_of(8) {
                self.interrupt((worker + 1 + turn as usize / 8 % (WORKERS - 1)) % WORKERS, signal);
            }
        }
        if worker == 0 {
            // SAFETY: this thread has no pin here.
            unsafe { self.arena.allocator().machine().give_up_lease() };
        }
        self.threads[worker].store(0, SeqCst);
    }

    fn interrupt(&self, worker: usize, signal: i32) {
        let thread = self.threads[worker].load(SeqCst);
        if thread != 0 {
            // SAFETY: the signal has a handler in every thread; one that is gone does not get it.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
            self.sent.fetch_add(1, SeqCst);
        }
    }

    /// Drains until enough signals were sent.
    fn disturb(&self) {
        // SAFETY: nothing is freed through it here.
        let pages = unsafe { self.arena.allocator() };
        let mut turn = 0_u16;
        while self.sent.load(SeqCst) < SIGNALS {
            turn = turn.wrapping_add(1);
            let cpu = CpuId(turn % pages.cpus() as u16);
            pages.drain_cpu(cpu);
            pages.refresh_statistics(cpu);
            if turn.is_multiple_of(32) {
                pages.drain_all();
            }
            std::thread::yield_now();
        }
    }

    fn run(&'static self, signal: i32) {
        let before = interrupts::counts();
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                scope.spawn(move || {
                    let mut turn = 0;
                    while self.sent.load(SeqCst) < SIGNALS {
                        turn += 1;
                        let seed = turn << 8 | worker as u64;
                        // Joined, so that it has left its CPUs, which a scope does not wait for.
                        std::thread::spawn(move || self.live(worker, signal, seed)).join().unwrap();
                    }
                });
            }
            self.disturb();
        });
        let after = interrupts::counts();
        self.exchange.iter().for_each(|block| self.give_back(block.swap(0, SeqCst)));
        assert_eq!(self.wrong.load(SeqCst), 0, "blocks handed out twice, or frees refused");
        assert_eq!(after.lost, before.lost);
        let [arrived, handled, crossed] = [&self.arrived, &self.handled, &self.crossed].map(|count| count.load(SeqCst));
        // Those of other tests are among them.
        let (ran, deferred) = (after.ran - before.ran, after.deferred - before.deferred);
        println!(
            "{handled} of {arrived} handlers traded, {crossed} blocks changed sides; {deferred} of {ran} handlers ran late"
        );
        assert!(handled > 0 && crossed > 0);
        assert_eq!(handled, arrived, "memory was never short");
        let census = self.arena.validate().unwrap();
        assert_eq!((census.allocated, census.in_flight, census.quarantined), (0, 0, 0), "{census:?}");
        assert_eq!(self.arena.drain(), census.pcp);
        assert_eq!(self.arena.validate().unwrap().free, census.present);
    }
}

fn next(random: u64) -> u64 {
    let mut x = random | 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^ x << 17
}

/// Boots a stage, has a signal trade there, and lets the storm begin.
fn storm(stage: &'static OnceLock<Stage>, signal: i32, handler: interrupts::Handler, made: Stage) {
    let stage = stage.get_or_init(|| made);
    // SAFETY: the handler uses an arena with interrupts, and words.
    let handling = unsafe { interrupts::handle(signal, handler) }.unwrap();
    stage.run(signal);
    drop(handling);
}

macro_rules! storms {
    ($($name:ident: $signal:expr, $mode:expr, $mechanisms:expr;)+) => { $(
        #[test]
        fn $name() {
            static STAGE: OnceLock<Stage> = OnceLock::new();
            fn handler(_: &Signal) {
                static RANDOM: AtomicU64 = AtomicU64::new(7);
                if let Some(stage) = STAGE.get() {
                    let random = RANDOM.fetch_add(0x9e37_79b9_7f4a_7c15, SeqCst);
                    stage.trade(random >> 40, if random >> 60 == 0 { 3 } else { 0 });
                }
            }
            storm(&STAGE, $signal, handler, Stage::new($mode, $mechanisms));
        }
    )+ };
}

storms! {
    leases: libc::SIGUSR1, CpuMode::Lease, "default";
    processors: libc::SIGUSR2, CpuMode::PerCpu, "default";
    leases_without_a_depot: libc::SIGRTMIN() + 1, CpuMode::Lease, "baseline";
    processors_with_lists_under_trylock: libc::SIGRTMIN() + 2, CpuMode::PerCpu, "default,pcp-protection=trylock";
    leases_that_refill_by_clusters: libc::SIGRTMIN() + 3, CpuMode::Lease, "no_merge+cluster_alloc";
    leases_of_pageblocks: libc::SIGRTMIN() + 4, CpuMode::Lease, "baseline,refill=pageblocks";
}
