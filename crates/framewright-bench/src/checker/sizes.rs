//! How much memory each measurement walks through, by the sizes of the caches.

use super::host::Caches;

const MIB: usize = 1 << 20;

/// Bytes of the walks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) l1: usize,
    pub(super) l2: usize,
    pub(super) llc: usize,
    pub(super) dram: usize,
    /// What each CPU streams through.
    pub(super) stream: usize,
}

impl Sizes {
    /// Chooses sizes that lie in one cache each, and well beyond all of them.
    ///
    /// `available` is what the machine can spare, of which a walk through memory takes an eighth at most, and all
    /// streams together another.
    pub(super) fn of(caches: Caches, available: usize, cpus: usize, is_quick: bool) -> Sizes {
        let Caches { l1, l2, llc, llc_of_node } = caches;
        let most = if is_quick { 256 * MIB } else { 1024 * MIB };
        let beyond = (4 * llc).max(64 * MIB);
        Sizes {
            l1: l1 / 2,
            l2: (l2 / 2).max(l1 * 2).min(l2),
            // A quarter: in a virtual machine, neighbours have part of it.
            llc: (llc / 4).max(2 * l2).min(llc),
            dram: beyond.min(most.max(2 * llc)).min(available / 8),
            stream: (2 * llc * llc_of_node / cpus.max(1)).max(32 * MIB).min(available / 8 / cpus.max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_lie_in_their_caches_and_beyond() {
        let kib = |l1: usize, l2: usize, llc: usize, llc_of_node| Caches {
            l1: l1 << 10,
            l2: l2 << 10,
            llc: llc << 10,
            llc_of_node,
        };
        let machines =
            [kib(32, 1024, 39424, 1), kib(48, 2048, 107_520, 1), kib(32, 512, 8192, 2), kib(64, 1024, 1024, 1)];
        for (caches, is_quick) in machines.into_iter().flat_map(|caches| [(caches, false), (caches, true)]) {
            let sizes = Sizes::of(caches, 64 << 30, 64, is_quick);
            assert!(sizes.l1 < caches.l1, "{caches:?} {sizes:?}");
            assert!((2 * caches.l1..=caches.l2).contains(&sizes.l2), "{caches:?} {sizes:?}");
            assert!(sizes.llc <= caches.llc && sizes.llc >= caches.l2, "{caches:?} {sizes:?}");
            assert!(sizes.dram >= 2 * caches.llc, "{caches:?} {sizes:?}");
        }
        // A small machine is not brought down.
        let sizes = Sizes::of(kib(32, 1024, 39424, 1), 256 * MIB, 2, false);
        assert!(sizes.dram <= 32 * MIB && sizes.stream * 2 <= 32 * MIB, "{sizes:?}");
    }
}
