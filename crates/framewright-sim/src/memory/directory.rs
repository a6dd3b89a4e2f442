//! Who has which line, and what it takes to get it.
//!
//! The directory knows for each line which cores hold it, whether one of them has it to itself, and until when it is on its way. A
//! request for a line is *served* at once if the core has it, and otherwise waits until the line is free, takes as long as the
//! distance of the nearest copy says, and keeps the line busy meanwhile: for the whole of a transfer of ownership, and for a short time for
//! each reader of a line that nobody changes. Requests for a line are therefore served one after the other, in the order
//! of their times.
//!
//! # What caches keep
//!
//! There are no caches with sets and ways. A line remembers who touched it last and how many lines that core (and its
//! socket) had fetched until then; it is still there if fewer have come since than the cache keeps. Whether a copy that an
//! earlier reader got was pushed out by others is not known: it counts as present until somebody takes the line for himself.

use crate::memory::controllers::Controllers;
use crate::model::{Model, Ps};

/// No core, no CPU.
pub(crate) const NONE: u16 = u16::MAX;

/// One line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Until when it is on its way or serves somebody.
    pub(crate) busy: Ps,
    /// First-level fills of the core that touched it last, at that time.
    pub(crate) l1_stamp: u32,
    l2_stamp: u32,
    /// Fills of that core's socket.
    llc_stamp: u32,
    /// Number of the line's counters + 1, once it has some.
    pub(crate) counters: u32,
    /// Core that touched it last.
    pub(crate) last: u16,
    /// Core that has it to itself.
    pub(crate) owner: u16,
    /// First CPU that spins on it.
    pub(crate) parked: u16,
    /// Node of its memory.
    home: u8,
    /// Changed since it left memory.
    dirty: bool,
    /// On its way to the core that touched it last, which asked for it ahead of time.
    coming: bool,
}

impl Line {
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }
}

/// What a CPU wants of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// To read it.
    Load,
    /// To write it, not waiting until it is there.
    Store,
    /// The same; whatever was written before must be visible first.
    Release,
    /// To read and write it as one.
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
    /// On another socket.
    Far,
    /// In memory.
    Memory,
}

/// How a request was served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// Where the line was.
    pub(crate) source: Source,
    /// When it was free for the request.
    pub(crate) start: Ps,
    /// When it was there.
    pub(crate) done: Ps,
}

/// How many lines came into the caches of a core.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Fills {
    pub(crate) l1: u32,
    pub(crate) l2: u32,
}

/// See the module's description.
pub(crate) struct Directory {
    pub(crate) lines: Vec<Line>,
    /// For each line a bit for each core that has a copy.
    sharers: Vec<u64>,
    /// Words of `sharers` for each line.
    width: usize,
    /// Socket of each core.
    sockets: Vec<u8>,
    socket_fills: Vec<u32>,
    core_fills: Vec<Fills>,
    /// The line that a thread of each core waited for last, and when it comes: until then the other thread waits for it as well.
    arriving: Vec<(usize, Ps)>,
    latency: Distances,
    capacity: crate::model::Capacity,
    read: Ps,
    own_permille: Ps,
    beside: bool,
}

/// Latencies as they are charged.
#[derive(Clone, Copy, Debug)]
struct Distances {
    l1: Ps,
    l2: Ps,
    llc: Ps,
    hit: Ps,
    hitm: Ps,
    far_hit: Ps,
    far_hitm_home_there: Ps,
    far_hitm_home_here: Ps,
    dram: Ps,
    far_dram: Ps,
}

impl Distances {
    fn of(model: &Model) -> Distances {
        let l = &model.latency;
        let loaded = |ps: Ps| ps * Ps::from(model.memory.load_permille) / 1000;
        Distances {
            // Not its latency: what waits for nothing else overlaps with it.
            l1: model.costs.hit,
            l2: l.l2,
            llc: loaded(l.llc),
            hit: loaded(l.hit),
            hitm: loaded(l.hitm),
            far_hit: loaded(l.far_hit),
            far_hitm_home_there: loaded(l.far_hitm_home_there),
            far_hitm_home_here: loaded(l.far_hitm_home_here),
            dram: loaded(l.dram),
            far_dram: loaded(l.far_dram),
        }
    }
}

impl Directory {
    /// A directory of so many lines, all of them in memory. `home` says of which node.
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

    /// Lines came into a core's caches that are in no region: pages that it wrote.
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

