//! Lists that people met in the field, with what is right stated in them (`cases/`).
//!
//! Each must run without anything wrong, and be as it states.

use std::fs;
use std::path::Path;

use framewright::Mechanisms;
use framewright_ops::{Checks, Scenario, run_with};

fn case(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Runs a list that states something, under its own mechanisms or others.
#[track_caller]
fn must_be_as_stated(name: &str, mechanisms: Option<&str>) {
    let mut scenario = case(name);
    let states = |step: &framewright_ops::Step| step.expected.is_some() || step.to_string().starts_with("#!");
    assert!(scenario.steps.iter().any(states), "{name} states nothing");
    if let Some(list) = mechanisms {
        scenario.shape.mechanisms = Mechanisms::parse(list).unwrap();
    }
    if let Err(failure) = run_with(&scenario, Checks::affordable(&scenario)) {
        panic!("{name} under {}: {}", mechanisms.unwrap_or("its own mechanisms"), failure.summary());
    }
}

#[test]
fn every_case_has_a_test() {
    let source = include_str!("cases.rs");
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(source.contains(&format!("\"{name}\"")), "{name} is run by no test");
        let scenario = case(&name);
        assert_eq!(scenario.to_string().parse(), Ok(scenario), "{name} reads back");
    }
}

#[test]
fn free_lists_are_made_as_a_report_shows_them() {
    for mechanisms in [None, Some("default"), Some("linux-6.1"), Some("owned-pageblocks")] {
        must_be_as_stated("free-lists.ops", mechanisms);
    }
}

#[test]
fn requests_that_may_not_wait_get_what_other_cpus_keep() {
    must_be_as_stated("huge-lists-starve-nowait.ops", None);
}

#[test]
fn requests_that_may_not_wait_get_what_lists_without_a_depot_keep() {
    for mechanisms in ["baseline", "linux-6.1", "default,depot=off"] {
        must_be_as_stated("huge-lists-starve-nowait.ops", Some(mechanisms));
    }
}

#[test]
fn a_zone_of_two_pageblocks_has_no_reserve() {
    must_be_as_stated("highatomic-small-zone.ops", None);
}

#[test]
fn the_reserve_grows_only_for_what_it_cannot_serve() {
    must_be_as_stated("highatomic-creeps-linux-6.1.ops", None);
}

#[test]
fn the_reserve_does_not_grow_where_lists_are_drained() {
    must_be_as_stated("highatomic-creeps-drains-between.ops", None);
}

#[test]
fn nodes_without_memory_have_no_turn() {
    must_be_as_stated("interleave-memoryless.ops", None);
}
