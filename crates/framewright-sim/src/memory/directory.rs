//! Which core has which line, and what it takes to get one.
//!
//! For each line the directory knows which cores hold it, whether one of them owns it alone, and until when it is in
//! transit. A request for a line that the core has is *served* at once. Any other request waits until the line is free
//! and takes as long as the nearest copy is away. Meanwhile the line is busy: for the whole of a transfer of ownership,
//! and for a short time for each reader of an unchanged line. So requests for a line are served one after the other, in
//! the order of their times.
//!
//! # What caches keep
//!
//! There are no caches with sets and ways. A line remembers which core touched it last and how many lines that core,
//! and its socket, had fetched until then. The line is still cached if fewer have come since than the cache holds.
//! Whether an earlier reader's copy was evicted is not known: it counts as present until a core takes ownership of the
//! line.

use crate::memory::controllers::Controllers;
use crate::model::{Model, Ps, Topology};

/// No core, no CPU.
pub(crate) const NONE: u16 = u16::MAX;

/// One line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Time until which it is in transit or serves a request.
    pub(crate) busy: Ps,
    /// First-level fills of the core that touched it last, at that moment.
    pub(crate) l1_stamp: u32,
    l2_stamp: u32,
    /// Fills of that core's socket.
    llc_stamp: u32,
    /// Number of the line's counters + 1, once it has some.
    pub(crate) counters: u32,
    /// Core that touched it last.
    pub(crate) last: u16,
    /// Core that owns it alone.
    pub(crate) owner: u16,
    /// First CPU that spins on it.
    pub(crate) parked: u16,
    /// Node of its memory.
    home: u8,
    /// Whether it was changed since it left memory.
    dirty: bool,
    /// Whether it is in transit to the core that touched it last, which prefetched it.
    coming: bool,
}

impl Line {
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }
}

/// How a CPU accesses a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// A read.
    Load,
    /// A write that does not wait until the line is there.
    Store,
    /// A write that becomes visible only after all earlier writes.
    Release,
    /// An atomic read-modify-write.
    Rmw,
}

impl Access {
    fn writes(self) -> bool {
        self != Access::Load
    }
}

/// Where a line was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// In the core's own caches.
    Own,
    /// On the same socket.
    Near,
    /// On another socket, or on another node of this one.
    Far,
    /// In memory.
    Memory,
}

/// How a request was served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// Where the line was.
    pub(crate) source: Source,
    /// When the line was free for the request.
    pub(crate) start: Ps,
    /// When the line arrived.
    pub(crate) done: Ps,
}

/// Number of lines that came into the caches of a core.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Fills {
    pub(crate) l1: u32,
    pub(crate) l2: u32,
}

/// The state of every line.
pub(crate) struct Directory {
    pub(crate) lines: Vec<Line>,
    /// For each line, a bit for each core that has a copy.
    sharers: Vec<u64>,
    /// Words of `sharers` for each line.
    width: usize,
    /// Socket of each core.
    sockets: Vec<u8>,
    topology: Topology,
    socket_fills: Vec<u32>,
    core_fills: Vec<Fills>,
    /// For each core, the line that one of its threads waited for last, and when it arrives. The other thread waits for
    /// it as well.
    arriving: Vec<(usize, Ps)>,
    latency: Distances,
    capacity: crate::model::Capacity,
    read: Ps,
    own_permille: Ps,
    beside: bool,
}

/// Latencies as charged.
#[derive(Clone, Copy, Debug)]
struct Distances {
    l1: Ps,
    l2: Ps,
    llc: Ps,
    /// By [`Directory::step`] between the two sockets.
    steps: [Transfers; 3],
}

/// Latencies of lines that come from a socket or its memory.
#[derive(Clone, Copy, Debug)]
struct Transfers {
    hit: Ps,
    hitm_home_there: Ps,
    hitm_home_here: Ps,
    dram: Ps,
}

/// A socket to itself, to another of its package, and to one of another package.
const WITHIN: usize = 0;
const PACKAGE: usize = 1;
const FARTHEST: usize = 2;

