//! What a trace consists of: one [`Record`] for each event, and the [`Quality`] of the whole.
//!
//! A record keeps every field of its tracepoint that says something about memory. The hashed `page=` pointer is dropped
//! (the kernel prints a different hash after each boot, and `pfn=` says the same better), and so are the interrupt
//! flags and vendors' extra fields.
//!
//! Not every record is a request. `mm_page_alloc`, `mm_page_free` and `page_migrate` say what the kernel's users did;
//! the others say what the allocator did for it, and a replay must not carry them out a second time:
//! `mm_page_free_batched` comes in addition to the `mm_page_free` of the same page, `mm_page_alloc_zone_locked` and
//! `mm_page_pcpu_drain` are the traffic between the zone and the per-CPU lists. [`Kind::is_request`] tells them apart.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use framewright::request::Gfp;
use framewright::units::{CpuId, MigrateType, Order, Pfn};

use crate::replay::counted;

/// One event of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When, in nanoseconds of the trace's clock; the zero point is the tracer's.
    pub time: u64,
    /// Number of the thread that ran.
    pub pid: u32,
    /// Its name, an index into the trace's [`Comms`].
    pub comm: CommId,
    /// The CPU that it ran on.
    pub cpu: CpuId,
    /// What happened.
    pub kind: Kind,
}

/// What happened, with the fields of the tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// `mm_page_alloc`: a request was served, or failed if `pfn` is none.
    Alloc {
        /// First frame of the block.
        pfn: Option<Pfn>,
        /// Order of the block.
        order: Order,
        /// Mobility asked for.
        migratetype: MigrateType,
        /// Flags of the request.
        gfp: Gfp,
    },
    /// `mm_page_free`: a block was freed.
    Free {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block, which can be smaller than the one that it was allocated with.
        order: Order,
    },
    /// `mm_page_free_batched`: a page was freed as one of a list; a [`Kind::Free`] of the same page comes with it.
    FreeBatched {
        /// The page.
        pfn: Pfn,
    },
    /// `page_migrate`, a probe on the function that hands a page's identity over: the object at `old` is now at `new`.
    Move {
        /// Where the object was.
        old: Pfn,
        /// Where it is now.
        new: Pfn,
    },
    /// `mm_page_alloc_extfrag`: a request was served from the free lists of another mobility.
    ExtFrag {
        /// First frame of the block that was found.
        pfn: Pfn,
        /// Order asked for.
        alloc_order: Order,
        /// Order of the block that was found.
        fallback_order: Order,
        /// Order of a pageblock.
        pageblock_order: Order,
        /// Mobility asked for.
        alloc_migratetype: MigrateType,
        /// Mobility of the list that the block was on.
        fallback_migratetype: MigrateType,
        /// Whether the block was smaller than a pageblock, so that the pageblock now mixes mobilities.
        fragmenting: bool,
        /// Whether the pageblock now has the mobility asked for.
        change_ownership: bool,
    },
    /// `mm_page_pcpu_drain`: a block went from a per-CPU list back to the zone.
    PcpuDrain {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
        /// Mobility of its pageblock.
        migratetype: MigrateType,
    },
    /// `mm_page_alloc_zone_locked`: a block was taken from the zone, none if there was none.
    AllocZoneLocked {
        /// First frame of the block.
        pfn: Option<Pfn>,
        /// Order of the block.
        order: Order,
        /// Mobility asked for.
        migratetype: MigrateType,
        /// Whether the block goes to a per-CPU list.
        percpu_refill: bool,
    },
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = 7;
    /// Names of the tracepoints, by [`Kind::index`].
    pub const NAMES: [&'static str; Kind::COUNT] = [
        "mm_page_alloc",
        "mm_page_free",
        "mm_page_free_batched",
        "page_migrate",
        "mm_page_alloc_extfrag",
        "mm_page_pcpu_drain",
        "mm_page_alloc_zone_locked",
    ];

    /// Position of the kind in tables by kind.
    pub const fn index(&self) -> usize {
        match self {
            Kind::Alloc { .. } => 0,
            Kind::Free { .. } => 1,
            Kind::FreeBatched { .. } => 2,
            Kind::Move { .. } => 3,
            Kind::ExtFrag { .. } => 4,
            Kind::PcpuDrain { .. } => 5,
            Kind::AllocZoneLocked { .. } => 6,
        }
    }

    /// Name of the tracepoint.
    pub const fn name(&self) -> &'static str {
        Kind::NAMES[self.index()]
    }

    /// Whether this is something that the kernel asked for or did to an allocated block, which a replay carries out;
    /// the rest is how the allocator went about it.
    pub const fn is_request(&self) -> bool {
        matches!(self, Kind::Alloc { .. } | Kind::Free { .. } | Kind::Move { .. })
    }
}

