//! Explores models completely.
use framewright_models::{explore::explore, models::MODELS};

#[test]
fn all() {
    for model in MODELS {
        assert_eq!(explore(model, None).failure, None, "{}", model.name);
    }
}
