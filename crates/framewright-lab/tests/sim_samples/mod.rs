//! Runs as the simulator might report them, made up, with the magnitudes of the published tables; and what holds for all that shows them.

#![allow(dead_code, reason = "each test program uses a part")]

use framewright::{Counters, FrameCounts};
use framewright_lab::compare::points::points;
use framewright_lab::compare::read::documents;
use framewright_lab::reproduce::check::Check;
use framewright_lab::reproduce::found::Reproduction;
use framewright_lab::sim::Sensitivity;
use framewright_lab::sim::sensitivity::Effect;
use framewright_sim::machine::Basis;
use framewright_sim::report::{
    CpuReport, Distribution, FieldReport, Figure, LineReport, LockReport, LockSpan, Report, SCHEMA, Times, Traffic,
};
use framewright_sim::workload::Outcome;

/// A page fault run on so many CPUs: linear up to 28, flat from there on.
pub(crate) fn run(cpus: usize) -> Report {
    let per_second = 164_000.0 * (cpus as f64).min(28.0 + cpus as f64 / 4.0);
    let window_ns = 50_000_000;
    let waiting = share_waiting(cpus);
    Report {
        schema: SCHEMA,
        machine: "skylake-sp-2x28".to_owned(),
        workload: "page_fault1".to_owned(),
        mechanisms: "patch1".to_owned(),
        cpus,
        seed: 1,
        schedule: "time".to_owned(),
        warm_up_ns: 10_000_000,
        window_ns,
        operations: (per_second * 0.05) as u64,
        unit: "page fault".to_owned(),
        per_second,
        cycles_per_operation: cpus as f64 * 2.5e9 / per_second,
        figures: vec![
            figure("memory written", per_second * 4096.0 / 1e9, "GB/s"),
            figure("pages per refill", 63.0, "pages"),
        ],
        locks: locks(cpus, waiting),
        lines: lines(cpus),
        per_cpu: (0..cpus).map(|cpu| cpu_report(cpu, cpus, waiting)).collect(),
        accesses: 3_456_789 * cpus as u64,
        switches: 12_345 * (cpus as u64 - 1),
    }
}

/// What came of a run that left nothing but its report.
pub(crate) fn reported(report: Report) -> Outcome {
    Outcome {
        report,
        spans: Vec::new(),
        census: FrameCounts::default(),
        counters: Counters::default(),
        aftermath: None,
    }
}

/// Percent of CPU time.
fn share_waiting(cpus: usize) -> f64 {
    if cpus == 1 { 0.0 } else { 77.0 * (cpus as f64 / 112.0).sqrt() }
}

fn figure(name: &str, value: f64, unit: &str) -> Figure {
    Figure { name: name.to_owned(), value, unit: unit.to_owned() }
}

fn times(count: u64, scale: f64) -> Distribution {
    let [p50_ns, p99_ns, p999_ns, max_ns] = [1.0, 1.9, 2.6, 7.3].map(|factor| factor * scale);
    Distribution { count, total_ns: count as f64 * scale, p50_ns, p99_ns, p999_ns, max_ns }
}

fn locks(cpus: usize, waiting: f64) -> Vec<LockReport> {
    let lock = |name: &str, taken: u64, part: f64, held: f64| LockReport {
        name: name.to_owned(),
        kind: "zone".to_owned(),
        taken,
        contended: (taken as f64 * part * waiting / 80.0) as u64,
        waiting: times((taken as f64 * part * waiting / 80.0) as u64, waiting * 1500.0 * part),
        holding: times(taken, held),
        contention_percent: waiting * part / 2.0,
    };
    let normal = |node: usize| format!("zone lock, Node {node}, zone Normal");
    let mut locks = vec![lock(&normal(0), 14_603, 1.0, 13_700.0)];
    if cpus > 28 {
        locks.push(lock(&normal(1), 14_588, 0.99, 13_650.0));
    }
    locks.push(lock("zone lock, Node 0, zone DMA32", 12, 0.0, 210.0));
    locks.push(lock("never taken", 0, 0.0, 0.0));
    locks
}

fn lines(cpus: usize) -> Vec<LineReport> {
    let traffic = |loads: u64, stores: u64, rmws: u64, far: f64, queued: f64| {
        let all = loads + stores + rmws;
        let far = if cpus > 28 { (all as f64 * far) as u64 } else { 0 };
        let memory = all / 50;
        let moving_ns = 97.0 * (all - far) as f64 + 205.0 * far as f64;
        Traffic {
            loads,
            stores,
            rmws,
            near: all - far - memory,
            far,
            memory,
            queued_ns: queued * all as f64,
            moving_ns,
        }
    };
    let field = |name: &str, traffic: Traffic| FieldReport { name: name.to_owned(), traffic };
    let line = |name: &str, lines: u64, total: Traffic, fields: Vec<FieldReport>| LineReport {
        name: name.to_owned(),
        lines,
        total,
        fields,
    };
    if cpus == 1 {
        let all = traffic(912_345, 0, 0, 0.0, 0.0);
        return vec![line("frame states", 262_144, all, vec![field("frame states", all)])];
    }
    vec![
        line(
            "zone Normal of node 0 + 1152",
            1,
            traffic(28_102, 14_603, 58_200, 0.48, 812.0),
            vec![
                field("lock.tail", traffic(0, 0, 58_200, 0.48, 1_240.0)),
                field("lock.next", traffic(28_102, 14_603, 0, 0.47, 221.0)),
                field("lock.padding", Traffic::default()),
            ],
        ),
        line(
            "zone Normal of node 0 + 64",
            1,
            traffic(9_120, 14_233, 0, 0.5, 17.3),
            vec![
                field("free_area[0].nr_free", traffic(0, 14_233, 0, 0.5, 11.0)),
                field("free_area[0].free_list[MOVABLE].head", traffic(9_120, 0, 0, 0.5, 27.0)),
            ],
        ),
        line(
            "frames of node 0",
            262_144,
            traffic(4_612_345, 1_203_000, 0, 0.11, 0.4),
            vec![
                field("link.next", traffic(2_612_345, 603_000, 0, 0.11, 0.4)),
                field("link.previous", traffic(2_000_000, 600_000, 0, 0.11, 0.4)),
            ],
        ),
    ]
}

