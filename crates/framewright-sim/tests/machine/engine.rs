//! What an access costs, and which CPU waits for another.

use std::cell::{Cell, RefCell};

use framewright::machine::{Machine, Ordering, Patience, Word};
use framewright_sim::arena::{Arena, Packing};
use framewright_sim::machine::named;
use framewright_sim::measure::About;
use framewright_sim::model::{Model, Ps};
use framewright_sim::report::Traffic;
use framewright_sim::run::{Deadlock, Options, Schedule, Simulation, here};
use framewright_sim::{Sim, SimWord};

pub(crate) const OPTIONS: Options =
    Options { cpus: 1, seed: 1, schedule: Schedule::Time, warm_up: 0, window: 1 << 50, trace: false };
const RELAXED: Ordering = Ordering::Relaxed;
const RELEASE: Ordering = Ordering::Release;

pub(crate) type Words<'a> = &'a [SimWord<u64>];

/// Two sockets of 28 cores, CPU 28 being the first of the second socket; latencies at rest.
pub(crate) fn machine() -> Model {
    let mut model = named("skylake-2x28").unwrap().model();
    model.memory.load_permille = 1000;
    model.memory.beside = false;
    model.slack = 0;
    // As if nothing else went on meanwhile.
    model.costs.hit = model.latency.l1;
    model
}

/// Runs `body` on `cpus` CPUs over words that are lines of their own, the upper half of them on node 1.
///
/// Fields are told apart.
pub(crate) fn run(
    model: &Model,
    cpus: usize,
    body: impl Fn(usize, Words<'_>),
) -> Result<framewright_sim::report::Report, Deadlock> {
    let arena = Arena::new(1 << 24);
    let words: Words<'_> = arena.place("words", (true, Packing::Spread(8)), 1 << 16, |_| Word::new(0));
    arena.set_homes("words", |word| usize::from(word >= 1 << 15));
    let mut simulation = Simulation::new(model, &arena, &Options { cpus, ..OPTIONS }).unwrap();
    simulation.run(|cpu| body(cpu, words))?;
    Ok(simulation.report(&About::default()))
}

/// What `access` takes on the CPU that runs.
pub(crate) fn time(access: impl FnOnce()) -> Ps {
    let before = here::clock();
    access();
    here::clock() - before
}

/// What `access` to word 0, which is at home on `home`, takes on CPU 0 after `prepare` on the CPU `other`.
fn after(other: usize, home: usize, prepare: impl Fn(&SimWord<u64>), access: impl Fn(&SimWord<u64>)) -> Ps {
    let taken = Cell::new(0);
    let body = |cpu: usize, words: Words<'_>| {
        let word = &words[home << 15];
        if cpu == other {
            prepare(word);
        }
        if cpu == 0 {
            here::work(10_000_000);
            taken.set(time(|| access(word)));
        }
    };
    run(&machine(), other.max(28) + 1, body).unwrap();
    taken.get()
}

#[test]
fn an_access_takes_as_long_as_the_line_is_far() {
    let model = machine();
    let l = model.latency;
    let read = |word: &SimWord<u64>| _ = word.load(RELAXED);
    let write = |word: &SimWord<u64>| word.store(1, RELAXED);
    let rmw = |word: &SimWord<u64>| _ = word.add(1, RELAXED);
    let nothing = |_: &SimWord<u64>| {};
    type Access<'a> = &'a dyn Fn(&SimWord<u64>);
    let cases: [(&str, usize, usize, Access<'_>, Access<'_>, Ps); 12] = [
        ("memory of its node", 1, 0, &nothing, &read, l.dram),
        ("memory of the other node", 1, 1, &nothing, &read, l.far_dram),
        ("its own", 0, 0, &write, &read, l.l1),
        ("another core's, changed", 1, 0, &write, &read, l.hitm),
        ("another core's, as it was", 1, 0, &read, &read, l.hit),
        ("the other socket's, changed, at home there", 28, 1, &write, &read, l.far_hitm_home_there),
        ("the other socket's, changed, at home here", 28, 0, &write, &read, l.far_hitm_home_here),
        ("the other socket's, as it was", 28, 0, &read, &read, l.far_hit),
        ("its own, read and written", 0, 0, &write, &rmw, l.l1 + model.costs.rmw),
        ("another core's, read and written", 1, 0, &write, &rmw, l.hitm + model.costs.rmw),
        ("another core's, written: not waited for", 1, 0, &write, &write, model.stores.issue),
        ("its own, written", 0, 0, &write, &write, model.stores.issue),
    ];
    for (what, other, home, prepare, access, expected) in cases {
        assert_eq!(after(other, home, prepare, access), expected, "{what}");
    }
}

