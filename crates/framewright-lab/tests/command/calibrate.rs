//! What a calibration finds from given measurements. How fast this machine is no test asks.

use crate::transcript::refused;
use framewright_lab::calibrate::{BASIS, Calibration, from_measured, names};
use framewright_sim::machine::{self, Basis, Written};

/// What the paths took on the development machine, in nanoseconds, on a busy day.
const MEASURED: [f64; 20] = [
    4.39, 10.83, 58.7, 4.28, 10.46, 57.9, 4.25, 10.98, 101.2, 6.02, 15.1, 59.1, 125.2, 9.90, 89.9, 201.1, 60.2, 60.2,
    2382.2, 201.9,
];

fn calibration(natives: &[f64]) -> Result<Calibration, String> {
    let base = machine::named("this").unwrap();
    from_measured(&base, 100, natives, &mut |_| ()).map_err(|error| error.to_string())
}

#[test]
fn the_development_machines_measurements() {
    assert_eq!(names().len(), MEASURED.len());
    let found = calibration(&MEASURED).unwrap();
    insta::assert_snapshot!(found);
    assert!(found.rows.iter().filter(|row| row.fitted).all(|row| row.error_percent.abs() < 1.0));
    // Two fallbacks miss by less than a point: their paths have got longer since the measurements were made. Those of
    // the baseline have got shorter, and no such machine was at hand to measure them again.
    let same = found.predicted().filter(|row| !row.path.ends_with("baseline"));
    let missed: Vec<f64> = same.filter(|row| !row.within).map(|row| row.error_percent).collect();
    assert!(
        missed.len() <= 2 && missed.iter().all(|error| error.abs() < 21.0),
        "the machine's file no longer predicts what it was checked against: {missed:?}"
    );
    assert_eq!(calibration(&MEASURED).as_ref(), Ok(&found), "the same from the same");
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(20));
    assert_eq!(json["rows"][0]["fitted"], true);
    // The machine and the other rows look as their first numbers do.
    let lines: Vec<String> = serde_json::to_string_pretty(&found).unwrap().lines().map(rounded).collect();
    let rows = lines.iter().position(|line| line == "    },").unwrap();
    insta::assert_snapshot!("the_same_as_json", lines[..=rows].join("\n"));
}

/// A line of JSON, whose number has one decimal.
fn rounded(line: &str) -> String {
    let number = line.split_once(": ").and_then(|(key, value)| {
        let value = value.trim_end_matches(',');
        let number = value.parse::<f64>().ok().filter(|_| value.contains('.'))?;
        Some(format!("{key}: {number:.1}{}", if line.ends_with(',') { "," } else { "" }))
    });
    number.unwrap_or_else(|| line.to_owned())
}

/// The numbers that the program has are those that these measurements lead to.
#[test]
fn the_shipped_machine_has_these_numbers() {
    let found = calibration(&MEASURED).unwrap();
    let shipped = machine::named("this").unwrap();
    for path in ["costs.instruction", "costs.hit", "stores.issue", "costs.pin"] {
        let (of_file, of_fit) = (shipped.parameter(path).unwrap(), found.spec.parameter(path).unwrap());
        assert!((of_file.value / of_fit.value - 1.0).abs() < 0.03, "{path}: {} and {}", of_file.value, of_fit.value);
        assert_eq!((&of_file.basis, &of_fit.basis), (&Basis::Fitted(BASIS.to_owned()), &of_file.basis));
    }
    let written = Written(&found.spec).to_string();
    assert_eq!(machine::parse("this.toml", &written), Ok(found.spec));
}

#[test]
fn a_machine_twice_as_slow_has_costs_twice_as_large() {
    let slow = calibration(&MEASURED.map(|time| 2.0 * time)).unwrap();
    let found = calibration(&MEASURED).unwrap();
    assert!((slow.instruction_ns / found.instruction_ns / 2.0 - 1.0).abs() < 0.01);
    assert!((slow.pin_ns / found.pin_ns / 2.0 - 1.0).abs() < 0.01);
}

#[test]
fn measurements_that_nothing_explains() {
    let with = |local: f64, plain: f64| {
        let natives: Vec<f64> = [local, plain].into_iter().chain(MEASURED.into_iter().skip(2)).collect();
        calibration(&natives).map(drop).unwrap_err()
    };
    let messages = [with(-1.0, 10.0), with(4.0, 2.0), with(1e9, 10.0), with(f64::NAN, 10.0), with(4.0, f64::INFINITY)];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn arguments_that_make_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let commands = ["--out DIR/mine.txt", "--rounds 0", "--quick --rounds 5", "--machine nowhere"]
        .map(|all| format!("calibrate {all}"));
    insta::assert_snapshot!(refused(folder.path(), commands));
}

#[test]
fn one_round_writes_a_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml").display().to_string();
    let output = crate::transcript::run(&["calibrate", "--rounds", "1", "--format", "json", "--out", &path]);
    // On a machine that is busy enough no number may explain what one round took.
    if output.status.success() {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["rounds"], 1);
        assert_eq!(
            machine::load(&path).unwrap().parameter("costs.pin").unwrap().value,
            json["pin_ns"].as_f64().unwrap()
        );
    } else {
        assert!(crate::transcript::text(&output.stderr).contains("would have to take"));
    }
}