fn cpu_report(cpu: usize, cpus: usize, waiting: f64) -> CpuReport {
    let percent = 500_000.0;
    let waiting = if cpu == 3 { waiting + 4.0 } else { waiting };
    let far = if cpus > 28 { 4.1 } else { 0.0 };
    let rest = 100.0 - waiting - far;
    let time = Times {
        instructions: 0.21 * rest * percent,
        hits: 0.02 * rest * percent,
        near: 0.16 * rest * percent,
        far: far * percent,
        memory: 0.09 * rest * percent,
        queued: 0.01 * rest * percent,
        spinning: waiting * percent,
        stores: 0.0,
        zeroing: 0.51 * rest * percent,
        asleep: 0.0,
        interrupts: 0.0,
    };
    CpuReport { cpu, node: cpu / 28 % 2, core: cpu % 56, operations: 4_100 + (cpu as u64 * 37) % 90, time }
}

/// Some takings of two locks by CPUs of two nodes, one with a name that JSON must escape.
pub(crate) fn spans() -> Vec<LockSpan> {
    let span = |cpu: usize, lock: &str, wanted_ns: u64, taken_ns: u64, released_ns: u64| LockSpan {
        cpu,
        node: cpu / 28,
        lock: lock.to_owned(),
        wanted_ns,
        taken_ns,
        released_ns,
    };
    vec![
        span(0, "zone lock, Node 0, zone Normal", 1_000, 1_000, 1_118),
        span(28, "zone lock, Node 0, zone Normal", 1_050, 1_232, 1_331),
        span(2, "a \"quoted\"\nname \\", 2_000_000_001, 2_000_000_002, 2_000_000_003),
    ]
}

/// What the machine's numbers do to the throughput of [`run`] on 112 CPUs.
pub(crate) fn sensitivity() -> Sensitivity {
    let base = run(112).per_second;
    let effect = |parameter: &str, basis: Basis, lower: f64, higher: f64| Effect {
        parameter: parameter.to_owned(),
        basis,
        lower: base * lower,
        higher: base * higher,
    };
    let [mlc, estimate, row] = bases();
    let rows = vec![
        effect("latency.l1", mlc.clone(), 1.0, 1.0),
        effect("latency.hitm", mlc, 1.031, 0.972),
        effect("occupancy.read", estimate, 1.004, 0.997),
        effect("memory.load_permille", row, 1.082, 0.921),
    ];
    Sensitivity::new("page faults per second", (112, "patch1"), base, rows)
}

/// What is printed fits a terminal.
pub(crate) fn narrow(text: &str) -> &str {
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert_eq!(line.trim_end(), line, "no blanks at the end");
    }
    text
}

/// A page has all that it shows.
pub(crate) fn asks_nobody(page: &str) {
    for forbidden in ["http", "<script", "<link", "url(", "@import", "src="] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

/// The check of an experiment whose name begins like this.
pub(crate) fn check<'f>(found: &'f Reproduction, name: &str) -> &'f Check {
    found.checks.iter().find(|check| check.name.starts_with(name)).unwrap()
}

/// What came of an experiment as JSON, of which `framewright compare` reads so many figures at least.
pub(crate) fn compared(found: &Reproduction, figures: usize) -> serde_json::Value {
    let json = serde_json::to_string(found).unwrap();
    let compared = points(&documents("found", &json).unwrap()[0]).unwrap();
    assert!(compared.len() >= figures, "{compared:?}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "framewright-reproduce/1");
    json
}

/// A page is whole, asks nobody, and has these parts.
pub(crate) fn shows(page: &str, parts: &[&str]) {
    asks_nobody(page);
    is_closed(page);
    for part in parts {
        assert!(page.contains(part), "{part}");
    }
}

/// Every element of a page is closed, every table has a caption and every plot a description.
pub(crate) fn is_closed(page: &str) {
    for tag in
        ["table", "thead", "tbody", "tr", "th", "td", "details", "figure", "svg", "g", "div", "dl", "span", "ul", "li"]
    {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert_eq!(page.matches("<table>").count(), page.matches("<caption>").count());
    assert_eq!(page.matches("role=\"img\"").count(), page.matches("</desc>").count());
}

/// One basis of each kind.
pub(crate) fn bases() -> [Basis; 3] {
    [
        Basis::Source("MLC, FD.io CSIT calibration of Skylake-SP".to_owned()),
        Basis::Assumed("a quarter of a transfer".to_owned()),
        Basis::Fitted("zone-lock/patch1".to_owned()),
    ]
}
