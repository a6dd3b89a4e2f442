//! Dealing blocks to threads at random.

/// A small pseudo-random generator (xorshift64*), so that a seed gives one shuffle on every machine.
pub(crate) struct Shuffle(u64);

impl Shuffle {
    pub(crate) fn new(seed: u64) -> Shuffle {
        Shuffle(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform below `bound`, but for a bias of less than 2^-32.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns the blocks in random order; each thread has as many as before.
    pub(crate) fn deal(&mut self, filled: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
        let mut all: Vec<u64> = filled.concat();
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i + 1));
        }
        let mut rest = all.into_iter();
        filled.iter().map(|blocks| rest.by_ref().take(blocks.len()).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dealing_keeps_blocks_and_hands() {
        let filled = vec![(0..100).collect::<Vec<u64>>(), (100..103).collect(), Vec::new()];
        let dealt = Shuffle::new(7).deal(filled.clone());
        assert_eq!(dealt.iter().map(Vec::len).collect::<Vec<_>>(), [100, 3, 0]);
        assert_ne!(dealt, filled);
        assert_eq!(dealt, Shuffle::new(7).deal(filled.clone()));
        let mut all = dealt.concat();
        all.sort_unstable();
        assert_eq!(all, filled.concat());
    }
}
