//! The sizes of a depot: how many shards and magazines, and how many frames they hold. Formulas, computed at boot.

use crate::pcp::ring_id::SMALL_RINGS;
use crate::policy::pcp_size::PcpSize;

/// Most entries of a magazine.
///
/// Their head bytes are 16 cache lines, if they come from one run.
pub(crate) const MAGAZINE: u32 = 1024;
/// Frames of a machine from which on magazines are the largest: 4 GiB of pages of 4 KiB.
const LARGE: u64 = 1 << 20;
/// Most frames that a CPU's share of a large zone adds to its lists' `high`.
///
/// Four huge pages of 2 MiB in pages of 4 KiB.
const HIGH: u64 = 1 << 11;
/// Most shards of a zone's depot.
const SHARDS: usize = 64;

/// Entries up to which a depot may have room for all of its zone: 4.5 GiB of pages of 4 KiB.
///
/// The eighth is for the magazines of the CPUs' rings. Pages freed in random order that find no room in the depot cost
/// 26 times as much, because each merges at once (`rand` of 4 GiB with a limit of 1.125 GiB).
const SMALL: u64 = (1 << 20) + (1 << 17);
/// Entries that the depot of the smallest zone may have: 64 KiB.
const LEAST: u64 = 1 << 14;
/// Frames of a large zone for each entry of its depot.
///
/// So that entries take 0.0015 % of memory. A CPU of a machine of 1 TiB and 256 CPUs still finds room for 16,384 pages.
const FRAMES_PER_ENTRY: u64 = 64;

/// Returns the shards of each zone on a machine with `cpus` CPUs.
pub(crate) const fn shards(cpus: usize) -> usize {
    if cpus < SHARDS { cpus } else { SHARDS }
}

/// Returns the most frames that a magazine of a zone holds, on a machine with `managed` frames.
///
/// This is half of what its lists' `high` allows, since a ring has two magazines. Up to 4 GiB it grows with the square
/// of memory, from 64 at 1 GiB: what lies between CPUs and a small zone keeps more of the zone from merging. In all
/// zones it is the same where `high` allows that, because all have entries for the largest.
#[inline]
pub(crate) fn frames_of(size: PcpSize, managed: u64) -> u32 {
    let memory = managed.min(LARGE);
    let share = (memory.saturating_mul(memory) / (LARGE * LARGE / MAGAZINE as u64)) as u32;
    (size.high / 2).min(least_frames(size).max(share)).max(1)
}

/// Returns the frames that a magazine has with memory of any size, where `high` allows it.
fn least_frames(size: PcpSize) -> u32 {
    (size.high.saturating_add(size.batch) / 2).clamp(2, 64)
}

/// Returns the default `high` next to a depot, where Linux's formula gives `size`.
///
/// It is the largest of `size.high`, two magazines of [`least_frames`], and a CPU's share of an eighth of the zone. The
/// share counts up to [`HIGH`].
#[inline]
pub(crate) fn high_of(size: PcpSize, managed: u64, cpus: u64) -> PcpSize {
    let share = (managed / 8).checked_div(cpus).unwrap_or(0).min(HIGH) as u32;
    PcpSize { high: size.high.max(least_frames(size).saturating_mul(2)).max(share), ..size }
}

/// Returns the most magazines that a shard may have, so that their entries take little memory.
///
/// At least one: a shard without magazines serves nobody.
pub(crate) fn most_magazines(present: u64, entries: u32, shards: usize) -> u64 {
    let most = present.saturating_mul(8).clamp(LEAST, SMALL).max(present / FRAMES_PER_ENTRY);
    let each = u64::from(entries).saturating_mul(shards as u64);
    most.checked_div(each).unwrap_or(0).max(1)
}

/// Returns the magazines that each of `shards` shards has, of `frames` frames each.
///
/// Together they hold `stored` single frames, and two magazines for each ring of each CPU. [`most_magazines`] is a
/// further limit.
pub(crate) fn magazines(stored: u64, frames: u32, shards: usize, cpus: usize) -> u64 {
    let each = u64::from(frames).saturating_mul(shards as u64);
    let cpus_each = cpus.div_ceil(shards.max(1)) as u64;
    let stored = stored.checked_div(each).unwrap_or(0);
    stored.saturating_add(cpus_each.saturating_mul(2 * SMALL_RINGS as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `high` of one of a zone's CPUs, and frames of its magazines, where Linux's formula gives a `high` of `linux`.
    fn sizes(mib: u64, cpus: u64, batch: u32, linux: u32) -> (u32, u32) {
        let managed = mib << 8;
        let size = high_of(PcpSize { batch, high: linux }, managed, cpus);
        (size.high, frames_of(size, managed))
    }

    #[test]
    fn magazines_grow_with_memory_and_are_half_of_high() {
        for (mib, cpus, batch, linux, expected) in [
            (1, 1, 1, 4, (32, 16)),
            (64, 1, 3, 40, (2048, 64)),
            (1 << 10, 2, 63, 252, (2048, 64)),
            (1 << 10, 256, 63, 252, (252, 64)),
            (2 << 10, 2, 63, 252, (2048, 256)),
            (4 << 10, 4, 63, 378, (2048, 1024)),
            (4 << 10, 128, 63, 252, (1024, 512)),
            (1 << 20, 256, 63, 252, (2048, 1024)),
            (16 << 20, 1 << 14, 63, 252, (2048, 1024)),
        ] {
            assert_eq!(sizes(mib, cpus, batch, linux), expected, "{mib} MiB, {cpus} CPUs");
        }
    }

    /// Also where memory and `high` are smallest.
    #[test]
    fn a_zone_of_any_size_has_magazines() {
        for high in 1..256 {
            assert!(frames_of(PcpSize { batch: 1, high }, 0) >= 1);
            assert!(frames_of(high_of(PcpSize { batch: 1, high }, 0, 1), 0) >= 1);
        }
    }
}
