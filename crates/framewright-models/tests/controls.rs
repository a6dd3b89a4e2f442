//! Negative controls: bugs put into one call of the core, which a model must find.
//!
//! Each control names a line of the core by its text, so that it moves with the code and fails if the line is gone.

use framewright_models::explore::explore;
use framewright_models::models;
use framewright_models::session::{Place, Plant};

const LOCK: &str = include_str!("../../framewright/src/lock.rs");
const PCP: &str = include_str!("../../framewright/src/pcp.rs");

/// The call in `file` whose line has `text`, which must be the only one.
fn place(file: &'static str, source: &str, text: &str) -> Place {
    let lines: Vec<_> = source.lines().zip(1..).filter(|(line, _)| line.contains(text)).map(|(_, line)| line).collect();
    let [line] = lines[..] else { panic!("{file} has `{text}` on lines {lines:?}") };
    Place { file, line }
}

#[test]
fn every_planted_bug_is_found() {
    let lock = |text| place("lock.rs", LOCK, text);
    let pcp = |text| place("pcp.rs", PCP, text);
    let controls = [
        // The lock's release and acquire: what was written under it is not seen by the next holder.
        ("lock_ticket", Plant::Relax(lock("self.lock.serving.store"))),
        ("lock_ticket", Plant::Relax(lock("self.serving.wait_while"))),
        // No wait at all.
        ("lock_ticket", Plant::Skip(lock("self.serving.wait_while"))),
        // Store and load of the owner, and of the claimer, in the wrong order.
        ("pcp_reuse", Plant::Skip(pcp("machine.light_fence()"))),
        ("pcp_reuse", Plant::Skip(pcp("machine.heavy_fence()"))),
        // The owner does not say that it is busy; the claimer does not wait for it.
        ("pcp_reuse", Plant::Skip(pcp("pcp.busy.store(1, Ordering::Relaxed)"))),
        ("pcp_reuse", Plant::Skip(pcp("pcp.busy.wait_while"))),
        // What the last one did with the rings is not seen.
        ("pcp_turned_away", Plant::Relax(pcp("self.flag.store(0, Ordering::Release)"))),
        ("pcp_turned_away", Plant::Relax(pcp("pcp.claim.load(Ordering::Acquire)"))),
    ];
    let mut missed = Vec::new();
    for (name, plant) in controls {
        let model = models::named(name).expect("a model of that name");
        let outcome = explore(model, Some(plant));
        let found = outcome.failure.is_some();
        println!("{name:16} {plant:?}: found {found} after {} executions, met {}", outcome.executions, outcome.met);
        if !found {
            missed.push((name, plant));
        }
        assert_ne!(outcome.met, 0, "{plant:?} was never reached by {name}");
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