    /// Whether a core other than `core` has a copy: on its socket, and elsewhere.
    fn others(&self, line: usize, core: u16) -> (bool, bool) {
        let own = self.socket(core);
        let (mut near, mut far) = (false, false);
        for (i, &word) in self.sharers[line * self.width..][..self.width].iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                let other = (i * 64) as u16 + rest.trailing_zeros() as u16;
                rest &= rest - 1;
                if other != core {
                    let here = self.socket(other) == own;
                    near |= here;
                    far |= !here;
                }
            }
        }
        (near, far)
    }

    /// Whether a core has a copy of a line that another was the last to touch.
    pub(crate) fn reads_along(&self, line: usize, core: u16) -> bool {
        self.lines[line].last != core && self.shares(line, core) && !self.is_arriving(line, core)
    }

    /// Whether a line may still be on its way to a core.
    pub(crate) fn is_arriving(&self, line: usize, core: u16) -> bool {
        self.arriving[usize::from(core)].0 == line
    }

    /// Whether the last core to touch a line still has it in its second-level cache.
    fn is_kept(&self, line: &Line) -> bool {
        line.last != NONE && self.core_fills[usize::from(line.last)].l2.wrapping_sub(line.l2_stamp) < self.capacity.l2
    }

    /// Serves a request that the quick look at the line did not: `now` is when it is made.
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
        // Whoever had it to himself keeps a copy when another reads it.
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
            // What is stored may be read at once by the thread that did.
            self.arriving[usize::from(core)] = (line, done);
        }
        self.stamp(line, core);
        if self.beside && source == Source::Memory {
            self.bring_beside(memory, line ^ 1, core, start);
        }
        Served { source, start, done }
    }

    /// The other line of a pair comes along, unless some cache has it.
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

    /// A line is on its way to the core that has it now, which waits for it when it uses it.
    fn is_coming(&mut self, line: usize) {
        let state = &mut self.lines[line];
        state.coming = true;
        // No first-level hit: so the next use of the line comes by `hit`.
        state.l1_stamp = state.l1_stamp.wrapping_sub(self.capacity.l1);
    }

    /// The core has what it needs.
    fn hit(&mut self, line: usize, (core, access): (u16, Access), now: Ps) -> Served {
        let fills = self.fills(core);
        let state = &mut self.lines[line];
        let in_l1 = state.last != core || fills.l1.wrapping_sub(state.l1_stamp) < self.capacity.l1;
        state.dirty |= access.writes();
        // A line that was asked for ahead of time may still be on its way.
        let mut start = if state.coming { now.max(state.busy) } else { now };
        state.coming = false;
        let arriving = &mut self.arriving[usize::from(core)];
        if arriving.0 == line {
            start = start.max(arriving.1);
            // Whoever asked for it has it now, and so has the other thread.
            arriving.0 = usize::MAX;
        }
        let latency = if in_l1 { self.latency.l1 } else { self.latency.l2 };
        if !in_l1 {
            self.core_fills[usize::from(core)].l1 = fills.l1.wrapping_add(1);
        }
        self.stamp(line, core);
        Served { source: Source::Own, start, done: start + latency }
    }

    /// The core will soon write the line: it is fetched now, and waited for when it is used.
    pub(crate) fn prefetch(&mut self, memory: &mut Controllers, line: usize, core: u16, now: Ps) -> Served {
        if self.lines[line].coming && self.lines[line].owner == core {
            // Asked for before, it comes no sooner.
            return Served { source: Source::Own, start: now, done: now };
        }
        let served = self.serve(memory, line, (core, Access::Store), now);
        if served.source != Source::Own {
            self.is_coming(line);
        }
        served
    }

    /// The core was the last to touch the line.
    fn stamp(&mut self, line: usize, core: u16) {
        let fills = self.fills(core);
        let socket = self.socket_fills[self.socket(core)];
        let state = &mut self.lines[line];
        (state.last, state.l1_stamp, state.l2_stamp, state.llc_stamp) = (core, fills.l1, fills.l2, socket);
    }

    /// The core has a copy and wants the line to itself: how far the farthest other copy is, its latency, and for how long the
    /// line is busy.
    fn upgrade(&self, line: usize, core: u16) -> (Source, Ps, Ps) {
        let (source, latency) = match self.others(line, core) {
            (_, true) => (Source::Far, self.latency.far_hit),
            (true, false) => (Source::Near, self.latency.hit),
            (false, false) => return (Source::Own, self.latency.l1, 0),
        };
        (source, latency, latency * self.own_permille / 1000)
    }

    /// The line must come from elsewhere: from where, the latency, and for how long it is busy.
    fn fetch(&self, memory: &mut Controllers, line: usize, (core, access): (u16, Access), now: Ps) -> (Source, Ps, Ps) {
        let (source, latency, held) = self.fetch_from(line, (core, access));
        if source != Source::Memory {
            return (source, latency, held);
        }
        let latency = memory.read_line(usize::from(self.lines[line].home), now, latency);
        (source, latency, latency * self.own_permille / 1000)
    }

    /// The same, of memory at rest.
    fn fetch_from(&self, line: usize, (core, access): (u16, Access)) -> (Source, Ps, Ps) {
        let state = &self.lines[line];
        let l = &self.latency;
        let socket = self.socket(core);
        let busy = |latency: Ps| latency * self.own_permille / 1000;
        let is_kept = self.is_kept(state);
        if is_kept && state.owner != NONE && state.owner != core {
            let there = self.socket(state.owner);
            let is_near = there == socket;
            let latency = match (is_near, state.dirty) {
                (true, true) => l.hitm,
                (true, false) => l.hit,
                (false, true) if usize::from(state.home) == there => l.far_hitm_home_there,
                (false, true) => l.far_hitm_home_here,
                (false, false) => l.far_hit,
            };
            return (if is_near { Source::Near } else { Source::Far }, latency, busy(latency));
        }
        if is_kept && state.owner == NONE {
            let held = |latency| if access.writes() { busy(latency) } else { self.read };
            match self.others(line, core) {
                (near, far) if far && (access.writes() || !near) => return (Source::Far, l.far_hit, held(l.far_hit)),
                (true, _) => return (Source::Near, l.hit, held(l.hit)),
                _ => {}
            }
        }
        if state.last != NONE {
            let there = self.socket(state.last);
            if self.socket_fills[there].wrapping_sub(state.llc_stamp) < self.capacity.llc {
                let (source, latency) = if there == socket { (Source::Near, l.llc) } else { (Source::Far, l.far_hit) };
                return (source, latency, busy(latency));
            }
        }
        let home = usize::from(state.home);
        let idle = if home == socket { l.dram } else { l.far_dram };
        (Source::Memory, idle, busy(idle))
    }
}
