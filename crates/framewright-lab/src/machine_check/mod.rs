//! This machine as a file of the simulator: measured where its CPUs allow it, assumed elsewhere.
//!
//! `framewright machine check FILE` measures (`framewright_bench::checker`), takes every number that could not be
//! measured from another machine, and shows both. What is measured is marked as a source, with its spread; what is
//! taken over is marked as an assumption, with the machine's name.

mod file;
mod curve;

use std::fmt;

use framewright_bench::MachineFacts;
use framewright_bench::checker::{Host, Reading, Readings};
use framewright_sim::machine::{Basis, MachineError, Spec};
use framewright_table::{Table, cells, wrapped};
use serde::Serialize;

pub use file::machine_file;
use file::rounded;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// Columns of the output.
const WIDTH: usize = 100;

/// A measured host, and its machine.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Checked {
    /// Version of this form.
    pub schema: u32,
    /// The processor, as the kernel calls it.
    pub processor: String,
    /// The machine that other numbers are taken from.
    pub base: String,
    /// The shape of this machine.
    pub host: Host,
    /// What was measured, and what could not be.
    pub readings: Readings,
    /// Paths of the numbers that are assumed.
    pub assumed: Vec<String>,
    /// The machine.
    #[serde(skip)]
    pub spec: Spec,
}

impl Checked {
    /// Puts together what was measured on this machine; `file` names the machine.
    ///
    /// # Errors
    /// `base` lacks a number that this machine needs and that was not measured.
    pub fn new(file: &str, (host, readings): (Host, Readings), base: &Spec) -> Result<Checked, MachineError> {
        let processor = MachineFacts::gather().cpu;
        Checked::of(file, &processor, (host, readings), base)
    }

    /// Like [`Checked::new`], for a processor with a given name.
    ///
    /// # Errors
    /// As [`Checked::new`].
    pub fn of(
        file: &str,
        processor: &str,
        (host, readings): (Host, Readings),
        base: &Spec,
    ) -> Result<Checked, MachineError> {
        let spec = machine_file(file, processor, (&host, &readings), base)?;
        let is_assumed = |basis: &Basis| matches!(basis, Basis::Assumed(_));
        let mut assumed: Vec<String> = Vec::new();
        for number in spec.parameters().filter(|number| is_assumed(&number.basis)) {
            let path = match number.at {
                Some(_) => number.path.rsplit_once('.').map_or("", |(curve, _)| curve),
                None => &number.path,
            };
            if !assumed.iter().any(|known| known == path) {
                assumed.push(path.to_owned());
            }
        }
        let (processor, base) = (processor.to_owned(), base.name.clone());
        Ok(Checked { schema: SCHEMA, processor, base, host, readings, assumed, spec })
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { sockets, nodes, cores, threads, caches, .. } = &self.host;
        writeln!(f, "{}", self.processor)?;
        let kib = |bytes: usize| {
            if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
        };
        let sizes = [caches.l1, caches.l2, caches.llc].map(kib);
        writeln!(
            f,
            "sockets {sockets}, nodes of each {nodes}, cores {cores}, threads of a core {threads}; caches {}, and {} x {} a node\n",
            sizes[..2].join(", "),
            caches.llc_of_node,
            sizes[2]
        )?;
        let mut table = Table::new("<>>><");
        table.row(cells!["{:<58}" = "measured", "{:>10}" = "median", "{:>10}" = "lowest", "{:>10}" = "highest", ""]);
        for Reading { what, unit, value, low, high, .. } in &self.readings.rows {
            let unit = match *unit {
                "gb_per_s" => "GB/s",
                "ghz" => "GHz",
                unit => unit,
            };
            let [value, low, high] = [value, low, high].map(|number| rounded(*number));
            table.row(cells!["{what:<58}", "{value:>10}", "{low:>10}", "{high:>10}", " {unit}"]);
        }
        for point in &self.readings.loaded {
            let what = format!("memory, own node, while others read {:.1} GB/s", point.gb_per_s);
            let ns = rounded(point.ns);
            table.row(cells!["{what:<58}", "{ns:>10}", "{:>10}" = "", "{:>10}" = "", " ns"]);
        }
        writeln!(f, "{table}")?;
        for missing in &self.readings.missing {
            write!(f, "{}", wrapped(&format!("Not measured: {}: {}.", missing.what, missing.why), ' ', WIDTH, 2))?;
        }
        for note in &self.readings.notes {
            write!(f, "{}", wrapped(note, ' ', WIDTH, 2))?;
        }
        let text = format!("Assumed, as on {}: {}.", self.base, self.assumed.join(", "));
        write!(f, "{}", wrapped(&text, ' ', WIDTH, 2))
    }
}
