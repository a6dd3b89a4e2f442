//! A report in the forms of the field's own tools.
//!
//! Rows that a form has no place for are left out ([`Foreign::refusal`]).
//!
//! Units: cycles are of the time-stamp counter, worked out of nanoseconds by its frequency, which was measured against
//! the same clock. Without such a counter (it is x86-64's) they read 0, as the kernel's do there. `page_bench` divides
//! as the kernel does: down.

use std::fmt::{self, Write as _};
use std::iter;

use framewright_table::Table;

use crate::cell::Sample;
use crate::foreign::{Foreign, mmtests_cell, per_element, step, sum_of_cpus};
use crate::report::Report;
use crate::row::Row;
use crate::stats::mean;
use crate::workload::Shape;

/// The rows of a report in this form; those that it has no place for are left out.
pub fn print(form: Foreign, report: &Report) -> String {
    let mut text = String::new();
    let written = match form {
        Foreign::PageBench => page_bench(report, &mut text),
        Foreign::Mmtests => mmtests(report, &mut text),
        Foreign::Benchstat => benchstat(report, &mut text),
    };
    debug_assert!(written.is_ok(), "a string takes everything");
    text
}

/// The workload of a row, if the form can show it.
fn shape(row: &Row, form: Foreign) -> Option<Shape> {
    Shape::parse(&row.workload).filter(|&shape| form.refusal(shape).is_none())
}

/// One measurement of `time_bench`.
struct Record {
    blocks: u64,
    ns: u64,
    cycles: u64,
    step: usize,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { ns, cycles, step, .. } = *self;
        let blocks = self.blocks.max(1);
        let thousandths = ns / blocks * 1000 + ns % blocks * 1000 / blocks;
        write!(f, "{}", per_element(cycles / blocks, thousandths, step))?;
        write!(
            f,
            " - (measurement period time:{}.{:09} sec time_interval:{ns})",
            ns / 1_000_000_000,
            ns % 1_000_000_000
        )?;
        write!(f, " - (invoke count:{} tsc_interval:{cycles})", self.blocks)
    }
}

fn page_bench(report: &Report, text: &mut String) -> fmt::Result {
    let shown = |row| Some((row, shape(row, Foreign::PageBench)?));
    for (row, shape) in report.rows.iter().filter_map(shown) {
        let step = step(shape);
        let name = format!("{}_{}", row.allocator, row.workload);
        let blocks = row.blocks / row.threads.max(1) as u64;
        let record = |thread: usize| {
            let each = row.samples.iter().filter_map(|sample| sample.each.get(thread));
            let ns = each.map(|ns| ns * blocks as f64).sum::<f64>();
            let cycles = (ns * report.machine.tsc_ghz.unwrap_or(0.0)) as u64;
            Record { blocks: blocks * row.samples.len() as u64, ns: ns as u64, cycles, step }
        };
        if row.threads == 1 {
            writeln!(text, "Type:{name} Per elem: {}", record(0))?;
            continue;
        }
        let records: Vec<Record> = (0..row.threads).map(record).collect();
        for (thread, record) in records.iter().enumerate() {
            writeln!(text, "Type:{name} CPU({thread}) {record}")?;
        }
        let sum: u64 = records.iter().map(|record| record.cycles / record.blocks.max(1)).sum();
        let average = sum / records.len().max(1) as u64;
        writeln!(text, "{}", sum_of_cpus(&name, average, records.len(), step))?;
    }
    Ok(())
}

fn mmtests(report: &Report, text: &mut String) -> fmt::Result {
    let batches: Vec<(&Row, usize)> =
        report.rows.iter().filter_map(|row| Some((row, shape(row, Foreign::Mmtests)?.unit()))).collect();
    let mut threads: Vec<usize> = batches.iter().map(|(row, _)| row.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    for (i, &threads) in threads.iter().enumerate() {
        let rows: Vec<(&Row, usize)> = batches.iter().copied().filter(|(row, _)| row.threads == threads).collect();
        if i > 0 {
            writeln!(text)?;
        }
        mmtests_table(&rows, text)?;
    }
    Ok(())
}

/// A metric's name and how it is read off a round.
type Metric = (&'static str, fn(&Sample) -> Option<f64>);

fn mmtests_table(rows: &[(&Row, usize)], text: &mut String) -> fmt::Result {
    let (mut names, mut sizes): (Vec<&str>, Vec<usize>) = (Vec::new(), Vec::new());
    for (row, pages) in rows {
        if !names.contains(&row.allocator.as_str()) {
            names.push(&row.allocator);
        }
        sizes.push(*pages);
    }
    sizes.sort_unstable();
    sizes.dedup();
    let threads = rows.first().map_or(0, |(row, _)| row.threads);
    let of_threads = if threads == 1 { String::new() } else { format!("{threads} threads") };
    let mut table = Table::new("<24>28");
    let heads = names.iter().map(|&name| name.to_owned());
    table.row(iter::once(of_threads).chain(heads).collect());
    let metrics: [Metric; 3] =
        [("alloc", |sample| sample.alloc), ("free", |sample| sample.free), ("total", |sample| Some(sample.total))];
    for (metric, read) in metrics {
        for &pages in &sizes {
            let mean = |name: &str| {
                let row = rows.iter().find(|(row, size)| row.allocator == name && *size == pages)?.0;
                mean(&row.samples.iter().filter_map(read).collect::<Vec<_>>())
            };
            let means: Vec<Option<f64>> = names.iter().map(|name| mean(name)).collect();
            if means.iter().all(Option::is_none) {
                continue;
            }
            let name = format!("Amean    {metric}-odr0-{pages}");
            let base = means.first().copied().flatten();
            let values = means.iter().map(|value| value.map_or_else(|| "-".to_owned(), |value| cell(value, base)));
            table.row(iter::once(name).chain(values).collect());
        }
    }
    write!(text, "{table}")
}

/// A mean, and by how many percent it is lower than the first column's: faster is positive.
fn cell(value: f64, base: Option<f64>) -> String {
    match base.filter(|base| *base > 0.0) {
        Some(base) => mmtests_cell(value, (base - value) / base * 100.0),
        None => format!("{value:.2}"),
    }
}

fn benchstat(report: &Report, text: &mut String) -> fmt::Result {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    writeln!(text, "goos: {}\ngoarch: {architecture}\npkg: framewright/bench", std::env::consts::OS)?;
    writeln!(text, "cpu: {}\nmechanisms: {}", report.machine.cpu, report.mechanisms)?;
    for row in &report.rows {
        let name = format!("BenchmarkPage/workload={}/allocator={}-{}", row.workload, row.allocator, row.threads);
        for sample in &row.samples {
            write!(text, "{name}\t{}\t{:.3} ns/op", row.blocks, sample.total)?;
            for (value, unit) in [(sample.alloc, "alloc-ns/op"), (sample.free, "free-ns/op")] {
                if let Some(value) = value {
                    write!(text, "\t{value:.3} {unit}")?;
                }
            }
            writeln!(text)?;
        }
    }
    Ok(())
}
