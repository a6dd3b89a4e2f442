//! The fixed size of per-CPU lists: `batch` and `high`, computed at boot.

/// Sizes of a zone's per-CPU lists, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PcpSize {
    /// Moved to or from the zone at a time.
    pub batch: u32,
    /// When a list's CPU has so many, some go back.
    pub high: u32,
}

impl PcpSize {
    /// The same sizes within what lists can have: a batch of 1 to 4,096 frames, a high of 1 to 2^24.
    #[inline]
    pub fn clamped(self) -> PcpSize {
        PcpSize { batch: self.batch.clamp(1, 1 << 12), high: self.high.clamp(1, 1 << 24) }
    }

    /// Linux's formula (6.1). `batch`: a thousandth of the zone, at most 1 MiB, a quarter of that, and then the number below a
    /// power of two, which keeps batches of different CPUs from walking through the cache in step. `high`: what lies
    /// below the low mark, shared by the CPUs of the node; at least four batches.
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
