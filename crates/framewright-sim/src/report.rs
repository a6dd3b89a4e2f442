//! What a run found, as data. Times are nanoseconds of virtual time unless said otherwise.

use serde::Serialize;

/// Version of the JSON.
pub const SCHEMA: &str = "framewright-sim/1";

/// Results of a run.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Report {
    /// Version of this format.
    pub schema: &'static str,
    /// Machine model.
    pub machine: String,
    /// Workload.
    pub workload: String,
    /// Mechanisms of the allocator.
    pub mechanisms: String,
    /// CPUs that took part.
    pub cpus: usize,
    /// Seed of all that is random.
    pub seed: u64,
    /// How the next CPU was chosen: `time` or `random`.
    pub schedule: String,
    /// Virtual time before the measured window.
    pub warm_up_ns: u64,
    /// Length of the measured window.
    pub window_ns: u64,
    /// Operations that ended in the window.
    pub operations: u64,
    /// Name of one operation.
    pub unit: String,
    /// Operations per second of virtual time.
    pub per_second: f64,
    /// Cycles that all CPUs together spent for one operation.
    pub cycles_per_operation: f64,
    /// Figures of the workload's own.
    pub figures: Vec<Figure>,
    /// Locks, the one with the most waiting first.
    pub locks: Vec<LockReport>,
    /// Cache lines, or whole arrays of them, the most contended first.
    pub lines: Vec<LineReport>,
    /// Each CPU.
    pub per_cpu: Vec<CpuReport>,
    /// Accesses to shared words in the window.
    pub accesses: u64,
    /// Switches between CPUs in the whole run.
    pub switches: u64,
}

impl Report {
    /// Returns a figure of the workload's own, by its name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

/// A figure with a name.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Figure {
    /// Name of the figure.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

impl Figure {
    /// Makes a figure of a workload's own.
    pub(crate) fn new(name: &str, value: f64, unit: &str) -> Figure {
        Figure { name: name.to_owned(), value, unit: unit.to_owned() }
    }
}

/// How long something took, over many times.
#[derive(Clone, Copy, PartialEq, Serialize, Debug, Default)]
pub struct Distribution {
    /// How often.
    pub count: u64,
    /// Sum.
    pub total_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// 99.9th percentile.
    pub p999_ns: f64,
    /// Longest.
    pub max_ns: f64,
}

/// One lock.
///
/// A wait inside another lock's wait counts for the outer lock alone.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct LockReport {
    /// Name, as `zone lock, Node 0, zone Normal`.
    pub name: String,
    /// Kind of the lock, such as `zone`, as the core tells them apart.
    pub kind: String,
    /// Times it was taken.
    pub taken: u64,
    /// Times that another CPU had it.
    pub contended: u64,
    /// Time from the request to the acquisition.
    pub waiting: Distribution,
    /// Time from the acquisition to the release.
    pub holding: Distribution,
    /// Share of all CPUs' time that was spent waiting for it, as `perf` shows a lock's slow path, in percent.
    pub contention_percent: f64,
}

/// One cache line, or all lines of an array.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct LineReport {
    /// Place of the line, such as `zone Normal of node 0 + 64`.
    pub name: String,
    /// Lines that this is.
    pub lines: u64,
    /// Sums over the fields.
    pub total: Traffic,
    /// Fields, the most contended first.
    pub fields: Vec<FieldReport>,
}

/// One field of a line.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct FieldReport {
    /// Name, as `lock.next`.
    pub name: String,
    /// Its traffic.
    pub traffic: Traffic,
}

/// Accesses that found the line elsewhere.
#[derive(Clone, Copy, PartialEq, Serialize, Debug, Default)]
pub struct Traffic {
    /// Loads that missed the core's caches.
    pub loads: u64,
    /// Stores that missed them.
    pub stores: u64,
    /// Read-modify-writes that missed them.
    pub rmws: u64,
    /// Transfers from a core of the same socket.
    pub near: u64,
    /// Transfers from another socket.
    pub far: u64,
    /// Fetches from memory.
    pub memory: u64,
    /// Time that CPUs waited for the line to be free for them.
    pub queued_ns: f64,
    /// Time of the transfers themselves.
    pub moving_ns: f64,
}

/// Where one CPU's time went in the window.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct CpuReport {
    /// CPU.
    pub cpu: usize,
    /// Its node.
    pub node: usize,
    /// Its core.
    pub core: usize,
    /// Operations that it completed.
    pub operations: u64,
    /// By what it did.
    pub time: Times,
}

/// Nanoseconds by what they were spent on.
#[derive(Clone, Copy, PartialEq, Serialize, Debug, Default)]
pub struct Times {
    /// Instructions.
    pub instructions: f64,
    /// Hits in the core's own caches.
    pub hits: f64,
    /// Lines from the same socket.
    pub near: f64,
    /// Lines from another socket.
    pub far: f64,
    /// Lines from memory.
    pub memory: f64,
    /// Waiting for a line that serves other requests first.
    pub queued: f64,
    /// Waiting for a word to change: spinning.
    pub spinning: f64,
    /// Waiting for stores to become visible.
    pub stores: f64,
    /// Writing zeros to pages.
    pub zeroing: f64,
    /// Asleep.
    pub asleep: f64,
    /// In interrupts.
    pub interrupts: f64,
}

/// One acquisition of a lock, with the waiting before it.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct LockSpan {
    /// The CPU that took it.
    pub cpu: usize,
    /// The CPU's node.
    pub node: usize,
    /// Name of the lock, as in [`LockReport`].
    pub lock: String,
    /// When the CPU asked for it, since the run began.
    pub wanted_ns: u64,
    /// When it took the lock.
    pub taken_ns: u64,
    /// When it released the lock.
    pub released_ns: u64,
}
