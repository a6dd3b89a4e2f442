//! A simulated latency checker prints back what was published of each machine, and notices a wrong model.

use std::fmt::Write;

use framewright_sim::machine::{self, Spec};
use framewright_sim::mlc::{Table, check};

/// By how much a row may be wrong, in percent.
const BOUND: f64 = 3.0;

fn table(spec: &Spec) -> Table {
    check(spec).unwrap_or_else(|error| panic!("{}: {error}", spec.name))
}

#[test]
fn every_machine_prints_its_published_rows() {
    let mut text = String::new();
    for name in machine::names() {
        let spec = machine::named(name).unwrap();
        let table = table(&spec);
        assert!(table.worst() <= BOUND, "{table}");
        // Each row of the file makes one, and a point under load two: the load and the latency.
        let under_load = spec.published().filter(|row| row.at.is_some()).count();
        assert_eq!(table.rows.len(), spec.published().count() + under_load, "{table}");
        writeln!(text, "{table}\n").unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn any_shape_prints_them() {
    for (name, rows) in [("generic:1x1x1", 4), ("generic:1x2x1", 6), ("generic:3x5x1", 10), ("generic:8x64x2", 10)] {
        let table = table(&machine::named(name).unwrap());
        assert_eq!(table.rows.len(), rows, "{table}");
        assert!(table.worst() <= BOUND, "{table}");
    }
}

#[test]
fn lines_that_move_in_pairs_make_no_difference() {
    let text = include_str!("../../data/machines/generic.toml").replace("{ lines = 1,", "{ lines = 2,");
    let spec = machine::parse("pairs.toml", &text).unwrap();
    assert!(spec.model().pairs);
    let table = table(&spec);
    assert!(table.worst() <= BOUND, "{table}");
}

/// A machine without published rows is told that it has none, and where to read how to add them.
#[test]
fn a_machine_without_rows_says_so() {
    let text = include_str!("../../data/machines/this.toml");
    let (before, rows) = text.split_once("[mlc]").unwrap();
    let after = rows.find("\n[").map_or("", |end| &rows[end..]);
    let spec = machine::parse("bare.toml", &format!("{before}{after}")).unwrap();
    let told = table(&spec).to_string();
    insta::assert_snapshot!(told, @r"
    latency checker on bare, at rest (load factor 1)
    nothing to compare with: the machine's file has no rows in [mlc]; docs/extending.md says how to add them
    ");
}

#[test]
fn two_runs_print_the_same() {
    let spec = machine::named("broadwell-2x22").unwrap();
    assert_eq!(table(&spec), table(&spec));
}

/// Each row finds its own parameter: a model in which one latency is a tenth longer prints that row, and no other, a
/// tenth too long. The second machine has several nodes a socket.
#[test]
fn a_wrong_latency_is_noticed_in_its_row() {
    for (machine, count) in [("generic", 10), ("zen1-2x32", 11)] {
        let spec = machine::named(machine).unwrap();
        let rows: Vec<String> = table(&spec).rows.into_iter().map(|row| row.path).collect();
        assert_eq!(rows.len(), count);
        for path in &rows {
            let name = path.strip_prefix("mlc.").unwrap();
            let wrong = table(&spec.scaled(&format!("latency.{name}"), 1.1).unwrap());
            for row in &wrong.rows {
                let expected = if row.path == *path { 10.0 } else { 0.0 };
                assert!((row.error_percent - expected).abs() < 0.5, "with a longer {name}: {wrong}");
            }
        }
    }
}

/// A slower controller prints less bandwidth, and what is lost in load makes latencies longer.
#[test]
fn a_slow_controller_is_noticed() {
    let spec = machine::named("skylake-2x28").unwrap().scaled("memory.read_line", 1.1).unwrap();
    let table = table(&spec);
    let row = |path: &str| table.rows.iter().rfind(|row| row.path == path).unwrap().error_percent;
    assert!((row("mlc.peak") + 9.1).abs() < 1.0, "{table}");
    assert!(row("mlc.loaded.2") > 5.0, "{table}");
    assert!(row("mlc.hitm").abs() < 0.1, "{table}");
}
