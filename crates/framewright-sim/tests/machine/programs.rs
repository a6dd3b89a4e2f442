//! Random programs on random machines: what is true of every run.

use framewright::machine::{Machine, Ordering, Patience, Word};
use framewright_sim::arena::{Arena, Packing};
use framewright_sim::machine::named;
use framewright_sim::measure::About;
use framewright_sim::model::Model;
use framewright_sim::report::Report;
use framewright_sim::run::{Options, Schedule, Simulation, here};
use framewright_sim::{Sim, SimWord};
use proptest::prelude::*;

/// What a CPU does next.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Load(usize),
    Store(usize),
    Release(usize),
    Add(usize),
    Wait(usize),
    Fence,
    Prefetch(usize),
    Work(u64),
    Zero(usize, u64),
    Masked(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let word = 0..48_usize;
    prop_oneof![
        6 => word.clone().prop_map(Deed::Load),
        3 => word.clone().prop_map(Deed::Store),
        2 => word.clone().prop_map(Deed::Release),
        3 => word.clone().prop_map(Deed::Add),
        1 => word.clone().prop_map(Deed::Wait),
        1 => Just(Deed::Fence),
        1 => word.clone().prop_map(Deed::Prefetch),
        2 => (0..200_000_u64).prop_map(Deed::Work),
        1 => (0..2_usize, 1..64_u64).prop_map(|(node, lines)| Deed::Zero(node, lines)),
        1 => word.prop_map(Deed::Masked),
    ]
}

fn perform(deed: Deed, words: &[SimWord<u64>]) {
    match deed {
        Deed::Load(word) => _ = words[word].load(Ordering::Acquire),
        Deed::Store(word) => words[word].store(1, Ordering::Relaxed),
        Deed::Release(word) => words[word].store(2, Ordering::Release),
        Deed::Add(word) => _ = words[word].add(1, Ordering::AcqRel),
        Deed::Wait(word) => _ = words[word].wait_while(Patience::Tries(20), |value| value == 1),
        Deed::Fence => Sim.fence(),
        Deed::Prefetch(word) => Sim.prefetch(&words[word]),
        Deed::Work(time) => here::work(time),
        Deed::Zero(node, lines) => here::zero(node, lines),
        Deed::Masked(word) => {
            let _guard = Sim.irq_save();
            let _ = words[word].add(1, Ordering::Relaxed);
        }
    }
}

/// Runs a program on each CPU, some of them on the second socket, with interrupts that add to a word.
fn run(programs: &[Vec<Deed>], (pairs, slack): (bool, u64), (seed, schedule): (u64, Schedule)) -> Report {
    let model = Model { pairs, slack, ..named("generic:2x2x2").unwrap().model() };
    let arena = Arena::new(1 << 20);
    let words: &[SimWord<u64>] = arena.place("words", (true, Packing::Natural), 64, |_| Word::new(0));
    arena.set_homes("words", |word| word / 32);
    let options = Options { cpus: programs.len(), seed, schedule, warm_up: 0, window: 1 << 50, trace: false };
    let mut simulation = Simulation::new(&model, &arena, &options).unwrap();
    let body = |cpu: usize| {
        let mut before = 0;
        for &deed in &programs[cpu] {
            perform(deed, words);
            assert!(here::clock() >= before, "time went back");
            before = here::clock();
        }
    };
    simulation.run_interrupted(body, 300_000, |_| _ = words[63].add(1, Ordering::Relaxed)).unwrap();
    simulation.report(&About::default())
}

fn check(report: &Report) {
    for line in &report.lines {
        let sum = |part: fn(&framewright_sim::report::Traffic) -> u64| {
            line.fields.iter().map(|field| part(&field.traffic)).sum::<u64>()
        };
        assert_eq!(sum(|t| t.near + t.far + t.memory), line.total.near + line.total.far + line.total.memory);
        let total = line.total;
        assert_eq!(total.loads + total.stores + total.rmws, total.near + total.far + total.memory, "{line:?}");
        assert!(total.queued_ns >= 0.0 && total.moving_ns >= 0.0);
    }
    for cpu in &report.per_cpu {
        let t = cpu.time;
        let all =
            [t.instructions, t.hits, t.near, t.far, t.memory, t.queued, t.spinning, t.stores, t.zeroing, t.asleep];
        assert!(all.iter().all(|&time| time >= 0.0) && t.interrupts >= 0.0, "{t:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_run_adds_up_and_comes_again(
        programs in prop::collection::vec(prop::collection::vec(deed(), 0..60), 1..=8),
        pairs: bool,
        slack in prop_oneof![Just(0), Just(30_000), Just(1_000_000_u64)],
        seed: u64,
        random: bool,
    ) {
        let schedule = if random { Schedule::Random(3) } else { Schedule::Time };
        let report = run(&programs, (pairs, slack), (seed, schedule));
        check(&report);
        prop_assert_eq!(run(&programs, (pairs, slack), (seed, schedule)), report);
    }
}