impl Distances {
    fn of(model: &Model) -> Distances {
        let l = &model.latency;
        let loaded = |ps: Ps| ps * Ps::from(model.memory.load_permille) / 1000;
        let transfers = |hit, there, here, dram| Transfers {
            hit: loaded(hit),
            hitm_home_there: loaded(there),
            hitm_home_here: loaded(here),
            dram: loaded(dram),
        };
        Distances {
            // Not the latency: work that does not depend on the load overlaps with it.
            l1: model.costs.hit,
            l2: l.l2,
            llc: loaded(l.llc),
            steps: [
                transfers(l.hit, l.hitm, l.hitm, l.dram),
                transfers(l.die_hit, l.die_hitm_home_there, l.die_hitm_home_here, l.die_dram),
                transfers(l.far_hit, l.far_hitm_home_there, l.far_hitm_home_here, l.far_dram),
            ],
        }
    }
}

impl Directory {
    /// Makes a directory of `lines` lines, all in memory; `home` gives each one's node.
    pub(crate) fn new(model: &Model, lines: usize, home: impl Fn(usize) -> u16) -> Directory {
        let sockets = usize::from(model.topology.sockets);
        let cores = usize::from(model.topology.cores);
        let width = (sockets * cores).div_ceil(64);
        let line = |number| Line {
            busy: 0,
            l1_stamp: 0,
            l2_stamp: 0,
            llc_stamp: 0,
            counters: 0,
            last: NONE,
            owner: NONE,
            parked: NONE,
            home: home(number).min(sockets as u16 - 1) as u8,
            dirty: false,
            coming: false,
        };
        Directory {
            lines: (0..lines).map(line).collect(),
            sharers: vec![0; lines * width],
            width,
            sockets: (0..sockets * cores).map(|core| (core / cores) as u8).collect(),
            topology: model.topology,
            socket_fills: vec![0; sockets],
            core_fills: vec![Fills::default(); sockets * cores],
            arriving: vec![(usize::MAX, 0); sockets * cores],
            latency: Distances::of(model),
            capacity: model.capacity,
            read: model.occupancy.read,
            own_permille: Ps::from(model.occupancy.own_permille),
            beside: model.memory.beside,
        }
    }

    pub(crate) fn fills(&self, core: u16) -> Fills {
        self.core_fills[usize::from(core)]
    }

    /// Counts lines of no region that came into a core's caches: pages that it wrote.
    pub(crate) fn fill(&mut self, core: u16, lines: u32) {
        let fills = &mut self.core_fills[usize::from(core)];
        fills.l1 = fills.l1.wrapping_add(lines);
        fills.l2 = fills.l2.wrapping_add(lines);
        let socket = self.socket(core);
        let socket = &mut self.socket_fills[socket];
        *socket = socket.wrapping_add(lines);
    }

    fn socket(&self, core: u16) -> usize {
        usize::from(self.sockets[usize::from(core)])
    }

    fn shares(&self, line: usize, core: u16) -> bool {
        self.sharers[line * self.width + usize::from(core) / 64] >> (core % 64) & 1 != 0
    }

    fn add_sharer(&mut self, line: usize, core: u16) {
        self.sharers[line * self.width + usize::from(core) / 64] |= 1 << (core % 64);
    }

    fn clear_sharers(&mut self, line: usize) {
        if self.width == 1 {
            self.sharers[line] = 0;
        } else {
            self.sharers[line * self.width..][..self.width].fill(0);
        }
    }

    /// Returns how far apart two sockets are: an index of [`Distances::steps`].
    fn step(&self, one: usize, other: usize) -> usize {
        if one == other {
            WITHIN
        } else if self.topology.share_package(one, other) {
            PACKAGE
        } else {
            FARTHEST
        }
    }

