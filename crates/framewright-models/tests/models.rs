//! Every model holds, up to its bound.

use std::time::Duration;

use framewright_models::explore::{Model, explore, limit};
use framewright_models::models;

/// Returns the bound that the environment asks for.
fn asked_for() -> Option<Option<usize>> {
    let bound = std::env::var("MODELS_BOUND").ok()?;
    Some((bound != "any").then(|| bound.parse().expect("MODELS_BOUND is a number, or any")))
}

fn hold<S>(models: &'static [Model<S>]) {
    // Chooses some of the models.
    let only = std::env::var("MODELS").unwrap_or_default();
    // Ends searches that take longer.
    let seconds = std::env::var("MODELS_SECONDS").ok().map(|text| text.parse().expect("MODELS_SECONDS is a number"));
    limit(seconds.map(Duration::from_secs));
    for model in models.iter().filter(|model| model.name.starts_with(&only)) {
        let model: &Model<S> = Box::leak(Box::new(Model { bound: asked_for().unwrap_or(model.bound), ..*model }));
        let outcome = explore(model, None);
        let bound = model.bound.map_or_else(|| "any".to_owned(), |bound| bound.to_string());
        println!(
            "{:24} preemptions {bound:>3}, {:>2} shared words, {:>6} executions (after {:>5} thrown away), {:>5.1} s{}",
            model.name,
            outcome.words,
            outcome.executions,
            outcome.thrown_away,
            outcome.elapsed.as_secs_f32(),
            if outcome.is_complete { "" } else { ", cut short" }
        );
        assert_eq!(outcome.failure, None, "{}", model.name);
        assert!(
            outcome.executions > 1 || !outcome.is_complete,
            "{} has one schedule only: its threads never meet",
            model.name
        );
    }
}

#[test]
fn locks_zones_and_ranges_hold() {
    hold(models::lock::MODELS);
    hold(models::queued::MODELS);
    hold(models::shared::MODELS);
    hold(models::zone::MODELS);
    hold(models::range::MODELS);
}

#[test]
fn free_paths_and_refills_hold() {
    hold(models::together::MODELS);
    hold(models::cluster::MODELS);
}

#[test]
fn ownership_holds() {
    hold(models::owned::MODELS);
}

#[test]
fn statistics_of_zones_hold() {
    hold(models::stat::MODELS);
}

#[test]
fn statistics_of_nodes_hold() {
    hold(models::stat::NODES);
}

#[test]
fn statistics_of_idle_lists_hold() {
    hold(models::stat::IDLE);
}

#[test]
fn per_cpu_lists_hold() {
    hold(models::pcp::MODELS);
}

#[test]
fn interrupts_hold() {
    hold(models::device::MODELS);
}

#[test]
fn calls_from_any_context_hold() {
    hold(models::nolock::MODELS);
}

#[test]
fn fronts_hold() {
    hold(models::front::MODELS);
}

#[test]
fn held_allocators_hold() {
    hold(models::fork::MODELS);
    hold(models::fork::COPIED);
}

#[test]
fn nothing_is_out_of_reach() {
    hold(models::reach::MODELS);
}

#[test]
fn depots_hold() {
    hold(models::depot::MODELS);
}

#[test]
fn lists_hold() {
    hold(models::smp_list::MODELS);
    hold(models::smp_list::CROWDS);
}

#[test]
fn rings_hold() {
    hold(models::ring::MODELS);
}

#[test]
fn protocols_of_the_runtime_hold() {
    hold(models::runtime::MODELS);
    hold(models::runtime::LEASES);
}
