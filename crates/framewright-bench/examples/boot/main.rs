//! Boot: how long it takes and how much memory the descriptors need, for machines of 1 GiB to 16 TiB.
//!
//! The descriptors of frames lie in address space that the kernel backs page by page, when it is touched. So a machine
//! of 16 TiB boots in a process of a few hundred MiB, as long as boot touches few descriptors.
//!
//! | command | what it does |
//! |---|---|
//! | `sizes` | prints the bytes of each part |
//! | `zeroed` | boots over fresh pages; prints the time, the resident memory, and the time of the first allocation |
//! | `dirty` | writes to all descriptors, then boots and lets boot zero what it needs |
//!
//! Words after the command name machines, or are `at-boot` (all sections are initialised at boot), `init` (all are
//! initialised after boot, by `Allocator::init_section`), `validate` (every invariant is checked last) or
//! `mechanisms=LIST` (presets and switches, as `framewright mechanisms` lists them).

use std::mem::{align_of, size_of};
use std::process::ExitCode;
use std::time::Instant;

use framewright::config::SectionInit;
use framewright::machine::{Ordering, Word};
use framewright::request::GFP_KERNEL;
use framewright::units::NodeId;
use framewright::{Allocator, Config, Layout, Link, Machine, Mechanisms, Parts, Region, Request};
use framewright::{Cpu, Magazine, NodeDiffs, NodeStat, Pcp, Shard, Zone, ZoneDiffs};
use framewright_rt::{Native, Storage};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

type Outcome<T> = Result<T, String>;

/// A machine: its nodes, and what each node has.
struct Computer {
    name: &'static str,
    nodes: u8,
    /// GiB and CPUs of a node.
    gib: u64,
    cpus: usize,
}

const COMPUTERS: [Computer; 6] = [
    Computer { name: "1GiB", nodes: 1, gib: 1, cpus: 2 },
    Computer { name: "64GiB", nodes: 1, gib: 64, cpus: 64 },
    Computer { name: "1TiB", nodes: 1, gib: 1 << 10, cpus: 256 },
    Computer { name: "1TiB-128cpus", nodes: 1, gib: 1 << 10, cpus: 128 },
    Computer { name: "1TiB-8nodes", nodes: 8, gib: 128, cpus: 32 },
    Computer { name: "16TiB", nodes: 16, gib: 1 << 10, cpus: 256 },
];

/// Frames in a GiB.
const GIB: u64 = 1 << 18;
/// As on a PC: from here to 4 GiB there is no memory.
const HOLE: u64 = 3 * GIB;

impl Computer {
    /// Returns the memory map: above 3 GiB, all addresses are a GiB higher.
    fn regions(&self) -> Vec<Region> {
        let each = self.gib * GIB;
        if each <= HOLE {
            return vec![Region::usable(1, each, 0)];
        }
        let mut regions = vec![Region::usable(1, HOLE, 0)];
        let nodes = (0..u64::from(self.nodes)).map(|node| (node * each + GIB, node));
        regions.extend(nodes.map(|(start, node)| Region::usable(start.max(4 * GIB), start + each, node as u8)));
        regions
    }

    fn cpus(&self) -> Vec<NodeId> {
        (0..self.nodes).flat_map(|node| std::iter::repeat_n(NodeId(node), self.cpus)).collect()
    }
}

