//! Negative controls: bugs planted at one call of the core, which a model must find.
//!
//! Each control names a line of the core by its text. So it moves with the code, and fails if the line is gone.

use std::fs;
use std::path::Path;

use framewright_models::explore::{Model, explore, explore_wrong};
use framewright_models::models;
use framewright_models::session::{Place, Plant};

/// Returns the sources below a folder: path seen from `root`, and text.
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

/// Returns the place of the call at which `text` ends; the core's sources must contain `text` once.
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
        // The lock's release and acquire: the next holder does not see what was written under the lock.
        ("lock_ticket", relax("self.serving.store(ticket")),
        ("lock_ticket", relax("self.serving.wait_while")),
        // No wait at all.
        ("lock_ticket", skip("self.serving.wait_while")),
        // The ticket lock again, in a depot's shard.
        ("depot_exchange", relax("self.serving.store(ticket")),
        // The queued lock's release, and its acquires at once and after a wait.
        ("lock_queued", relax("self.turns.add(passing(number)")),
        ("lock_queued", relax("self.turns.add(DRAWN, Ordering::Acquire)")),
        ("lock_queued", relax("self.turns.wait_while")),
        // A waiter does not wait for its turn; the next waiter is not told to come forward; a waiter that was told does
        // not see the release.
        ("lock_queued", skip("self.turns.wait_while")),
        ("lock_queued_3", skip("place.add(1, Ordering::Release)")),
        ("lock_queued_far", relax("place.load(Ordering::Acquire)")),
        // From writers to readers, at once and in line, and from readers to writers.
        ("lock_shared_both", relax("self.turns.add(passing(number)")),
        ("lock_shared_both", relax("self.turns.add(READER, Ordering::Acquire)")),
        ("lock_shared_both", relax("self.turns.add(READER.wrapping_neg()")),
        ("lock_shared_both", relax("self.turns.wait_while")),
        // A writer does not wait for readers to go; a reader is not counted.
        ("lock_shared_both", skip("self.turns.wait_while")),
        ("lock_shared_both", relax("self.turns.add(DRAWN.wrapping_sub(READER)")),
        // The store and the load of the owner, and those of the claimer, are not ordered.
        ("pcp_reuse", skip("machine.light_fence()")),
        ("pcp_reuse", skip("\n        machine.heavy_fence();\n")),
        // The owner does not mark itself busy; the claimer does not wait for it.
        ("pcp_reuse", skip("self.busy.store(1, Ordering::Relaxed)")),
        ("pcp_reuse", skip("self.busy.wait_while")),
        // The next one at the rings does not see what the last one wrote there.
        ("pcp_turned_away", relax("self.flag.store(0, Ordering::Release)")),
        ("pcp_turned_away", relax("self.claim.load(Ordering::Acquire)")),
        // In the fast path, the owner reads the window before it has moved the top; the claimer reads the top before it
        // has closed the window; the claimer does not close it.
        ("front_alloc", skip("// Model: front_alloc.\n        machine.front_fence()")),
        ("front_alloc_bulk", skip("Model: front_alloc_bulk.\n        machine.front_fence()")),
        ("front_alloc", skip("\n            machine.heavy_fence();\n")),
        ("front_alloc", skip("self.floor.store(u32::MAX, Ordering::Relaxed)")),
        // An interrupt finds lists in use without a mark, as where a try of a lock always succeeds; or a zone whose
        // lock its own CPU holds.
        ("device_trylock", skip("self.busy.cas(0, 1, Ordering::Relaxed)")),
        ("device_zone", skip("let irq = shared.machine.irq_save();")),
        // Two CPUs split one block, and one does not wait for the other. Two frees of one part both succeed.
        ("range_parts", skip("self.serving.wait_while")),
        ("range_twice", skip("head.is_allocated_of(order) && word.cas(head.0, head.0 | Head::PCP, Ordering::Relaxed)")),
        // The claimer does not see what the owner pushed, nor what it wrote into the page.
        ("front_free", relax("self.top.store(top.wrapping_add(1), Ordering::Release)")),
        ("front_free", relax("self.top.load(Ordering::Acquire)")),
        ("front_free_bulk", relax("self.top.store(top.wrapping_add(pushed as u32), Ordering::Release)")),
        ("front_free_bulk", relax("self.top.load(Ordering::Acquire)")),
    ];
    find(&controls, models::named);
}

#[test]
fn every_bug_planted_in_free_paths_and_refills_is_found() {
    let controls = [
        // The lock of a range is not taken, or not waited for; the next holder does not see what the last one wrote.
        ("zone_ranged", skip("while lock.cas(0, 1, Ordering::Acquire).is_err()")),
        ("zone_ranged", relax("while lock.cas(0, 1, Ordering::Acquire).is_err()")),
        (
            "zone_ranged",
            relax("Partner: the Acquire above. Model: zone_ranged.\n            lock.store(0, Ordering::Release)"),
        ),
        // A buddy that one CPU takes stays free for the other.
        ("zone_spliced", skip("if word.cas(state.0, taken.0, Ordering::Acquire).is_err()")),
        // A cut in progress is not waited for or not marked; or its end does not publish what it wrote.
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
        // The CPU that takes a page does not see what was written into it.
        ("owned_refill", relax("match word.cas(before, before | mask, Ordering::AcqRel)")),
        ("owned_refill", relax("word.swap(0, Ordering::AcqRel)")),
        // The CPU that gives a block back does not see that the pageblock has no owner any more.
        ("owned_disown", relax("match word.cas(before, before | mask, Ordering::AcqRel)")),
        ("owned_disown", relax("word.swap(0, Ordering::AcqRel)")),
        // The CPU that releases the pageblock leaves its owner there.
        ("owned_disown", skip("owner.store(0, Ordering::Relaxed)")),
        // Two CPUs that fill the last two words both miss that the pageblock is whole.
        ("owned_words", skip("// Model: owned_words.\n        machine.fence()")),
    ];
    find(&controls, models::named);
}

