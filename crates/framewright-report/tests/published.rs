//! Published reports: each has the outcome and the cause that `data/reports/causes.csv` says, and an answer that fits.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use framewright_report::answer::answer;
use framewright_report::read::reports;

/// Returns the name of a value as the JSON form has it: `NoZone` is `no-zone`.
fn kebab(value: impl std::fmt::Debug) -> String {
    let mut name = String::new();
    for letter in format!("{value:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

#[test]
fn published_reports_are_decided_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/reports");
    let table = fs::read_to_string(folder.join("causes.csv")).unwrap();
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in table.lines().skip(1) {
        let (file, rest) = row.split_once(',').unwrap();
        expected.entry(file.to_owned()).or_default().push(rest.to_owned());
    }
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".txt") {
            continue;
        }
        let text = fs::read(&path).unwrap();
        for (number, report) in (1..).zip(reports(&String::from_utf8_lossy(&text))) {
            let answer = answer(&report);
            let (outcome, cause) = (kebab(answer.verdict.outcome), kebab(answer.verdict.cause));
            found.entry(name.clone()).or_default().push(format!("{number},{outcome},{cause}"));
            let text = answer.to_string();
            assert!(text.lines().count() <= 25, "{name}:\n{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 120), "{name}:\n{text}");
        }
    }
    assert_eq!(found, expected);
}

/// The examples of `docs/why.md`, in full.
#[test]
fn answers_read_as_shown() {
    for (name, text) in [
        ("order4", include_str!("../../../data/reports/23-btrfs-order4.txt")),
        ("atomic", include_str!("../../../data/reports/58-atomic-order1-cut-interleaved.txt")),
    ] {
        let answers: Vec<String> = reports(text).iter().map(|report| answer(report).to_string()).collect();
        insta::assert_snapshot!(name, answers.join("\n"));
    }
}