/// What the words after the command say.
struct Options {
    section_init: SectionInit,
    is_dirty: bool,
    inits: bool,
    validates: bool,
    mechanisms: Mechanisms,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some((&command, words)) = words.split_first().filter(|(word, _)| ["sizes", "zeroed", "dirty"].contains(word))
    else {
        eprintln!("usage: boot sizes|zeroed|dirty [MACHINE...] [at-boot] [init] [validate] [mechanisms=LIST]");
        return ExitCode::FAILURE;
    };
    let has = |word: &str| words.contains(&word);
    let list = words.iter().find_map(|word| word.strip_prefix("mechanisms="));
    let Ok(mechanisms) = Mechanisms::parse(list.unwrap_or("default")) else {
        eprintln!("{}: there are no such mechanisms", list.unwrap_or_default());
        return ExitCode::FAILURE;
    };
    let options = Options {
        section_init: if has("at-boot") { SectionInit::AtBoot } else { SectionInit::BySize },
        is_dirty: command == "dirty",
        inits: has("init"),
        validates: has("validate"),
        mechanisms,
    };
    let named = |computer: &&Computer| has(computer.name);
    let all = !COMPUTERS.iter().any(|computer| named(&computer));
    for computer in COMPUTERS.iter().filter(|computer| all || named(computer)) {
        let (regions, cpus) = (computer.regions(), computer.cpus());
        let Options { section_init, is_dirty, mechanisms, .. } = options;
        let config = Config { section_init, is_zeroed: !is_dirty, mechanisms, ..Config::new(&regions, &cpus) };
        let done = if command == "sizes" { sizes(computer, &config) } else { boot(computer, &config, &options) };
        if let Err(error) = done {
            eprintln!("{}: {error}", computer.name);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints the bytes of each part.
fn sizes(computer: &Computer, config: &Config<'_>) -> Outcome<()> {
    let layout = Layout::of(config).map_err(|error| error.to_string())?;
    let memory = config.regions.iter().map(|region| region.range.frames()).sum::<u64>() << 12;
    let share = |bytes: usize| bytes as f64 * 100.0 / memory as f64;
    let total = layout.bytes::<Native>();
    println!("{}: {} CPUs, {total} bytes of metadata, {:.4} %", computer.name, config.cpus.len(), share(total));
    let word = size_of::<<Native as Machine>::U32>();
    let parts = [
        ("sections, bases", layout.sections + layout.bases, size_of::<u64>()),
        ("states, links, heads", layout.frames, 17),
        ("pageblocks", layout.pageblocks, word),
        ("zones", layout.zones, size_of::<Zone<Native>>()),
        ("cpus", layout.cpus, size_of::<Cpu<Native>>()),
        ("pcps", layout.pcps, size_of::<Pcp<Native>>()),
        ("slots", layout.slots, word),
        ("shards", layout.shards, size_of::<Shard<Native>>()),
        ("magazines", layout.magazines, size_of::<Magazine<Native>>()),
        ("diffs", layout.diffs, size_of::<ZoneDiffs<Native>>()),
        ("node_stats", layout.node_stats, size_of::<NodeStat<Native>>()),
        ("node_diffs", layout.node_diffs, size_of::<NodeDiffs<Native>>()),
    ];
    for (name, count, size) in parts.into_iter().filter(|(_, count, _)| *count != 0) {
        println!("  {name:<20} {count:>11} x {size:>5} = {:>12} bytes, {:.4} %", count * size, share(count * size));
    }
    Ok(())
}

/// Boots a machine and prints what that took.
fn boot(computer: &Computer, config: &Config<'_>, options: &Options) -> Outcome<()> {
    let layout = Layout::of(config).map_err(|error| error.to_string())?;
    let before = resident()?;
    let begin = Instant::now();
    let few = Layout { frames: 0, pageblocks: 0, slots: 0, magazines: 0, ..layout };
    let mut records = Storage::new(&few);
    let room = Room::new(&layout)?;
    let mut parts = room.parts(&layout, records.parts());
    let prepared = begin.elapsed();
    if options.is_dirty {
        soil(&mut parts);
    }
    let begin = Instant::now();
    let machine = Native::new(config.cpus);
    let allocator = Allocator::boot(machine, config, parts).map_err(|error| error.to_string())?;
    let booted = begin.elapsed();
    let after = resident()?;
    let begin = Instant::now();
    allocator.alloc(&Request::page(GFP_KERNEL)).map_err(|error| error.to_string())?;
    let first = begin.elapsed();
    println!(
        "{}: {} CPUs, records {:.3} s, boot {:.3} s, first allocation {:.1} us, resident {} MiB of {} MiB",
        computer.name,
        config.cpus.len(),
        prepared.as_secs_f64(),
        booted.as_secs_f64(),
        first.as_secs_f64() * 1e6,
        (after - before.min(after)) >> 20,
        layout.bytes::<Native>() >> 20,
    );
    if options.inits {
        let begin = Instant::now();
        let sections: usize = (0..computer.nodes)
            .map(|node| {
                std::iter::repeat_with(|| allocator.init_section(NodeId(node))).take_while(|done| *done).count()
            })
            .sum();
        let seconds = begin.elapsed().as_secs_f64();
        println!("  {sections} sections initialised in {seconds:.3} s, {:.2} us each", seconds * 1e6 / sections as f64);
    }
    if options.validates {
        let counts = allocator.validate().map_err(|violation| violation.to_string())?;
        println!("  valid: {} frames, {} free", counts.present, counts.free);
    }
    Ok(())
}

/// Writes to every descriptor of a frame.
fn soil(parts: &mut Parts<'_, Native>) {
    parts.states.fill_with(|| Word::new(0x2001));
    parts.heads.fill_with(|| Word::new(0x20));
    parts.pageblocks.fill_with(|| Word::new(u32::MAX));
    for link in parts.links.iter() {
        link.words().into_iter().for_each(|(_, word)| word.store(7, Ordering::Relaxed));
    }
}

/// Resident bytes of this process.
fn resident() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").map_err(|error| error.to_string())?;
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.map(|pages| pages << 12).ok_or_else(|| "statm has no second number".into())
}

/// Address space of the parts that grow with frames.
struct Room {
    start: *mut u8,
    bytes: usize,
}

impl Room {
    const PAGE: usize = 4096;

    fn new(layout: &Layout) -> Outcome<Room> {
        let bytes = layout.bytes::<Native>() + 16 * Room::PAGE;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no other.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) };
        let start = start.map_err(|error| error.to_string())?;
        // SAFETY: the advice changes no contents. A kernel without huge pages does not know it, and needs it not.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
        Ok(Room { start: start.cast(), bytes })
    }

    /// Returns the parts to boot with.
    fn parts<'a>(&'a self, layout: &Layout, records: Parts<'a, Native>) -> Parts<'a, Native> {
        let mut at = 0;
        // SAFETY: each part begins where the one before it ends, and this function is called once. The types are words
        // and records of words, for which a memory of zeros is valid.
        unsafe {
            Parts {
                states: self.part(&mut at, layout.frames),
                links: self.part::<Link<Native>>(&mut at, layout.frames),
                heads: self.part(&mut at, layout.frames),
                pageblocks: self.part(&mut at, layout.pageblocks),
                slots: self.part(&mut at, layout.slots),
                magazines: self.part::<Magazine<Native>>(&mut at, layout.magazines),
                ..records
            }
        }
    }

    /// # Safety
    /// No other part begins at `at`, and a memory of zeros is a valid `T`.
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint")]
    unsafe fn part<T>(&self, at: &mut usize, count: usize) -> &mut [T] {
        let (start, bytes) = (*at, count * size_of::<T>());
        *at = (start + bytes).next_multiple_of(Room::PAGE);
        assert!(*at <= self.bytes && align_of::<T>() <= Room::PAGE);
        // SAFETY: inside the mapping, aligned to a page; the caller does the rest.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start).cast(), count) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the parts borrow this value, so none is left.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}
