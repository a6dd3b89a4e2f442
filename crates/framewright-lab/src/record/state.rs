//! The state of memory at the moment from which events count.
//!
//! Reading the files of `/proc` takes time, most of all the flags of all frames, and the machine does not wait. So
//! events are recorded from before the first file is read until after the last one. The moment is after the last one,
//! and the earlier files are brought up to it: a frame's last event before the moment says its state, and its flags do
//! where there is no event. An event that is older than the flags may have a counterpart that no tracepoint tells;
//! flags that name a use, or say that the frame is free, win over such an event.
//!
//! Flags do not show that a frame is on a per-CPU list, where it is free: only the event that put it there does. After
//! hours of work such lists hold hundreds of MiB. So each CPU's lists are emptied and filled again before the flags are
//! read, by a file in memory with as many pages (`turn_over`). The lists of the kernel's own mobilities and of larger
//! blocks are left out.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::thread;

use framewright::units::{MigrateType, Order, Pfn, PfnRange};
use framewright_trace::error::ProcFault;
use framewright_trace::proc::{KPageFlags, ZoneInfo, flag};
use framewright_trace::record::{Kind, Record};
use framewright_trace::state::{InitialState, StateFile, TEXT_LIMIT};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::error::RecordError;

/// Frames whose flags are read at once, and so have one time: a multiple of the largest block.
const FRAMES: u64 = 1 << 15;
/// Flags that only a frame in use has.
const IN_USE: u64 = flag::LRU
    | flag::SLAB
    | flag::MMAP
    | flag::ANON
    | flag::COMPOUND_HEAD
    | flag::COMPOUND_TAIL
    | flag::HUGE
    | flag::THP
    | flag::PGTABLE;
/// Flags of frames that the allocator does not have.
const NOT_OURS: u64 = flag::NOPAGE | flag::OFFLINE | flag::RESERVED;

/// Nanoseconds of the clock that events have.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads the text files of a state that there are; those that cannot be read are left out.
///
/// # Errors
/// One is malformed.
pub fn texts() -> Result<InitialState, RecordError> {
    let mut state = InitialState::default();
    for file in StateFile::ALL {
        let mut bytes = Vec::new();
        let source = File::open(Path::new("/proc").join(file.name()));
        if source.and_then(|source| source.take(TEXT_LIMIT).read_to_end(&mut bytes)).is_ok_and(|read| read != 0) {
            state.set(file, bytes, file.name())?;
        }
    }
    Ok(state)
}

/// Takes as many frames as there are on each CPU's lists, on that CPU, and gives them back.
///
/// It is for the better only: where a CPU or memory is not to be had, its lists stay as they are.
pub(crate) fn turn_over(zones: &ZoneInfo) {
    let free: u64 = zones.zones.iter().map(|zone| zone.free).fold(0, u64::saturating_add);
    let mut lists: BTreeMap<u32, u64> = BTreeMap::new();
    for set in zones.zones.iter().flat_map(|zone| &zone.pagesets) {
        let frames = lists.entry(set.cpu).or_default();
        *frames = frames.saturating_add(set.count);
    }
    for (cpu, frames) in lists {
        // One CPU after the other, so that a machine that is short of memory is not made shorter of it.
        let pages = frames.min(free / 16);
        let _ = thread::spawn(move || take_on(cpu as usize, pages)).join();
    }
}

/// Allocates `pages` pages on a CPU, which the calling thread stays on, and frees them.
fn take_on(cpu: usize, pages: u64) -> rustix::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU || pages == 0 {
        return Ok(());
    }
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only)?;
    let file = memfd_create("framewright", MemfdFlags::CLOEXEC)?;
    fallocate(&file, FallocateFlags::empty(), 0, pages * rustix::param::page_size() as u64)
}

/// The names of all threads that there are.
pub fn tasks() -> Vec<(u32, Vec<u8>)> {
    let numbers = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    let mut tasks = Vec::new();
    for process in numbers(Path::new("/proc")) {
        let threads = Path::new("/proc").join(process.to_string()).join("task");
        for thread in numbers(&threads) {
            // It may have ended meanwhile.
            if let Ok(mut name) = fs::read(threads.join(thread.to_string()).join("comm")) {
                name.truncate(name.trim_ascii_end().len());
                tasks.push((thread, name));
            }
        }
    }
    tasks
}

