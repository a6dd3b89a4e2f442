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
