//! Zone locks of each kind on a simulated machine: the CPU that comes first is served first.

use framewright::mechanisms::ZoneLock;
use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::{Config, Mechanisms, NodeId, Order, Region, Request};
use framewright_sim::machine::named;
use framewright_sim::report::LockSpan;
use framewright_sim::run::{Options, Schedule, Simulation, here};
use framewright_sim::stage::{Descriptors, arena_for, boot};

const CPUS: usize = 28;
/// Nanoseconds within which two requests count as simultaneous: the line may be in transit for so long.
const SAME_TIME: u64 = 28 * 110;

/// How the lock of the one zone was taken while each CPU allocated 256 pages and freed them, over and over.
fn spans(zone_lock: ZoneLock) -> Vec<LockSpan> {
    let map = [Region::usable(0x100000, 0x110000, 0)];
    let nodes = [NodeId(0); CPUS];
    let mechanisms = Mechanisms { zone_lock, ..Mechanisms::BASELINE };
    let config = Config { mechanisms, ..Config::new(&map, &nodes) };
    let arena = arena_for(&config, 0).unwrap();
    let pages = boot(&arena, &config, Descriptors::Line).unwrap();
    let options = Options {
        cpus: CPUS,
        seed: 1,
        schedule: Schedule::Time,
        warm_up: 50_000_000,
        window: 15_000_000_000,
        trace: true,
    };
    let model = named("skylake-2x28").unwrap().model();
    let mut simulation = Simulation::new(&model, &arena, &options).unwrap();
    let request = Request::page(GFP_HIGHUSER_MOVABLE);
    let body = |_| {
        let mut held = Vec::with_capacity(256);
        while here::goes_on() {
            for _ in 0..256 {
                held.push(pages.alloc(&request).unwrap());
                here::work(500_000);
            }
            held.drain(..).for_each(|pfn| pages.free(pfn, Order(0)).unwrap());
        }
    };
    simulation.run(body).unwrap();
    assert_eq!(pages.validate().unwrap().allocated, 0);
    simulation.lock_spans().iter().filter(|span| span.lock.starts_with("zone lock")).cloned().collect()
}

#[test]
fn who_comes_first_is_served_first() {
    for &kind in ZoneLock::ALL {
        let spans = spans(kind);
        assert!(spans.len() > 1000, "{}: {} takings", kind.name(), spans.len());
        let mut waited = 0;
        for span in &spans {
            let passes =
                |other: &&LockSpan| other.wanted_ns > span.wanted_ns + SAME_TIME && other.taken_ns < span.taken_ns;
            let passed = spans.iter().find(passes);
            assert_eq!(passed, None, "{}: passed {span:?}", kind.name());
            waited += usize::from(span.taken_ns > span.wanted_ns + SAME_TIME);
        }
        assert!(waited * 2 > spans.len(), "{}: {waited} of {} waited", kind.name(), spans.len());
    }
}

#[test]
fn a_lock_is_held_by_one_cpu_at_a_time() {
    for &kind in ZoneLock::ALL {
        let mut spans = spans(kind);
        spans.sort_by_key(|span| span.taken_ns);
        for pair in spans.windows(2) {
            // Times are whole nanoseconds; and a release is reported after it is done.
            assert!(pair[0].released_ns <= pair[1].taken_ns + 200, "{}: {pair:?}", kind.name());
        }
    }
}