#[test]
fn every_bug_planted_in_calls_from_any_context_is_found() {
    let controls = [
        // A try always succeeds, as on a machine with one CPU; or does not see what was written under the lock.
        ("nolock_zone", skip("self.next.cas(ticket, ticket.wrapping_add(1), Ordering::Relaxed)")),
        ("nolock_ticket", relax("let ticket = self.serving.load(Ordering::Acquire)")),
        ("nolock_queued", skip("let taken = self.turns.cas(turns.0, turns.0.wrapping_add(DRAWN), Ordering::Acquire)")),
        ("nolock_queued", relax("let taken = self.turns.cas(turns.0, turns.0.wrapping_add(DRAWN), Ordering::Acquire)")),
        // The interrupt does not notice the cut that it met.
        ("nolock_cut", skip("self.exists() && self.cutting.load(Ordering::Acquire)")),
        // A deferred page is not on the list, or comes off it twice; its next owner does not see what the last one
        // wrote.
        ("nolock_push_pop", skip("match self.newest.cas(first, frame.0.wrapping_add(1), Ordering::Release)")),
        ("nolock_push_nested", skip("if self.newest.cas(first, next, Ordering::Relaxed)")),
        ("nolock_push_pop", relax("match self.newest.cas(first, frame.0.wrapping_add(1), Ordering::Release)")),
        ("nolock_push_pop", relax("let first = self.newest.load(Ordering::Acquire)")),
        // Two frees of one page both succeed, so the page is pushed twice.
        (
            "nolock_twice",
            skip("head.is_allocated_of(order) && word.cas(head.0, head.0 | Head::PCP, Ordering::Relaxed)"),
        ),
        // A count is a load and then a store.
        ("nolock_counted", Plant::Tear(place("word.add(n, Ordering::Relaxed)"))),
    ];
    find(&controls, models::named);
}

#[test]
fn every_bug_planted_in_statistics_is_found() {
    let controls = [
        // A CPU's count is lost, though its store seemed to succeed; a fold does not reach the node.
        ("stat_node", skip("if word.cas(kept, keep as u8, Ordering::Relaxed)")),
        ("stat_node_both", skip("self.here.add(change as u64, Ordering::Relaxed)")),
        // The owner's lists are emptied while it is there.
        ("stat_idle", skip("self.busy.wait_while")),
    ];
    find(&controls, models::named);
}

#[test]
fn every_bug_planted_in_lists_is_found() {
    // A planted call waits for nothing. A wait that never ends is for a store that the bug has hidden.
    let controls = [
        // Two neighbours miss each other: one returns a node that the other still uses.
        ("smp_list_neighbours", skip("smp_list_neighbours, smp_list_reuse.\n        machine.fence();")),
        ("smp_list_reuse", skip("smp_list_neighbours, smp_list_reuse.\n        machine.fence();")),
        ("smp_list_neighbours", skip("in\n        // `settle`. Model: smp_list_reuse.\n        machine.fence();")),
        ("smp_list_reuse", skip("in\n        // `settle`. Model: smp_list_reuse.\n        machine.fence();")),
        // No wait for the next node, nor for a lock.
        ("smp_list_reuse", skip("if after.next.wait_while")),
        ("smp_list_neighbours", skip("let next = link.next.wait_while")),
        ("smp_list_adds", skip("let first = top.next.wait_while")),
        // A node is on the list before the former first node names it.
        ("smp_list_del_add", relax("top.next.store(new.0, Ordering::Release)")),
    ];
    find(&controls, models::smp_list::named);
}

/// The published protocol checks once too seldom: it writes into a node that has another owner.
#[test]
fn the_published_way_to_take_a_node_off_is_found_wrong() {
    for model in models::smp_list::PUBLISHED.iter().filter(|model| is_wanted(model.name)) {
        let outcome = explore_wrong(model);
        println!("{:24} {:?} after {} executions", model.name, outcome.failure, outcome.executions);
        let failure = outcome.failure.expect("the models find it");
        assert!(failure.contains("somebody wrote into Node(5)"), "{failure}");
    }
}

/// This is why interrupts have lists of their own.
#[test]
fn an_interrupt_that_shares_a_front_is_found() {
    for model in models::device::SHARED_FRONT.iter().filter(|model| is_wanted(model.name)) {
        let failure = explore_wrong(model).failure.expect("the model finds it");
        println!("{:24} {failure}", model.name);
    }
}

/// Returns whether `MODELS`, which may choose some models, chooses this one.
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
