//! Every model holds, up to its bound.

use framewright_models::explore::explore;
use framewright_models::models;

#[test]
fn every_model_holds() {
    for model in models::all() {
        let outcome = explore(model, None);
        let bound = model.bound.map_or_else(|| "any".to_owned(), |bound| bound.to_string());
        println!(
            "{:22} preemptions {bound:>3}, {:>2} shared words, {:>6} executions, {:>5.1} s",
            model.name,
            outcome.words,
            outcome.executions,
            outcome.elapsed.as_secs_f32()
        );
        assert_eq!(outcome.failure, None, "{}", model.name);
        assert!(outcome.executions > 1, "{} has one schedule only: its threads never meet", model.name);
    }
}
