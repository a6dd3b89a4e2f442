//! CPUs of the simulated machine that allocate and free under given mechanisms, and what shows of it.

use std::cell::RefCell;

use framewright::request::{GFP_HIGHUSER_MOVABLE, GFP_KERNEL};
use framewright::{Config, Mechanisms, NodeId, Order, Region, Request};
use framewright_sim::machine::named;
use framewright_sim::measure::About;
use framewright_sim::report::LockSpan;
use framewright_sim::run::{Options, Schedule, Simulation, here};
use framewright_sim::stage::{Descriptors, arena_for, boot};

/// CPUs, two on each of two nodes.
const CPUS: usize = 4;
/// Rounds of each CPU.
const ROUNDS: usize = 3;
/// Blocks that a CPU allocates in a round.
const BLOCKS: usize = 96;

/// Lets all CPUs allocate and free at the same time; returns the simulator's report.
///
/// Every other block is freed by the CPU that comes next. No operation depends on the time, so that all plays do the
/// same and differ in what it costs.
pub(crate) fn play(mechanisms: Mechanisms) -> Vec<String> {
    run(mechanisms, |simulation| {
        let report = simulation.report(&About::default());
        format!("{report:#?}").lines().map(str::to_owned).collect()
    })
}

/// Returns how often a CPU took and released the lock of a zone while another CPU held it.
pub(crate) fn times_shared(mechanisms: Mechanisms) -> usize {
    run(mechanisms, |simulation| {
        let spans: Vec<&LockSpan> =
            simulation.lock_spans().iter().filter(|span| span.lock.starts_with("zone lock")).collect();
        let is_within = |inner: &LockSpan, outer: &LockSpan| {
            inner.lock == outer.lock && outer.taken_ns < inner.taken_ns && inner.released_ns < outer.released_ns
        };
        spans.iter().map(|inner| spans.iter().filter(|outer| is_within(inner, outer)).count()).sum()
    })
}

/// Lets all CPUs run to the end, then asks what showed.
fn run<T>(mechanisms: Mechanisms, shown: impl FnOnce(&Simulation<'_>) -> T) -> T {
    let model = named("generic:2x2x1").unwrap().model();
    let map = [Region::usable(0x10_0000, 0x10_0800, 0), Region::usable(0x10_0800, 0x10_1000, 1)];
    let nodes: Vec<NodeId> = (0..CPUS).map(|cpu| NodeId(model.topology.socket_of(cpu) as u8)).collect();
    let config = Config { mechanisms, ..Config::new(&map, &nodes) };
    let arena = arena_for(&config, 0).unwrap();
    let pages = boot(&arena, &config, Descriptors::Line).unwrap();
    let options = Options { cpus: CPUS, seed: 1, schedule: Schedule::Time, warm_up: 0, window: 1 << 50, trace: true };
    let mut simulation = Simulation::new(&model, &arena, &options).unwrap();
    let requests = [GFP_HIGHUSER_MOVABLE, GFP_KERNEL].map(Request::page);
    let passed_on = RefCell::new(Vec::new());
    let body = |cpu: usize| {
        for _ in 0..ROUNDS {
            let mut held = Vec::with_capacity(BLOCKS);
            for block in 0..BLOCKS {
                let order = if block % 16 == 0 { Order(2) } else { Order(0) };
                let pfn = pages.alloc(&Request { order, ..requests[cpu % 2] }).unwrap();
                held.push((pfn, order));
                here::done(1);
            }
            let taken = passed_on.replace(held.split_off(BLOCKS / 2));
            held.into_iter().chain(taken).for_each(|(pfn, order)| pages.free(pfn, order).unwrap());
        }
    };
    simulation.run(body).unwrap();
    shown(&simulation)
}
