//! Files for `framewright compare`: no panic, whatever they hold, and every form prints what was read.
#![no_main]

use framewright_lab::compare::lines::{go, page_bench, will_it_scale};
use framewright_lab::compare::read::documents;
use framewright_lab::compare::tables::{Lkp, Mmtests};
use framewright_lab::compare::text::Text;
use framewright_lab::compare::{Choice, Comparison, Side};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (old, new) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let side = |text: &str| documents("input", text).ok().map(|documents| Side { name: "input".to_owned(), documents });
    let sides: Vec<Side> = [old, new, &text].into_iter().filter_map(side).collect();
    let choice = Choice { all: true, ..Choice::default() };
    let Ok(comparison) = Comparison::new(&sides, choice) else { return };
    assert!(!Text(&comparison).to_string().is_empty());
    assert!(!(Mmtests(&comparison).to_string() + &Lkp(&comparison).to_string()).is_empty());
    assert!(go(&comparison).contains("side: input"));
    let _ = (will_it_scale(&comparison), page_bench(&comparison), comparison.worse_by(5.0));
});
