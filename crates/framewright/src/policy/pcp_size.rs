//! Fixed size of per-CPU lists: `batch` and `high`, computed at boot.

/// Sizes of a zone's per-CPU lists, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PcpSize {
    /// Frames that one refill or drain moves.
    pub batch: u32,
    /// Number of frames on a CPU's lists at which it frees a batch.
    pub high: u32,
}

impl PcpSize {
    /// Returns the sizes clamped to valid ones.
    ///
    /// A batch has 1 to 4,096 frames, a high has 1 to 2^24.
    #[inline]
    pub fn clamped(self) -> PcpSize {
        PcpSize { batch: self.batch.clamp(1, 1 << 12), high: self.high.clamp(1, 1 << 24) }
    }

    /// Returns the sizes by Linux's formula (6.1).
    ///
    /// `batch` is a thousandth of the zone, at most 1 MiB, and of that a quarter. It is then rounded to the number
    /// below a power of two. Batches of different CPUs therefore do not walk through the cache in step.
    ///
    /// `high` is the low mark divided by the CPUs of the node, and at least four batches.
    pub fn compute(managed: u64, low: u64, cpus: u64, page_shift: u8) -> PcpSize {
        let mebibyte = 1_u64 << 20_u32.saturating_sub(u32::from(page_shift));
        let quarter = ((managed >> 10).min(mebibyte) / 4).max(1);
        let scaled = quarter.saturating_add(quarter / 2);
        let below_power = (1_u64 << (63_u32.saturating_sub(scaled.leading_zeros()))).saturating_sub(1).max(1);
        let batch = below_power.min(1 << 12) as u32;
        let share = low.checked_div(cpus).unwrap_or(low).min(managed).min(1 << 24) as u32;
        PcpSize { batch, high: share.max(batch.saturating_mul(4)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes for zones of 4 KiB pages: 63 frames from 1 GiB on.
    #[test]
    fn batches_grow_with_the_zone() {
        for (managed, low, cpus, batch, high) in [
            (1, 0, 1, 1, 4),
            (10_000, 100, 1, 1, 100),
            (100_000, 200, 4, 31, 124),
            (262_144, 8_000, 4, 63, 2_000),
            (1 << 30, 8_000, 0, 63, 8_000),
            (100, 1_000, 1, 1, 100),
        ] {
            assert_eq!(PcpSize::compute(managed, low, cpus, 12), PcpSize { batch, high }, "{managed}");
        }
        assert_eq!(PcpSize::compute(1 << 40, 1 << 40, 1, 6), PcpSize { batch: 4_095, high: 1 << 24 });
        assert_eq!(PcpSize::compute(1 << 40, 0, 1, 16), PcpSize { batch: 3, high: 12 });
    }

    #[test]
    fn sizes_are_clamped() {
        let clamped = |batch, high| PcpSize { batch, high }.clamped();
        assert_eq!(clamped(0, 0), PcpSize { batch: 1, high: 1 });
        assert_eq!(clamped(4_096, 1 << 24), PcpSize { batch: 4_096, high: 1 << 24 });
        assert_eq!(clamped(4_097, (1 << 24) + 1), PcpSize { batch: 4_096, high: 1 << 24 });
    }
}
