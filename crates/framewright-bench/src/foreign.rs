//! The lines and cells of the field's own tools, and what each form has a place for.
//!
//! Whatever prints one of these forms writes its parts here: the report of a benchmark, and a comparison of files.
//!
//! | form | as printed by | a line is | of which workloads |
//! |---|---|---|---|
//! | `page_bench` | kernel modules `page_bench*` on `time_bench` | a contender or thread | those of one CPU's time |
//! | `mmtests` | `compare-kernels` of mmtests on `pagealloc` | a batch size, contenders side by side | `batch-N` |
//! | `benchstat` | Go's `testing` package | a round of a contender, for `benchstat` to do the statistics of | all |
//!
//! A form is not bent to fit: a workload that it cannot show is refused by name ([`Foreign::refusal`]).

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
}

/// The step that page_bench gives a workload: the order of a single block, the number of pages held of a batch.
pub fn step(shape: Shape) -> usize {
    match shape {
        Shape::Repeat { order } => usize::from(order),
        other => other.unit(),
    }
}

/// Cycles and nanoseconds of one element, as `time_bench` writes them. `thousandths` are of a nanosecond.
pub fn per_element(cycles: u64, thousandths: u64, step: usize) -> String {
    format!("{cycles} cycles(tsc) {}.{:03} ns (step:{step})", thousandths / 1000, thousandths % 1000)
}

/// The line of `time_bench` that sums up what several CPUs did.
pub fn sum_of_cpus(name: &str, cycles: u64, cpus: usize, step: usize) -> String {
    format!("Sum Type:{name} Average: {cycles} cycles(tsc) CPUs:{cpus} step:{step}")
}

/// A cell of mmtests: a value, and by how many percent it is better than the base's.
pub fn mmtests_cell(value: f64, better: f64) -> String {
    format!("{value:.2} ({better:7.2}%)")
}
