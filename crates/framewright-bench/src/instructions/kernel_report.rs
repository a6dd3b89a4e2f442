//! What `framewright bench --kernel` prints: the instructions of a kernel's calls, beside those of Linux.

use std::fmt;
use std::io;
use std::process::Command;

use framewright_table::{Table, cells};
use serde::Serialize;

use crate::instructions::stepping::{self, Counts};
use crate::instructions::work::KERNEL_VARIANTS;

/// Instructions of a page of order 0 on a kernel's machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KernelReport {
    /// Name and version of this form.
    pub schema: String,
    /// The compiler that the counted code was built with, if known.
    pub rustc: Option<String>,
    /// Batches of 64 pages that each number is the mean of.
    pub batches: usize,
    /// A row for each variant.
    pub rows: Vec<KernelRow>,
    /// Linux's path, counted by an emulator.
    pub linux: KernelRow,
    /// What the reader must know of these numbers.
    pub notes: Vec<String>,
}

/// Instructions of a way to call the allocator.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KernelRow {
    /// Name of the variant, or of the kernel.
    pub variant: String,
    /// The calls that are counted.
    pub calls: String,
    /// The instructions.
    #[serde(flatten)]
    pub counts: Counts,
}

impl KernelRow {
    /// Makes the row of a variant.
    pub fn new(variant: &str, counts: Counts) -> KernelRow {
        let calls = match variant {
            "kernel" => "alloc and free, request known when compiled",
            "kernel-above" => "as kernel, memory above a hole",
            "kernel-wrapped" => "alloc_pages and free_pages, request known when run",
            "kernel-local" => "as kernel, through Allocator::local",
            "kernel-handle" => "as kernel, by a CpuHandle; the machine keeps nothing",
            "kernel-kit" => "as kernel, with the kit for kernels",
            "kernel-linux" => "as kernel, with the mechanisms of Linux 6.1",
            "kernel-bulk" => "alloc_bulk and free_bulk, 64 pages a call",
            _ => "alloc_pages and free_pages",
        };
        KernelRow { variant: variant.to_owned(), calls: calls.to_owned(), counts }
    }
}

impl KernelReport {
    /// Name and version of the form.
    pub const SCHEMA: &str = "framewright-kernel-instructions/1";

    /// Makes the report of these rows.
    pub fn new(rows: Vec<KernelRow>, batches: usize) -> KernelReport {
        let linux = Counts { alloc: 442.0, free: 259.0, repeat: 693.0 };
        KernelReport {
            schema: KernelReport::SCHEMA.to_owned(),
            rustc: option_env!("FRAMEWRIGHT_RUSTC").map(str::to_owned),
            batches,
            rows,
            linux: KernelRow::new("Linux 6.1", linux),
            notes: Vec::new(),
        }
    }

    /// Counts every variant, in a process each.
    ///
    /// `command` makes the program that calls [`super::kernel_work`] with this variant and number of batches. `show`
    /// gets the variant's name and the share of the work that is done.
    ///
    /// # Errors
    /// Those of [`stepping::count`].
    pub fn measure(
        batches: usize,
        command: impl Fn(&str) -> Command,
        show: impl Fn(&str, f64),
    ) -> io::Result<KernelReport> {
        let mut rows = Vec::new();
        for (done, variant) in KERNEL_VARIANTS.into_iter().enumerate() {
            show(variant, done as f64 / KERNEL_VARIANTS.len() as f64);
            let counts = stepping::count(&mut command(variant), batches)?;
            rows.push(KernelRow::new(variant, counts));
        }
        let mut report = KernelReport::new(rows, batches);
        if cfg!(debug_assertions) {
            let note = "this is a debug build, whose numbers mean nothing: run it with --release";
            report.notes.push(note.to_owned());
        }
        Ok(report)
    }
}

impl fmt::Display for KernelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rustc = self.rustc.as_deref().unwrap_or("an unknown compiler");
        writeln!(f, "instructions a page of order 0 on x86-64, mean of {} batches of 64, by {rustc}", self.batches)?;
        writeln!(f)?;
        let mut table = Table::new("<15<42>8");
        table.row(cells!["", "calls", "alloc", "free", "repeat"]);
        for row in self.rows.iter().chain([&self.linux]) {
            let (variant, calls, Counts { alloc, free, repeat }) = (&row.variant, &row.calls, row.counts);
            table.row(cells!["{variant}", "{calls}", "{alloc:.2}", "{free:.2}", "{repeat:.2}"]);
        }
        write!(f, "{table}")?;
        self.notes.iter().try_for_each(|note| writeln!(f, "\nnote: {note}"))
    }
}
