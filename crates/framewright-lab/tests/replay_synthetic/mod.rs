//! Small machines and traces, written as the files that a recording leaves.
//!
//! The machine has zones as a test names them, by default one of 4,096 frames from 0x1000 on: eight pageblocks. All of
//! it is free except for what a test says. Times rise by a microsecond from event to event.
#![allow(dead_code, reason = "every test binary uses its own part")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use framewright::Mechanisms;
use framewright_trace::proc::flag;
use framewright_trace::replay::{ReplayError, ReplayOptions, Report, replay};

/// First frame of the default machine.
pub(crate) const START: u64 = 0x1000;
/// Frames of the default machine.
pub(crate) const FRAMES: u64 = 0x1000;

/// First and second try of a fault, and a request by khugepaged.
pub(crate) const FIRST: &str = "GFP_TRANSHUGE|__GFP_NORETRY|__GFP_THISNODE";
pub(crate) const SECOND: &str = "GFP_TRANSHUGE";
pub(crate) const MOVABLE: &str = "GFP_HIGHUSER_MOVABLE";
pub(crate) const KERNEL: &str = "GFP_KERNEL";

/// A zone of the machine.
#[derive(Clone)]
pub(crate) struct Zone {
    pub(crate) node: u32,
    pub(crate) name: &'static str,
    pub(crate) start: u64,
    pub(crate) frames: u64,
    /// What zoneinfo says is free.
    pub(crate) free: u64,
}

/// What zoneinfo says of watermarks, and of the CPUs' lists.
const ZONE: &str = "        min      MIN
        low      LOW
        high     HIGH
        spanned  FRAMES
        present  FRAMES
        managed  FRAMES
        protection: (0, 0, 0, 0)
  pagesets
    cpu: 0
              count: 0
              high:  4
              batch: 1
    cpu: 1
              count: 0
              high:  4
              batch: 1
  start_pfn:           START
";

/// A recording in the making.
pub(crate) struct Synthetic {
    pub(crate) zones: Vec<Zone>,
    /// Flags of frames that are not free, later ones winning.
    flags: Vec<(u64, u64, u64)>,
    with_flags: bool,
    pub(crate) trace: String,
    /// The thread that runs, and its name.
    pub(crate) task: u32,
    pub(crate) name: &'static str,
    /// The lowest of three watermarks, which are one, two and three times this.
    pub(crate) min: u64,
    pub(crate) cpu: u16,
    events: u64,
}

impl Synthetic {
    pub(crate) fn new() -> Synthetic {
        Synthetic {
            zones: vec![Zone { node: 0, name: "Normal", start: START, frames: FRAMES, free: FRAMES }],
            flags: Vec::new(),
            with_flags: true,
            trace: String::new(),
            task: 100,
            name: "fio",
            min: 0,
            cpu: 0,
            events: 0,
        }
    }

    /// The same machine, of which only the zones were recorded; zoneinfo says that `free` frames were free.
    pub(crate) fn zones_only(free: u64) -> Synthetic {
        let mut new = Synthetic { with_flags: false, ..Synthetic::new() };
        new.zones[0].free = free;
        new
    }

    /// Nodes of 4,096 frames each.
    pub(crate) fn nodes(count: u32) -> Synthetic {
        let zone = |node: u32| {
            let start = START + u64::from(node) * FRAMES;
            Zone { node, name: "Normal", start, frames: FRAMES, free: FRAMES }
        };
        Synthetic { zones: (0..count).map(zone).collect(), ..Synthetic::new() }
    }

    /// `frames` frames from `pfn` on have `bits` in kpageflags.
    pub(crate) fn flags(&mut self, pfn: u64, frames: u64, bits: u64) -> &mut Self {
        self.flags.push((pfn, frames, bits));
        self
    }

    /// Everything is in use but `frames` frames from `pfn` on.
    pub(crate) fn used_except(&mut self, pfn: u64, frames: u64) -> &mut Self {
        self.flags(START, FRAMES, flag::SLAB).flags(pfn, frames, flag::BUDDY)
    }

    /// One movable page is in use in each pageblock, so that there is no free huge page. Returns their frames.
    pub(crate) fn fragmented(&mut self, node: u64) -> Vec<u64> {
        let start = START + node * FRAMES;
        let frames: Vec<u64> = (0..8).map(|block| start + block * 512 + 7).collect();
        frames.iter().for_each(|&pfn| {
            self.flags(pfn, 1, flag::LRU | flag::ANON);
        });
        frames
    }

    /// Who makes the requests from now on.
    pub(crate) fn run(&mut self, task: u32, cpu: u16) -> &mut Self {
        (self.task, self.cpu) = (task, cpu);
        self
    }

    /// A thread of this name makes the events of `events`.
    pub(crate) fn within(&mut self, task: u32, name: &'static str, events: impl FnOnce(&mut Self)) -> &mut Self {
        let before = (self.task, self.name);
        (self.task, self.name) = (task, name);
        events(self);
        (self.task, self.name) = before;
        self
    }

    /// An event as its name and fields.
    pub(crate) fn event(&mut self, event: &str) -> &mut Self {
        self.events += 1;
        let (task, name, cpu, time) = (self.task, self.name, self.cpu, self.events);
        writeln!(self.trace, "            {name}-{task:<6} [{cpu:03}] .....  1.{time:06}: {event}").unwrap();
        self
    }

