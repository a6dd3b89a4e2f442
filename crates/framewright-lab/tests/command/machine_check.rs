//! A machine's file from given measurements, and from this machine's. How fast this machine is no test asks.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use framewright_bench::checker::{Host, LoadedPoint, Missing, Reading, Readings};
use framewright_lab::machine_check::Checked;
use framewright_sim::machine::{self, Basis, Spec, Written};
use framewright_sim::mlc;

use crate::replay_synthetic::project;
use crate::transcript::{refused, run, text};

/// Writes what Linux shows of a machine: CPUs as (socket, core, node), and caches of three levels.
fn sysfs(root: &Path, cpus: &[(usize, usize, usize)], caches: &[(&str, &str, &str, &str)]) {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    };
    write("cpu/online", &format!("0-{}", cpus.len() - 1));
    for (cpu, (socket, core, node)) in cpus.iter().enumerate() {
        write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), &socket.to_string());
        write(&format!("cpu/cpu{cpu}/topology/core_id"), &core.to_string());
        let of_node = (0..cpus.len()).filter(|other| cpus[*other].2 == *node).map(|cpu| cpu.to_string());
        write(&format!("node/node{node}/cpulist"), &of_node.collect::<Vec<_>>().join(","));
    }
    for (index, (level, kind, size, shared)) in caches.iter().enumerate() {
        for (name, text) in [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)] {
            write(&format!("cpu/cpu0/cache/index{index}/{name}"), text);
        }
    }
}

const CACHES: [(&str, &str, &str, &str); 4] = [
    ("1", "Data", "32K", "0,8"),
    ("1", "Instruction", "64K", "0,8"),
    ("2", "Unified", "512K", "0,8"),
    ("3", "Unified", "8M", "0,8"),
];

/// Two sockets of two nodes of two cores, each with two threads; Linux counts second threads last.
fn cpus() -> Vec<(usize, usize, usize)> {
    (0..16).map(|cpu| cpu % 8).map(|core| (core / 4, core % 4, core / 2)).collect()
}

fn host() -> Host {
    let folder = tempfile::tempdir().unwrap();
    sysfs(folder.path(), &cpus(), &CACHES);
    Host::read(folder.path()).unwrap()
}

#[test]
fn the_shape_of_a_machine_is_read() {
    let host = host();
    assert_eq!((host.sockets, host.nodes, host.cores, host.threads), (2, 2, 4, 2));
    let caches = host.caches;
    assert_eq!((caches.l1, caches.l2, caches.llc, caches.llc_of_node), (32 << 10, 512 << 10, 8 << 20, 2));
    assert_eq!(host.cpus.len(), 16);
}

