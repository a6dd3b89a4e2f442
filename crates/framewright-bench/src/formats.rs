//! The results in the shapes that the field's own tools print and read.
//!
//! | form | as printed by | a line is | of which workloads |
//! |---|---|---|---|
//! | `page_bench` | the kernel modules `page_bench*` on `time_bench` (Brouer) | all rounds of a contender, or one of its threads | `repeat`, `order`, batches, `aged` |
//! | `mmtests` | `compare-kernels` of mmtests on its `pagealloc` benchmark | a batch size, contenders side by side | `batch-N` |
//! | `benchstat` | Go's `testing` package | a round of a contender, for `benchstat` to do the statistics of | all |
//!
//! What a form has no place for is not bent to fit: a workload that it cannot show is refused by name, before anything is measured
//! ([`refusal`]), and without `--workload` those are measured that it can.
//!
//! Units: cycles are of the time-stamp counter, worked out of nanoseconds by its frequency, which was measured against the same clock.
//! Without such a counter (it is x86-64's) they read 0, as the kernel's do there. `page_bench` divides as the kernel does: down.

use std::fmt::{self, Write as _};

use framewright_table::{Table, cells};

use crate::cell::Sample;
use crate::report::Report;
use crate::row::Row;
use crate::workload::Shape;

/// A form of the field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Foreign {
    /// Lines of `time_bench`.
    PageBench,
    /// A comparison table of mmtests.
    Mmtests,
    /// Go's benchmark lines.
    Benchstat,
}

impl Foreign {
    /// Why a workload cannot be shown, if it cannot.
    pub fn refusal(self, shape: Shape) -> Option<&'static str> {
        match (self, shape) {
            (Foreign::PageBench, Shape::Rand) => {
                Some("page_bench has no test that frees on another CPU what it shuffled, and no line for it")
            }
            (Foreign::PageBench, Shape::ProducerConsumer) => {
                Some("a line of page_bench is one CPU's time, and here the time from page to page is that of two")
            }
            (Foreign::Mmtests, Shape::Batch { fifo: false, .. }) => None,
            (Foreign::Mmtests, _) => {
                Some("the pagealloc benchmark of mmtests is of batches, freed the last first: batch, or batch-N")
            }
            _ => None,
        }
    }

    /// The rows of a report in this form; those that it has no place for are left out.
    pub fn print(self, report: &Report) -> String {
        let mut text = String::new();
        let written = match self {
            Foreign::PageBench => page_bench(report, &mut text),
            Foreign::Mmtests => mmtests(report, &mut text),
            Foreign::Benchstat => benchstat(report, &mut text),
        };
        debug_assert!(written.is_ok(), "a string takes everything");
        text
    }
}

/// The workload of a row.
fn shape(row: &Row) -> Option<Shape> {
    Shape::all().into_iter().find(|shape| shape.to_string() == row.workload)
}

/// One measurement of `time_bench`: so many blocks in so many nanoseconds.
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
        let (whole, thousandths) = (ns / blocks, ns % blocks * 1000 / blocks);
        write!(f, "{} cycles(tsc) {whole}.{thousandths:03} ns (step:{step})", cycles / blocks)?;
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
    let shown = |row: &&Row| shape(row).is_some_and(|shape| Foreign::PageBench.refusal(shape).is_none());
    for row in report.rows.iter().filter(shown) {
        // As in page_bench: the order of a single block, the number of pages held of a batch.
        let step = shape(row).map_or(0, |shape| match shape {
            Shape::Repeat { order } => usize::from(order),
            other => other.unit(),
        });
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
        writeln!(text, "Sum Type:{name} Average: {average} cycles(tsc) CPUs:{} step:{step}", records.len())?;
    }
    Ok(())
}

/// Columns of a metric's name, and of a contender.
const METRIC: usize = 24;
const COLUMN: usize = 28;

fn mmtests(report: &Report, text: &mut String) -> fmt::Result {
    let batches: Vec<(&Row, usize)> = report.rows.iter().filter_map(|row| Some((row, batch(row)?))).collect();
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

/// The size of a batch that mmtests knows.
fn batch(row: &Row) -> Option<usize> {
    shape(row).filter(|&shape| Foreign::Mmtests.refusal(shape).is_none()).map(Shape::unit)
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
    let mut table = Table::new("<>");
    let heads = names.iter().map(|name| format!("{name:>COLUMN$}"));
    table.row(cells!["{of_threads:METRIC$}"].into_iter().chain(heads).collect());
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
            let values = means.iter().map(|value| {
                let cell = value.map(|value| cell(value, means.first().copied().flatten()));
                format!("{:>COLUMN$}", cell.unwrap_or_else(|| "-".to_owned()))
            });
            table.row(cells!["{name:METRIC$}"].into_iter().chain(values).collect());
        }
    }
    write!(text, "{table}")
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A mean, and by how many percent it is lower than the first column's: what is faster is positive.
fn cell(value: f64, base: Option<f64>) -> String {
    match base.filter(|base| *base > 0.0) {
        Some(base) => format!("{value:.2} ({:7.2}%)", (base - value) / base * 100.0),
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
