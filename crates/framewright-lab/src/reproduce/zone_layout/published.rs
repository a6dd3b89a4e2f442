//! The published table, as `data/published/zone-layout.toml` has it.

use framewright::mechanisms::LockPlace;
use serde::{Deserialize, Serialize};

use crate::reproduce::published::{built_in, is_amount, is_change, names_differ};

/// The file.
const FILE: &str = include_str!("../../../../../data/published/zone-layout.toml");

/// See the module's description.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What it is.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// The workload, as far as it is known.
    pub workload: String,
    /// What was measured, each before and after a change of the lock's place.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

/// One measurement.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Where the lock was.
    pub from: Place,
    /// Where it is.
    pub to: Place,
    /// What was measured.
    pub quantity: Quantity,
    /// With the lock where it was.
    pub before: f64,
    /// With the lock where it is.
    pub after: f64,
    /// The change.
    pub change_percent: f64,
}

/// Places of the lock that kernels had.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Right before the lists of order 0.
    BesideLists,
    /// Behind all lists.
    BehindLists,
}

impl Place {
    /// The choice of the allocator.
    pub fn mechanism(self) -> LockPlace {
        match self {
            Place::BesideLists => LockPlace::BesideLists,
            Place::BehindLists => LockPlace::BehindLists,
        }
    }
}

/// What was measured.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Jobs per minute.
    Jobs,
    /// Seconds that all jobs took.
    Elapsed,
    /// Seconds of CPU time in the kernel.
    System,
    /// Seconds of CPU time outside of it.
    User,
    /// Context switches of tasks that wait.
    VoluntarySwitches,
    /// Context switches of tasks that could go on.
    InvoluntarySwitches,
}

impl Quantity {
    /// Why nothing of the kind comes out of the model; none if something does.
    pub fn unmodelled(self) -> Option<&'static str> {
        match self {
            Quantity::Jobs | Quantity::Elapsed | Quantity::System => None,
            Quantity::User => Some("not modelled: what a job computes is given, and the same for both"),
            Quantity::VoluntarySwitches | Quantity::InvoluntarySwitches => {
                Some("not modelled: there is no scheduler, each CPU runs one process after the other")
            }
        }
    }
}

impl Published {
    /// The table that comes with the program.
    ///
    /// # Errors
    /// The file is wrong, which is a mistake in this project.
    pub fn built_in() -> anyhow::Result<Self> {
        built_in("zone-layout.toml", FILE, Self::check)
    }

    fn check(&self) -> anyhow::Result<()> {
        names_differ(self.rows.iter().map(|row| row.name.as_str()))?;
        for Row { name, before, after, change_percent, .. } in &self.rows {
            is_amount(&format!("row {name}: before"), *before)?;
            is_amount(&format!("row {name}: after"), *after)?;
            is_change(name, *change_percent, (*before, *after))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::published::mistake;

    #[test]
    fn the_table_is_read() {
        let table = Published::built_in().unwrap();
        let jobs: Vec<f64> =
            table.rows.iter().filter(|row| row.quantity == Quantity::Jobs).map(|row| row.change_percent).collect();
        assert_eq!((table.rows.len(), jobs), (11, vec![-46.2, 94.3]));
        assert!(table.rows.iter().all(|row| row.from != row.to));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |from, to| mistake(FILE, Published::check, (from, to));
        assert_eq!(
            wrong("change_percent = -46.2", "change_percent = 46.2"),
            "row separate -> beside: change_percent is 46.2, its numbers say -46.2"
        );
        assert_eq!(wrong("before = 152288", "before = 0"), "row separate -> beside: before is 0");
        assert!(wrong("\"behind-lists\"", "\"own-line\"").contains("own-line"));
        let twice = wrong("name = \"beside -> separate\"", "name = \"separate -> beside\"");
        assert_eq!(twice, "row separate -> beside is there twice");
    }
}
