//! Page faults of a machine under several presets, beside the published table of the zone lock.
//!
//! `linux/measure` writes a file for each preset. The published table (data/published/zone-lock.toml) has kernels as
//! rows: faults a second of 112 tasks, the change against the first kernel, and the time spent waiting for the zone lock.
//!
//! The idea: a row of the first table is a kernel, at the largest number of tasks that all kernels have. Its last columns
//! are those of the published row of that name. Rows measured with LRU lists of each task's own stand beside the
//! published kernels without LRU lists, and rows with shared lists beside those with LRU lists. The second table has the
//! faults by number of tasks. Each value is the median of its rounds.
//!
//! Cost: none. Rejected: a verdict. A machine is not the published one, and Linux above the allocator is another.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use anyhow::{Context, Result, bail, ensure};
use framewright::mechanisms::PRESETS;
use framewright_table::{Table, figures};
use serde::{Deserialize, Serialize};

use crate::report::median;

/// One measurement, a line of a file.
#[derive(Clone, Debug, Deserialize)]
struct Measurement {
    #[serde(flatten)]
    machine: Hardware,
    preset: String,
    lru: Lru,
    tasks: u32,
    faults_per_second: f64,
    zone_lock_percent: Option<f64>,
    lru_lock_percent: Option<f64>,
    list_percent: Option<f64>,
}

/// What all rows of a table have in common. Memory is not: a preset's descriptors are no memory of Linux's.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Hardware {
    cpus: u32,
    nodes: u32,
}

/// Whose LRU lists a task's pages are on.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
enum Lru {
    /// The task's own.
    Apart,
    /// All tasks' together.
    Shared,
}

/// The published table.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Published {
    /// Kernels whose pages are on no LRU list.
    row: Vec<PublishedRow>,
    /// Kernels whose pages are on LRU lists.
    lru: Vec<PublishedRow>,
}

#[derive(Clone, Debug, Deserialize)]
struct PublishedRow {
    name: String,
    change_percent: f64,
    zone_lock_contention_percent: f64,
}

/// What `linux/measure` has written on one machine.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    rows: Vec<Measurement>,
}

impl Published {
    /// Reads the table.
    ///
    /// # Errors
    ///
    /// The text is not of its form.
    pub fn parse(text: &str) -> Result<Published> {
        toml::from_str(text).context("the published table")
    }

    /// The published row for a kernel, if there is one.
    fn of(&self, kernel: &Subject<'_>) -> Option<&PublishedRow> {
        let rows = if kernel.lru == Lru::Apart { &self.row } else { &self.lru };
        rows.iter().find(|row| row.name == kernel.preset)
    }
}

/// A row of the tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Subject<'a> {
    lru: Lru,
    /// Linux's own allocator first, then the presets in their order.
    place: usize,
    preset: &'a str,
}

impl Subject<'_> {
    fn of(row: &Measurement) -> Subject<'_> {
        let own = ["stock", "off"].into_iter();
        let known = own.chain(PRESETS.iter().map(|(name, _)| *name)).position(|name| name == row.preset);
        Subject { lru: row.lru, place: known.unwrap_or(usize::MAX), preset: &row.preset }
    }
}

impl Measurements {
    /// Adds the lines of a file.
    ///
    /// # Errors
    ///
    /// A line is not of the form of `linux/measure`, or is of another machine.
    pub fn add(&mut self, text: &[u8]) -> Result<()> {
        for row in csv::Reader::from_reader(text).deserialize() {
            let row: Measurement = row?;
            if let Some(first) = self.rows.first() {
                let (here, before) = (&row.machine, &first.machine);
                ensure!(here == before, "another machine than in the rows before: {here:?}, not {before:?}");
            }
            self.rows.push(row);
        }
        Ok(())
    }

