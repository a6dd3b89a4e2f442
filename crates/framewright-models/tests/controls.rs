//! Negative controls: bugs planted at one call of the core, which a model must find. Orderings that are too weak are in
//! `orderings`.
//!
//! Each control names a line of the core by its text. So it moves with the code, and fails if the line is gone.

use std::fs;
use std::path::Path;

use framewright_models::explore::explore_wrong;
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
    Place { file: file.clone().leak(), line: *line, column: 0 }
}

fn skip(text: &str) -> Plant {
    Plant::Skip(place(text))
}

#[test]
fn every_planted_bug_is_found() {
    find(&[
        // No wait at all.
        ("lock_ticket", skip("self.serving.wait_while")),
        ("lock_queued", skip("self.turns.wait_while")),
        // The next waiter is not told to come forward.
        ("lock_queued_3", skip("place.add(1, Ordering::Release)")),
        // A writer does not wait for readers to go.
        ("lock_shared_both", skip("self.turns.wait_while")),
        // The owner does not mark itself busy; the claimer does not wait for it.
        ("pcp_reuse", skip("self.busy.store(1, Ordering::Relaxed)")),
        ("pcp_reuse", skip("self.busy.wait_while")),
        // The claimer does not close the window.
        ("front_alloc", skip("self.floor.store(u32::MAX, Ordering::Relaxed)")),
        // An interrupt finds lists in use without a mark, as where a try of a lock always succeeds; or a zone whose
        // lock its own CPU holds.
        ("device_trylock", skip("self.busy.cas(0, 1, Ordering::Relaxed)")),
        ("device_zone", skip("let irq = shared.machine.irq_save();")),
        // Two CPUs split one block, and one does not wait for the other. Two frees of one part both succeed.
        ("range_parts", skip("self.serving.wait_while")),
        ("range_twice", skip("head.is_allocated_of(order) && word.cas(head.0, head.0 | Head::PCP, Ordering::Relaxed)")),
    ]);
}

#[test]
fn every_bug_planted_in_free_paths_and_refills_is_found() {
    find(&[
        // The lock of a range is not taken.
        ("zone_ranged", skip("while lock.cas(0, 1, Ordering::Acquire).is_err()")),
        // A buddy that one CPU takes stays free for the other.
        ("zone_spliced", skip("if word.cas(state.0, taken.0, Ordering::Acquire).is_err()")),
        // A cut in progress is not waited for or not marked.
        ("cluster_cut", skip("let _ = self.cutting.wait_while")),
        ("cluster_cut_larger", skip("let _ = self.cutting.wait_while")),
        ("cluster_cut", skip("self.cutting.add(1, Ordering::Relaxed)")),
        // The CPU that releases an owned pageblock leaves its owner there.
        ("owned_disown", skip("owner.store(0, Ordering::Relaxed)")),
    ]);
}

#[test]
fn every_bug_planted_in_calls_from_any_context_is_found() {
    find(&[
        // A try always succeeds, as on a machine with one CPU.
        ("nolock_zone", skip("self.next.cas(ticket, ticket.wrapping_add(1), Ordering::Relaxed)")),
        ("nolock_queued", skip("let taken = self.turns.cas(turns.0, turns.0.wrapping_add(DRAWN), Ordering::Acquire)")),
        // The interrupt does not notice the cut that it met.
        ("nolock_cut", skip("self.exists() && self.cutting.load(Ordering::Acquire)")),
        // A deferred page is not on the list, or comes off it twice.
        ("nolock_push_pop", skip("match self.newest.cas(first, frame.0.wrapping_add(1), Ordering::Release)")),
        ("nolock_push_nested", skip("if self.newest.cas(first, next, Ordering::Relaxed)")),
        // Two frees of one page both succeed, so the page is pushed twice.
        (
            "nolock_twice",
            skip("head.is_allocated_of(order) && word.cas(head.0, head.0 | Head::PCP, Ordering::Relaxed)"),
        ),
        // A count is a load and then a store.
        ("nolock_counted", Plant::Tear(place("word.add(n, Ordering::Relaxed)"))),
    ]);
}

#[test]
fn every_bug_planted_in_statistics_is_found() {
    find(&[
        // A CPU's count is lost, though its store seemed to succeed; a fold does not reach the node.
        ("stat_node", skip("if word.cas(kept, keep as u8, Ordering::Relaxed)")),
        ("stat_node_both", skip("self.here.add(change as u64, Ordering::Relaxed)")),
        // The owner's lists are emptied while it is there.
        ("stat_idle", skip("self.busy.wait_while")),
    ]);
}

#[test]
fn every_bug_planted_in_lists_is_found() {
    // A planted call waits for nothing. A wait that never ends is for a store that the bug has hidden.
    find(&[
        // No wait for the next node, nor for a lock.
        ("smp_list_reuse", skip("if after.next.wait_while")),
        ("smp_list_neighbours", skip("let next = link.next.wait_while")),
        ("smp_list_adds", skip("let first = top.next.wait_while")),
    ]);
}

/// The published protocol checks once too seldom: it changes a node that has another owner.
#[test]
fn the_published_way_to_take_a_node_off_is_found_wrong() {
    for model in models::smp_list::PUBLISHED.iter().filter(|model| is_wanted(model.name)) {
        let outcome = explore_wrong(model);
        println!("{:24} {:?} after {} executions", model.name, outcome.failure, outcome.executions);
        let failure = outcome.failure.expect("the models find it");
        assert!(failure.contains("Concurrent"), "a race with the node's next owner, not {failure}");
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

#[test]
fn a_copy_that_is_not_settled_is_found() {
    for model in models::fork::UNSETTLED.iter().filter(|model| is_wanted(model.name)) {
        let failure = explore_wrong(model).failure.expect("the model finds it");
        println!("{:24} {failure}", model.name);
    }
}

/// Returns whether `MODELS`, which may choose some models, chooses this one.
fn is_wanted(name: &str) -> bool {
    name.starts_with(&std::env::var("MODELS").unwrap_or_default())
}

fn find(controls: &[(&str, Plant)]) {
    let mut missed = Vec::new();
    for &(name, plant) in controls.iter().filter(|(name, _)| is_wanted(name)) {
        let outcome = models::explore_named(name, plant).expect("a model of that name");
        let found = outcome.failure.is_some();
        println!("{name:24} {plant:?}: found {found} after {} executions, met {}", outcome.executions, outcome.met);
        if !found {
            missed.push((name, plant));
        }
        assert_ne!(outcome.met, 0, "{plant:?} was never reached by {name}");
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
