//! Forms that other tools read: Go's benchmark lines, will-it-scale's CSV, lines of page_bench.
//!
//! | form | a line is | of which files |
//! |---|---|---|
//! | Go | a measurement; `benchstat -col side` does the statistics itself | all |
//! | will-it-scale | a number of tasks, with work done a second and idle time in percent | `sim` with several CPUs |
//! | page_bench | median cycles and nanoseconds of a block | `sim` of `page-bench0N`; `bench`, if it has a line |
//!
//! A form that has no place for the files' content is refused by name, and the error names the forms that have. Each of
//! several columns is a block of its own under its name.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use framewright_bench::foreign::{per_element, step, sum_of_cpus};
use framewright_bench::{Foreign, Shape};
use framewright_sim::machine;

use super::comparison::Comparison;
use super::points::{ASLEEP, Better, CYCLES, THROUGHPUT, TIME};
use super::read::Kind;
use super::table::{FigureRow, UnitTable};

/// Why a form does not apply.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// Of another kind of file.
    #[error(
        "--format will-it-scale is throughput by number of tasks, which files of {0} do not have: it is for files of framewright sim; \
         mmtests, lkp and benchstat are for all"
    )]
    NotSimulated(&'static str),
    /// No workload of the module's.
    #[error(
        "--format page_bench has lines for page-bench01 to page-bench05 of framewright sim, and for repeat, order-N, batch-N and aged of \
         framewright bench, and here are {0}; mmtests, lkp and benchstat are for all"
    )]
    NoPageBench(String),
}

/// Go's benchmark lines: each measurement with its unit, and which way is better.
pub fn go(comparison: &Comparison) -> String {
    let mut text = String::new();
    let mut units: BTreeMap<String, Better> = BTreeMap::new();
    for table in &comparison.tables {
        let better = table.rows.first().map_or(Better::Neither, |row| row.better);
        let agreed = table.rows.iter().all(|row| row.better == better);
        units.insert(word(&table.unit), if agreed { better } else { Better::Neither });
    }
    for (unit, better) in units {
        match better {
            Better::Higher => text += &format!("Unit {unit} better=higher\n"),
            Better::Lower => text += &format!("Unit {unit} better=lower\n"),
            Better::Neither => {}
        }
    }
    for fact in &comparison.common {
        text += &format!("{}: {}\n", fact.name, fact.value);
    }
    for (number, column) in comparison.columns.iter().enumerate() {
        text += &format!("side: {}\n", column.name);
        let rows = comparison.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        for (table, row) in rows {
            let values = row.cells[number].iter().flat_map(|cell| &cell.values);
            let name = go_name(comparison.kind, table, row);
            values.for_each(|value| text += &format!("{name}\t1\t{value} {}\n", word(&table.unit)));
        }
    }
    text
}

/// A benchmark's name: no blanks, CPUs after the last dash.
fn go_name(kind: Kind, table: &UnitTable, row: &FigureRow) -> String {
    let one_metric = table.rows.iter().all(|other| other.metric == row.metric);
    let metric = if one_metric { String::new() } else { format!("/metric={}", word(&row.metric)) };
    let (name, cpus) = match row.cpus {
        Some(cpus) => (row.name.strip_suffix(&format!("-{cpus}")).unwrap_or(&row.name), format!("-{cpus}")),
        None => (row.name.as_str(), String::new()),
    };
    let kind = match kind {
        Kind::Sim => "Sim",
        Kind::Bench => "Page",
        Kind::Reproduce => "Reproduce",
        Kind::Replay => "Replay",
    };
    format!("Benchmark{kind}/{}{metric}{cpus}", word(name))
}

/// Without blanks.
fn word(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("_")
}

/// CSV as `runtest.py` prints it, by number of tasks. The simulator runs processes; threads were not run, and read 0,
/// as there.
///
/// # Errors
/// Files that are not of the simulator.
pub fn will_it_scale(comparison: &Comparison) -> Result<String, FormError> {
    if comparison.kind != Kind::Sim {
        return Err(FormError::NotSimulated(comparison.kind.command()));
    }
    let rows = || comparison.figure_rows();
    let mut curves: Vec<(usize, String, Vec<&FigureRow>)> = Vec::new();
    for column in 0..comparison.columns.len() {
        for row in rows().filter(|row| row.metric == THROUGHPUT && row.cells[column].is_some()) {
            let name = curve_name(row);
            match curves.iter_mut().find(|(of, known, _)| *of == column && *known == name) {
                Some((.., rows)) => rows.push(row),
                None => curves.push((column, name, vec![row])),
            }
        }
    }
    let mut text = String::new();
    for (number, (column, name, points)) in curves.iter_mut().enumerate() {
        points.sort_by_key(|row| row.cpus);
        if curves_are_many(comparison, number, &mut text) {
            let _ = writeln!(text, "# {}: {name}", comparison.columns[*column].name);
        }
        text += "tasks,processes,processes_idle,threads,threads_idle,linear\n0,0,100,0,100,0\n";
        let done = |row: &FigureRow| row.cells[*column].as_ref().map_or(0.0, |cell| cell.median);
        let single = points.first().map_or(0.0, |row| done(row) / row.cpus.unwrap_or(1) as f64);
        for row in points.iter() {
            let tasks = row.cpus.unwrap_or(1);
            let asleep = rows().find(|other| other.metric == ASLEEP && other.name == row.name);
            let asleep = asleep.and_then(|row| row.cells[*column].as_ref()).map_or(0.0, |cell| cell.median);
            let idle = idle(&row.machine, tasks, asleep).map_or(String::new(), |idle| format!("{idle:.2}"));
            let _ = writeln!(text, "{tasks},{:.0},{idle},0,0.00,{:.0}", done(row), single * tasks as f64);
        }
    }
    Ok(text)
}

