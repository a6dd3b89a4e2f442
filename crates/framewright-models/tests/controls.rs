//! Negative controls: bugs put into one call of the core, which a model must find.
//!
//! Each control names a line of the core by its text, so that it moves with the code and fails if the line is gone.

use framewright_models::explore::explore;
use framewright_models::models;
use framewright_models::session::{Place, Plant};

/// The call on the core's line that has `text`, which must be the only one.
fn place(text: &str) -> Place {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../framewright/src");
    let mut places = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the core's sources") {
        let path = entry.expect("the core's sources").path();
        if let Some(file) = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".rs")) {
            let source = std::fs::read_to_string(&path).expect("a source of the core");
            let lines = source.lines().zip(1..).filter(|(line, _)| format!("\n{line}\n").contains(text));
            places.extend(lines.map(|(_, line)| (file.to_owned(), line)));
        }
    }
    let [(file, line)] = &places[..] else { panic!("`{text}` is at {places:?}") };
    Place { file: file.clone().leak(), line: *line }
}

fn relax(text: &str) -> Plant {
    Plant::Relax(place(text))
}

fn skip(text: &str) -> Plant {
    Plant::Skip(place(text))
}

#[test]
fn every_planted_bug_is_found() {
    let controls = [
        // The lock's release and acquire: what was written under it is not seen by the next holder.
        ("lock_ticket", relax("self.serving.store(ticket")),
        ("lock_ticket", relax("self.serving.wait_while")),
        // No wait at all.
        ("lock_ticket", skip("self.serving.wait_while")),
        // The same lock, by what a depot's shard does under it.
        ("depot_exchange", relax("self.serving.store(ticket")),
        // The queued lock's, at once and after a wait.
        ("lock_queued", relax("self.turns.add(passing(number)")),
        ("lock_queued", relax("self.turns.add(DRAWN, Ordering::Acquire)")),
        ("lock_queued", relax("self.turns.wait_while")),
        // Its turn is not waited for; nobody is told to come forward; who was told already does not see why.
        ("lock_queued", skip("self.turns.wait_while")),
        ("lock_queued_3", skip("place.add(1, Ordering::Release)")),
        ("lock_queued_far", relax("place.load(Ordering::Acquire)")),
        // Writers to readers, at once and in line, and readers to writers.
        ("lock_shared_both", relax("self.turns.add(passing(number)")),
        ("lock_shared_both", relax("self.turns.add(READER, Ordering::Acquire)")),
        ("lock_shared_both", relax("self.turns.add(READER.wrapping_neg()")),
        ("lock_shared_both", relax("self.turns.wait_while")),
        // A writer does not wait for readers to go; a reader is not counted.
        ("lock_shared_both", skip("self.turns.wait_while")),
        ("lock_shared_both", relax("self.turns.add(DRAWN.wrapping_sub(READER)")),
        // Store and load of the owner, and of the claimer, in the wrong order.
        ("pcp_reuse", skip("machine.light_fence()")),
        ("pcp_reuse", skip("\n        machine.heavy_fence();\n")),
        // The owner does not say that it is busy; the claimer does not wait for it.
        ("pcp_reuse", skip("self.busy.store(1, Ordering::Relaxed)")),
        ("pcp_reuse", skip("self.busy.wait_while")),
        // What the last one did with the rings is not seen.
        ("pcp_turned_away", relax("self.flag.store(0, Ordering::Release)")),
        ("pcp_turned_away", relax("self.claim.load(Ordering::Acquire)")),
        // The owner at the front looks at the window before it has moved the top; the claimer at the top before it has closed
        // the window; or does not close it.
        ("front_alloc", skip("machine.front_fence()")),
        ("front_alloc", skip("\n            machine.heavy_fence();\n")),
        ("front_alloc", skip("self.floor.store(u32::MAX, Ordering::Relaxed)")),
        // What the owner pushed is not seen, nor what it did with the page.
        ("front_free", relax("self.top.store(top.wrapping_add(1), Ordering::Release)")),
        ("front_free", relax("self.top.load(Ordering::Acquire)")),
    ];
    let mut missed = Vec::new();
    for (name, plant) in controls {
        if !name.starts_with(&std::env::var("MODELS").unwrap_or_default()) {
            continue;
        }
        let model = models::named(name).expect("a model of that name");
        let outcome = explore(model, Some(plant));
        let found = outcome.failure.is_some();
        println!("{name:24} {plant:?}: found {found} after {} executions, met {}", outcome.executions, outcome.met);
        if !found {
            missed.push((name, plant));
        }
        assert_ne!(outcome.met, 0, "{plant:?} was never reached by {name}");
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