    /// Returns how far away the nearest and the farthest copy of other cores are; `None` without such a copy.
    fn others(&self, line: usize, core: u16) -> Option<(usize, usize)> {
        let own = self.socket(core);
        let mut found: Option<(usize, usize)> = None;
        for (i, &word) in self.sharers[line * self.width..][..self.width].iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                let other = (i * 64) as u16 + rest.trailing_zeros() as u16;
                rest &= rest - 1;
                if other != core {
                    let step = self.step(self.socket(other), own);
                    found = Some(found.map_or((step, step), |(near, far)| (near.min(step), far.max(step))));
                }
            }
        }
        found
    }

    /// Returns whether a core has a copy of a line that another touched last.
    pub(crate) fn reads_along(&self, line: usize, core: u16) -> bool {
        self.lines[line].last != core && self.shares(line, core) && !self.is_arriving(line, core)
    }

    /// Returns whether a line may still be in transit to a core.
    pub(crate) fn is_arriving(&self, line: usize, core: u16) -> bool {
        self.arriving[usize::from(core)].0 == line
    }

    /// Returns whether the last core to touch a line still has it in its second-level cache.
    fn is_kept(&self, line: &Line) -> bool {
        line.last != NONE && self.core_fills[usize::from(line.last)].l2.wrapping_sub(line.l2_stamp) < self.capacity.l2
    }

    /// Serves a request that is made at `now`.
    pub(crate) fn serve(
        &mut self,
        memory: &mut Controllers,
        line: usize,
        (core, access): (u16, Access),
        now: Ps,
    ) -> Served {
        let state = self.lines[line];
        let has_it = self.shares(line, core) && (state.last != core || self.is_kept(&state));
        if has_it && (!access.writes() || state.owner == core) {
            return self.hit(line, (core, access), now);
        }
        let start = now.max(state.busy);
        let (source, latency, held) =
            if has_it { self.upgrade(line, core) } else { self.fetch(memory, line, (core, access), start) };
        let done = start + latency;
        let is_alone = access.writes() || source == Source::Memory;
        let state = &mut self.lines[line];
        state.busy = start + held;
        // A core that owned the line keeps a copy when another core reads it.
        (state.owner, state.dirty) = (if is_alone { core } else { NONE }, access.writes());
        state.coming = false;
        if is_alone {
            self.clear_sharers(line);
        }
        self.add_sharer(line, core);
        if !has_it {
            self.fill(core, 1);
        }
        if matches!(access, Access::Load | Access::Rmw) {
            // The thread that stored a value may read it at once.
            self.arriving[usize::from(core)] = (line, done);
        }
        self.stamp(line, core);
        if self.beside && source == Source::Memory {
            self.bring_beside(memory, line ^ 1, core, start);
        }
        Served { source, start, done }
    }

    /// Brings the other line of a pair along, unless some cache has it.
    fn bring_beside(&mut self, memory: &mut Controllers, line: usize, core: u16, now: Ps) {
        let state = self.lines[line];
        if state.busy > now || state.parked != NONE || self.fetch_from(line, (core, Access::Load)).0 != Source::Memory {
            return;
        }
        let (_, latency, _) = self.fetch(memory, line, (core, Access::Load), now);
        let state = &mut self.lines[line];
        (state.busy, state.owner, state.dirty) = (now + latency, core, false);
        self.clear_sharers(line);
        self.add_sharer(line, core);
        self.fill(core, 1);
        self.stamp(line, core);
        self.is_coming(line);
    }

    /// Marks a line as in transit to its core, which waits for it at its next use.
    fn is_coming(&mut self, line: usize) {
        let state = &mut self.lines[line];
        state.coming = true;
        // It must not be a first-level hit, so that its next use goes through `hit`.
        state.l1_stamp = state.l1_stamp.wrapping_sub(self.capacity.l1);
    }

    /// Serves a request of a core that has the line as it needs it.
    fn hit(&mut self, line: usize, (core, access): (u16, Access), now: Ps) -> Served {
        let fills = self.fills(core);
        let state = &mut self.lines[line];
        let in_l1 = state.last != core || fills.l1.wrapping_sub(state.l1_stamp) < self.capacity.l1;
        state.dirty |= access.writes();
        // A prefetched line may still be in transit.
        let mut start = if state.coming { now.max(state.busy) } else { now };
        state.coming = false;
        let arriving = &mut self.arriving[usize::from(core)];
        if arriving.0 == line {
            start = start.max(arriving.1);
            // The thread that asked for the line has it now, and so has the other thread.
            arriving.0 = usize::MAX;
        }
        let latency = if in_l1 { self.latency.l1 } else { self.latency.l2 };
        if !in_l1 {
            self.core_fills[usize::from(core)].l1 = fills.l1.wrapping_add(1);
        }
        self.stamp(line, core);
        Served { source: Source::Own, start, done: start + latency }
    }

    /// Fetches a line that the core will soon write; the core waits when it uses it.
    pub(crate) fn prefetch(&mut self, memory: &mut Controllers, line: usize, core: u16, now: Ps) -> Served {
        if self.lines[line].coming && self.lines[line].owner == core {
            // It was prefetched before and comes no sooner.
            return Served { source: Source::Own, start: now, done: now };
        }
        let served = self.serve(memory, line, (core, Access::Store), now);
        if served.source != Source::Own {
            self.is_coming(line);
        }
        served
    }

    /// Notes that the core was the last to touch the line.
    fn stamp(&mut self, line: usize, core: u16) {
        let fills = self.fills(core);
        let socket = self.socket_fills[self.socket(core)];
        let state = &mut self.lines[line];
        (state.last, state.l1_stamp, state.l2_stamp, state.llc_stamp) = (core, fills.l1, fills.l2, socket);
    }

    /// Returns what it takes to make a core with a copy the owner.
    ///
    /// That is the place of the farthest other copy, the latency, and how long the line is busy.
    fn upgrade(&self, line: usize, core: u16) -> (Source, Ps, Ps) {
        let Some((_, farthest)) = self.others(line, core) else { return (Source::Own, self.latency.l1, 0) };
        let latency = self.latency.steps[farthest].hit;
        (cache(farthest), latency, latency * self.own_permille / 1000)
    }

    /// Returns from where a line comes, the latency, and how long it is busy.
    fn fetch(&self, memory: &mut Controllers, line: usize, (core, access): (u16, Access), now: Ps) -> (Source, Ps, Ps) {
        let (source, latency, held) = self.fetch_from(line, (core, access));
        if source != Source::Memory {
            return (source, latency, held);
        }
        let latency = memory.read_line(usize::from(self.lines[line].home), now, latency);
        (source, latency, latency * self.own_permille / 1000)
    }

    /// Like [`Directory::fetch`], with memory at rest.
    fn fetch_from(&self, line: usize, (core, access): (u16, Access)) -> (Source, Ps, Ps) {
        let state = &self.lines[line];
        let l = &self.latency;
        let socket = self.socket(core);
        let busy = |latency: Ps| latency * self.own_permille / 1000;
        let is_kept = self.is_kept(state);
        if is_kept && state.owner != NONE && state.owner != core {
            let there = self.socket(state.owner);
            let step = self.step(there, socket);
            let from = &l.steps[step];
            let latency = match state.dirty {
                false => from.hit,
                true if usize::from(state.home) == there => from.hitm_home_there,
                true => from.hitm_home_here,
            };
            return (cache(step), latency, busy(latency));
        }
        if is_kept
            && state.owner == NONE
            && let Some((nearest, farthest)) = self.others(line, core)
        {
            // A write waits until the farthest copy is gone.
            let step = if access.writes() { farthest } else { nearest };
            let latency = l.steps[step].hit;
            return (cache(step), latency, if access.writes() { busy(latency) } else { self.read });
        }
        if state.last != NONE {
            let there = self.socket(state.last);
            if self.socket_fills[there].wrapping_sub(state.llc_stamp) < self.capacity.llc {
                let step = self.step(there, socket);
                let latency = if step == WITHIN { l.llc } else { l.steps[step].hit };
                return (cache(step), latency, busy(latency));
            }
        }
        let idle = l.steps[self.step(usize::from(state.home), socket)].dram;
        (Source::Memory, idle, busy(idle))
    }
}

/// Returns what a cache that is so far away counts as.
fn cache(step: usize) -> Source {
    if step == WITHIN { Source::Near } else { Source::Far }
}