#[test]
fn a_line_that_others_read_too_is_taken_from_all_of_them() {
    let model = machine();
    let taken = Cell::new(0);
    let body = |cpu: usize, words: Words<'_>| {
        let _ = words[0].load(RELAXED);
        if cpu == 0 {
            here::work(10_000_000);
            taken.set(time(|| _ = words[0].add(1, RELAXED)));
        } else if cpu == 28 {
            here::work(20_000_000);
            assert_eq!(time(|| _ = words[0].load(RELAXED)), model.latency.far_hitm_home_there);
        }
    };
    run(&model, 29, body).unwrap();
    assert_eq!(taken.get(), model.latency.far_hit + model.costs.rmw);
}

#[test]
fn requests_for_a_line_are_served_one_after_the_other() {
    let model = machine();
    let done = RefCell::new(Vec::new());
    let body = |cpu: usize, words: Words<'_>| {
        if cpu == 0 {
            words[0].store(1, RELAXED);
        }
        here::work(10_000_000 + 1000 * cpu as Ps);
        let _ = words[0].add(1, RELAXED);
        done.borrow_mut().push((cpu, here::clock()));
    };
    let report = run(&model, 4, body).unwrap();
    let times: Vec<Ps> = done.borrow().iter().map(|&(_, time)| time).collect();
    assert_eq!(
        done.borrow().iter().map(|&(cpu, _)| cpu).collect::<Vec<_>>(),
        [0, 1, 2, 3],
        "in the order of their requests"
    );
    assert!(times.windows(2).skip(1).all(|pair| pair[1] - pair[0] == model.latency.hitm), "{times:?}");
    let Traffic { rmws, near, far, .. } = report.lines[0].total;
    assert_eq!((rmws, near, far), (3, 3, 0));
}

#[test]
fn a_burst_of_readers_is_served_faster_than_owners() {
    let model = machine();
    let last = Cell::new(0);
    let body = |cpu: usize, words: Words<'_>| {
        if cpu == 0 {
            words[0].store(1, RELAXED);
        } else {
            here::work(10_000_000);
            let _ = words[0].load(RELAXED);
            last.set(last.get().max(here::clock()));
        }
    };
    run(&model, 28, body).unwrap();
    let first = 10_000_000 + model.latency.hitm;
    assert_eq!(last.get(), first + 25 * model.occupancy.read + model.latency.hit);
}

#[test]
fn lines_that_were_pushed_out_come_from_further_away() {
    let model = machine();
    let cases = [
        (0, model.latency.l1),
        (model.capacity.l1, model.latency.l2),
        (model.capacity.l2, model.latency.llc),
        (model.capacity.llc, model.latency.dram),
    ];
    for (fills, expected) in cases {
        let body = |_: usize, words: Words<'_>| {
            let _ = words[0].load(RELAXED);
            if fills < model.capacity.l2 {
                // Lines that are in the second level already: they push out of the first alone.
                for round in 0..2 {
                    for word in &words[1..=fills as usize] {
                        let before = here::clock();
                        let _ = word.load(RELAXED);
                        assert!(round == 0 || here::clock() - before <= model.latency.l2);
                    }
                }
            } else {
                here::touch_private(fills);
            }
            assert_eq!(time(|| _ = words[0].load(RELAXED)), expected, "after {fills} lines");
        };
        run(&model, 1, body).unwrap();
    }
}

#[test]
fn stores_wait_for_each_other_when_too_many_are_under_way() {
    let model = machine();
    let body = |_: usize, words: Words<'_>| {
        let most = usize::from(model.stores.in_flight);
        for word in &words[..most] {
            assert_eq!(time(|| word.store(1, RELAXED)), model.stores.issue);
        }
        let before = here::clock();
        words[most].store(1, RELAXED);
        assert!(here::clock() - before > model.latency.dram / 2, "the first is not visible yet");
        let waited = time(|| Sim.fence());
        assert!(waited > model.costs.fence + model.latency.dram / 2, "{waited}");
        assert_eq!(time(|| Sim.fence()), model.costs.fence);
    };
    run(&model, 1, body).unwrap();
}