#[test]
fn shapes_that_no_file_can_describe() {
    type Edit<'a> = (&'a str, &'a str);
    let edits: [Edit<'_>; 8] = [
        ("cpu/online", "0-"),
        ("cpu/online", "0-15,x\u{1b}[2J"),
        ("cpu/cpu3/topology/core_id", "three"),
        ("cpu/cpu0/topology/core_id", "1"),
        ("cpu/cpu13/topology/physical_package_id", "0"),
        ("cpu/cpu0/cache/index2/size", "512Q"),
        ("cpu/cpu0/cache/index0/type", "Instruction"),
        ("node/node1/cpulist", "2"),
    ];
    let mut told = String::new();
    for (path, text) in edits {
        let folder = tempfile::tempdir().unwrap();
        sysfs(folder.path(), &cpus(), &CACHES);
        fs::write(folder.path().join(path), text).unwrap();
        let error = Host::read(folder.path()).map(drop).unwrap_err().to_string();
        writeln!(told, "{path} = {text:?}\n    {}", error.replace(&folder.path().display().to_string(), "SYS"))
            .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let error = Host::read(folder.path()).map(drop).unwrap_err().to_string();
    writeln!(told, "nothing\n    {}", error.replace(&folder.path().display().to_string(), "SYS")).unwrap();
    insta::assert_snapshot!(told);
}

fn reading(path: &str, what: &str, unit: &'static str, value: f64) -> Reading {
    let (path, what) = (path.to_owned(), what.to_owned());
    Reading { path, what, unit, value, low: value * 0.97, high: value * 1.2, rounds: 15 }
}

/// What such a machine could measure: everything but one kind of transfer and the clock.
fn readings() -> Readings {
    let rows = [
        ("costs.rmw", "atomic addition to an owned word", "ns", 5.0612),
        ("latency.l1", "first-level cache: walk through 16 KiB", "ns", 1.45),
        ("latency.l2", "second-level cache: walk through 256 KiB", "ns", 4.8),
        ("latency.llc", "last-level cache: walk through 2 MiB", "ns", 4.7),
        ("latency.dram", "memory, own node: walk through 64 MiB", "ns", 90.26),
        ("latency.die_dram", "memory, other node of the socket: walk through 64 MiB", "ns", 145.4),
        ("latency.far_dram", "memory, other socket: walk through 64 MiB", "ns", 200.9),
        ("", "modified line of the same core's other thread", "ns", 10.0),
        ("latency.hit", "clean line of another core of the node", "ns", 61.0),
        ("latency.hitm", "modified line of another core of the node", "ns", 62.0),
        ("latency.far_hit", "clean line of another socket", "ns", 199.0),
        ("latency.far_hitm_home_there", "modified line of another socket, home at the writer", "ns", 205.0),
        ("latency.far_hitm_home_here", "modified line of another socket, home at the reader", "ns", 215.0),
        ("memory.zero_line_alone", "zeroing a line, one core", "ns", 5.0),
        ("memory.zero_line", "zeroing a line, 2 cores of a node", "ns", 3.0),
        ("mlc.peak", "reads, 16 CPUs", "gb_per_s", 128.0),
        ("memory.read_line", "reading a line, all CPUs of a node", "ns", 2.0),
    ];
    let rows = rows.map(|(path, what, unit, value)| reading(path, what, unit, value)).to_vec();
    let loaded = [(1.0, 91.0), (8.0, 100.0), (16.0, 99.0), (20.0, 150.0)];
    let loaded = loaded.map(|(gb_per_s, ns)| LoadedPoint { gb_per_s, ns }).to_vec();
    let missing =
        vec![Missing { what: "clock".to_owned(), why: "this processor has no time-stamp counter".to_owned() }];
    Readings { rows, loaded, missing, notes: vec!["This is a virtual machine.".to_owned()] }
}

fn checked(base: &str) -> Checked {
    let base = machine::named(base).unwrap();
    Checked::of("DIR/mine.toml", "A processor", (host(), readings()), &base).unwrap()
}

#[test]
fn measurements_become_a_machine() {
    let found = checked("generic");
    insta::assert_snapshot!(found);
    let json = serde_json::to_string_pretty(&found).unwrap();
    let cpus = json.find("\"cpus\": [").unwrap();
    let after = json[cpus..].find("    ],").unwrap();
    insta::assert_snapshot!("the_check_as_json", format!("{}...{}", &json[..cpus + 9], &json[cpus + after..]));
    let text = Written(&found.spec).to_string();
    insta::assert_snapshot!("a_measured_machine", text);
    assert_eq!(machine::parse("DIR/mine.toml", &text), Ok(found.spec.clone()));
    // The simulated latency checker finds what was measured.
    let table = mlc::check(&found.spec).unwrap();
    assert!(table.worst() <= 3.0, "{table}");
    assert!(table.rows.len() > 10, "{table}");
}

/// What was not measured says so, and of which machine it is.
#[test]
fn what_is_assumed_names_its_machine() {
    let found = checked("skylake-2x28");
    for number in found.spec.parameters() {
        match &number.basis {
            Basis::Source(text) => assert!(text.starts_with("measured: "), "{}: {text}", number.path),
            Basis::Assumed(text) => {
                assert!(text.starts_with("not measured; as on skylake-2x28: "), "{}: {text}", number.path);
            }
            Basis::Fitted(text) => panic!("{}: {text}", number.path),
        }
    }
    let curve = |spec: &Spec| spec.parameters().filter(|number| number.path.starts_with("memory.loaded.")).count();
    assert_eq!(curve(&found.spec), 4, "rest, and three points that ascend");
    assert!(found.assumed.contains(&"latency.die_hit".to_owned()), "{:?}", found.assumed);
}

/// Whatever this machine is, its file is one, and its numbers are those of some machine.
#[test]
fn this_machine_has_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml").display().to_string();
    let output = run(&["machine", "check", &path, "--quick", "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    let spec = machine::load(&path).unwrap();
    let at = |path: &str| spec.nanoseconds(path).unwrap();
    for (path, low, high) in [
        ("latency.l1", 0.2, 20.0),
        ("latency.dram", 20.0, 5000.0),
        ("memory.zero_line", 0.01, 500.0),
        ("memory.read_line", 0.01, 500.0),
        ("costs.rmw", 0.2, 200.0),
        ("stores.issue", 0.01, 50.0),
    ] {
        assert!((low..high).contains(&at(path)), "{path}: {}", at(path));
    }
    let rows = json["readings"]["rows"].as_array().unwrap();
    for row in rows {
        let [value, low, high] = ["value", "low", "high"].map(|key| row[key].as_f64().unwrap());
        assert!(low > 0.0 && (low..=high).contains(&value), "{row}");
    }
    let cpus = json["host"]["cpus"].as_array().unwrap().len();
    assert_eq!(spec.model().topology.cpus(), cpus);
}

#[test]
fn checks_that_make_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let commands = ["", "DIR/mine.txt", "DIR/none/mine.toml", "DIR/mine.toml --machine nowhere"]
        .map(|all| format!("machine check {all}").trim_end().to_owned());
    insta::assert_snapshot!(refused(folder.path(), commands));
}

/// The table of docs/lab/machines.md counts the numbers of every machine by their origin.
#[test]
fn the_document_counts_the_numbers_of_the_files() {
    let mut table =
        "| machine | numbers | sourced | assumed | fitted | assumed, of those between cores and memory |\n".to_owned();
    table += "|---|---|---|---|---|---|\n";
    for name in machine::names() {
        let spec = machine::named(name).unwrap();
        let all: Vec<_> = spec.parameters().collect();
        let count = |is: fn(&Basis) -> bool| all.iter().filter(|number| is(&number.basis)).count();
        let sourced = count(|basis| matches!(basis, Basis::Source(_)));
        let assumed = count(|basis| matches!(basis, Basis::Assumed(_)));
        let fitted = count(|basis| matches!(basis, Basis::Fitted(_)));
        let lines = all.iter().filter(|number| number.path.starts_with("latency."));
        let of_lines = lines.clone().filter(|number| matches!(number.basis, Basis::Assumed(_))).count();
        let (numbers, latencies) = (all.len(), lines.count());
        writeln!(table, "| `{name}` | {numbers} | {sourced} | {assumed} | {fitted} | {of_lines} of {latencies} |")
            .unwrap();
    }
    let document = fs::read_to_string(project().join("docs/lab/machines.md")).unwrap();
    assert!(document.contains(&table), "docs/lab/machines.md should have this table:\n{table}");
}
