//! Plans and results of sweeps: no panic, and what is read is written as it was meant.
#![no_main]

use framewright_lab::sweep::merge::Merged;
use framewright_lab::sweep::plan::SweepPlan;
use framewright_lab::sweep::results::ResultsContent;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(plan) = SweepPlan::parse("plan", &String::from_utf8_lossy(data)) {
        let text = plan.jsonl().expect("a plan has a text");
        assert_eq!(SweepPlan::parse("plan", &text).expect("a plan reads back"), plan);
    }
    if let Ok(content) = ResultsContent::parse("results", data) {
        let merged = Merged::of(&[content.clone(), content], None);
        let text = merged.jsonl().expect("results have a text");
        let again = ResultsContent::parse("merged", text.as_bytes()).expect("results read back");
        assert_eq!(Merged::of(&[again], None).jsonl().expect("results have a text"), text);
    }
});
