//! Interrupts of interrupts, and of whoever holds interrupts off.

use std::cell::Cell;

use framewright::machine::{LockEvent, LockName, Machine, Ordering, Patience, Pinned, Word};
use framewright::pfn::{CpuId, NodeId, ZoneIdx};
use framewright::ZoneKind;
use framewright_sim::arena::{Arena, Packing};
use framewright_sim::machine::named;
use framewright_sim::run::{Options, Schedule, Simulation, here};
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
                // What it holds off and lets go again are not the interrupts of whom it met.
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
