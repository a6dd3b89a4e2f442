//! Machines' files: those that come with the program, what is refused and how, and what scaling does.

use std::fmt::Write;

use framewright_sim::machine::{self, Basis, MachineError, Parameter, Spec, Unit};
use framewright_sim::model::Costs;
use proptest::prelude::*;

/// A machine with two sockets, whose numbers mean nothing.
const SMALL: &str = include_str!("../../data/machines/generic.toml");

fn built_in() -> impl Iterator<Item = Spec> {
    machine::names().map(|name| machine::named(name).unwrap())
}

#[test]
fn every_machine_of_the_program_is_one() {
    for spec in built_in() {
        let model = spec.model();
        assert_eq!(model.name, spec.name);
        assert!(model.topology.cpus() <= machine::MOST_CPUS, "{}", spec.name);
        assert!(!model.costs.steps.contains(&0), "{}: a step costs nothing", spec.name);
        assert!(model.memory.loaded.windows(2).all(|pair| pair[0] <= pair[1]), "{}", spec.name);
    }
    let cpus: Vec<String> = built_in().map(|spec| format!("{} {}", spec.name, spec.model().topology.cpus())).collect();
    insta::assert_snapshot!(cpus.join("\n"));
}

#[test]
fn every_number_says_where_it_comes_from() {
    let tables = ["zone-lock", "numa-stats", "fragmentation", "zone-layout", "irq-safe", "calibrate"];
    for spec in built_in() {
        for parameter in spec.parameters().chain(spec.published()) {
            let name = format!("{}: {}", spec.name, parameter.path);
            let (Basis::Source(text) | Basis::Assumed(text) | Basis::Fitted(text)) = &parameter.basis;
            assert!(!text.trim().is_empty(), "{name}");
            for row in parameter.basis.rows() {
                assert!(tables.contains(&row.split('/').next().unwrap()), "{name}: {row} is in no known table");
            }
            assert!(!text.contains("TODO"), "{name}");
        }
        assert!(
            spec.published().all(|row| row.basis.rows().next().is_none()),
            "{}: a published row is fitted",
            spec.name
        );
    }
}

/// The rows that a latency checker printed equal the numbers of the model: neither may be tuned alone.
#[test]
fn published_rows_are_the_models_own() {
    for spec in built_in() {
        let at = |path: &str| spec.parameter(path).unwrap_or_else(|| panic!("{}: {path}", spec.name)).value;
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.002;
        let peak = spec.published().find(|row| row.path == "mlc.peak").map(|row| row.value);
        if let Some(peak) = peak {
            let nodes = f64::from(spec.model().topology.sockets);
            let all_nodes = 64.0 * nodes / at("memory.read_line");
            assert!(near(all_nodes, peak), "{}: {all_nodes} GB/s of {peak}", spec.name);
        }
        let mut points = 0;
        for row in spec.published() {
            let name = row.path.strip_prefix("mlc.").unwrap();
            if name.starts_with("loaded.") {
                points += 1;
                let point = spec.parameter(&format!("memory.loaded.{points}")).unwrap();
                assert!(near(point.value * at("latency.dram"), row.value), "{}: {} ns", spec.name, row.path);
                let bandwidth = point.at.unwrap().0 / 100.0 * peak.unwrap();
                assert!(near(bandwidth, row.at.unwrap().0), "{}: {} {bandwidth} GB/s", spec.name, row.path);
            } else if name != "peak" {
                let parameter = spec.parameter(&format!("latency.{name}")).unwrap();
                assert_eq!((row.value, row.unit), (parameter.value, parameter.unit), "{}: {}", spec.name, row.path);
            }
        }
    }
}

/// CPUs and memory of a machine whose sockets have nodes: each node is a socket of the model, and those of one package are known.
#[test]
fn a_socket_may_have_several_nodes() {
    let topology = machine::named("zen1-2x32").unwrap().model().topology;
    assert_eq!((topology.sockets, topology.package, topology.cores, topology.cpus()), (8, 4, 8, 128));
    // As Linux numbers them: CPUs 8 to 15 and 72 to 79 are of node 1.
    let node_1: Vec<usize> = (0..128).filter(|cpu| topology.socket_of(*cpu) == 1).collect();
    assert_eq!(node_1, (8..16).chain(72..80).collect::<Vec<_>>());
}

#[test]
fn the_shape_of_the_generic_machine_stands_in_its_name() {
    let spec = machine::named("generic:4x32x2").unwrap();
    let model = spec.model();
    assert_eq!((model.name.as_str(), model.topology.cpus()), ("generic:4x32x2", 256));
    assert_eq!(spec.parameter("topology.cores").unwrap().basis.to_string(), "assumed: given with the machine's name");
    assert_eq!(machine::named("generic:8x64x2").unwrap().model().topology.cpus(), 1024);
    assert_eq!(machine::named("generic:1x1x1").unwrap().model().topology.cpus(), 1);
}

