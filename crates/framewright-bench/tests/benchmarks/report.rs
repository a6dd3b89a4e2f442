//! What people and programs get to see, from results that are made up. Nothing is measured here.

use framewright::Mechanisms;
use framewright_bench::formats::print;
#[cfg(target_os = "linux")]
use framewright_bench::instructions::{KERNEL_VARIANTS, KernelReport, KernelRow, stepping::Counts};
use framewright_bench::{
    Failure, Foreign, MachineFacts, Report, Role, Row, SCHEMA, Sample, Shape, Table, contenders, judge,
};

/// Invented nanoseconds on one thread, by contender.
fn base(allocator: &str) -> f64 {
    match allocator {
        "stack-call" => 2.0,
        "stack-state" => 2.4,
        "ring" => 1.5,
        "ring+return" => 8.0,
        "framewright" => 3.0,
        "framewright-plain" => 2.5,
        "framewright-rseq" => 3.5,
        "framewright-hardened" => 9.0,
        "buddy_system_allocator" => 480.0,
        "bitmap-allocator" => 25.0,
        "glibc" | "libc" => 48.0,
        "mmap" => 1290.0,
        _ => 123_456.0,
    }
}

fn row(shape: Shape, threads: usize, allocator: &str, role: Role) -> Row {
    let factor = if role == Role::Peer { threads as f64 } else { 1.0 };
    let own_trouble = if shape == Shape::Rand && allocator == "framewright" { 1.7 } else { 1.0 };
    let ns = base(allocator) * factor * own_trouble + (shape.unit() as f64).log2() / 10.0;
    let split = shape.unit() >= 64 || shape == Shape::Rand;
    Row {
        workload: shape.to_string(),
        threads,
        allocator: allocator.to_owned(),
        role,
        ns_per_page: ns,
        min: ns * 0.95,
        max: ns * 1.5,
        ratio_to_limit: Some(ns / base(shape.limit())),
        limit: shape.limit().to_owned(),
        alloc_ns: split.then_some(ns * 0.25),
        free_ns: split.then_some(ns * 0.75),
        scaling: (threads > 1 && shape != Shape::ProducerConsumer).then_some(threads as f64 / factor * 0.97),
        rounds: 15,
        blocks: 1000 * shape.unit() as u64 * threads as u64,
        samples: [0.98, 1.0, 1.04].map(|factor| sample(ns * factor, threads, split)).to_vec(),
    }
}

fn sample(ns: f64, threads: usize, split: bool) -> Sample {
    let each = (0..threads).map(|thread| ns + thread as f64 / 8.0).collect();
    Sample { total: ns, alloc: split.then_some(ns * 0.25), free: split.then_some(ns * 0.75), each, checksum: 0 }
}

/// A report of made-up rows for these workloads.
fn report(shapes: &[Shape], threads: &[usize]) -> Report {
    let mut rows = Vec::new();
    for &shape in shapes {
        for threads in shape.threads(threads) {
            let suited = contenders().into_iter().filter(|entry| (entry.suits)(shape));
            rows.extend(suited.map(|entry| row(shape, threads, entry.name, entry.role)));
        }
    }
    // Names of the C library differ.
    rows.iter_mut().filter(|row| row.allocator == "libc").for_each(|row| row.allocator = "glibc".to_owned());
    Report {
        schema: SCHEMA.to_owned(),
        machine: MachineFacts {
            cpu: "Imaginary Processor 9000".to_owned(),
            cpus: 2,
            kernel: "Linux 6.1.0".to_owned(),
            rustc: Some("rustc 1.95.0 (59807616e 2026-04-14)".to_owned()),
            clock: "CLOCK_MONOTONIC".to_owned(),
            clock_ns: 21.0,
            memory_available: 8 << 30,
            tsc_ghz: Some(2.3),
            clocksource: Some("tsc".to_owned()),
            load: Some(0.25),
        },
        mechanisms: Mechanisms::BASELINE.fallback.name().to_owned(),
        seed: 1,
        rounds: 15,
        cell_ms: 10,
        frames: 1 << 20,
        goals: judge(&rows),
        rows,
        failures: Vec::new(),
        notes: Vec::new(),
    }
}

