//! The experiments at a glance: text, page and verdicts from made-up figures.

use crate::sim_samples::{narrow, shows};
use framewright_lab::experiments::band::Bands;
use framewright_lab::experiments::overview::{beside_overview, overview_page};
use framewright_lab::experiments::{All, Experiment, all};
use framewright_lab::reproduce::check::Check;
use framewright_lab::reproduce::headline::{Gain, Headline, HeadlineRow, Verdict};
use framewright_lab::reproduce::variation::Band;

fn headline(experiment: Experiment, rows: Vec<HeadlineRow>) -> Headline {
    let ours =
        "+25.8 %; nobody waits, and so on for so long that it does not fit a line of a hundred columns".to_owned();
    Headline {
        experiment: experiment.name(),
        what: "page faults, against patch1".to_owned(),
        rows,
        gain: Gain { what: "page faults".to_owned(), from_to: ["1 %".to_owned(), "2 %".to_owned()] },
        ours,
        fails: Vec::new(),
        not_judged: Vec::new(),
    }
    .with(&[Check::seen("rank order", false, "a is not above b"), Check::seen("gain", true, "all")], true)
}

/// One figure of each kind.
fn rows() -> Vec<HeadlineRow> {
    vec![
        HeadlineRow::new("near", "%", [-73.3, -72.0], false, true),
        HeadlineRow::new("band holds theirs", "%", [27.0, 15.0], false, false),
        HeadlineRow::new("less, as theirs", "%", [-50.0, -5.0], false, false),
        HeadlineRow::new("neither", "cycles", [640.0, 500.0], false, false),
        HeadlineRow::new("fitted", "%", [31.2, 31.0], true, true),
        HeadlineRow::new("gone", "%", [10.0, 10.0], false, true),
        HeadlineRow::new("near, band does not hold theirs", "%", [23.5, 14.3], false, true),
        HeadlineRow::new("fitted, but off", "%", [31.2, 22.7], true, false),
    ]
}

fn bands() -> Bands {
    let file = "[zone-lock]\nnear = [-75.0, -70.0]\n\"band holds theirs\" = [14.0, 28.0]\nneither = [490.0, 510.0]\n\
                \"less, as theirs\" = [-9.0, 3.0]\n\
                fitted = [30.0, 32.0]\ngone = [-1.0, 9.9]\n\"near, band does not hold theirs\" = [12.0, 19.3]\n\
                \"fitted, but off\" = [13.8, 32.4]\n";
    toml::from_str(file).unwrap()
}

fn sample(rows: Vec<HeadlineRow>) -> All {
    let held = bands().within(headline(Experiment::ZoneLock, rows), true);
    let rows =
        vec![HeadlineRow::new("near", "%", [1.0, 1.5], false, true), HeadlineRow::of_default("default", "%", 30.0)];
    let open = bands().within(headline(Experiment::NumaStats, rows), true);
    let command = "framewright reproduce all --quick --seed 1".to_owned();
    All { schema: all::SCHEMA, command, quick: true, seed: 1, experiments: vec![held, open] }
}

#[test]
fn figures_stand_as_they_should() {
    let all = sample(rows());
    let verdicts: Vec<Verdict> = all.experiments[0].rows.iter().map(|row| row.verdict).collect();
    use Verdict::{AsPublished, Differs, Fitted, FittedMissed, InBand, LeftBand, NearOutside, SameWay};
    assert_eq!(verdicts, [AsPublished, InBand, SameWay, Differs, Fitted, LeftBand, NearOutside, FittedMissed]);
    assert!(!all.holds());
    assert!(sample(rows()[..5].to_vec()).holds());
    // A fitted figure has to stay in its band as well.
    let moved = HeadlineRow::new("fitted", "%", [31.2, 40.0], true, false);
    assert!(!sample(vec![moved.clone()]).holds());
    // With a seed that no band was recorded with, nothing has left one.
    let other = bands().within(headline(Experiment::ZoneLock, vec![moved]), false);
    assert!(other.holds() && other.rows[0].band.is_some());
}

/// A check that does not hold fails in a full run alone.
#[test]
fn a_quick_run_is_too_short_to_fail() {
    let missed = [Check::seen("rank order", false, "a is not above b")];
    for (quick, wanted) in [(true, "  not judged in a quick run: rank order\n"), (false, "  FAILS: rank order\n")] {
        let made = Headline { not_judged: Vec::new(), ..headline(Experiment::ZoneLock, rows()) }.with(&missed, quick);
        let all = All { quick, experiments: vec![made], ..sample(rows()) };
        let (screen, page) = (all.to_string(), overview_page(&all).unwrap());
        assert!(screen.contains(wanted) && screen.contains("FAILS") != quick, "{screen}");
        assert_eq!(page.contains("<span class=\"fails\">fails</span>"), !quick, "{page}");
        assert_eq!(page.contains("<span class=\"unseen\">not judged in a quick run</span>"), quick, "{page}");
    }
}

#[test]
fn one_screen() {
    insta::assert_snapshot!(narrow(&sample(rows()).to_string()));
}

#[test]
fn the_same_as_json() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&sample(rows()[..2].to_vec())).unwrap());
}

#[test]
fn a_page_that_leads_to_the_others() {
    let page = overview_page(&sample(rows())).unwrap();
    shows(
        &page,
        &[
            "href=\"zone-lock.html\"",
            "LEFT ITS BAND",
            "-73.3 %",
            "-75.0 … -70.0",
            "Page faults, against patch1.",
            "near, outside band: as near",
        ],
    );
    assert_eq!(page.matches("<circle class=\"ours\"").count(), 1 + 9, "the legend's, and each published figure's");
    assert_eq!(page.matches("<path class=\"own\"").count(), 1 + 1);
    let inner = beside_overview(&page);
    assert_eq!(inner.matches("href=\"index.html\"").count(), 1);
}

#[test]
fn recorded_bands_are_wide_enough_for_two_digits() {
    assert_eq!(bands().of("zone-lock", "gone"), Some(Band([-1.0, 9.9])));
    assert_eq!(bands().of("zone-lock", "other"), None);
}
