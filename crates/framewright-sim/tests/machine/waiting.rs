//! What ends a wait: a write, patience, a waker, an interrupt.

use std::cell::Cell;

use framewright::machine::{Busy, Machine, Ordering, Patience, Waiter, Word};
use framewright::units::NodeId;
use framewright_sim::Sim;
use framewright_sim::arena::{Arena, Packing};
use framewright_sim::run::{Options, Simulation, here};

use crate::engine::{OPTIONS, Words, machine, run};

const RELAXED: Ordering = Ordering::Relaxed;
const RELEASE: Ordering = Ordering::Release;

#[test]
fn who_spins_is_woken_by_a_write_and_by_nothing_else() {
    let model = machine();
    let body = |cpu: usize, words: Words<'_>| {
        if cpu == 0 {
            here::work(50_000_000);
            words[2].store(1, RELAXED);
            words[1].store(7, RELEASE);
        } else {
            let before = here::clock();
            assert_eq!(words[1].wait_while(Patience::Turn, |value| value == 0), Ok(7));
            assert!(here::clock() - before > 49_000_000);
        }
    };
    let report = run(&model, 2, body).unwrap();
    assert!(report.accesses < 10, "a spinner costs no events: {}", report.accesses);
    assert!(report.per_cpu[1].time.spinning > 45_000.0, "{:?}", report.per_cpu[1].time);
}

#[test]
fn patience_ends() {
    let model = machine();
    let body = |_: usize, words: Words<'_>| {
        let before = here::clock();
        assert_eq!(words[0].wait_while(Patience::Tries(100), |value| value == 0), Err(Busy));
        let waited = here::clock() - before;
        assert!((90..=110).contains(&(waited / model.costs.pause)), "{waited}");
        assert_eq!(words[0].wait_while(Patience::Tries(0), |value| value == 0), Err(Busy));
    };
    run(&model, 2, body).unwrap();
}

#[test]
fn patience_is_not_needed_when_the_word_changes() {
    let body = |cpu: usize, words: Words<'_>| {
        if cpu == 0 {
            here::work(1_000_000);
            words[0].store(3, RELAXED);
        } else {
            assert_eq!(words[0].wait_while(Patience::Tries(1 << 20), |value| value == 0), Ok(3));
            assert!(here::clock() < 3_000_000);
        }
    };
    run(&machine(), 3, body).unwrap();
}

#[test]
fn a_deadlock_is_an_error_that_names_who_waits() {
    let body = |_: usize, words: Words<'_>| _ = words[0].wait_while(Patience::Turn, |value| value == 0);
    let error = run(&machine(), 2, body).unwrap_err();
    assert_eq!(error.to_string(), "CPUs wait for what nobody will do: CPU 0 spins; CPU 1 spins");
}

#[test]
fn sleepers_are_woken_or_wake_up() {
    let waiter = Waiter::Kswapd(NodeId(0));
    let body = |cpu: usize, _: Words<'_>| match cpu {
        0 => {
            here::work(5_000_000);
            Sim.wake(waiter);
        }
        1 => {
            Sim.sleep_until(waiter, u64::MAX);
            assert_eq!(here::clock(), 5_000_000 + machine().costs.wake);
        }
        _ => {
            Sim.sleep_until(Waiter::Kcompactd(NodeId(0)), 9_000);
            assert_eq!(here::clock(), 9_000_000);
        }
    };
    let report = run(&machine(), 3, body).unwrap();
    assert!(report.per_cpu[2].time.asleep > 8_999.0, "{:?}", report.per_cpu[2].time);
}

#[test]
fn interrupts_arrive_anywhere_but_where_they_are_held_off() {
    let arena = Arena::new(1 << 20);
    let words: Words<'_> = arena.place("words", (false, Packing::Natural), 64, |_| Word::new(0));
    let mut simulation = Simulation::new(&machine(), &arena, &Options { cpus: 2, ..OPTIONS }).unwrap();
    let (masked, arrived) = (Cell::new(false), Cell::new(0_u64));
    let handler = |_| {
        assert!(Sim.in_interrupt() && !masked.get());
        let _ = words[8].add(1, RELAXED);
        arrived.set(arrived.get() + 1);
    };
    let body = |cpu: usize| {
        for _ in 0..10_000 {
            let _ = words[cpu].add(1, RELAXED);
            if cpu == 0 {
                let guard = Sim.irq_save();
                masked.set(true);
                // The other CPU's interrupts are not held off: it does nothing here.
                here::work(100_000);
                let _ = words[16].load(RELAXED);
                masked.set(false);
                drop(guard);
            }
        }
    };
    let first_only = |cpu: usize| {
        if cpu == 0 {
            body(0)
        }
    };
    simulation.run_interrupted(first_only, 1_000_000, handler).unwrap();
    assert!(arrived.get() > 100, "{}", arrived.get());
    assert_eq!(words[8].load(RELAXED), arrived.get());
    simulation.run(|_| here::work(1_000_000_000)).unwrap();
    assert_eq!(words[8].load(RELAXED), arrived.get(), "none come in a run without");
}

#[test]
fn an_interrupt_comes_to_a_cpu_that_spins() {
    let arena = Arena::new(1 << 20);
    let words: Words<'_> = arena.place("words", (false, Packing::Natural), 64, |_| Word::new(0));
    let mut simulation = Simulation::new(&machine(), &arena, &OPTIONS).unwrap();
    let body = |_| assert_eq!(words[0].wait_while(Patience::Turn, |value| value < 3), Ok(3));
    simulation.run_interrupted(body, 1_000_000, |_| _ = words[0].add(1, RELAXED)).unwrap();
}