#[test]
fn names_that_mean_nothing() {
    let mut text = String::new();
    for name in [
        "skylake",
        "",
        "generic:",
        "generic:4x32",
        "generic:0x4x2",
        "generic:8x64x4",
        "generic:65535x65535x65535",
        "generic:-1x1x1",
        "generic:99999x1x1",
        "this:1x1x1",
    ] {
        writeln!(text, "{}", machine::named(name).unwrap_err()).unwrap();
    }
    insta::assert_snapshot!(text);
    let missing = machine::load("no-such-folder/no-such-file.toml").unwrap_err().to_string();
    assert!(missing.starts_with("cannot read no-such-folder/no-such-file.toml: "), "{missing}");
}

#[test]
fn files_that_are_no_machine() {
    let edits = [
        ("title = ", "titel = "),
        ("title = \"A machine", "title = 5 #"),
        ("clock = {", "# {"),
        ("[stores]", "[stored]"),
        ("l1 = { cycles = 5,", "l0 = { cycles = 5,"),
        ("l1 = { cycles = 5,", "l1 = { ms = 5,"),
        ("l1 = { cycles = 5,", "l1 = { ghz = 5,"),
        ("l1 = { cycles = 5,", "l1 = { cycles = 5, ns = 2,"),
        ("l1 = { cycles = 5,", "l1 = {"),
        ("l1 = { cycles = 5,", "l1 = { cycles = -5,"),
        ("l1 = { cycles = 5,", "l1 = { cycles = nan,"),
        ("l1 = { cycles = 5,", "l1 = { cycles = inf,"),
        ("l1 = { cycles = 5,", "l1 = { cycles = \"5\","),
        ("l1 = { cycles = 5,", "l1 = { cycles = 5, source = \"both\","),
        ("l1 = { cycles = 5, assumed = \"recalled: server cores since Ice Lake\" }", "l1 = { cycles = 5 }"),
        ("l1 = { cycles = 5, assumed = \"recalled: server cores since Ice Lake\" }", "l1 = 5"),
        ("assumed = \"recalled: server cores since Ice Lake\"", "assumed = \" \""),
        ("assumed = \"recalled: server cores since Ice Lake\"", "fitted = \"some table\""),
        ("assumed = \"recalled: server cores since Ice Lake\"", "fitted = \"zone-lock/patch1,\""),
        ("assumed = \"recalled: server cores since Ice Lake\"", "source = 3"),
        ("l2 = { cycles = 15,", "l2 = { cycles = 1,"),
        ("l2 = { mib = 1,", "l2 = { kib = 16,"),
        ("llc = { mib = 32,", "llc = { mib = 32000,"),
        ("cores = { count = 16,", "cores = { count = 0,"),
        ("cores = { count = 16,", "cores = { count = 1.5,"),
        ("cores = { count = 16,", "cores = { count = 512,"),
        ("sockets = { count = 2,", "sockets = { count = 1,"),
        ("cores = {", "nodes = { count = 4, assumed = \"a\" }\ncores = {"),
        ("cores = {", "nodes = { count = 3, assumed = \"a\" }\ncores = {"),
        ("cores = {", "nodes = { count = 0, assumed = \"a\" }\ncores = {"),
        ("far_hit = {", "die_hit = { ns = 90, assumed = \"a\" }\nfar_hit = {"),
        ("far_dram = { ns = 140, assumed = \"r", "#"),
        ("{ percent = 50, ratio = 1.25,", "{ percent = 20, ratio = 1.25,"),
        ("{ percent = 50, ratio = 1.25,", "{ percent = 50, ratio = 1.05,"),
        ("{ percent = 50, ratio = 1.25,", "{ percent = 150, ratio = 1.25,"),
        ("{ percent = 50, ratio = 1.25,", "{ ratio = 1.25,"),
        ("loaded = [", "loaded = []\nother = ["),
        ("together = { lines = 1,", "together = { lines = 3,"),
        ("sibling = {", "steps = 3\nsibling = {"),
        ("[run]", "[costs.steps]\nlist-ad = { ns = 1, assumed = \"a\" }\n\n[run]"),
        ("[latency]", "[latency"),
        ("[latency]", "[topology]"),
    ];
    let mut text = String::new();
    for (from, to) in edits {
        let edited = SMALL.replacen(from, to, 1);
        assert_ne!(edited, SMALL, "{from}");
        let error = machine::parse("mine.toml", &edited).map(|_| ()).unwrap_err();
        writeln!(text, "{}\n    {error}", to.replace('\n', " | ")).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn one_machine_as_reports_list_it() {
    let spec = machine::named("skylake-2x28").unwrap();
    let mut text = format!("{}\n{}\n", spec.name, spec.title);
    let number = |value: f64, unit: Unit| format!("{value} {}", unit.key());
    for Parameter { path, value, unit, at, basis } in spec.parameters().chain(spec.published()) {
        let at = at.map_or(String::new(), |(at, unit)| format!(" at {}", number(at, unit)));
        writeln!(text, "{path}: {}{at} ({basis})", number(*value, *unit)).unwrap();
    }
    insta::assert_snapshot!(text);
    insta::assert_debug_snapshot!(spec.model());
}

#[test]
fn what_cannot_be_scaled() {
    let spec = machine::named("this").unwrap();
    let message = |path: &str, factor: f64| spec.scaled(path, factor).map(|_| ()).unwrap_err().to_string();
    assert_eq!(message("latency.l4", 1.1), "this: latency.l4: there is no such parameter");
    assert_eq!(message("topology.cores", 1.1), "this: topology.cores: is a number of parts, which does not scale");
    assert_eq!(message("mlc.l1", 1.1), "this: mlc.l1: there is no such parameter");
    assert_eq!(message("latency.l1", f64::NAN), "this: latency.l1: cannot be scaled by NaN");
    assert_eq!(message("latency.l1", -1.0), "this: latency.l1: cannot be scaled by -1");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Scaling changes the one parameter and no other, and the model only where that parameter is in it.
    #[test]
    fn scaling_changes_one_parameter(machine in 0_usize..6, index in 0_usize..200, up in any::<bool>()) {
        let spec = built_in().nth(machine).unwrap();
        let scalable: Vec<_> = spec.parameters().filter(|parameter| parameter.scales()).collect();
        let path = &scalable[index % scalable.len()].path;
        let factor = if up { 1.1 } else { 0.9 };
        let scaled = spec.scaled(path, factor).unwrap();
        prop_assert_eq!(scaled.parameters().count(), spec.parameters().count());
        for (before, after) in spec.parameters().zip(scaled.parameters()) {
            let expected = if before.path == *path { before.value * factor } else { before.value };
            prop_assert_eq!(after.value, expected);
            prop_assert_eq!((&after.path, &after.basis, after.unit), (&before.path, &before.basis, before.unit));
        }
        prop_assert!(spec.published().eq(scaled.published()));
        // A share, depth or point of a curve may round, or be held level, to what it was.
        if path.starts_with("latency.") {
            prop_assert_ne!(spec.model().latency, scaled.model().latency);
            // A hit costs all of its latency where nothing else is said.
            let hit = scaled.model().costs.hit;
            prop_assert_eq!(Costs { hit, ..spec.model().costs }, scaled.model().costs);
        }
    }

    /// Whatever is written over a file, it is read or refused with a message that names it.
    #[test]
    fn no_text_is_fatal(at in 0_usize..6000, length in 0_usize..40, junk in "[a-z0-9=\\[\\]{}\".,\n -]{0,12}") {
        let start = boundary(at);
        let end = boundary(start + length);
        let text = format!("{}{junk}{}", &SMALL[..start], &SMALL[end..]);
        match machine::parse("mine.toml", &text) {
            Ok(spec) => {
                let _ = spec.model();
            }
            Err(error) => {
                prop_assert!(error.to_string().contains("mine.toml"), "{}", error);
                let is_of_the_text = matches!(error, MachineError::Toml { .. } | MachineError::Entry { .. });
                prop_assert!(is_of_the_text, "{}", error);
            }
        }
    }
}

/// The last place at or before `at` that does not lie within a character.
fn boundary(at: usize) -> usize {
    (0..=at.min(SMALL.len())).rev().find(|at| SMALL.is_char_boundary(*at)).unwrap_or(0)
}

#[test]
fn what_is_written_reads_back() {
    for spec in built_in() {
        let text = machine::Written(&spec).to_string();
        assert_eq!(machine::parse(&format!("{}.toml", spec.name), &text).as_ref(), Ok(&spec), "{text}");
    }
    let odd = Basis::Source("a \"quote\", a \\, and\ta tab".to_owned());
    let spec = machine::named("this").unwrap().with_time("costs.pin", (1.5, odd)).unwrap();
    assert_eq!(machine::parse("this.toml", &machine::Written(&spec).to_string()), Ok(spec));
}

#[test]
fn times_are_replaced_and_added() {
    let spec = machine::named("haswell-2x18").unwrap();
    let basis = Basis::Assumed("for a test".to_owned());
    let with = |path: &str, ns: f64| spec.with_time(path, (ns, basis.clone()));
    let model = with("costs.hit", 0.05).unwrap().model();
    assert_eq!((model.costs.hit, model.latency.l1), (50, spec.model().latency.l1));
    assert_eq!(with("latency.l2", 7.0).unwrap().model().latency.l2, 7000);
    let message = |path: &str, ns: f64| with(path, ns).unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            message("costs.hits", 1.0),
            message("costs.hit", -1.0),
            message("costs.hit", f64::NAN),
            message("capacity.l1", 1.0),
            message("mlc.l1", 1.0),
            message("memory.loaded", 1.0),
        ]
        .join("\n")
    );
}
