//! A machine to play operations on, one at a time.
//!
//! It does what [`crate::run()`] does with a whole list, for tests that look at the machine in between. A wrong answer
//! is an error here too, because the oracle judges every operation.

use std::convert::Infallible;
use std::mem::ManuallyDrop;

use framewright::machine::{Fault, Machine, Ordering, Word};
use framewright::mechanisms::{NumaRead, NumaStat};
use framewright::report::{NumaCounters, PcpSnapshot, Source, VmEvents, ZoneSnapshot};
use framewright::watermark::highatomic_limit;
use framewright::{Allocator, CpuId, FrameCounts, FrameState, Layout, MigrateType, Parts, Pfn};
use framewright_rt::{Solo, Storage};

use crate::language::{Op, Outcome, Row, Shape, Wrong, zones};
use crate::oracle::Oracle;
use crate::play::player::Player;

/// A booted machine and its oracle.
pub struct Session<'h> {
    player: &'h Player<'h>,
    shape: &'h Shape,
}

/// Most bytes of a machine's descriptors: those of 128 GiB in pages of 4 KiB.
///
/// The oracle takes twice as much.
const MOST_BYTES: usize = 1 << 30;

/// Boots a machine and lets `body` play on it.
///
/// # Errors
/// The machine cannot be booted, or `body` failed.
pub fn with_session<T>(shape: &Shape, body: impl FnOnce(&Session<'_>) -> Result<T, Wrong>) -> Result<T, Wrong> {
    with_player(shape, &|pages, shape| Ok(Player::new(pages, shape)), body)
}

/// Makes the player of a booted machine.
type Make<'m> = dyn for<'h> Fn(&'h Allocator<'h, Solo<'h>>, &'h Shape) -> Result<Player<'h>, Wrong> + 'm;

fn with_player<T>(
    shape: &Shape,
    make: &Make<'_>,
    body: impl FnOnce(&Session<'_>) -> Result<T, Wrong>,
) -> Result<T, Wrong> {
    let config = shape.config();
    let layout = Layout::of(&config).map_err(|error| error.to_string())?;
    let bytes = layout.bytes::<Solo<'_>>();
    if bytes > MOST_BYTES {
        return Err(format!("its descriptors take {} MiB, more than {} MiB", bytes >> 20, MOST_BYTES >> 20));
    }
    let mut storage = Storage::new(&layout);
    if !shape.is_zeroed {
        soil(storage.parts());
    }
    let booted = Allocator::boot(Solo::new(&shape.cpus), &config, storage.parts());
    // Neither is dropped, because the allocator's machine refers to the player and the player to the allocator.
    // `unhook` drops what is on the heap.
    let pages = ManuallyDrop::new(booted.map_err(|error| error.to_string())?);
    let player = ManuallyDrop::new(make(&pages, shape)?);
    player.hook();
    let result = body(&Session { player: &player, shape });
    player.unhook();
    result
}

/// Writes to all descriptors that a free page, or an allocated page, begins there.
fn soil<M: Machine>(parts: Parts<'_, M>) {
    const FREE_PAGE: u64 = 0x2001;
    const ALLOCATED_PAGE: u8 = 0x20;
    parts.states.fill_with(|| Word::new(FREE_PAGE));
    parts.heads.fill_with(|| Word::new(ALLOCATED_PAGE));
    parts.pageblocks.fill_with(|| Word::new(u32::MAX));
    for (link, node) in parts.links.iter().zip(1..) {
        link.words().into_iter().for_each(|(_, word)| word.store(node, Ordering::Relaxed));
    }
}

/// Counts of callbacks and fault points so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Encounters {
    /// How often each point of [`Fault::ALL`] was reached.
    pub hits: [u64; Fault::ALL.len()],
    /// How often each was made to fail.
    pub fired: [u64; Fault::ALL.len()],
    /// Calls of the reclaim callback.
    pub reclaims: u64,
    /// Calls of the migrate callback.
    pub migrations: u64,
}

impl<'h> Session<'h> {
    /// Returns the allocator.
    pub fn pages(&self) -> &'h Allocator<'h, Solo<'h>> {
        self.player.pages
    }

    /// Returns a copy of the oracle.
    pub fn oracle(&self) -> Oracle {
        self.player.oracle.borrow().clone()
    }

    /// Carries out one operation.
    ///
    /// # Errors
    /// The allocator's answer is wrong.
    pub fn perform(&self, op: &Op) -> Result<Outcome, Wrong> {
        self.player.perform(op)
    }

    /// Saves the allocator, restores it on another machine, and lets `body` play there.
    ///
    /// The other machine knows all that this one knows, so the same operations have the same outcomes on both. The
    /// caller's stay on its CPU ends, here too.
    ///
    /// # Errors
    /// The state was not saved or not restored, or `body` failed.
    pub fn moved<T>(&self, body: impl FnOnce(&Session<'_>) -> Result<T, Wrong>) -> Result<T, Wrong> {
        self.player.seat.take();
        let mut saved = Vec::new();
        let mut sink = |bytes: &[u8]| {
            saved.extend_from_slice(bytes);
            Ok::<_, Infallible>(())
        };
        self.pages().save(&mut sink).map_err(|error| error.to_string())?;
        let make: &Make<'_> = &|pages, shape| {
            pages.restore(&saved).map_err(|error| error.to_string())?;
            Ok(self.player.moved(pages, shape))
        };
        with_player(self.shape, make, body)
    }

    /// Returns the frames that are neither held nor withheld.
    pub fn free_frames(&self) -> u64 {
        self.player.oracle.borrow().free_frames()
    }

    /// Returns the frames on a CPU's lists: of its own node's zones, and of others.
    pub fn cached(&self, cpu: CpuId) -> [u64; 2] {
        self.player.cached(cpu)
    }

    /// Checks the invariants, the census, and the counters of errors.
    ///
    /// # Errors
    /// The first failure.
    pub fn check(&self) -> Result<FrameCounts, Wrong> {
        let player = self.player;
        let census = player.pages.validate().map_err(|violation| violation.to_string())?;
        player.oracle.borrow().compare(&census)?;
        player.compare_counters()?;
        if !player.reserved.get() {
            self.check_reserves()?;
        }
        let held = player.oracle.borrow().held_frames();
        if let Some(traced) = player.traced.get().filter(|&traced| traced != held) {
            return Err(format!("{traced} frames are allocated by the tracepoints, should be {held}"));
        }
        let counters = player.pages.counters();
        if counters.repairs != 0 {
            return Err("the lists had to be repaired".into());
        }
        match player.refused.get() {
            refused if refused == counters.bad_frees => Ok(census),
            refused => Err(format!("{} refused frees were counted, should be {refused}", counters.bad_frees)),
        }
    }

    /// Checks that no reserve for high orders is larger than its zone allows.
    fn check_reserves(&self) -> Result<(), Wrong> {
        let pages = self.player.pages;
        let order = pages.geometry().pageblock_order;
        for zone in zones(pages.nodes()).filter_map(|zone| pages.zone(zone)) {
            let (reserved, limit) =
                (zone.blocks[MigrateType::HighAtomic.index()] << order.0, highatomic_limit(zone.managed, order));
            if reserved > limit {
                return Err(format!(
                    "{} has {reserved} frames in reserve for high orders, may have {limit}",
                    zone.kind
                ));
            }
        }
        Ok(())
    }

    /// Compares every frame with the oracle, and the statistics with what was served.
    ///
    /// # Errors
    /// A frame or a sum is not what it should be.
    pub fn check_frames(&self) -> Result<(), Wrong> {
        let pages = self.player.pages;
        self.player.oracle.borrow().compare_frames(pages)?;
        let mechanisms = pages.mechanisms();
        if mechanisms.numa_stat == NumaStat::Off {
            return Ok(());
        }
        if mechanisms.numa_read == NumaRead::ZoneOnly {
            (0..pages.cpus()).try_for_each(|cpu| self.player.refreshed(CpuId(cpu as u16)).map(drop))?;
        }
        let numa = zones(pages.nodes()).filter_map(|zone| pages.zone(zone)).map(|zone| zone.numa);
        let sum = numa.fold(NumaCounters::default(), NumaCounters::plus);
        let (local, other) = (self.player.local.get(), self.player.other.get());
        let rows = [
            ("numa_local", local, sum.local),
            ("numa_other", other, sum.other),
            ("numa_hit + numa_miss", local + other, sum.hit + sum.miss),
            ("numa_foreign", sum.miss, sum.foreign),
        ];
        let turns = self.player.interleaved.get().map(|ours| ("numa_interleave", ours, sum.interleave));
        match rows.into_iter().chain(turns).find(|(_, ours, theirs)| ours != theirs) {
            Some((name, ours, theirs)) => Err(format!("{name} is {theirs}, should be {ours}")),
            None => Ok(()),
        }
    }

    /// Frees all that is held, brings memory online and drains; all memory must be free then.
    ///
    /// # Errors
    /// A call was refused, or some memory is missing.
    pub fn give_everything_back(&self) -> Result<FrameCounts, Wrong> {
        let player = self.player;
        let held = player.oracle.borrow().held();
        held.into_iter().try_for_each(|handle| player.free(handle).map(drop))?;
        let offline = player.offline.take();
        offline.into_iter().try_for_each(|range| player.bring_online(range).map(drop))?;
        player.drained(None, player.pages.drain_all())?;
        let census = self.check()?;
        self.check_frames()?;
        match census.present - census.offline {
            free if free == census.free => Ok(census),
            free => Err(format!("{} frames are free in the end, of {free}", census.free)),
        }
    }

    /// Returns what callbacks and faults saw.
    pub fn encounters(&self) -> Encounters {
        let faults = self.player.faults.borrow();
        let hooks = self.player.hooks.borrow();
        let (hits, fired) = (faults.hits, faults.fired);
        Encounters { hits, fired, reclaims: hooks.reclaims, migrations: hooks.migrations }
    }

    /// Returns every row of free blocks and per-CPU frames that is not all zeros.
    pub fn rows(&self) -> Vec<Row> {
        Row::all(self.player.pages)
    }

    /// Returns all visible state of the allocator.
    pub fn snapshot(&self) -> Snapshot {
        let pages = self.player.pages;
        let oracle = self.player.oracle.borrow();
        let cpus = (0..pages.cpus()).map(|cpu| CpuId(cpu as u16));
        let pcps = zones(pages.nodes()).flat_map(|zone| cpus.clone().filter_map(move |cpu| pages.pcp(zone, cpu)));
        let block = |pfn: Pfn| (pages.state_of(pfn), pages.pageblock_type(pfn));
        Snapshot {
            zones: zones(pages.nodes()).filter_map(|zone| pages.zone(zone)).collect(),
            pcps: pcps.collect(),
            frames: oracle.memory().all().map(|(pfn, _)| (pfn, block(pfn))).collect(),
            events: pages.events(),
        }
    }
}

/// All visible state of an allocator, without its counters of failures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    zones: Vec<ZoneSnapshot>,
    pcps: Vec<PcpSnapshot>,
    frames: Vec<(Pfn, (FrameState, Option<MigrateType>))>,
    events: VmEvents,
}

impl Snapshot {
    /// Returns the first difference in words; `None` if there is none.
    pub fn difference(&self, other: &Snapshot) -> Option<String> {
        let mut frames = self.frames.iter().zip(&other.frames);
        if let Some((before, after)) = frames.find(|(before, after)| before != after) {
            return Some(format!("frame {} was {:?} and is {:?}", before.0, before.1, after.1));
        }
        let mut zones = self.zones.iter().zip(&other.zones);
        if let Some((before, after)) = zones.find(|(before, after)| before != after) {
            return Some(format!("the zone was {before:?} and is {after:?}"));
        }
        (self != other)
            .then(|| format!("was {:?} {:?}, is {:?} {:?}", self.pcps, self.events, other.pcps, other.events))
    }
}
