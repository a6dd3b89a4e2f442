//! The workload that fills memory with files and then wants huge pages: that it is what its seed says, and loses
//! nothing.

use framewright::Mechanisms;
use framewright_sim::machine::named;
use framewright_sim::thpfioscale::{Failure, Marks, Outcome, Slabs, Thpfioscale, run};

/// The smallest machine on which anything happens.
fn options(text: &str) -> Thpfioscale {
    let options: Thpfioscale = text.parse().unwrap();
    Thpfioscale { mib: if text.contains("mib=") { options.mib } else { 64 }, ..options }
}

fn run_on(machine: &str, mechanisms: &str, text: &str) -> Result<Outcome, Failure> {
    let mechanisms = Mechanisms::parse(mechanisms).unwrap();
    run(&named(machine).unwrap().model(), mechanisms, &options(text))
}

fn outcome(mechanisms: &str, text: &str) -> Outcome {
    run_on("skylake-desktop", mechanisms, text).unwrap_or_else(|failure| panic!("{mechanisms}, {text}: {failure}"))
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let first = outcome("stall", "config=madvise");
    assert_eq!(outcome("stall", "config=madvise"), first);
    assert_ne!(outcome("stall", "config=madvise,seed=2"), first);
}

/// `run` itself checks that every frame is free in the end, and that the allocator is in order.
#[test]
fn nothing_is_lost() {
    let runs = [
        ("vanilla-4.20", "config=defrag,readers=off"),
        ("lowzone", "rounds=2,slabs=single"),
        ("boost", "config=madvise"),
        ("stall", "marks=own"),
        ("default,compaction=emptiest,nofragment=enforced", "config=madvise"),
    ];
    for (mechanisms, text) in runs {
        let outcome = outcome(mechanisms, text);
        let (write, read) = (&outcome.phases[0], &outcome.phases[1]);
        // Half as much again as memory was written, and half of three quarters of it faulted in.
        assert_eq!(write.pages, 24_576);
        assert_eq!((outcome.faults.huge + outcome.faults.base) as usize, 12 * outcome.phases.len() / 3);
        assert_eq!(read.pages > 0, options(text).readers);
        assert!(outcome.kswapd.freed + outcome.direct.freed > 0);
        assert_eq!(outcome.counters.bad_frees, 0);
        for phase in &outcome.phases {
            let frames: u64 =
                phase.blocks.iter().map(|block| u64::from(block.free + block.movable + block.fixed)).sum();
            assert_eq!(frames, 64 * 256);
        }
    }
}

#[test]
fn nothing_is_lost_under_other_loads() {
    for (load, written) in [("build", 19_649), ("network", 24_576)] {
        for mechanisms in ["vanilla-4.20", "stall", "default"] {
            let outcome = outcome(mechanisms, &format!("config=madvise,load={load},rounds=2,slabs=slub"));
            assert_eq!(outcome.phases[0].pages, written, "{load}");
            assert_eq!(outcome.faults.huge + outcome.faults.base, 24, "{load}");
            assert!(outcome.phases[1].pages > 1_000, "{load}");
            assert_eq!(outcome.counters.bad_frees, 0);
        }
    }
    let outcome = outcome("vanilla-4.20", "load=network,readers=off");
    assert_eq!(outcome.phases[1].pages, 0);
}

/// Numbers that change with the allocator, the model or the engine: nothing else tells that simulated results are not
/// what they were.
#[test]
fn what_comes_of_it() {
    let mut table = String::from("load     mechanisms    events  huge  base  kswapd scanned  moved  seconds\n");
    for load in ["files", "build", "network"] {
        for mechanisms in ["vanilla-4.20", "boost", "default"] {
            let outcome = outcome(mechanisms, &format!("mib=128,config=madvise,load={load}"));
            let moved = outcome.moves.pgmigrate_success.unwrap_or(0);
            let seconds: f64 = outcome.phases.iter().map(|phase| phase.seconds).sum();
            let Outcome { events, faults, kswapd, .. } = outcome;
            table += &format!(
                "{load:<9}{mechanisms:<14}{:>6}{:>6}{:>6}{:>16}{moved:>7}{seconds:>9.4}\n",
                events.total(),
                faults.huge,
                faults.base,
                kswapd.scanned
            );
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn events_are_those_that_the_allocator_counts() {
    let outcome = outcome("vanilla-4.20", "");
    assert_eq!(outcome.events.total(), outcome.counters.extfrag_fragmenting);
    let of_phases: u64 = outcome.phases.iter().map(|phase| phase.events.total()).sum();
    assert_eq!(of_phases, outcome.events.total());
    let last = outcome.samples.last().unwrap();
    assert_eq!(last.events, outcome.events.total());
    assert!(outcome.samples.is_sorted_by_key(|sample| sample.ms));
}

#[test]
fn nodes_have_their_own_threads() {
    let outcome = run_on("generic:2x12x2", "boost", "mib=128").unwrap();
    // Five threads share three quarters of 64 MiB, and each touches half of its whole huge pages: two of four.
    assert_eq!(outcome.faults.huge + outcome.faults.base, 10);
}

#[test]
fn a_machine_with_too_few_cpus_is_an_error() {
    let failure = run_on("generic:1x4x1", "default", "").unwrap_err();
    assert!(failure.to_string().contains("has 4 CPUs: too few"), "{failure}");
}

#[test]
fn options_are_what_they_say() {
    let all: Thpfioscale = "mib=512,config=defrag,rounds=3,readers=off,slabs=single,marks=own,seed=7".parse().unwrap();
    assert_eq!((all.mib, all.rounds, all.seed, all.readers), (512, 3, 7, false));
    assert_eq!((all.slabs, all.marks), (Slabs::Single, Marks::Own));
    assert_eq!("".parse(), Ok(Thpfioscale::default()));
    let wrong = |text: &str| text.parse::<Thpfioscale>().unwrap_err().to_string();
    assert_eq!(wrong("config=never"), "thpfioscale: config is `default`, `madvise` or `defrag`, not `never`");
    assert_eq!(wrong("mib=32"), "thpfioscale: mib is a number from 64 to 262144, not `32`");
}
