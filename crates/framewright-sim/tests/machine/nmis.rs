//! NMIs on the simulated machine, and the allocator's calls for any context in them.

use std::cell::Cell;
use std::ops::Range;

use framewright::machine::{LockEvent, LockName, Machine, Ordering, Patience, Pinned, Word};
use framewright::units::{CpuId, NodeId, ZoneIdx};
use framewright::{Mechanisms, ZoneKind};
use framewright_sim::arena::{Arena, Packing};
use framewright_sim::machine::named;
use framewright_sim::run::{Options, Schedule, Simulation, here};
use framewright_sim::stress::{Counts, Failure, Kind, Settings, StressError, run};
use framewright_sim::{Sim, SimWord};

const OPTIONS: Options =
    Options { cpus: 2, seed: 1, schedule: Schedule::Time, warm_up: 0, window: 1 << 50, trace: false };
const RELAXED: Ordering = Ordering::Relaxed;

/// One socket for each CPU.
fn simulated<T>(body: impl FnOnce(&mut Simulation<'_>, &[SimWord<u64>]) -> T) -> T {
    let arena = Arena::new(1 << 20);
    let words: &[SimWord<u64>] = arena.place("words", (false, Packing::Natural), 64, |_| Word::new(0));
    let machine = named("generic:2x1x1").unwrap().model();
    body(&mut Simulation::new(&machine, &arena, &OPTIONS).unwrap(), words)
}

#[test]
fn an_nmi_comes_anywhere_is_on_no_cpu_and_lets_no_interrupt_in() {
    // What is under way on each CPU, and in what an NMI came: with interrupts held off, in an interrupt, in an NMI.
    let under_way: [[Cell<u32>; 3]; 2] = Default::default();
    let [met_masked, met_interrupt, met_nmi] = &<[Cell<u32>; 3]>::default();
    let within = |cell: &Cell<u32>, work: &dyn Fn()| {
        cell.set(cell.get() + 1);
        work();
        cell.set(cell.get() - 1);
    };
    let note = |cell: &Cell<u32>, is: &Cell<u32>| cell.set(cell.get() + u32::from(is.get() != 0));
    simulated(|simulation, words| {
        let changes = || (0..20).for_each(|word| _ = words[word].add(1, RELAXED));
        let nmi = |cpu: usize| {
            let [masked, interrupt, nmi] = &under_way[cpu];
            assert_eq!((Sim.pin().cpu(), Sim.near()), (CpuId::NONE, NodeId(cpu as u8)));
            assert!(Sim.in_interrupt());
            note(met_masked, masked);
            note(met_interrupt, interrupt);
            note(met_nmi, nmi);
            within(nmi, &|| {
                // It holds off and lets go interrupts of its own context, not of the one that it hit.
                drop(Sim.irq_save());
                changes();
                drop(Sim.irq_save());
            });
        };
        let interrupt = |cpu: usize| {
            let [masked, interrupt, nmi] = &under_way[cpu];
            assert_eq!((masked.get(), interrupt.get(), nmi.get()), (0, 0, 0));
            within(interrupt, &changes);
        };
        let body = |cpu: usize| {
            for _ in 0..2_000 {
                changes();
                let guard = Sim.irq_save();
                within(&under_way[cpu][0], &changes);
                drop(guard);
                assert_eq!((Sim.pin().cpu(), Sim.near()), (CpuId(cpu as u16), NodeId(cpu as u8)));
            }
        };
        simulation.run_met(body, Some((2_000_000, &interrupt)), Some((1_000_000, &nmi))).unwrap();
    });
    let met = [met_masked, met_interrupt, met_nmi].map(Cell::get);
    assert!(met.iter().all(|&times| times > 50), "{met:?}");
}

#[test]
fn whoever_waits_for_nobody_is_found_among_nmis() {
    let lock = LockName::zone(ZoneIdx::of(NodeId(0), ZoneKind::Normal));
    let stuck = simulated(|simulation, words| {
        let body = |_| {
            Sim.lock(lock, LockEvent::Wanted);
            let _ = words[0].wait_while(Patience::Turn, |value| value == 0);
        };
        simulation.run_met(body, None, Some((10_000, &|_| here::work(1_000)))).unwrap_err()
    });
    let of = |cpu| format!("CPU {cpu} spins (wants zone lock, Node 0, zone Normal)");
    assert_eq!(stuck.to_string(), format!("CPUs wait for what nobody will do: {}; {}", of(0), of(1)));
}

/// A small machine of this seed: one CPU to four, a few hundred operations.
fn small(seed: u64) -> Settings {
    let cpus = 1 + (seed % 4) as usize;
    Settings { cpus, seed, operations: 400, quiescent: 4, nmis: Some(true), ..Settings::default() }
}

/// Runs the small machines of these seeds, changed in some way.
fn all(seeds: Range<u64>, change: impl Fn(Settings) -> Settings) -> Counts {
    let mut counts = Counts::default();
    for seed in seeds {
        let summary = run(&change(small(seed)), |_| {}).unwrap_or_else(|error| panic!("{error}"));
        counts = counts.plus(summary.counts);
    }
    counts
}

#[test]
fn nothing_is_lost_among_nmis() {
    let counts = all(0..700, |settings| settings);
    assert!(counts.nmis > 1_000_000 && counts.locked > 100_000 && counts.interrupts > 5_000, "{counts:?}");
}

#[test]
fn every_protection_of_every_kind_of_lists() {
    for lists in ["baseline", "default", "no_merge+cluster_alloc", "numa-base", "owned-pageblocks", "patch7"] {
        for protection in ["interrupts-off", "preemption-off", "trylock", "own-lists"] {
            let switches = format!("{lists},pcp-protection={protection}");
            let mechanisms = Some(Mechanisms::parse(&switches).unwrap());
            let counts = all(0..16, |settings| Settings { mechanisms, interrupts: Some(true), ..settings });
            assert!(counts.nmis > 10_000 && counts.locked > 1_000, "{switches}: {counts:?}");
        }
    }
}

/// What shows of a zone that two change at once: whatever was hit.
const ANYTHING: &[Kind] = &[];

/// Bugs, under which mechanisms, and what shows of them.
const PLANTS: [(&str, &str, &[Kind]); 11] = [
    // Calls that wait, and change lists as if no other call were changing them.
    ("waiting-nmi", "baseline", ANYTHING),
    ("waiting-nmi", "baseline,pcp-protection=trylock", ANYTHING),
    ("waiting-nmi", "default", ANYTHING),
    // A try that always succeeds, or that two win.
    ("blind-cas:lock.next:1", "baseline", ANYTHING),
    ("blind-cas:lock_alone.turns:1", "default", ANYTHING),
    ("torn-rmw:lock_alone.turns:1", "default", ANYTHING),
    // A push or a pop that another comes in the middle of.
    ("torn-rmw:deferred:1", "baseline", &[Kind::Census, Kind::Invariant("N1")]),
    ("blind-cas:deferred:1", "default", &[Kind::Census, Kind::Invariant("N1")]),
    // A count that is a load and a store.
    ("torn-rmw:events.NumaForeign:1", "default", &[Kind::Invariant("S1")]),
    ("torn-rmw:stat.numa.Foreign:1", "numa-base", &[Kind::Invariant("S1")]),
    // A cut that ends twice, or never.
    ("torn-rmw:clusters.cutting:1", "no_merge+cluster_alloc", &[Kind::Deadlock]),
];

#[test]
fn bugs_that_nmis_meet_are_found() {
    for (plant, mechanisms, kinds) in PLANTS {
        let settings = |seed| Settings {
            mechanisms: Some(Mechanisms::parse(mechanisms).unwrap()),
            plant: Some(plant.parse().unwrap()),
            ..small(seed)
        };
        let found = (0..400).find_map(|seed| failure(&settings(seed)).map(|failure| (seed, failure)));
        let (seed, failure) = found.unwrap_or_else(|| panic!("{plant} with {mechanisms} was not found"));
        println!("{plant} with {mechanisms}: after {} seeds, {}", seed + 1, failure.wrong);
        assert!(kinds.is_empty() || kinds.contains(&failure.wrong.kind), "{plant}: {failure}");
    }
}

fn failure(settings: &Settings) -> Option<Failure> {
    match run(settings, |_| {}) {
        Ok(_) => None,
        Err(StressError::Failed(failure)) => Some(*failure),
        Err(error) => panic!("{error}"),
    }
}
