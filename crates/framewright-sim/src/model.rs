//! A machine as the simulator computes with it: every number in picoseconds, lines or bytes per second.
//!
//! The machine's file (`data/machines/*.toml`) says where each number comes from: from a source, an assumption or a
//! fit. `machine/` reads it into this.

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

/// The numbers of a machine that a run needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// Name of the machine, as on the command line.
    pub name: String,
    /// Sockets, cores and threads.
    pub topology: Topology,
    /// How long a line takes to arrive, unloaded.
    pub latency: Latencies,
    /// Lines that the caches of a core and a socket hold.
    pub capacity: Capacity,
    /// How long a line is busy with one request.
    pub occupancy: Occupancy,
    /// Stores that wait to become visible.
    pub stores: Stores,
    /// Memory controllers.
    pub memory: Memory,
    /// Instructions.
    pub costs: Costs,
    /// Whether lines move in pairs of 128 bytes: taking one invalidates both.
    pub pairs: bool,
    /// How far a CPU may run ahead of others while it touches only lines that it holds.
    pub slack: Ps,
}

/// Sockets, cores and threads.
///
/// CPUs are numbered as Linux does on these machines: the first threads of all cores, socket by socket, then the second
/// threads in that order. A node is a socket, unless a package holds several nodes: each then counts as a socket
/// here, and those of one package lie nearer to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Sockets, each a memory node.
    pub sockets: u16,
    /// How many of them share a package; 1 where each has its own.
    pub package: u16,
    /// Cores of a socket.
    pub cores: u16,
    /// Threads of a core.
    pub threads: u16,
    /// Clock of the instruction costs, in kHz.
    pub khz: u64,
}

impl Topology {
    /// Returns the number of CPUs.
    pub fn cpus(&self) -> usize {
        usize::from(self.sockets) * usize::from(self.cores) * usize::from(self.threads)
    }

    /// Returns the core of a CPU, counted over all sockets.
    pub(crate) fn core_of(&self, cpu: usize) -> usize {
        cpu % (usize::from(self.sockets) * usize::from(self.cores))
    }

    /// Returns the socket of a CPU, which is its memory node.
    pub fn socket_of(&self, cpu: usize) -> usize {
        self.core_of(cpu) / usize::from(self.cores)
    }

    /// Returns whether two sockets are different parts of one package.
    pub(crate) fn share_package(&self, one: usize, other: usize) -> bool {
        let package = usize::from(self.package.max(1));
        one != other && one / package == other / package
    }

    /// Returns the picoseconds of `cycles` cycles.
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
    /// The socket's shared cache.
    pub llc: Ps,
    /// Another core's cache on this socket, clean.
    pub hit: Ps,
    /// Another core's cache on this socket, modified.
    pub hitm: Ps,
    /// A cache of another node of the package, clean.
    pub die_hit: Ps,
    /// A core's cache of another node of the package, modified, of a line whose home is the owner's node.
    pub die_hitm_home_there: Ps,
    /// A core's cache of another node of the package, modified, of a line with any other home.
    pub die_hitm_home_here: Ps,
    /// A cache of another socket, clean.
    pub far_hit: Ps,
    /// A core's cache of another socket, modified, of a line whose home is the owner's node.
    pub far_hitm_home_there: Ps,
    /// A core's cache of another socket, modified, of a line with any other home.
    pub far_hitm_home_here: Ps,
    /// The node's own memory.
    pub dram: Ps,
    /// Memory of another node of the package.
    pub die_dram: Ps,
    /// Another node's memory.
    pub far_dram: Ps,
}

/// Lines that caches hold.
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
    /// For each reader of a clean line.
    pub read: Ps,
    /// For a transfer of ownership, in thousandths of its latency.
    pub own_permille: u32,
}

/// Stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stores {
    /// To issue one.
    pub issue: Ps,
    /// Most stores that miss and may be under way.
    pub in_flight: u8,
    /// Most stores of any kind that may wait for the first of them to become visible; `None` for no limit.
    pub buffer: Option<u8>,
}

/// A node's memory controller.
#[derive(Clone, PartialEq, Debug)]
pub struct Memory {
    /// Zeroing a line when all cores of the node do it.
    pub zero_line: Ps,
    /// Zeroing a line when one core does it.
    pub zero_line_alone: Ps,
    /// Reading a line when all cores of the node read.
    pub read_line: Ps,
    /// Latency under load over latency at rest, in thousandths, at each share of the peak, in thousandths; ascending.
    pub loaded: Vec<(u32, u32)>,
    /// Factor on all latencies beyond the second level, in thousandths: loaded mesh, siblings, page walks.
    pub load_permille: u32,
    /// Whether a line from memory brings along the other one of its 128 bytes, if no cache has that.
    pub beside: bool,
}

/// Instructions, in picoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// By number of the step.
    pub steps: Vec<Ps>,
    /// A load that the first-level cache serves, in code with other work that an out-of-order core does meanwhile.
    ///
    /// At most the latency, which it costs where nothing else can be done.
    pub hit: Ps,
    /// A locked read-modify-write on a line that the core owns, beyond the load.
    pub rmw: Ps,
    /// A full fence with nothing to wait for.
    pub fence: Ps,
    /// The heavy half of an asymmetric fence, for its caller and for each CPU that it interrupts.
    pub heavy_fence: (Ps, Ps),
    /// Pinning and unpinning, together.
    pub pin: Ps,
    /// Interrupts off and on again, together. The first time under a pin, the pin's price is part of it.
    pub irq_save: Ps,
    /// Added to a free to a CPU's lists with interrupts held off.
    pub masked_free: Ps,
    /// Entry into and return from an interrupt, together.
    pub interrupt: Ps,
    /// From a wake-up until the woken CPU runs.
    pub wake: Ps,
    /// One turn of a spinning loop: a `PAUSE`.
    pub pause: Ps,
    /// Instructions on one thread of a core while one other thread runs there, in thousandths.
    ///
    /// Of more threads each is slower in proportion, and all do as much as two.
    pub sibling_permille: u32,
}

impl Costs {
    /// Returns the instructions' time of a step.
    pub fn step(&self, step: Step) -> Ps {
        self.steps.get(step as usize).copied().unwrap_or(0)
    }
}
