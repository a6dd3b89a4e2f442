//! The options of `thpfioscale`, and the choices that they offer.

use std::str::FromStr;

use framewright::request::{__GFP_DIRECT_RECLAIM, __GFP_NORETRY, GFP_TRANSHUGE, GFP_TRANSHUGE_LIGHT, Gfp};

use crate::settings::{Choice, SpecError, Value, read_all, settings};

/// How huge pages are requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Config {
    /// Huge pages always, `defrag` with `madvise`, and no process advises: no fault waits.
    Default,
    /// As `Default`, but the process advises `MADV_HUGEPAGE`: faults compact and reclaim.
    Madvise,
    /// `defrag` always: each fault compacts once.
    Defrag,
}

impl Choice for Config {
    const NAMES: &'static [(&'static str, Config)] =
        &[("default", Config::Default), ("madvise", Config::Madvise), ("defrag", Config::Defrag)];
}

impl Config {
    /// Returns the flags of a request for a huge page (Linux 4.20, `alloc_hugepage_direct_gfpmask`).
    pub(super) fn gfp(self) -> Gfp {
        match self {
            Config::Default => GFP_TRANSHUGE_LIGHT,
            Config::Madvise => GFP_TRANSHUGE_LIGHT | __GFP_DIRECT_RECLAIM,
            Config::Defrag => GFP_TRANSHUGE | __GFP_NORETRY,
        }
    }
}

/// Other load of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// fio writes and reads files.
    Files,
    /// Sources are compiled.
    Build,
    /// Files are sent to clients.
    Network,
}

impl Choice for Load {
    const NAMES: &'static [(&'static str, Load)] =
        &[("files", Load::Files), ("build", Load::Build), ("network", Load::Network)];
}

/// How many objects shrinkers scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shrinkers {
    /// At least one batch of each cache's objects each time, but no inode with more than one page in memory.
    ///
    /// Linux 4.19-rc5 to 5.0-rc6, and 4.20-rc3 to 5.0-rc6 (commits 172b06c32b94 and a76cf1a474d7, both reverted).
    Batch,
    /// Twice the share of objects that is scanned of the pages: Linux before and after.
    Share,
}

impl Choice for Shrinkers {
    const NAMES: &'static [(&'static str, Shrinkers)] = &[("batch", Shrinkers::Batch), ("share", Shrinkers::Share)];
}

/// How slabs get their pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slabs {
    /// Several at a time, or one if there is no larger block.
    Slub,
    /// One at a time.
    Single,
}

impl Choice for Slabs {
    const NAMES: &'static [(&'static str, Slabs)] = &[("slub", Slabs::Slub), ("single", Slabs::Single)];
}

/// The size of what does not grow with memory.
///
/// That is the marks, per-CPU lists, the log, and the memory that the kernel has from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marks {
    /// Its share of a node of 64 GiB; of 16 GiB for marks.
    Scaled,
    /// Its real size, as Linux would choose it for this memory.
    Own,
}

impl Choice for Marks {
    const NAMES: &'static [(&'static str, Marks)] = &[("scaled", Marks::Scaled), ("own", Marks::Own)];
}

impl Value for u64 {
    fn form(range: &std::ops::RangeInclusive<u32>) -> String {
        <u32 as Value>::form(range)
    }

    fn read(text: &str, range: &std::ops::RangeInclusive<u32>) -> Option<u64> {
        <u32 as Value>::read(text, range).map(u64::from)
    }

    fn show(self) -> String {
        self.to_string()
    }
}

settings! {
    /// Options of `thpfioscale`.
    Thpfioscale {
        mib: u32 = 1024, 64..=262_144, "memory of the machine, in MiB, on all nodes alike";
        config: Config = Config::Default, 0..=2, "how huge pages are asked for: default, madvise or defrag";
        rounds: u32 = 1, 1..=1_000, "how often files are written, read and deleted";
        load: Load = Load::Files, 0..=2, "what the machine does besides: fio writes and reads files (files), sources \
            are compiled (build), files are sent to clients (network)";
        readers: bool = true, 0..=1, "whether it goes on with that while huge pages are wanted";
        log: u32 = 220_000, 1..=100_000_000,
            "inodes in the log when it is written, 1 KiB of unmovable memory each: an eighth of a log of 512 MiB, 300 \
                bytes each there (assumed); on a small disk 20480 were seen";
        slabs: Slabs = Slabs::Single, 0..=1, "slabs of one page each (single: SLAB), or of several where there are \
            some (slub)";
        shrinkers: Shrinkers = Shrinkers::Batch, 0..=1, "how hard reclaim presses shrinkers: a batch of objects at \
            least, but not files with pages in memory (batch: Linux 4.20), or their share (share: before and after)";
        marks: Marks = Marks::Scaled, 0..=1, "what does not grow with memory: the share that it is on a node of 64 \
            GiB, marks of 16 GiB (scaled), or as it is (own)";
        low: u32 = 0, 0..=4_096, "MiB of the first node below the gap at 4 GiB, of which 16 are zone DMA; 0: the \
            share that it is on a node of 64 GiB";
        min_free: u32 = 0, 0..=100_000_000, "KiB of the machine that are to stay free (min_free_kbytes); 0: what \
            khugepaged makes of it";
        held: u32 = 0, 0..=1_000_000, "pages that the kernel has from the start besides slabs, unmovable: stacks, \
            modules, per-CPU data";
        seed: u64 = 1, 0..=u32::MAX, "seed of all that is random";
    }
}

impl FromStr for Thpfioscale {
    type Err = SpecError;

    /// Options as `mib=1024,config=madvise`.
    fn from_str(text: &str) -> Result<Thpfioscale, SpecError> {
        if text.is_empty() { Ok(Thpfioscale::default()) } else { read_all("thpfioscale", text) }
    }
}
