//! What people and tools see of simulated runs: text, trace and sensitivity, from made-up runs.

use crate::sim_samples::{narrow, run, sensitivity, spans};
use framewright_lab::sim::sensitivity::Effect;
use framewright_lab::sim::{CurveText, RunText, Sensitivity, timeline};
use framewright_sim::machine::Basis;
use framewright_sim::report::{CpuReport, Report, Times};
use proptest::prelude::*;
use serde_json::Value;

#[test]
fn a_run_on_many_cpus() {
    insta::assert_snapshot!(narrow(&RunText(&run(112)).to_string()));
}

#[test]
fn a_run_on_one_cpu_has_no_contention_to_show() {
    insta::assert_snapshot!(narrow(&RunText(&run(1)).to_string()));
}

#[test]
fn runs_by_number_of_cpus() {
    let mut runs: Vec<_> = [112, 1, 8, 28, 56].map(run).to_vec();
    runs.extend([1, 112].map(|cpus| {
        let per_second = run(cpus).per_second * 1.3;
        Report { mechanisms: "no_merge".to_owned(), per_second, locks: vec![], ..run(cpus) }
    }));
    insta::assert_snapshot!(narrow(&CurveText(&runs).to_string()));
}

#[test]
fn a_sensitivity_with_its_band() {
    insta::assert_snapshot!(narrow(&sensitivity().to_string()));
    let json: Value = serde_json::to_value(sensitivity()).unwrap();
    assert_eq!(json["rows"][0]["parameter"], "memory.load_permille", "the largest effect comes first");
    assert_eq!(json["rows"][0]["basis"]["fitted"], "zone-lock/patch1");
    assert_eq!(json["band"][0].as_f64(), Some(run(112).per_second * 0.921));
}

#[test]
fn a_result_that_nothing_moves_has_no_band() {
    let effect = Effect { parameter: "x".to_owned(), basis: Basis::Assumed(String::new()), lower: 0.0, higher: 0.0 };
    let still = Sensitivity::new("losses", (1, "baseline"), 0.0, vec![effect]);
    assert_eq!(still.band, (0.0, 0.0));
    assert!(still.to_string().contains("0 now; band 0"), "{still}");
}

#[test]
fn a_trace_for_perfetto() {
    let mut out = Vec::new();
    timeline::write(&spans(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    insta::assert_snapshot!(text);
    let parsed: Value = serde_json::from_str(&text).unwrap();
    let holds = parsed["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "hold");
    assert_eq!(holds.count(), spans().len());
}

#[test]
fn a_trace_of_nothing_is_one_all_the_same() {
    let mut out = Vec::new();
    timeline::write(&[], &mut out).unwrap();
    let parsed: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(parsed["traceEvents"].as_array().map(Vec::len), Some(0));
}

proptest! {
    /// Whatever a lock is called and however wild its times are, the trace parses and has its name.
    #[test]
    fn traces_escape_any_name(lock in any::<String>(), times in any::<[u64; 3]>()) {
        let mut spans = spans();
        spans[0].lock = lock.clone();
        [spans[0].wanted_ns, spans[0].taken_ns, spans[0].released_ns] = times;
        let mut out = Vec::new();
        timeline::write(&spans, &mut out).unwrap();
        let parsed: Value = serde_json::from_slice(&out).unwrap();
        let name = format!("holds {lock}");
        prop_assert!(parsed["traceEvents"].as_array().unwrap().iter().any(|event| event["name"] == name.as_str()));
    }

    /// Numbers of any size print, within the width.
    #[test]
    fn any_numbers_print(numbers in any::<[f64; 4]>(), count in any::<u64>(), name in ".{0,80}") {
        let mut report = run(4);
        report.per_second = numbers[0];
        report.cycles_per_operation = numbers[1];
        report.locks[0].taken = count;
        report.locks[0].waiting.max_ns = numbers[2];
        report.lines[0].total.queued_ns = numbers[3];
        report.lines[0].name = name;
        report.operations = count;
        report.per_cpu[0] = CpuReport { time: Times { queued: numbers[3], ..Times::default() }, ..report.per_cpu[0].clone() };
        let text = RunText(&report).to_string();
        prop_assert!(text.contains("page faults per second"));
        prop_assert!(!CurveText(&[report]).to_string().is_empty());
    }
}