    /// A line as it is.
    pub(crate) fn line(&mut self, line: &str) -> &mut Self {
        self.trace.push_str(line);
        self.trace.push('\n');
        self
    }

    /// A request and what the kernel answered; 0 if it failed.
    pub(crate) fn alloc(&mut self, pfn: u64, order: u8, gfp: &str) -> &mut Self {
        let migratetype = if gfp.contains("MOVABLE") || gfp.contains("TRANSHUGE") { 1 } else { 0 };
        let page = if pfn == 0 { 0 } else { 0xabcd_0000 + pfn };
        self.event(&format!(
            "mm_page_alloc: page={page:016x} pfn={pfn:#x} order={order} migratetype={migratetype} gfp_flags={gfp}"
        ))
    }

    pub(crate) fn free(&mut self, pfn: u64, order: u8) -> &mut Self {
        self.event(&format!("mm_page_free: page=00000000abcdabcd pfn={pfn:#x} order={order}"))
    }

    pub(crate) fn moved(&mut self, old: u64, new: u64) -> &mut Self {
        let address = |pfn: u64| 0xffff_ea00_0000_0000 + pfn * 64;
        self.event(&format!(
            "page_migrate: (folio_migrate_flags+0x0/0x2c0) new={:#x} old={:#x}",
            address(new),
            address(old)
        ))
    }

    /// The kernel empties the pageblock at `pfn` but for the page in it, which goes to `to`, and it has a free huge
    /// page.
    pub(crate) fn compacted(&mut self, page: u64, to: u64) -> &mut Self {
        self.moved(page, to).free(page, 0)
    }

    pub(crate) fn zoneinfo(&self) -> String {
        self.zones.iter().fold(String::new(), |text, zone| {
            let Zone { node, name, start, frames, free } = zone;
            let rest = ZONE.replace("FRAMES", &frames.to_string()).replace("START", &start.to_string());
            let marks = [("MIN", 1), ("LOW", 2), ("HIGH", 3)];
            let rest =
                marks.iter().fold(rest, |rest, (mark, times)| rest.replace(mark, &(times * self.min).to_string()));
            format!("{text}Node {node}, zone {name:>8}\n  pages free     {free}\n{rest}")
        })
    }

    pub(crate) fn kpageflags(&self) -> Vec<u8> {
        let end = self.zones.iter().map(|zone| zone.start + zone.frames).max().unwrap_or(0);
        let mut flags = vec![flag::NOPAGE; end as usize];
        for zone in &self.zones {
            flags[zone.start as usize..(zone.start + zone.frames) as usize].fill(flag::BUDDY);
        }
        for &(pfn, frames, bits) in &self.flags {
            flags[pfn as usize..(pfn + frames) as usize].fill(bits);
        }
        flags.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Writes the recording into a folder.
    pub(crate) fn write(&self, folder: &Path) {
        fs::write(folder.join("trace.txt"), &self.trace).unwrap();
        if !self.zones.is_empty() {
            fs::write(folder.join("zoneinfo"), self.zoneinfo()).unwrap();
        }
        if self.with_flags {
            fs::write(folder.join("kpageflags"), self.kpageflags()).unwrap();
        }
    }

    /// Replays from the text and again from the compact form, checks that both say the same and what must hold of every
    /// replay, and returns the report.
    pub(crate) fn replay(&self) -> Report {
        self.replay_under(&[Mechanisms::BASELINE])
    }

    pub(crate) fn replay_under(&self, mechanisms: &[Mechanisms]) -> Report {
        let folder = tempfile::tempdir().unwrap();
        self.write(folder.path());
        let compact = folder.path().join("compact");
        fs::create_dir(&compact).unwrap();
        let compact = compact.join("trace.fwt");
        framewright_trace::convert(folder.path(), &compact, &ReplayOptions::default().text).unwrap();
        let report = run(folder.path(), mechanisms).unwrap_or_else(|error| panic!("{error}\n{}", self.trace));
        let again = run(&compact, mechanisms).unwrap();
        assert_eq!(stripped(&report), stripped(&again), "text and compact form differ");
        for column in &report.columns {
            assert!(column.pages_conserved, "{column:?}\n{}", self.trace);
            assert_eq!(column.frees_refused, 0, "{column:?}\n{}", self.trace);
        }
        report
    }

    /// What is wrong with the recording.
    pub(crate) fn error(&self) -> ReplayError {
        let folder = tempfile::tempdir().unwrap();
        self.write(folder.path());
        run(folder.path(), &[]).expect_err("no error")
    }
}

pub(crate) fn run(path: &Path, mechanisms: &[Mechanisms]) -> Result<Report, ReplayError> {
    replay(path, &ReplayOptions::default(), mechanisms, &mut |_, _| {})
}

/// The report as JSON, without what differs from run to run.
pub(crate) fn stripped(report: &Report) -> serde_json::Value {
    let mut json = serde_json::to_value(report).unwrap();
    json["trace"] = "TRACE".into();
    let columns = json["columns"].as_array().map_or(0, Vec::len);
    json["framewright"]["events_per_second"] = 0.into();
    for i in 0..columns {
        json["columns"][i]["events_per_second"] = 0.into();
    }
    json
}

/// The folder of the project.
pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
