//! Times of everything but the allocator, on a CPU or on the disk.
//!
//! One time was measured for this project. The speed of the disk follows from the length of the published run. The
//! others are assumed. The first two were corrected when the published tables were known (`docs/lab/fragmentation.md`).
//! Fragmentation depends more on the order of events than on their times; latencies depend on the times.

use crate::model::{NS, Ps, S, US};

/// To copy a page of 4 KiB. Assumed: 10 GB/s, as one core writes (`data/machines/skylake-desktop.toml`).
pub(super) const COPY: Ps = 400 * NS;
/// A `write` or `read` of a page that is in the cache, besides the copy: entry, lookup, exit, and fio's own loop.
/// Assumed.
pub(super) const CALL: Ps = 1_500 * NS;
/// To create a file: directory, inode, transaction. Assumed.
pub(super) const CREATE: Ps = 30 * US;
/// To open a file that exists. Assumed.
pub(super) const OPEN: Ps = 3 * US;
/// To allocate or free an object of a slab. Assumed.
pub(super) const OBJECT: Ps = 50 * NS;
/// To scan a page of a list: isolate it, and put it back or free it. Assumed.
pub(super) const SCAN: Ps = 100 * NS;
/// To remove a clean page from the cache, besides scanning and freeing it.
///
/// Background reclaim of Linux 6.18 took 1.0 us of a CPU for each of 10.9 million pages of one file that were read once
/// (EPYC, virtual machine).
pub(super) const DROP: Ps = 800 * NS;
/// To scan an object that a shrinker may free. Assumed.
pub(super) const SHRINK: Ps = 150 * NS;
/// To move a page besides the copy: unmapping, and telling other CPUs. Assumed.
pub(super) const MOVE: Ps = US;
/// A fault besides the allocator and zeroing: 2,500 cycles of 2.5 GHz, as in `page-fault1`.
pub(super) const FAULT: Ps = US;
/// To prepare and to complete the writing of a file's pages: block mapping, bio, interrupt. Assumed.
pub(super) const SUBMIT: Ps = 5 * US;
/// To format an inode into the log. Assumed.
pub(super) const LOG: Ps = US;

/// The disk, a SATA SSD of 2018: latency and bytes a second of a read. Assumed: the machines' disks are not named.
const READ_LATENCY: Ps = 100 * US;
const READ: u64 = 500_000_000;
/// Bytes a second of a write.
///
/// The published run on one socket took 16 minutes, and reading takes as long as writing. So 96 GiB were written in
/// less than eight.
const WRITE: u64 = 230_000_000;

/// Returns the time to read `pages` pages that lie together.
pub(super) fn to_read(pages: u64) -> Ps {
    READ_LATENCY + pages * 4096 * (S / READ)
}

/// Returns the time to write `pages` pages.
pub(super) fn to_write(pages: u64) -> Ps {
    pages * 4096 * (S / WRITE)
}