/// One store waits for memory, and every later store waits for it.
#[test]
fn stores_wait_when_the_buffer_is_full() {
    let mut model = machine();
    for buffer in [2, 36] {
        model.stores.buffer = Some(buffer);
        let body = |_: usize, words: Words<'_>| {
            words[0].store(1, RELAXED);
            Sim.fence();
            let miss = 1 << 15;
            assert_eq!(time(|| words[miss].store(1, RELAXED)), model.stores.issue);
            for _ in 1..buffer {
                assert_eq!(time(|| words[0].store(1, RELAXED)), model.stores.issue);
            }
            let waited = time(|| words[0].store(1, RELAXED));
            assert!(waited > model.latency.dram / 2, "{buffer}: {waited}");
            (0..2 * buffer).for_each(|_| assert_eq!(time(|| words[0].store(1, RELAXED)), model.stores.issue));
        };
        run(&model, 1, body).unwrap();
    }
}

#[test]
fn a_release_is_seen_behind_the_stores_before_it() {
    let model = machine();
    let seen = Cell::new(0);
    let body = |cpu: usize, words: Words<'_>| {
        if cpu == 0 {
            words[1].store(0, RELAXED);
            here::work(10_000_000);
            // From the memory of the other node.
            words[1 << 15].store(1, RELAXED);
            words[1].store(1, RELEASE);
        } else {
            let _ = words[1].wait_while(Patience::Turn, |value| value == 0);
            seen.set(here::clock());
        }
    };
    run(&model, 2, body).unwrap();
    assert!(seen.get() > 10_000_000 + model.latency.far_dram, "{}", seen.get());
}

#[test]
fn a_line_that_was_asked_for_ahead_of_time_is_waited_for_only_as_long_as_it_takes() {
    let model = machine();
    for work in [0, 20_000, 1_000_000] {
        let body = |_: usize, words: Words<'_>| {
            Sim.prefetch(&words[0]);
            here::work(work);
            let expected = model.latency.dram.saturating_sub(work) + model.latency.l2;
            assert_eq!(time(|| _ = words[0].load(RELAXED)), expected, "after {work}");
        };
        run(&model, 1, body).unwrap();
    }
}

#[test]
fn a_line_from_memory_brings_its_neighbour_along_unless_a_cache_has_that() {
    let mut model = machine();
    model.memory.beside = true;
    let body = |cpu: usize, words: Words<'_>| {
        let first = |word: usize| time(|| _ = words[word].load(RELAXED));
        if cpu == 0 {
            words[7].store(1, RELAXED);
            here::work(10_000_000);
            return;
        }
        here::work(1_000_000);
        let (memory, near) = (model.latency.dram, model.latency.l2);
        assert_eq!([first(2), first(3)], [memory, near], "2 and 3 are a pair");
        assert_eq!([first(5), first(4), first(8)], [memory, near, memory]);
        assert_eq!(first(7), model.latency.hitm, "another core has changed it");
    };
    run(&model, 2, body).unwrap();
}

#[test]
fn asking_twice_for_a_line_makes_it_come_no_sooner() {
    let model = machine();
    let body = |_: usize, words: Words<'_>| {
        Sim.prefetch(&words[0]);
        Sim.prefetch(&words[0]);
        assert_eq!(time(|| _ = words[0].load(RELAXED)), model.latency.dram + model.latency.l2);
    };
    run(&model, 1, body).unwrap();
}

#[test]
fn siblings_make_instructions_dearer() {
    let model = machine();
    for (cpus, expected) in [(1, 1_000_000), (57, 1_800_000)] {
        // CPU 56 is the second thread of CPU 0's core.
        let body = |cpu: usize, _: Words<'_>| {
            if cpu == 0 || cpu == 56 {
                let taken = time(|| here::work(1_000_000));
                assert_eq!(taken, expected);
            }
        };
        run(&model, cpus, body).unwrap();
    }
}

#[test]
fn many_threads_of_a_core_do_as_much_as_two() {
    let machine = named("generic:1x1x8").unwrap().model();
    for (cpus, expected) in [(2, 1_800_000), (4, 3_600_000), (8, 7_200_000)] {
        let body = |_: usize, _: Words<'_>| assert_eq!(time(|| here::work(1_000_000)), expected, "{cpus}");
        run(&machine, cpus, body).unwrap();
    }
}

