//! The numbers of a machine's file, their units and their bounds.

use std::sync::LazyLock;

use framewright::machine::Step;

use super::origin::Unit;

/// Kind of number of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NumberKind {
    /// How long something takes.
    Time,
    /// How much a cache holds.
    Size,
    /// How many sockets the machine has.
    Sockets,
    /// How many memory nodes a socket has.
    Nodes,
    /// How many cores a socket has.
    Cores,
    /// How many threads a core has.
    Threads,
    /// How many things may be under way.
    Depth,
    /// How many entries a part of a core has.
    Entries,
    /// Lines that are fetched together: one or two.
    Together,
    /// A clock.
    Clock,
    /// A share.
    Share,
    /// By how much something gets longer.
    Factor,
    /// Bandwidth.
    Bandwidth,
}

impl NumberKind {
    /// Units in which it may be given, each with the smallest and the largest number that makes sense.
    pub(super) fn units(self) -> &'static [(Unit, f64, f64)] {
        const LINES: f64 = 4096.0 * 16384.0;
        match self {
            NumberKind::Time => &[(Unit::Cycles, 0.0, 1e9), (Unit::Ns, 0.0, 1e9)],
            NumberKind::Size => {
                &[(Unit::Lines, 1.0, LINES), (Unit::Kib, 1.0, LINES / 16.0), (Unit::Mib, 1.0, LINES / 16384.0)]
            }
            NumberKind::Sockets => &[(Unit::Count, 1.0, 64.0)],
            NumberKind::Nodes => &[(Unit::Count, 1.0, 16.0)],
            NumberKind::Cores => &[(Unit::Count, 1.0, 1024.0)],
            NumberKind::Threads => &[(Unit::Count, 1.0, 8.0)],
            NumberKind::Depth => &[(Unit::Count, 1.0, 64.0)],
            NumberKind::Entries => &[(Unit::Count, 1.0, 255.0)],
            NumberKind::Together => &[(Unit::Lines, 1.0, 2.0)],
            NumberKind::Clock => &[(Unit::Ghz, 0.1, 10.0)],
            NumberKind::Share => &[(Unit::Percent, 0.0, 100.0)],
            NumberKind::Factor => &[(Unit::Ratio, 1.0, 100.0)],
            NumberKind::Bandwidth => &[(Unit::GbPerS, 0.1, 1e4)],
        }
    }

    /// Whether only whole numbers make sense.
    pub(super) fn is_whole(self) -> bool {
        !self.scales() || self == NumberKind::Depth
    }

    /// Whether the number can be a little larger or smaller.
    pub(super) fn scales(self) -> bool {
        !matches!(
            self,
            NumberKind::Sockets
                | NumberKind::Nodes
                | NumberKind::Cores
                | NumberKind::Threads
                | NumberKind::Together
                | NumberKind::Entries
        )
    }
}

/// Which machines give an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// All machines.
    Always,
    /// All machines with several sockets, and no other.
    Sockets,
    /// All machines whose sockets have several nodes, and no other.
    Nodes,
    /// Machines that override what follows from other numbers.
    Chosen,
    /// Machines of which it was published.
    Published,
    /// Machines with several sockets of which it was published.
    PublishedSockets,
    /// Machines with several nodes a socket of which it was published.
    PublishedNodes,
}

/// One number, or one curve, of a file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where it stands.
    pub(super) path: String,
    /// The kind of the number; of a curve, of its values.
    pub(super) kind: NumberKind,
    /// Of a curve, the kind of its argument.
    pub(super) over: Option<NumberKind>,
    /// Which machines give it.
    pub(super) need: Need,
}

/// Everything that a file may hold besides its title, in the order in which reports list it.
pub(super) static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let sections = [machine(), costs(), published()];
    sections.into_iter().flatten().map(|(path, kind, over, need)| Entry { path, kind, over, need }).collect()
});

/// Returns the entry of a number's path.
///
/// A point of a curve has a path of its own, below that of the curve.
pub(super) fn entry(path: &str) -> Option<&'static Entry> {
    let is = |entry: &&Entry| match entry.over {
        None => entry.path == path,
        Some(_) => path.strip_prefix(&entry.path).is_some_and(|rest| rest.starts_with('.')),
    };
    ENTRIES.iter().find(is)
}

/// Returns the place of a path in a file, counted in entries.
pub(super) fn place(path: &str) -> Option<usize> {
    let entry = entry(path)?;
    ENTRIES.iter().position(|other| other.path == entry.path)
}