/// Whether blocks need names; if so, they are a line apart.
fn curves_are_many(comparison: &Comparison, number: usize, text: &mut String) -> bool {
    if number > 0 {
        text.push('\n');
    }
    let workloads = comparison.figure_rows().map(curve_name);
    comparison.columns.len() > 1 || workloads.collect::<std::collections::BTreeSet<_>>().len() > 1
}

/// The part of a row's name without its number of CPUs.
fn curve_name(row: &FigureRow) -> String {
    let cpus = row.cpus.map_or(String::new(), |cpus| format!("-{cpus}"));
    row.name.strip_suffix(&cpus).unwrap_or(&row.name).to_owned()
}

/// How much of the machine does nothing, in percent; none if it is one that did not come with the program.
fn idle(machine: &str, tasks: usize, asleep_percent: f64) -> Option<f64> {
    let cpus = machine::named(machine).ok()?.model().topology.cpus().max(tasks);
    Some(((cpus - tasks) as f64 * 100.0 + tasks as f64 * asleep_percent) / cpus as f64)
}

/// Lines of the kernel modules `page_bench*`.
///
/// # Errors
/// Files without a workload that the modules have.
pub fn page_bench(comparison: &Comparison) -> Result<String, FormError> {
    let rows = || comparison.figure_rows();
    let mut text = String::new();
    let mut lines = 0;
    for (number, column) in comparison.columns.iter().enumerate() {
        if comparison.columns.len() > 1 {
            let _ = writeln!(text, "# {}", column.name);
        }
        for row in rows().filter(|row| row.metric == CYCLES) {
            let time = rows().find(|other| other.metric == TIME && other.name == row.name);
            let median = |row: &FigureRow| row.cells[number].as_ref().map(|cell| cell.median);
            let Some((cycles, ns)) = median(row).zip(time.and_then(median)) else { continue };
            if let Some(line) = page_bench_line(comparison.kind, row, cycles as u64, ns) {
                lines += 1;
                text = text + &line + "\n";
            }
        }
    }
    if lines > 0 {
        return Ok(text);
    }
    let mut found: Vec<&str> = rows().map(|row| row.workload.as_str()).collect();
    found.dedup();
    found.truncate(8);
    Err(FormError::NoPageBench(found.join(", ")))
}

/// A line, if the modules have a test for it.
fn page_bench_line(kind: Kind, row: &FigureRow, cycles: u64, ns: f64) -> Option<String> {
    let name = word(&curve_name(row)).replace('/', "_");
    let cpus = row.cpus.unwrap_or(1);
    let (step, together) = match kind {
        Kind::Bench => {
            let shape = Shape::parse(&row.workload)?;
            Foreign::PageBench.refusal(shape).is_none().then_some((step(shape), false))?
        }
        Kind::Sim => {
            let (test, options) = row.workload.split_once(':').unwrap_or((&row.workload, ""));
            let option = |name: &str, usual: usize| {
                let values = options.split(',').filter_map(|option| option.split_once('='));
                values.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse().ok()).unwrap_or(usual)
            };
            match test.strip_prefix("page-bench")? {
                "01" => (option("order", 0), false),
                "02" => (option("outstanding", 64), false),
                "03" => (option("order", 0), true),
                "04" => (option("batch", 64), false),
                _ => (option("order", 0), false),
            }
        }
        _ => return None,
    };
    if together {
        let (pages, bytes) = (1_u64 << step.min(20), 4096_u64 << step.min(20));
        return Some(format!(
            "Parallel-CPUs:{cpus} page order:{step}({bytes}B/x{pages}) ave {cycles} cycles per-4096B {} cycles",
            cycles / pages
        ));
    }
    if cpus > 1 {
        return Some(sum_of_cpus(&name, cycles, cpus, step));
    }
    Some(format!("Type:{name} Per elem: {}", per_element(cycles, (ns * 1000.0) as u64, step)))
}