/// A task's name, as an index into [`Comms`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommId(pub u32);

/// The names of the tasks of one trace, each kept once.
///
/// At most [`Comms::LIMIT`] names of at most [`Comms::NAME_LIMIT`] bytes; longer names are cut and what comes after the
/// last free place is called `<...>`, ftrace's own word for a task whose name it has forgotten.
#[derive(Clone, Debug)]
pub struct Comms {
    names: Vec<Box<str>>,
    index: HashMap<Box<str>, CommId>,
}

impl Comms {
    /// How many names are kept.
    pub const LIMIT: usize = 1 << 20;
    /// How many bytes of a name are kept; the kernel's names have at most 15.
    pub const NAME_LIMIT: usize = 64;
    /// The name of a task without one.
    pub const UNKNOWN: &'static str = "<...>";

    /// Only [`Comms::UNKNOWN`], as number 0.
    pub fn new() -> Comms {
        let mut comms = Comms { names: Vec::new(), index: HashMap::new() };
        comms.intern(Comms::UNKNOWN);
        comms
    }

    /// The number of `name`, a new one if it has none yet.
    pub fn intern(&mut self, name: &str) -> CommId {
        let mut end = name.len().min(Comms::NAME_LIMIT);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let name = &name[..end];
        if let Some(&id) = self.index.get(name) {
            return id;
        }
        if self.names.len() >= Comms::LIMIT {
            return CommId(0);
        }
        let id = CommId(self.names.len() as u32);
        self.names.push(name.into());
        self.index.insert(name.into(), id);
        id
    }

    /// The number of the name with these bytes; what is not UTF-8 in them is replaced.
    pub(crate) fn intern_bytes(&mut self, name: &[u8]) -> CommId {
        self.intern(&String::from_utf8_lossy(&name[..name.len().min(Comms::NAME_LIMIT)]))
    }

    /// The name with this number; [`Comms::UNKNOWN`] if there is none.
    pub fn name(&self, id: CommId) -> &str {
        self.names.get(id.0 as usize).map_or(Comms::UNKNOWN, |name| name)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no name; never so.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl Default for Comms {
    fn default() -> Comms {
        Comms::new()
    }
}

/// How good a trace is. The counts are complete once the last record has been read.
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
    /// How often the tracer said so, also without a number.
    pub lost_reports: u64,
    /// Events that are none of ours, by name.
    pub unknown: BTreeMap<String, u64>,
    /// Flags that were left out of their requests because nobody knows them, when this is let pass, and how often.
    pub unknown_flags: BTreeMap<String, u64>,
    /// Lines that carry no event: comments, call chains, blank ones.
    pub skipped_lines: u64,
    /// Lines that look like nothing that a tracer prints.
    pub unrecognized_lines: u64,
    /// Lines of our events that could not be read, when these are let pass.
    pub malformed_lines: u64,
    /// What was wrong with the first few of them.
    pub malformed: Vec<String>,
    /// Records with an earlier time than the record before.
    pub time_steps_back: u64,
    /// Records without a time of their own, which took the one of the record before.
    pub untimed: u64,
}

impl Quality {
    /// How many different names of unknown events are kept; the rest is counted as `(others)`.
    pub const UNKNOWN_NAMES: usize = 256;
    /// How many messages about malformed lines are kept.
    pub const MESSAGES: usize = 8;

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// Number of events that are none of ours.
    pub fn unknown_events(&self) -> u64 {
        self.unknown.values().sum()
    }

    /// Whether every event that the tracer saw is here.
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

    /// Counts a report of so many lost events, or of a number that it does not tell.
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
    use super::*;

    #[test]
    fn names_are_kept_once_and_cut() {
        let mut comms = Comms::new();
        let fio = comms.intern("fio");
        assert_eq!(comms.intern("fio"), fio);
        assert_eq!(comms.name(fio), "fio");
        assert_eq!(comms.intern(Comms::UNKNOWN), CommId(0));
        assert_eq!(comms.name(CommId(77)), "<...>");
        let long = "ä".repeat(40);
        let id = comms.intern(&long);
        assert_eq!(comms.name(id), "ä".repeat(32));
        let bad = comms.intern_bytes(b"a\xffb");
        assert_eq!(comms.name(bad), "a\u{fffd}b");
        assert_eq!((comms.len(), comms.is_empty()), (4, false));
    }

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
