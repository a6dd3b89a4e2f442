//! A machine as the simulator computes with it: every number in picoseconds, lines or bytes per second.
//!
//! Where the numbers come from, and which of them are sourced, assumed or fitted, is said in the machine's file
//! (`data/machines/*.toml`), which `machine.rs` reads into this.

use framewright::machine::Step;

/// Picoseconds.
pub type Ps = u64;

/// A nanosecond.
pub(crate) const NS: Ps = 1_000;
/// A microsecond.
pub(crate) const US: Ps = 1_000_000;
/// A millisecond.
pub(crate) const MS: Ps = 1_000_000_000;
/// A second.
pub(crate) const S: Ps = 1_000_000_000_000;

/// A time in nanoseconds.
pub(crate) fn ns(time: Ps) -> f64 {
    time as f64 / 1000.0
}

/// Everything that a run needs to know of a machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// Name of the machine, as on the command line.
    pub name: String,
    /// Sockets, cores and threads.
    pub topology: Topology,
    /// How long it takes to get at a line, unloaded.
    pub latency: Latencies,
    /// What a core and a socket keep.
    pub capacity: Capacity,
    /// How long a line serves one request before the next.
    pub occupancy: Occupancy,
    /// Stores that wait to become visible.
    pub stores: Stores,
    /// Memory controllers.
    pub memory: Memory,
    /// Instructions.
    pub costs: Costs,
    /// Lines are fetched in pairs of 128 bytes: who takes one invalidates both.
    pub pairs: bool,
    /// How far ahead of the others a CPU may run while it touches nothing but lines that it holds.
    pub slack: Ps,
}

/// Sockets, cores and threads. CPUs are numbered as Linux does on these machines: the first threads of all cores, socket by
/// socket, then the second threads in the same order. A node is a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Sockets, each a memory node.
    pub sockets: u16,
    /// Cores of a socket.
    pub cores: u16,
    /// Threads of a core.
    pub threads: u16,
    /// Clock of the instruction costs, in kHz.
    pub khz: u64,
}

impl Topology {
    /// CPUs that the machine has.
    pub fn cpus(&self) -> usize {
        usize::from(self.sockets) * usize::from(self.cores) * usize::from(self.threads)
    }

    /// Core of a CPU, counted over all sockets.
    pub fn core_of(&self, cpu: usize) -> usize {
        cpu % (usize::from(self.sockets) * usize::from(self.cores))
    }

    /// Socket of a CPU: its memory node.
    pub fn socket_of(&self, cpu: usize) -> usize {
        self.core_of(cpu) / usize::from(self.cores)
    }

    /// Picoseconds of so many cycles.
    pub fn cycles(&self, cycles: f64) -> Ps {
        (cycles * 1e9 / self.khz as f64).round() as Ps
    }
}

/// How long a load takes, by where the line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latencies {
    /// First-level cache.
    pub l1: Ps,
    /// Second-level cache.
    pub l2: Ps,
    /// The socket's cache, nobody's own.
    pub llc: Ps,
    /// Another core's cache on this socket, clean.
    pub hit: Ps,
    /// Another core's cache on this socket, modified.
    pub hitm: Ps,
    /// A cache of another socket, clean.
    pub far_hit: Ps,
    /// A core's cache of another socket, modified, of a line whose home is with who has it.
    pub far_hitm_home_there: Ps,
    /// The same, of a line whose home is with who asks (or with neither).
    pub far_hitm_home_here: Ps,
    /// The node's own memory.
    pub dram: Ps,
    /// Another node's memory.
    pub far_dram: Ps,
}

/// Lines that caches keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Of a core's first level.
    pub l1: u32,
    /// Of a core's second level.
    pub l2: u32,
    /// Of a socket's last level.
    pub llc: u32,
}

/// How long a line is busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupancy {
    /// For each of a burst of readers, of a clean line.
    pub read: Ps,
    /// For a transfer of ownership, in thousandths of that transfer's latency.
    pub own_permille: u32,
}

/// Stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stores {
    /// To issue one.
    pub issue: Ps,
    /// How many that miss may be under way.
    pub in_flight: u8,
    /// How many stores, of any kind, may wait for the first of them to become visible; none for any number.
    pub buffer: Option<u8>,
}

/// A node's memory controller.
#[derive(Clone, PartialEq, Debug)]
pub struct Memory {
    /// To write zeros to a line when all cores of the node do: what the controller takes for one.
    pub zero_line: Ps,
    /// To write zeros to a line when one core does.
    pub zero_line_alone: Ps,
    /// To read a line when all cores of the node read.
    pub read_line: Ps,
    /// Latency under load over latency at rest, in thousandths, at each share of the peak, in thousandths; ascending.
    pub loaded: Vec<(u32, u32)>,
    /// What all latencies beyond the second level are multiplied by, in thousandths: loaded mesh, siblings, page walks.
    pub load_permille: u32,
    /// A line that comes from memory brings along the other one of its 128 bytes, if no cache has that.
    pub beside: bool,
}

/// Instructions, in picoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// By number of the step.
    pub steps: Vec<Ps>,
    /// A load that the first-level cache serves, within code that has more to do: an out-of-order core does that meanwhile. At
    /// most the latency, which is what it costs where nothing else can be done.
    pub hit: Ps,
    /// A locked read-modify-write on a line that the core owns, beyond the load.
    pub rmw: Ps,
    /// A full fence with nothing to wait for.
    pub fence: Ps,
    /// The heavy half of an asymmetric fence, for who calls it, and for each CPU that it interrupts.
    pub heavy_fence: (Ps, Ps),
    /// Pinning and unpinning, together.
    pub pin: Ps,
    /// Interrupts off and on again, together. Of the first time under a pin, that pin's price is part.
    pub irq_save: Ps,
    /// What a free to a CPU's lists takes besides if interrupts are held off for it.
    pub masked_free: Ps,
    /// Entry into and return from an interrupt, together.
    pub interrupt: Ps,
    /// From a wake-up to the woken running.
    pub wake: Ps,
    /// One turn of a spinning loop: a `PAUSE`.
    pub pause: Ps,
    /// Instructions on one thread of a core while another thread runs there, in thousandths.
    pub sibling_permille: u32,
}

impl Costs {
    /// Instructions of a step.
    pub fn step(&self, step: Step) -> Ps {
        self.steps.get(step as usize).copied().unwrap_or(0)
    }
}