#[test]
fn text_of_everything() {
    let mut report = report(&Shape::all(), &[1, 2]);
    report.notes = vec!["mmap is left out of batch-16384 on 64 threads: it can hold 512 blocks a thread".to_owned()];
    report.failures.push(Failure {
        workload: "rand".to_owned(),
        threads: 2,
        allocator: "glibc".to_owned(),
        reason: "ran out of memory with 7 blocks held by the thread".to_owned(),
    });
    let text = Table { report: &report, bold: false }.to_string();
    for line in text.lines() {
        assert!(line.len() <= 100 && line.trim_end() == line, "{line:?}");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn text_of_two_batches_has_every_number_and_own_rows_in_bold() {
    let shapes: Vec<Shape> = ["batch-16", "batch-64"].into_iter().flat_map(Shape::named).collect();
    let text = Table { report: &report(&shapes, &[1, 4]), bold: true }.to_string();
    insta::assert_snapshot!(text.replace('\x1b', "ESC"));
}

#[test]
fn json() {
    let mut report = report(&Shape::named("rand"), &[2]);
    report.rows.retain(|row| matches!(row.allocator.as_str(), "framewright" | "stack-state" | "mmap"));
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap());
}

/// Some contenders at some workloads, in each form of the field.
#[test]
fn forms_of_the_field() {
    let named = |names: &[&str]| names.iter().flat_map(|name| Shape::named(name)).collect::<Vec<_>>();
    let cases: [(&str, Foreign, Vec<Shape>); 3] = [
        ("page_bench", Foreign::PageBench, named(&["repeat", "batch-64", "aged", "rand", "order-9"])),
        ("mmtests", Foreign::Mmtests, named(&["repeat", "batch-1", "batch-64", "batch-16384", "batch-64-fifo"])),
        ("benchstat", Foreign::Benchstat, named(&["repeat", "batch-64", "producer-consumer"])),
    ];
    for (name, form, shapes) in cases {
        let mut report = report(&shapes, &[1, 2]);
        report.rows.retain(|row| matches!(row.allocator.as_str(), "framewright" | "stack-call" | "mmap"));
        // One that failed at one size.
        report.rows.retain(|row| (row.allocator.as_str(), row.workload.as_str()) != ("mmap", "batch-16384"));
        let text = print(form, &report).replace(std::env::consts::OS, "(system)");
        insta::assert_snapshot!(name, text.replace("amd64", "(architecture)").replace("arm64", "(architecture)"));
    }
    let mut nothing = report(&[], &[1]);
    nothing.machine.tsc_ghz = None;
    assert_eq!(print(Foreign::PageBench, &nothing) + &print(Foreign::Mmtests, &nothing), "");
}

#[test]
fn without_a_counter_cycles_read_0() {
    let mut report = report(&Shape::named("repeat"), &[1]);
    report.machine.tsc_ghz = None;
    report.rows.retain(|row| row.allocator == "framewright");
    assert_eq!(
        print(Foreign::PageBench, &report),
        "Type:framewright_repeat Per elem: 0 cycles(tsc) 3.020 ns (step:0) - (measurement period time:0.000009060 sec \
         time_interval:9060) - (invoke count:3000 tsc_interval:0)\n"
    );
}

/// The rows of one workload with ratios and nanoseconds given, judged.
#[test]
fn promises_are_judged_by_the_worst_row() {
    let judged = |rows: &[Row], goal: &str| {
        let goals = judge(rows);
        let goal = goals.into_iter().find(|found| found.goal.starts_with(goal)).unwrap();
        (goal.measured, goal.worst, goal.met)
    };
    let own = |workload: &str, threads: usize, ratio: f64, ns: f64| Row {
        ratio_to_limit: Some(ratio),
        ns_per_page: ns,
        ..row(Shape::named(workload)[0], threads, "framewright", Role::Own)
    };
    let peer =
        |workload: &str, ns: f64| Row { ns_per_page: ns, ..row(Shape::named(workload)[0], 1, "mmap", Role::Peer) };
    let at = |text: &str| Some(text.to_owned());
    let cases = [
        (vec![own("repeat", 1, 1.5, 3.2)], "repeat", (Some(1.5), at("repeat, 1 thread"), Some(true))),
        (
            vec![own("repeat", 1, 1.4, 3.0), own("repeat", 2, 1.51, 3.0)],
            "repeat",
            (Some(1.51), at("repeat, 2 threads"), Some(false)),
        ),
        // Batches below 16 pages are not promised.
        (
            vec![own("batch-4", 1, 9.0, 1.0), own("batch-16", 1, 1.9, 1.0), own("batch-64-fifo", 1, 1.95, 1.0)],
            "batches",
            (Some(1.95), at("batch-64-fifo, 1 thread"), Some(true)),
        ),
        (vec![own("repeat", 1, 1.0, 1.0)], "batches", (None, None, None)),
        (
            vec![Row { scaling: Some(1.89), ..own("repeat", 2, 1.0, 1.0) }],
            "throughput",
            (Some(1.89), at("repeat, 2 threads"), Some(false)),
        ),
        (
            vec![own("order-9", 1, 20.0, 40.0), own("order-9", 2, 20.0, 99.0)],
            "order-9",
            (Some(40.0), at("order-9, 1 thread"), Some(true)),
        ),
        (
            vec![own("repeat", 1, 1.0, 3.0), own("rand", 1, 1.0, 3.0), peer("repeat", 4.0), peer("rand", 3.0)],
            "time",
            (Some(1.0), at("rand, 1 thread"), Some(false)),
        ),
        (vec![own("repeat", 1, 1.0, 3.0), peer("rand", 1.0)], "time", (None, None, None)),
    ];
    for (rows, goal, expected) in cases {
        assert_eq!(judged(&rows, goal), expected, "{goal}");
    }
    assert_eq!(judge(&[peer("repeat", 1.0)]), []);
}

#[cfg(target_os = "linux")]
#[test]
fn instructions_of_a_kernel() {
    let row = |variant| KernelRow::new(variant, Counts { alloc: 100.27, free: 87.25, repeat: 1182.234 });
    let mut report = KernelReport::new(KERNEL_VARIANTS.map(row).to_vec(), 8);
    report.rustc = Some("rustc 1.95.0".to_owned());
    report.notes.push("a note".to_owned());
    insta::assert_snapshot!(report);
    report.rows.truncate(1);
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap());
}