/// Returns the place of a time that is part of the model.
pub(super) fn time(path: &str) -> Option<usize> {
    let is_time = entry(path).is_some_and(|entry| entry.kind == NumberKind::Time && entry.over.is_none());
    let is_published = path.strip_prefix(PUBLISHED).is_some_and(|rest| rest.starts_with('.'));
    place(path).filter(|_| is_time && !is_published)
}

/// Where the steps' costs stand.
pub(super) const STEP_COSTS: &str = "costs.steps.";

type EntryRow = (String, NumberKind, Option<NumberKind>, Need);

fn rows(section: &str, need: Need, kind: NumberKind, names: &[&str]) -> Vec<EntryRow> {
    names.iter().map(|name| (format!("{section}.{name}"), kind, None, need)).collect()
}

/// Latencies, from near to far; those between sockets, and between nodes of a socket, have needs of their own.
fn latencies(section: &str, [need, between_sockets, between_nodes]: [Need; 3]) -> Vec<EntryRow> {
    let times = |need, names: &[&str]| rows(section, need, NumberKind::Time, names);
    [
        times(need, &["l1", "l2", "llc", "hit", "hitm"]),
        times(between_nodes, &["die_hit", "die_hitm_home_there", "die_hitm_home_here"]),
        times(between_sockets, &["far_hit", "far_hitm_home_there", "far_hitm_home_here"]),
        times(need, &["dram"]),
        times(between_nodes, &["die_dram"]),
        times(between_sockets, &["far_dram"]),
    ]
    .concat()
}

/// Parts of the machine, and the speed of its caches and memories.
fn machine() -> Vec<EntryRow> {
    use Need::Always;
    use NumberKind::{Clock, Cores, Depth, Entries, Factor, Nodes, Share, Size, Sockets, Threads, Time, Together};
    [
        rows("topology", Always, Sockets, &["sockets"]),
        rows("topology", Need::Chosen, Nodes, &["nodes"]),
        rows("topology", Always, Cores, &["cores"]),
        rows("topology", Always, Threads, &["threads"]),
        rows("topology", Always, Clock, &["clock"]),
        latencies("latency", [Always, Need::Sockets, Need::Nodes]),
        rows("capacity", Always, Size, &["l1", "l2", "llc"]),
        rows("occupancy", Always, Time, &["read"]),
        rows("occupancy", Always, Share, &["own"]),
        rows("occupancy", Always, Together, &["together"]),
        rows("stores", Always, Time, &["issue"]),
        rows("stores", Always, Depth, &["in_flight"]),
        rows("stores", Need::Chosen, Entries, &["buffer"]),
        rows("memory", Always, Time, &["zero_line", "zero_line_alone", "read_line"]),
        rows("memory", Always, Factor, &["load_factor"]),
        rows("memory", Always, Together, &["beside"]),
        vec![("memory.loaded".to_owned(), Factor, Some(Share), Always)],
    ]
    .concat()
}

/// Instructions, and how far a CPU may run ahead of the others.
fn costs() -> Vec<EntryRow> {
    const COSTS: [&str; 10] = [
        "instruction",
        "rmw",
        "fence",
        "heavy_fence",
        "heavy_fence_interrupted",
        "pin",
        "irq_save",
        "interrupt",
        "wake",
        "pause",
    ];
    let steps =
        Step::ALL.iter().map(|step| (format!("{STEP_COSTS}{}", step.name()), NumberKind::Time, None, Need::Chosen));
    [
        rows("costs", Need::Always, NumberKind::Time, &COSTS),
        rows("costs", Need::Always, NumberKind::Factor, &["sibling"]),
        rows("costs", Need::Chosen, NumberKind::Time, &["hit", "masked_free"]),
        steps.collect(),
        rows("run", Need::Always, NumberKind::Time, &["slack"]),
    ]
    .concat()
}

/// Returns the rows that a latency checker printed.
fn published() -> Vec<EntryRow> {
    [
        latencies(PUBLISHED, [Need::Published, Need::PublishedSockets, Need::PublishedNodes]),
        rows(PUBLISHED, Need::Published, NumberKind::Bandwidth, &["peak"]),
        vec![(format!("{PUBLISHED}.loaded"), NumberKind::Time, Some(NumberKind::Bandwidth), Need::Published)],
    ]
    .concat()
}

/// Where the latency checker's rows stand.
pub(super) const PUBLISHED: &str = "mlc";
