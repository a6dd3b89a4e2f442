//! The results for people.

use std::fmt;

use crate::report::Report;

/// Prints a report as text of at most 100 columns.
pub struct Table<'a>(pub &'a Report);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.0.rows {
            writeln!(
                f,
                "{:18} {:2} {:24} {:9.2} {:9.2} {:9.2} {:8.2}",
                row.workload,
                row.threads,
                row.allocator,
                row.ns_per_page,
                row.min,
                row.max,
                row.ratio_to_limit.unwrap_or(f64::NAN)
            )?;
        }
        for goal in &self.0.goals {
            writeln!(f, "{goal:?}")?;
        }
        for failure in &self.0.failures {
            writeln!(f, "FAILED: {failure}")?;
        }
        for note in &self.0.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