    /// The tables, for a terminal.
    ///
    /// # Errors
    ///
    /// There are no measurements, none of the base, or no number of tasks that all kernels have.
    pub fn tables(&self, published: &Published, base: Option<&str>) -> Result<String> {
        let mut text = String::new();
        let Some(Measurement { machine, .. }) = self.rows.first() else { bail!("no measurements") };
        writeln!(text, "{} CPUs, {}", machine.cpus, figures::counted(machine.nodes as usize, "node"))?;
        for lru in [Lru::Apart, Lru::Shared] {
            let rows = self.rows.iter().filter(|row| row.lru == lru);
            let kernels: Vec<Subject<'_>> = rows.map(Subject::of).collect::<BTreeSet<_>>().into_iter().collect();
            let wanted = |kernel: &&Subject<'_>| base.unwrap_or("patch1") == kernel.preset;
            let Some(first) = kernels.first() else { continue };
            let chosen = match (kernels.iter().find(wanted), base) {
                (Some(kernel), _) => kernel,
                (None, None) => first,
                (None, Some(base)) => bail!("no measurements of {base}"),
            };
            self.kernels(&mut text, &kernels, chosen, published)?;
            self.by_tasks(&mut text, &kernels, chosen)?;
        }
        Ok(text)
    }

    /// The table by kernel, at the largest number of tasks that all have.
    fn kernels(
        &self,
        text: &mut String,
        kernels: &[Subject<'_>],
        base: &Subject<'_>,
        published: &Published,
    ) -> Result<()> {
        let all_have = |tasks: &u32| kernels.iter().all(|kernel| self.faults(kernel, *tasks).is_some());
        let tasks = self.tasks().into_iter().rev().find(all_have);
        let tasks = tasks.context("no number of tasks was measured under every kernel")?;
        let lists = if base.lru == Lru::Apart { "LRU lists of each task's own" } else { "shared LRU lists" };
        writeln!(text, "\npage_fault1, {}, {lists}", figures::counted(tasks as usize, "task"))?;
        let mut table = Table::new("<>");
        let own = ["kernel", "faults/s", "change", "zone lock", "LRU lock", "smp list"];
        table.row(own.into_iter().chain(["| published:", "zone lock"]).map(str::to_owned).collect());
        let of_base = self.faults(base, tasks).unwrap_or(f64::NAN);
        for kernel in kernels {
            let share = |which: fn(&Measurement) -> Option<f64>| shown(self.median(kernel, tasks, which));
            let faults = self.faults(kernel, tasks).unwrap_or(f64::NAN);
            let theirs = published.of(kernel);
            table.row(vec![
                kernel.preset.to_owned(),
                figures::grouped(faults),
                if kernel == base { String::new() } else { figures::change(of_base, faults) },
                share(|row| row.zone_lock_percent),
                share(|row| row.lru_lock_percent),
                share(|row| row.list_percent),
                theirs.map_or("|".to_owned(), |row| format!("| {:+.1} %", row.change_percent)),
                shown(theirs.map(|row| row.zone_lock_contention_percent)),
            ]);
        }
        write!(text, "{table}")?;
        Ok(())
    }

    /// The table by number of tasks: faults a second, and their ratio to those of the base.
    fn by_tasks(&self, text: &mut String, kernels: &[Subject<'_>], base: &Subject<'_>) -> fmt::Result {
        writeln!(text, "\nthousand faults a second by number of tasks, and times {}", base.preset)?;
        let tasks: Vec<u32> = self.tasks().into_iter().collect();
        let mut table = Table::new("<>");
        table.row([String::new()].into_iter().chain(tasks.iter().map(u32::to_string)).collect());
        for kernel in kernels {
            let mut row = vec![kernel.preset.to_owned()];
            for &tasks in &tasks {
                let faults = self.faults(kernel, tasks);
                let ratio = self.faults(base, tasks).zip(faults).map(|(base, faults)| faults / base);
                row.push(match (faults, ratio.filter(|_| kernel != base)) {
                    (None, _) => "-".to_owned(),
                    (Some(faults), None) => figures::grouped((faults / 1e3).round()),
                    (Some(_), Some(ratio)) => figures::ratio(ratio) + "x",
                });
            }
            table.row(row);
        }
        write!(text, "{table}")
    }

    /// The numbers of tasks, ascending.
    fn tasks(&self) -> BTreeSet<u32> {
        self.rows.iter().map(|row| row.tasks).collect()
    }

    fn faults(&self, kernel: &Subject<'_>, tasks: u32) -> Option<f64> {
        self.median(kernel, tasks, |row| Some(row.faults_per_second))
    }

    /// The median of a column over the rounds of a kernel.
    fn median(&self, kernel: &Subject<'_>, tasks: u32, which: fn(&Measurement) -> Option<f64>) -> Option<f64> {
        let rows = self.rows.iter().filter(|row| Subject::of(row) == *kernel && row.tasks == tasks);
        median(rows.filter_map(which))
    }
}

/// A share in percent, or a dash.
fn shown(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| figures::percent(share) + " %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADING: &str = "kernel,version,preset,cpus,nodes,memory_mib,lru,tasks,faults_per_second,\
        zone_lock_percent,lru_lock_percent,list_percent\n";

    fn published() -> Published {
        let text = std::fs::read_to_string(crate::places::root().join("data/published/zone-lock.toml"));
        Published::parse(&text.expect("the table is there")).expect("the table is right")
    }

    /// A file of one preset on a machine of 112 CPUs, with two rounds.
    fn file(preset: &str, lru: &str, of_one: f64, of_all: f64, shares: &str) -> String {
        let mut text = HEADING.to_owned();
        for factor in [0.9, 1.1] {
            for (tasks, faults) in [(1, of_one), (112, of_all)] {
                let faults = faults * factor;
                let memory = 192_000 - preset.len();
                text += &format!("6.1.0,0.1.0,{preset},112,2,{memory},{lru},{tasks},{faults},{shares}\n");
            }
        }
        text
    }

    #[test]
    fn kernels_stand_beside_the_published_ones() {
        let mut measured = Measurements::default();
        for (preset, lru, of_one, of_all, shares) in [
            ("patch7", "apart", 480e3, 2.5e6, "50.1,0,30"),
            ("no_merge+cluster_alloc", "apart", 500e3, 12.1e6, "0.01,0.3,0"),
            ("default+depot=off", "apart", 520e3, 13e6, ",,"),
            ("off", "apart", 550e3, 9e6, "77,1,0"),
            ("patch1", "apart", 490e3, 9.2e6, "78,1,0"),
            ("default", "shared", 510e3, 7e6, "1,80,0"),
        ] {
            measured.add(file(preset, lru, of_one, of_all, shares).as_bytes()).expect("a file");
        }
        let text = measured.tables(&published(), None).expect("tables");
        insta::assert_snapshot!(text);
        let other = measured.tables(&published(), Some("off")).expect_err("shared has no such row");
        assert_eq!(other.to_string(), "no measurements of off");
    }

    #[test]
    fn rows_of_another_machine_are_refused() {
        let mut measured = Measurements::default();
        assert_eq!(measured.tables(&published(), None).expect_err("none").to_string(), "no measurements");
        measured.add(file("off", "apart", 1.0, 2.0, ",,").as_bytes()).expect("a file");
        let other = file("patch1", "apart", 1.0, 2.0, ",,").replace(",112,2,", ",96,2,");
        let error = measured.add(other.as_bytes()).expect_err("another machine");
        assert!(
            error.to_string().starts_with("another machine than in the rows before: Hardware { cpus: 96"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(cells in "[0-9a-z.,\n-]{0,200}", whole: bool) {
            let text = if whole { file("off", "apart", 1.0, 2.0, ",,") + &cells } else { HEADING.to_owned() + &cells };
            let mut measured = Measurements::default();
            let _ = measured.add(text.as_bytes());
            let _ = measured.tables(&Published::default(), None);
        }
    }
}
