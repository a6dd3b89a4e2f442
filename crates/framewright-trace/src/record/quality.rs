//! How far a trace can be trusted.

use std::collections::BTreeMap;
use std::fmt;

use super::kind::Kind;
use crate::counted::counted;

/// The quality of a trace. The counts are complete once the last record has been read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quality {
    /// Lines of text.
    pub lines: u64,
    /// Records by [`Kind::index`].
    pub by_kind: [u64; Kind::COUNT],
    /// Failed requests among the records.
    pub failed_allocs: u64,
    /// Events that the tracer says it lost. Anything but 0 makes a replay doubtful.
    pub lost_events: u64,
    /// Reports of losses, with a number or without.
    pub lost_reports: u64,
    /// Events of other subsystems, by name.
    pub unknown: BTreeMap<String, u64>,
    /// Unknown flags that the lenient mode left out of their requests, with their counts.
    pub unknown_flags: BTreeMap<String, u64>,
    /// Lines that carry no event: comments, call chains, blank ones.
    pub skipped_lines: u64,
    /// Lines that no tracer prints.
    pub unrecognized_lines: u64,
    /// Lines of our events that could not be read, in the lenient mode.
    pub malformed_lines: u64,
    /// The faults of the first few of them.
    pub malformed: Vec<String>,
    /// Records with an earlier time than the record before.
    pub time_steps_back: u64,
    /// Records without a time, which were given that of the record before.
    pub untimed: u64,
}

impl Quality {
    /// The most names of unknown events that are kept; others are counted as `(others)`.
    pub(crate) const UNKNOWN_NAMES: usize = 256;
    /// The most messages about malformed lines that are kept.
    pub(crate) const MESSAGES: usize = 8;

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// Number of events of other subsystems.
    pub fn unknown_events(&self) -> u64 {
        self.unknown.values().sum()
    }

    /// Whether the trace has every event that the tracer saw.
    pub fn is_complete(&self) -> bool {
        self.lost_events == 0 && self.lost_reports == 0 && self.malformed_lines == 0
    }

    /// Counts an event.
    pub fn count(&mut self, kind: &Kind) {
        self.by_kind[kind.index()] += 1;
        self.failed_allocs += u64::from(matches!(kind, Kind::Alloc { pfn: None, .. }));
    }

    pub(crate) fn count_unknown(&mut self, name: &str) {
        count(&mut self.unknown, name);
    }

    /// Counts a flag that was left out of its request.
    pub(crate) fn count_flag(&mut self, flag: &str) {
        count(&mut self.unknown_flags, flag);
    }

    /// Counts a report of lost events; `events` is none if it has no number.
    pub fn count_lost(&mut self, events: Option<u64>) {
        self.lost_events = self.lost_events.saturating_add(events.unwrap_or(0));
        self.lost_reports += 1;
    }
}

/// Counts a name, in a table of bounded size.
fn count(names: &mut BTreeMap<String, u64>, name: &str) {
    if let Some(count) = names.get_mut(name) {
        *count += 1;
    } else if names.len() < Quality::UNKNOWN_NAMES {
        names.insert(name.to_owned(), 1);
    } else {
        *names.entry("(others)".to_owned()).or_default() += 1;
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events", self.records())?;
        for (name, &count) in Kind::NAMES.iter().zip(&self.by_kind) {
            if count > 0 {
                write!(f, "\n  {count:>9} {name}")?;
                if *name == Kind::NAMES[0] && self.failed_allocs > 0 {
                    write!(f, ", {} of them failed", self.failed_allocs)?;
                }
            }
        }
        for (name, count) in &self.unknown {
            write!(f, "\n  {count:>9} {name} (not used)")?;
        }
        for (flag, count) in &self.unknown_flags {
            write!(f, "\n  {count:>9} requests without their flag {flag}, which is not known")?;
        }
        match (self.lost_events, self.lost_reports) {
            (0, 0) => f.write_str("\nno event lost")?,
            (events, reports) => {
                let gaps = counted(reports, "gap");
                write!(f, "\n{events} events LOST, in {gaps}: what follows a gap is doubtful")?
            }
        }
        for (count, what) in [
            (self.malformed_lines, "lines could not be read"),
            (self.unrecognized_lines, "lines are no trace"),
            (self.time_steps_back, "steps back in time"),
            (self.untimed, "events without a time"),
        ] {
            if count > 0 {
                write!(f, "\n{count} {what}")?;
            }
        }
        self.malformed.iter().try_for_each(|message| write!(f, "\n  {message}"))
    }
}

#[cfg(test)]
mod tests {
    use framewright::request::Gfp;
    use framewright::units::{MigrateType, Order, Pfn};

    use super::*;

    #[test]
    fn unknown_names_are_bounded() {
        let mut quality = Quality::default();
        for i in 0..1000 {
            quality.count_unknown(&format!("event_{i}"));
        }
        assert_eq!(quality.unknown.len(), Quality::UNKNOWN_NAMES + 1);
        assert_eq!(quality.unknown_events(), 1000);
    }

    #[test]
    fn quality_names_what_is_doubtful() {
        let mut quality = Quality { malformed_lines: 1, time_steps_back: 2, ..Quality::default() };
        let gfp = Gfp::NONE;
        quality.count(&Kind::Alloc { pfn: None, order: Order(0), migratetype: MigrateType::Movable, gfp });
        quality.count(&Kind::Free { pfn: Pfn(1), order: Order(0) });
        quality.count_lost(Some(12));
        quality.count_lost(None);
        quality.count_unknown("sched_switch");
        quality.malformed.push("t:7: no pfn=".into());
        assert!(!quality.is_complete());
        insta::assert_snapshot!(quality, @"
        2 events
                  1 mm_page_alloc, 1 of them failed
                  1 mm_page_free
                  1 sched_switch (not used)
        12 events LOST, in 2 gaps: what follows a gap is doubtful
        1 lines could not be read
        2 steps back in time
          t:7: no pfn=
        ");
    }
}
