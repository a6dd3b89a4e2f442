//! The allocator on a simulated machine.

use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::{Config, Mechanisms, NodeId, Order, Region, Request};
use framewright_sim::measure::About;
use framewright_sim::model::*;
use framewright_sim::report::Report;
use framewright_sim::run::{Options, Schedule, Simulation, here};
use framewright_sim::stage::{Descriptors, arena_for, boot};

/// A machine of two sockets and 112 CPUs.
fn model() -> Model {
    Model {
        name: "test".into(),
        topology: Topology { sockets: 2, package: 1, cores: 28, threads: 2, khz: 2_500_000 },
        latency: Latencies {
            l1: 1600,
            l2: 5600,
            llc: 20_000,
            hit: 42_000,
            hitm: 46_000,
            die_hit: 42_000,
            die_hitm_home_there: 46_000,
            die_hitm_home_here: 46_000,
            far_hit: 90_000,
            far_hitm_home_there: 108_000,
            far_hitm_home_here: 110_000,
            dram: 84_000,
            die_dram: 84_000,
            far_dram: 136_000,
        },
        capacity: Capacity { l1: 512, l2: 16384, llc: 600_000 },
        occupancy: Occupancy { read: 8500, own_permille: 1000 },
        stores: Stores { issue: 400, in_flight: 10, buffer: None },
        memory: Memory {
            zero_line: 2580,
            zero_line_alone: 4000,
            read_line: 600,
            loaded: vec![],
            load_permille: 1800,
            beside: false,
        },
        costs: Costs {
            steps: vec![],
            hit: 1600,
            rmw: 7000,
            fence: 10_000,
            heavy_fence: (1_000_000, 500_000),
            pin: 4000,
            irq_save: 15_000,
            masked_free: 0,
            interrupt: 500_000,
            wake: 2_000_000,
            pause: 50_000,
            sibling_permille: 1300,
        },
        pairs: false,
        slack: 0,
    }
}

/// Each CPU allocates 256 pages and frees them, over and over.
fn fill_and_empty(mechanisms: Mechanisms, (cpus, seed): (usize, u64), schedule: Schedule) -> Report {
    let map = [Region::usable(0x100000, 0x110000, 0), Region::usable(0x110000, 0x120000, 1)];
    let model = model();
    let nodes: Vec<NodeId> = (0..cpus).map(|cpu| NodeId(model.topology.socket_of(cpu) as u8)).collect();
    let config = Config { mechanisms, ..Config::new(&map, &nodes) };
    let arena = arena_for(&config, 0).unwrap();
    let pages = boot(&arena, &config, Descriptors::Line).unwrap();
    let options = Options { cpus, seed, schedule, warm_up: 100_000_000, window: 300_000_000, trace: false };
    let mut simulation = Simulation::new(&model, &arena, &options).unwrap();
    let request = Request::page(GFP_HIGHUSER_MOVABLE);
    let body = |_| {
        let mut held = Vec::with_capacity(256);
        while here::goes_on() {
            for _ in 0..256 {
                held.push(pages.alloc(&request).unwrap());
                here::work(1_000_000);
                here::done(1);
            }
            held.drain(..).for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
        }
    };
    simulation.run(body).unwrap();
    let census = pages.validate().unwrap();
    assert_eq!(census.allocated, 0);
    simulation.report(&About { workload: "fill-and-empty".into(), unit: "page".into(), ..About::default() })
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
        let run = |seed| fill_and_empty(mechanisms, (56, seed), Schedule::Time);
        let first = run(1);
        assert_eq!(run(1), first);
        assert_ne!(Report { seed: 1, ..run(2) }, first);
    }
}

#[test]
fn a_lock_that_all_want_is_waited_for() {
    let report = fill_and_empty(Mechanisms::BASELINE, (28, 1), Schedule::Time);
    let lock = &report.locks[0];
    assert_eq!(lock.name, "zone lock, Node 0, zone Normal");
    assert!(lock.contention_percent > 30.0 && lock.contention_percent < 100.0, "{lock:?}");
    assert!(lock.waiting.p50_ns > lock.holding.p50_ns, "{lock:?}");
    let alone = fill_and_empty(Mechanisms::BASELINE, (1, 1), Schedule::Time);
    assert_eq!(alone.locks[0].contended, 0);
    assert!(alone.per_second > report.per_second / 28.0);
}

#[test]
fn a_random_schedule_loses_nothing() {
    for seed in 0..4 {
        fill_and_empty(Mechanisms::DEFAULT, (16, seed), Schedule::Random(4));
    }
}

#[test]
fn what_is_fought_for_has_a_name() {
    for mechanisms in [Mechanisms::BASELINE, Mechanisms::DEFAULT] {
        let report = fill_and_empty(mechanisms, (56, 1), Schedule::Time);
        let names: Vec<&str> =
            report.lines.iter().flat_map(|line| &line.fields).map(|field| field.name.as_str()).collect();
        assert!(names.iter().any(|name| name.starts_with("lock")), "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with('+')), "{names:?}");
    }
}
