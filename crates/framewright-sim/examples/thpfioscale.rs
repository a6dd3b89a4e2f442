//! Runs `thpfioscale` with each of some sets of mechanisms and prints a line for each.
//!
//! `cargo run --release -p framewright-sim --example thpfioscale -- skylake-desktop mib=1024,config=madvise
//! vanilla-4.20 boost,stall-order=4`
//!
//! `haswell-2x18/12` is that machine with 12 cores in each socket. With `SAMPLES` set, how the machine was is printed
//! too, now and then.

use std::time::Instant;

use framewright::Mechanisms;
use framewright_sim::machine::named;
use framewright_sim::thpfioscale::outcome::Phase;
use framewright_sim::thpfioscale::{Outcome, Thpfioscale, run};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(machine), Some(options)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: thpfioscale MACHINE[/CORES] OPTIONS MECHANISMS...");
        std::process::exit(2);
    };
    let (name, cores) = match machine.split_once('/') {
        Some((name, cores)) => (name, cores.parse().ok()),
        None => (&machine[..], None),
    };
    let mut model = named(name).unwrap_or_else(|error| fail(&error)).model();
    model.topology.cores = cores.unwrap_or(model.topology.cores);
    let options: Thpfioscale = options.parse().unwrap_or_else(|error| fail(&error));
    for text in arguments {
        let mechanisms = Mechanisms::parse(&text).unwrap_or_else(|(part, _)| fail(&format!("{text}: {part}")));
        let began = Instant::now();
        match run(&model, mechanisms, &options) {
            Ok(outcome) => print(&text, &outcome, began.elapsed().as_secs_f64()),
            Err(failure) => println!("{text}: {failure}"),
        }
    }
}

fn fail<T>(error: &impl std::fmt::Display) -> T {
    eprintln!("{error}");
    std::process::exit(2)
}

fn print(name: &str, outcome: &Outcome, host: f64) {
    let faults = outcome.faults;
    println!(
        "\n{name}: {} events of {:?} (unmovable, movable, reclaimable)",
        outcome.events.total(),
        outcome.events.fragmenting()
    );
    println!(
        "  huge {} base {} = {:.2} %; huge {:.1} us, base {:.1} us; host {host:.1} s, {} accesses, {} switches",
        faults.huge,
        faults.base,
        faults.percent(),
        faults.huge_us,
        faults.base_us,
        outcome.accesses,
        outcome.switches
    );
    outcome.phases.iter().for_each(print_phase);
    println!(
        "  kswapd {:?} direct {:?} shrunk {} refaults {:?} retries {}",
        outcome.kswapd, outcome.direct, outcome.shrunk, outcome.refaults, outcome.retries
    );
    println!("  {:?}", outcome.counters);
    let moves = &outcome.moves;
    println!(
        "  moved {:?} failed {:?}; compact stall {:?} fail {:?} success {:?} wakes {:?} scanned {:?} / {:?}",
        moves.pgmigrate_success,
        moves.pgmigrate_fail,
        moves.compact_stall,
        moves.compact_fail,
        moves.compact_success,
        moves.compact_daemon_wake,
        moves.compact_migrate_scanned,
        moves.compact_free_scanned
    );
    for lock in outcome.locks.iter().filter(|lock| lock.kind == "zone" && lock.taken > 0) {
        let held = &lock.holding;
        println!(
            "  {}: taken {} contended {}; held p50 {:.0} ns p99 {:.0} ns max {:.0} ns",
            lock.name, lock.taken, lock.contended, held.p50_ns, held.p99_ns, held.max_ns
        );
    }
    if std::env::var_os("SAMPLES").is_some() {
        outcome.samples.iter().for_each(|sample| println!("  {sample:?}"));
    }
}

fn print_phase(phase: &Phase) {
    let blocks = |kind: u8| phase.blocks.iter().filter(move |block| block.migratetype == kind);
    let types: Vec<usize> = (0..4).map(|kind| blocks(kind).count()).collect();
    let free: Vec<u64> = (0..4).map(|kind| blocks(kind).map(|block| u64::from(block.free)).sum()).collect();
    let movable: Vec<u64> = (0..3).map(|kind| blocks(kind).map(|block| u64::from(block.movable)).sum()).collect();
    let fixed: Vec<u64> = (0..3).map(|kind| blocks(kind).map(|block| u64::from(block.fixed)).sum()).collect();
    println!(
        "  {:14} {:7.3} s {:8} pages {:6.0} pages/s; events {:?} from {:?}; blocks {types:?} free {free:?} movable {movable:?} fixed {fixed:?}",
        phase.name,
        phase.seconds,
        phase.pages,
        phase.pages as f64 / phase.seconds,
        phase.events.fragmenting(),
        phase.events.from
    );
    println!("    by order {:?}", phase.events.by_order);
    println!("    objects {:?} slab {:?}", phase.objects, phase.slab);
}
