//! Which zone and which frames serve a request: reserves for high orders, node policies, and ranges.
//!
//! The tests play lists of operations. The oracle judges each, and the lists say what must come of them.

mod highatomic;
mod policies;
mod ranges;

use framewright_ops::{Scenario, run};

/// Plays lists by name and tells of all that went wrong.
fn play_all<'c>(cases: impl IntoIterator<Item = (&'c str, String)>) {
    let play = |text: &str| {
        let scenario: Scenario = text.parse().map_err(|error| format!("{error}"))?;
        run(&scenario).map(drop).map_err(|failure| failure.to_string())
    };
    let wrong: Vec<String> =
        cases.into_iter().filter_map(|(name, text)| Some(format!("{name}: {}", play(&text).err()?))).collect();
    assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}
