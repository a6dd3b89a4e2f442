//! Every model holds, up to its bound.

use framewright_models::explore::{Model, explore};
use framewright_models::models;

fn hold(models: &'static [Model]) {
    // For work on some of them alone.
    let only = std::env::var("MODELS").unwrap_or_default();
    for model in models.iter().filter(|model| model.name.starts_with(&only)) {
        let outcome = explore(model, None);
        let bound = model.bound.map_or_else(|| "any".to_owned(), |bound| bound.to_string());
        println!(
            "{:24} preemptions {bound:>3}, {:>2} shared words, {:>6} executions, {:>5.1} s",
            model.name,
            outcome.words,
            outcome.executions,
            outcome.elapsed.as_secs_f32()
        );
        assert_eq!(outcome.failure, None, "{}", model.name);
        assert!(outcome.executions > 1, "{} has one schedule only: its threads never meet", model.name);
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
fn per_cpu_lists_hold() {
    hold(models::pcp::MODELS);
}

#[test]
fn fronts_hold() {
    hold(models::front::MODELS);
}

#[test]
fn depots_hold() {
    hold(models::depot::MODELS);
}
