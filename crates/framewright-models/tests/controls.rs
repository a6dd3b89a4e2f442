//! Negative controls: bugs put into one call of the core, which a model must find.
//!
//! Each control names a line of the core by its text, so that it moves with the code and fails if the line is gone.

use std::fs;
use std::path::Path;

use framewright_models::explore::{Model, explore, explore_wrong};
use framewright_models::models;
use framewright_models::session::{Place, Plant};

/// The sources below a folder: path seen from `root`, and text.
fn sources(root: &Path, folder: &Path) -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).expect("the core's sources") {
        let path = entry.expect("the core's sources").path();
        if path.is_dir() {
            sources.extend(self::sources(root, &path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = path.strip_prefix(root).expect("below the root").display().to_string().replace('\\', "/");
            sources.push((file, fs::read_to_string(&path).expect("a source of the core")));
        }
    }
    sources
}

/// The call where `text` ends in the core's sources, which must have it once.
fn place(text: &str) -> Place {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../framewright/src"));
    let mut places = Vec::new();
    for (file, source) in sources(root, root) {
        let ends = source.match_indices(text).map(|(at, _)| at + text.trim_end().len());
        places.extend(ends.map(|end| (file.clone(), source[..end].lines().count() as u32)));
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
        // An interrupt comes to lists in use: nobody says so, as where a lock that is tried always succeeds; or to a zone whose lock the
        // CPU holds that it met.
        ("device_trylock", skip("self.busy.cas(0, 1, Ordering::Relaxed)")),
        ("device_zone", skip("let irq = shared.machine.irq_save();")),
        // Two who cut a block meet: one does not wait for the other. Two who free the same part both come through.
        ("range_parts", skip("self.serving.wait_while")),
        ("range_twice", skip("head.is_allocated_of(order) && word.cas(head.0, head.0 | Head::PCP, Ordering::Relaxed)")),
        // What the owner pushed is not seen, nor what it did with the page.
        ("front_free", relax("self.top.store(top.wrapping_add(1), Ordering::Release)")),
        ("front_free", relax("self.top.load(Ordering::Acquire)")),
    ];
    find(&controls, models::named);
}

#[test]
fn every_bug_planted_in_free_paths_and_refills_is_found() {
    let controls = [
        // The lock of a range is not taken, or not waited for; what its last holder did is not seen.
        ("zone_ranged", skip("while lock.cas(0, 1, Ordering::Acquire).is_err()")),
        ("zone_ranged", relax("while lock.cas(0, 1, Ordering::Acquire).is_err()")),
        (
            "zone_ranged",
            relax("Partner: the Acquire above. Model: zone_ranged.\n            lock.store(0, Ordering::Release)"),
        ),
        // A buddy that is taken stays free for others.
        ("zone_spliced", skip("if word.cas(state.0, taken.0, Ordering::Acquire).is_err()")),
        // A cut that is in progress is not waited for, not told of, or its end tells nothing of what it did.
        ("cluster_cut", skip("let _ = self.cutting.wait_while")),
        ("cluster_cut_larger", skip("let _ = self.cutting.wait_while")),
        ("cluster_cut", skip("self.cutting.add(1, Ordering::Relaxed)")),
        ("cluster_cut", relax("let _ = self.cutting.wait_while")),
        ("cluster_cut", relax("self.cutting.add(1_u32.wrapping_neg(), Ordering::Release)")),
    ];
    find(&controls, models::named);
}

#[test]
fn every_bug_planted_in_ownership_is_found() {
    let controls = [
        // What was done to a page is not seen by who takes it.
        ("owned_refill", relax("match word.cas(before, before | mask, Ordering::AcqRel)")),
        ("owned_refill", relax("word.swap(0, Ordering::AcqRel)")),
        // Who gives a block back does not see that the owner's name is gone.
        ("owned_disown", relax("match word.cas(before, before | mask, Ordering::AcqRel)")),
        ("owned_disown", relax("word.swap(0, Ordering::AcqRel)")),
        // Who disowns leaves the name there.
        ("owned_disown", skip("owner.store(0, Ordering::Relaxed)")),
        // Two who fill the last two words both miss it.
        ("owned_words", skip("// Model: owned_words.\n        machine.fence()")),
    ];
    find(&controls, models::named);
}

#[test]
fn every_bug_planted_in_calls_from_any_context_is_found() {
    let controls = [
        // A try always succeeds, as those of locks did where there is one CPU; or does not see what was done under the lock.
        ("nolock_zone", skip("self.next.cas(ticket, ticket.wrapping_add(1), Ordering::Relaxed)")),
        ("nolock_ticket", relax("let ticket = self.serving.load(Ordering::Acquire)")),
        ("nolock_queued", skip("let taken = self.turns.cas(turns.0, turns.0.wrapping_add(DRAWN), Ordering::Acquire)")),
        ("nolock_queued", relax("let taken = self.turns.cas(turns.0, turns.0.wrapping_add(DRAWN), Ordering::Acquire)")),
        // A cut that the interrupt met is not noticed.
        ("nolock_cut", skip("self.exists() && self.cutting.load(Ordering::Acquire)")),
        // What was deferred is not on the list, or comes off it twice; what its last owner did is not seen.
        ("nolock_push_pop", skip("match self.newest.cas(first, frame.0.wrapping_add(1), Ordering::Release)")),
        ("nolock_push_nested", skip("if self.newest.cas(first, next, Ordering::Relaxed)")),
        ("nolock_push_pop", relax("match self.newest.cas(first, frame.0.wrapping_add(1), Ordering::Release)")),
        ("nolock_push_pop", relax("let first = self.newest.load(Ordering::Acquire)")),
        // Two who free the same page both come through, so that it is pushed twice.
        (
            "nolock_twice",
            skip("head.is_allocated_of(order) && word.cas(head.0, head.0 | Head::PCP, Ordering::Relaxed)"),
        ),
        // A count is a load and a store.
        ("nolock_counted", Plant::Tear(place("word.add(n, Ordering::Relaxed)"))),
    ];
    find(&controls, models::named);
}

#[test]
fn every_bug_planted_in_statistics_is_found() {
    let controls = [
        // What a CPU counts is not kept, though it seemed so; what it tells does not reach the node.
        ("stat_node", skip("if word.cas(kept, keep as u8, Ordering::Relaxed)")),
        ("stat_node_both", skip("self.here.add(change as u64, Ordering::Relaxed)")),
        // The owner's lists are emptied while it is there.
        ("stat_idle", skip("self.busy.wait_while")),
    ];
    find(&controls, models::named);
}

#[test]
fn every_bug_planted_in_lists_is_found() {
    // Nothing is waited for behind a planted call: who then waits for ever, waits for what the bug has hidden.
    let controls = [
        // Two neighbours miss each other: one comes back with a node that the other still uses.
        ("smp_list_neighbours", skip("smp_list_neighbours, smp_list_reuse.\n        machine.fence();")),
        ("smp_list_reuse", skip("smp_list_neighbours, smp_list_reuse.\n        machine.fence();")),
        ("smp_list_neighbours", skip("in\n        // `settle`. Model: smp_list_reuse.\n        machine.fence();")),
        ("smp_list_reuse", skip("in\n        // `settle`. Model: smp_list_reuse.\n        machine.fence();")),
        // No wait for the node behind, nor for a lock.
        ("smp_list_reuse", skip("if after.next.wait_while")),
        ("smp_list_neighbours", skip("let next = link.next.wait_while")),
        ("smp_list_adds", skip("let first = top.next.wait_while")),
        // What was put on is there, and the node that was first does not know yet.
        ("smp_list_del_add", relax("top.next.store(new.0, Ordering::Release)")),
    ];
    find(&controls, models::smp_list::named);
}

/// What was published looks once too seldom: a node that has another owner is written to.
#[test]
fn the_published_way_to_take_a_node_off_is_found_wrong() {
    for model in models::smp_list::PUBLISHED.iter().filter(|model| is_wanted(model.name)) {
        let outcome = explore_wrong(model);
        println!("{:24} {:?} after {} executions", model.name, outcome.failure, outcome.executions);
        let failure = outcome.failure.expect("the models find it");
        assert!(failure.contains("somebody wrote into Node(5)"), "{failure}");
    }
}

/// Interrupts have lists of their own because of this.
#[test]
fn an_interrupt_that_shares_a_front_is_found() {
    for model in models::device::SHARED_FRONT.iter().filter(|model| is_wanted(model.name)) {
        let failure = explore_wrong(model).failure.expect("the model finds it");
        println!("{:24} {failure}", model.name);
    }
}

/// Whether models are run whose names begin so: `MODELS` may choose some.
fn is_wanted(name: &str) -> bool {
    name.starts_with(&std::env::var("MODELS").unwrap_or_default())
}

fn find<S: 'static>(controls: &[(&str, Plant)], named: impl Fn(&str) -> Option<&'static Model<S>>) {
    let mut missed = Vec::new();
    for &(name, plant) in controls.iter().filter(|(name, _)| is_wanted(name)) {
        let outcome = explore(named(name).expect("a model of that name"), Some(plant));
        let found = outcome.failure.is_some();
        println!("{name:24} {plant:?}: found {found} after {} executions, met {}", outcome.executions, outcome.met);
        if !found {
            missed.push((name, plant));
        }
        assert_ne!(outcome.met, 0, "{plant:?} was never reached by {name}");
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
