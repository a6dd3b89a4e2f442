//! Dealing blocks to threads at random.

use framewright_ops::rng::Rng;

/// Returns the blocks in the random order of a seed; each thread has as many as before.
pub(crate) fn deal(seed: u64, filled: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    let mut all: Vec<u64> = filled.concat();
    Rng::new(seed).shuffle(&mut all);
    let mut rest = all.into_iter();
    filled.iter().map(|blocks| rest.by_ref().take(blocks.len()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dealing_keeps_blocks_and_hands() {
        let filled = vec![(0..100).collect::<Vec<u64>>(), (100..103).collect(), Vec::new()];
        let dealt = deal(7, filled.clone());
        assert_eq!(dealt.iter().map(Vec::len).collect::<Vec<_>>(), [100, 3, 0]);
        assert_ne!(dealt, filled);
        assert_eq!(dealt, deal(7, filled.clone()));
        let mut all = dealt.concat();
        all.sort_unstable();
        assert_eq!(all, filled.concat());
    }
}