#[test]
fn what_lasts_longer_than_the_window_is_divided_at_its_bounds() {
    let arena = Arena::new(1 << 20);
    let words: Words<'_> = arena.place("words", (true, Packing::Natural), 8, |_| Word::new(0));
    let options = Options { cpus: 3, warm_up: 1_000_000, window: 2_000_000, ..OPTIONS };
    let mut simulation = Simulation::new(&machine(), &arena, &options).unwrap();
    let body = |cpu: usize| match cpu {
        0 => {
            here::work(10_000_000);
            words[0].store(1, RELEASE);
        }
        1 => here::idle(10_000_000),
        _ => _ = words[0].wait_while(Patience::Turn, |word| word == 0),
    };
    simulation.run(body).unwrap();
    let times: Vec<_> = simulation.report(&About::default()).per_cpu.iter().map(|cpu| cpu.time).collect();
    assert_eq!((times[0].instructions, times[1].asleep, times[2].spinning), (2000.0, 2000.0, 2000.0));
    assert!(times.iter().all(|time| time.hits == 0.0), "{times:?}");
}

#[test]
fn pairs_of_lines_go_together() {
    for pairs in [false, true] {
        let model = Model { pairs, ..machine() };
        let arena = Arena::new(1 << 20);
        let words: Words<'_> = arena.place("words", (true, Packing::Natural), 64, |_| Word::new(0));
        let mut simulation = Simulation::new(&model, &arena, &Options { cpus: 2, ..OPTIONS }).unwrap();
        let body = |cpu: usize| {
            let _ = words[0].load(RELAXED);
            if cpu == 0 {
                here::work(1_000_000);
                let _ = words[8].add(1, RELAXED);
            } else {
                here::work(2_000_000);
                let expected = if pairs { model.latency.hitm } else { model.latency.l1 };
                assert_eq!(time(|| _ = words[0].load(RELAXED)), expected);
            }
        };
        simulation.run(body).unwrap();
    }
}

#[test]
fn zeroing_is_bound_by_the_core_or_by_the_node() {
    let model = machine();
    for (cpus, per_line) in [(1, model.memory.zero_line_alone), (28, 28 * model.memory.zero_line)] {
        let last = Cell::new(0);
        let body = |_: usize, _: Words<'_>| {
            for _ in 0..100 {
                here::zero(0, 64);
            }
            last.set(last.get().max(here::clock()));
        };
        run(&model, cpus, body).unwrap();
        let expected = 6400 * per_line;
        assert!(last.get().abs_diff(expected) <= expected / 50, "{cpus}: {} {expected}", last.get());
    }
}

#[test]
fn words_are_free_while_no_cpu_runs() {
    let word: SimWord<u64> = Word::new(1);
    assert_eq!(word.add(1, RELAXED), 1);
    assert_eq!(word.cas(2, 5, RELAXED), Ok(2));
    assert_eq!(word.swap(6, RELAXED), 5);
    assert_eq!(here::clock(), 0);
}

#[test]
#[should_panic(expected = "lies in no region")]
fn an_access_outside_of_every_region_is_a_mistake() {
    let outside: SimWord<u64> = Word::new(0);
    let _ = run(&machine(), 2, |_, _| _ = outside.load(RELAXED));
}

#[test]
fn a_panic_on_one_cpu_ends_the_run_and_leaves_the_machine() {
    for _ in 0..2 {
        let body = |cpu: usize, words: Words<'_>| {
            let _guard = Sim.irq_save();
            let _ = words[0].add(1, RELAXED);
            here::work(1_000_000);
            assert!(cpu != 1, "as planned");
        };
        let result = std::panic::catch_unwind(|| run(&machine(), 3, body));
        let message = *result.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(message, "as planned");
    }
}

#[test]
fn a_machine_has_no_more_cpus_than_it_has() {
    let arena = Arena::new(1);
    let error =
        |cpus| Simulation::new(&machine(), &arena, &Options { cpus, ..OPTIONS }).err().map(|error| error.to_string());
    assert_eq!(error(113).as_deref(), Some("there is no run on 113 CPUs: skylake-2x28 has 1 to 112"));
    assert_eq!(error(0).as_deref(), Some("there is no run on 0 CPUs: skylake-2x28 has 1 to 112"));
}