/// Flags of all frames as data, for a spool that is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptFlags {
    /// Frames and flags of each run.
    pub(super) runs: Vec<(u64, u64)>,
    /// Times in nanoseconds.
    pub(super) times: Vec<u64>,
}

/// Flags of all frames, and when each was read.
#[derive(Debug, Default)]
pub struct TimedFlags {
    flags: KPageFlags,
    /// The times at which the first, second, ... frames were read.
    times: Vec<u64>,
}

impl TimedFlags {
    /// Reads `/proc/kpageflags`; none if it cannot be read.
    ///
    /// # Errors
    /// There are too many frames.
    pub fn read() -> Result<Option<TimedFlags>, RecordError> {
        match File::open("/proc/kpageflags") {
            Ok(file) => TimedFlags::read_from(file, now).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn read_from(source: impl Read, clock: impl Fn() -> u64) -> Result<TimedFlags, RecordError> {
        let mut source = source;
        let mut timed = TimedFlags::default();
        let mut bytes = Vec::new();
        loop {
            // Before it is read: an event from in between is then the newer of the two, and right whether the flags
            // have it or not.
            let time = clock();
            bytes.clear();
            let failed = |error| RecordError::at("read", Path::new("/proc/kpageflags"), error);
            (&mut source).take(8 * FRAMES).read_to_end(&mut bytes).map_err(failed)?;
            if bytes.is_empty() {
                return Ok(timed);
            }
            timed.times.push(time);
            let mut frames = bytes.as_chunks().0.iter().map(|frame| u64::from_le_bytes(*frame)).peekable();
            while let Some(flags) = frames.next() {
                let mut run = 1;
                while frames.next_if_eq(&flags).is_some() {
                    run += 1;
                }
                let full = |fault| framewright_trace::error::TraceError::new("kpageflags", fault);
                timed.flags.push(run, flags).map_err(full)?;
            }
        }
    }

    /// When the flags of a frame were read.
    fn time(&self, pfn: u64) -> u64 {
        self.times.get((pfn / FRAMES) as usize).copied().unwrap_or(0)
    }

    /// As data for a spool that is kept.
    pub(super) fn to_kept(&self) -> KeptFlags {
        KeptFlags {
            runs: self.flags.runs().map(|(range, flags)| (range.frames(), flags)).collect(),
            times: self.times.clone(),
        }
    }

    /// From a spool that was kept.
    pub(super) fn from_kept(kept: KeptFlags) -> Result<TimedFlags, ProcFault> {
        let mut flags = KPageFlags::default();
        kept.runs.iter().try_for_each(|&(frames, run)| flags.push(frames, run))?;
        Ok(TimedFlags { flags, times: kept.times })
    }

    /// The flags as they were after these events.
    pub fn after(&self, events: &Events) -> KPageFlags {
        let mut told: Vec<(u64, u64)> = Vec::new();
        for (&pfn, &(time, flags)) in &events.0 {
            let read = self.flags.get(Pfn(pfn));
            let older = time < self.time(pfn);
            // Of an older request, the flags of its use say more; of an older free, they tell that it was taken since.
            let stays = read & NOT_OURS != 0 || older && read & (flag::BUDDY | IN_USE) != 0;
            if !stays {
                told.push((pfn, flags));
            }
        }
        told.sort_unstable();
        let mut told = told.into_iter().peekable();
        let mut all = KPageFlags::default();
        for (range, flags) in self.flags.runs() {
            let mut at = range.start.0;
            while let Some((pfn, changed)) = told.next_if(|&(pfn, _)| pfn < range.end.0) {
                // As many frames as before have room; should runs become too many, the rest stays as it was.
                let _ = all.push(pfn - at, flags).and_then(|()| all.push(1, changed));
                at = pfn + 1;
            }
            let _ = all.push(range.end.0 - at, flags);
        }
        all
    }
}

/// The last event of each frame before the moment: when, and the flags that follow from it.
#[derive(Debug, Default)]
pub struct Events(HashMap<u64, (u64, u64)>);

impl Events {
    /// Notes an event.
    pub fn note(&mut self, record: &Record) {
        let in_use = |movable| if movable { flag::LRU } else { 0 };
        match record.kind {
            Kind::Alloc { pfn: Some(pfn), order, migratetype, .. } => {
                self.set(record.time, pfn, order, in_use(migratetype == MigrateType::Movable));
            }
            Kind::Free { pfn, order } => self.set(record.time, pfn, order, flag::BUDDY),
            Kind::Move { new, .. } => self.set(record.time, new, Order(0), in_use(true)),
            _ => {}
        }
    }

    fn set(&mut self, time: u64, pfn: Pfn, order: Order, flags: u64) {
        let block = PfnRange::block(pfn, order);
        self.0.extend((block.start.0..block.end.0).map(|pfn| (pfn, (time, flags))));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use framewright::request::GFP_KERNEL;
    use framewright::units::CpuId;

    use super::*;
    use framewright_trace::record::CommId;

    fn at(time: u64, kind: Kind) -> Record {
        Record { time, pid: 1, comm: CommId(0), cpu: CpuId(0), kind }
    }

    fn alloc(time: u64, pfn: u64, migratetype: MigrateType) -> Record {
        at(time, Kind::Alloc { pfn: Some(Pfn(pfn)), order: Order(0), migratetype, gfp: GFP_KERNEL })
    }

    fn free(time: u64, pfn: u64) -> Record {
        at(time, Kind::Free { pfn: Pfn(pfn), order: Order(0) })
    }

    #[test]
    fn what_was_last_counts() {
        // Flags read, events before the moment (flags are read at 100), flags at the moment.
        let (movable, fixed) = (MigrateType::Movable, MigrateType::Unmovable);
        let table = [
            ("nothing happened", flag::SLAB, vec![], flag::SLAB),
            ("freed since", flag::ANON, vec![free(110, 0)], flag::BUDDY),
            ("freed to a per-CPU list before", 0, vec![free(90, 0)], flag::BUDDY),
            ("freed, then taken where no event tells", flag::SLAB, vec![free(90, 0)], flag::SLAB),
            ("allocated since", flag::BUDDY, vec![alloc(110, 0, movable)], flag::LRU),
            ("allocated since, for the kernel", flag::BUDDY, vec![alloc(110, 0, fixed)], 0),
            (
                "allocated, and known for what",
                flag::ANON | flag::MMAP,
                vec![alloc(90, 0, movable)],
                flag::ANON | flag::MMAP,
            ),
            ("allocated, and freed where no event tells", flag::BUDDY, vec![alloc(90, 0, movable)], flag::BUDDY),
            ("allocated and freed", flag::BUDDY, vec![alloc(110, 0, fixed), free(120, 0)], flag::BUDDY),
            ("freed and allocated since", flag::SLAB, vec![free(110, 0), alloc(120, 0, movable)], flag::LRU),
            (
                "moved to since it was freed",
                flag::SLAB,
                vec![at(110, Kind::Move { old: Pfn(9), new: Pfn(0) })],
                flag::LRU,
            ),
            ("no memory", flag::NOPAGE, vec![alloc(110, 0, movable)], flag::NOPAGE),
            ("moved to", 0, vec![at(110, Kind::Move { old: Pfn(9), new: Pfn(0) })], flag::LRU),
        ];
        for (what, read, records, expected) in table {
            let bytes: Vec<u8> = [read, flag::RESERVED].iter().flat_map(|flags| flags.to_le_bytes()).collect();
            let timed = TimedFlags::read_from(&bytes[..], || 100).unwrap();
            let mut events = Events::default();
            records.iter().for_each(|record| events.note(record));
            let flags = timed.after(&events);
            assert_eq!(
                (flags.get(Pfn(0)), flags.get(Pfn(1)), flags.end_pfn()),
                (expected, flag::RESERVED, Pfn(2)),
                "{what}"
            );
        }
    }

    #[test]
    fn each_stretch_has_its_time() {
        let bytes = vec![0; 8 * (FRAMES as usize + 10)];
        let time = Cell::new(0);
        let timed = TimedFlags::read_from(&bytes[..], || time.replace(time.get() + 50)).unwrap();
        assert_eq!(timed.times, [0, 50]);
        let mut events = Events::default();
        let block = Kind::Free { pfn: Pfn(FRAMES - 4), order: Order(2) };
        [at(20, block), free(20, FRAMES + 3)].iter().for_each(|record| events.note(record));
        let flags = timed.after(&events);
        let free: Vec<PfnRange> = flags.ranges_with(flag::BUDDY).collect();
        assert_eq!(free, [PfnRange::new(FRAMES - 4, FRAMES), PfnRange::new(FRAMES + 3, FRAMES + 4)]);
    }
}
