//! The rules of the allocator's slow path, by the kernel that changed them.
//!
//! | since | rule |
//! |---|---|
//! | 2.6.32 | `__GFP_HIGH` keeps half of the mark; a request that cannot wait a quarter less |
//! | | for each smaller order, its free blocks do not count, and the mark is halved |
//! | 2.6.38 | `__GFP_NOMEMALLOC` takes the right to the quarter away |
//! | 3.7 | free frames of contiguous memory areas count for movable requests only |
//! | 3.10 | the loop over orders counts them for every request |
//! | 4.4 | instead of the loop: one block of the order, of a type that the request may take |
//! | | the reserve for high orders does not count; the quarter is for `__GFP_ATOMIC` |
//! | 5.9 | an atomic request for one frame keeps the mark without its boost |
//! | 6.3 | a request that cannot wait counts the reserve for high orders; with `__GFP_HIGH` it has the quarter |
//! | 6.12 | of that reserve, only the free frames do not count |
//! | | a request for one frame that cannot wait may take them |
//!
//! Source: `__zone_watermark_ok`, `gfp_to_alloc_flags` and `rmqueue_buddy` of these kernels. 6.1.192 has the rules of
//! 6.3 and the last one of 6.12. It takes a request for atomic by `__GFP_ATOMIC`, as 5.9 does.

use framewright::Gfp;
use framewright::request::{
    __GFP_ATOMIC, __GFP_DIRECT_RECLAIM, __GFP_HIGH, __GFP_MEMALLOC, __GFP_MOVABLE, __GFP_NOMEMALLOC,
};
use framewright_trace::flags::KernelVersion;
use serde::Serialize;

/// The rules of a range of kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    since: KernelVersion,
    /// A maintained 6.1: it has the rights of 6.3, but still `__GFP_ATOMIC`.
    knows_atomic: bool,
    /// A request for one frame that cannot wait may take one of the reserve for high orders.
    frees_highatomic: bool,
}

/// The rules of the kernel that changed them.
const fn rules(since: KernelVersion) -> Rules {
    Rules { since, knows_atomic: false, frees_highatomic: since.major > 6 || (since.major == 6 && since.minor >= 12) }
}

/// Kernels that changed a rule.
const CHANGES: [KernelVersion; 8] = [
    KernelVersion { major: 2, minor: 6, patch: 32 },
    KernelVersion { major: 2, minor: 6, patch: 38 },
    KernelVersion::new(3, 7),
    KernelVersion::new(3, 10),
    KernelVersion::new(4, 4),
    KernelVersion::new(5, 9),
    KernelVersion::new(6, 3),
    KernelVersion::new(6, 12),
];

impl Rules {
    /// Returns the rules of a kernel.
    pub fn of(version: KernelVersion) -> Rules {
        let since = CHANGES.into_iter().rev().find(|&change| change <= version);
        rules(since.unwrap_or(CHANGES[0]))
    }

    /// Returns the rules that a kernel may have, the most likely first; all from `oldest` on if it is unknown.
    pub fn candidates(version: Option<KernelVersion>, oldest: KernelVersion) -> Vec<Rules> {
        let Some(version) = version else {
            let since = Rules::of(oldest).since;
            return CHANGES.into_iter().rev().filter(|&change| change >= since).map(rules).collect();
        };
        let own = Rules::of(version);
        let maintained = Rules { knows_atomic: true, frees_highatomic: true, ..rules(KernelVersion::new(6, 3)) };
        // A distribution's release names the patch level as 0.
        match (version.major, version.minor, version.patch) {
            (6, 1, 160..) => vec![maintained],
            (6, 1, 0 | 120..) => vec![maintained, own],
            (6, 6, 0 | 60..) => vec![own, Rules { frees_highatomic: true, ..own }],
            _ => vec![own],
        }
    }

    /// Returns the first kernel with these rules.
    pub fn since(self) -> KernelVersion {
        self.since
    }

    fn from(self, major: u32, minor: u32) -> bool {
        self.since >= KernelVersion::new(major, minor)
    }

    /// Whether each smaller order is checked too.
    pub(crate) fn loops(self) -> bool {
        !self.from(4, 4)
    }

    /// Whether free frames of contiguous memory areas count for movable requests only.
    pub(crate) fn knows_cma(self) -> bool {
        self.from(3, 7)
    }

    /// Whether they do not count in the loop either.
    pub(crate) fn loop_leaves_cma_out(self) -> bool {
        self.knows_cma() && !self.from(3, 10)
    }

    /// Whether there is a reserve for high orders.
    pub(crate) fn knows_highatomic(self) -> bool {
        self.from(4, 4)
    }

    /// Whether only the free frames of that reserve are left out.
    pub(crate) fn counts_free_highatomic(self) -> bool {
        self.from(6, 12)
    }
}

/// What a request may take beyond the ordinary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Rights {
    /// No mark counts.
    pub no_watermarks: bool,
    /// It keeps half of the mark.
    pub half: bool,
    /// It keeps a quarter less of what it keeps.
    pub quarter: bool,
    /// The reserve for high orders counts as free for it.
    pub counts_highatomic: bool,
    /// It may take a block of that reserve.
    pub takes_highatomic: bool,
    /// It may take a block of a contiguous memory area.
    pub takes_cma: bool,
    /// It keeps the mark without its boost.
    pub ignores_boost: bool,
}

impl Rights {
    /// Returns the rights of a request in the slow path; `memalloc`: the task is freeing memory (`PF_MEMALLOC`).
    pub fn of(rules: Rules, gfp: Gfp, order: u8, memalloc: bool) -> Rights {
        let waits = gfp.contains(__GFP_DIRECT_RECLAIM);
        let high = gfp.contains(__GFP_HIGH);
        let nomemalloc = gfp.contains(__GFP_NOMEMALLOC);
        let takes_cma = gfp.contains(__GFP_MOVABLE);
        let no_watermarks = !nomemalloc && (memalloc || gfp.contains(__GFP_MEMALLOC));
        let rights = Rights { no_watermarks, half: high, takes_cma, ..Rights::default() };
        if rules.from(6, 3) {
            let nonblock = !waits && !nomemalloc;
            let atomic = nonblock && high;
            return Rights {
                quarter: atomic,
                counts_highatomic: nonblock || high,
                takes_highatomic: if order > 0 { atomic } else { nonblock && rules.frees_highatomic },
                ignores_boost: order == 0 && if rules.knows_atomic { gfp.contains(__GFP_ATOMIC) } else { high },
                ..rights
            };
        }
        if rules.from(4, 4) {
            let atomic = gfp.contains(__GFP_ATOMIC);
            let harder = atomic && !nomemalloc;
            return Rights {
                quarter: harder,
                counts_highatomic: harder,
                takes_highatomic: harder && order > 0,
                ignores_boost: rules.from(5, 9) && order == 0 && atomic,
                ..rights
            };
        }
        let honours_nomemalloc = rules.since >= CHANGES[1];
        Rights { quarter: !(waits || nomemalloc && honours_nomemalloc), ..rights }
    }

    /// Returns the rights without reserves, which a request with `no_watermarks` tries first.
    pub fn ordinary(self) -> Rights {
        Rights { no_watermarks: false, ..self }
    }

    /// Returns the rights that replace all others once no mark counts.
    pub fn reserves(self) -> Rights {
        Rights { no_watermarks: true, takes_cma: self.takes_cma, counts_highatomic: true, ..Rights::default() }
    }

    /// Returns the rights of the OOM killer's last try: none, not even to contiguous memory areas.
    pub fn of_last_try() -> Rights {
        Rights::default()
    }

    /// Returns the part of a mark that the request must leave, in frames.
    pub fn keep(self, mark: u64) -> u64 {
        let mut keep = mark;
        if self.half {
            keep -= keep / 2;
        }
        if self.quarter {
            keep -= keep / 4;
        }
        keep
    }

    /// Says how much of the min mark the request must leave.
    pub fn in_words(self) -> &'static str {
        match (self.no_watermarks, self.half, self.quarter) {
            (true, ..) => "may use all reserves",
            (_, true, true) => "keeps 3/8 of the min mark",
            (_, true, false) => "keeps half of the min mark",
            (_, false, true) => "keeps 3/4 of the min mark",
            (..) => "keeps the whole min mark",
        }
    }
}

#[cfg(test)]
mod tests {
    use framewright::request::{GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT};

    use super::*;

    fn rights(kernel: (u32, u32), gfp: Gfp, order: u8) -> Rights {
        Rights::of(Rules::of(KernelVersion::new(kernel.0, kernel.1)), gfp, order, false)
    }

    #[test]
    fn each_era_gives_its_rights() {
        for kernel in [(3, 10), (4, 19), (6, 1), (6, 6), (6, 12)] {
            assert_eq!(rights(kernel, GFP_ATOMIC, 0).keep(1_001), 376, "{kernel:?}");
            assert_eq!(rights(kernel, GFP_KERNEL, 0).keep(1_001), 1_001, "{kernel:?}");
        }
        assert_eq!(rights((3, 10), GFP_NOWAIT, 0).keep(1_000), 750);
        assert_eq!(rights((6, 6), GFP_NOWAIT, 0).keep(1_000), 1_000);
        assert!(rights((6, 6), GFP_NOWAIT, 0).counts_highatomic && !rights((4, 19), GFP_NOWAIT, 0).counts_highatomic);
        assert!(rights((6, 12), GFP_ATOMIC, 0).takes_highatomic && !rights((6, 6), GFP_ATOMIC, 0).takes_highatomic);
        assert!(rights((4, 4), GFP_ATOMIC, 1).takes_highatomic && !rights((4, 4), GFP_ATOMIC, 0).takes_highatomic);
        assert!(rights((5, 9), GFP_ATOMIC, 0).ignores_boost && !rights((5, 8), GFP_ATOMIC, 0).ignores_boost);
        let exempt = GFP_ATOMIC | __GFP_NOMEMALLOC;
        assert_eq!(rights((4, 4), exempt, 0).keep(1_000), 500);
        assert_eq!(Rights::of(rules(CHANGES[0]), exempt, 0, false).keep(1_000), 375);
    }

    #[test]
    fn an_unknown_kernel_has_all_rules_that_are_left() {
        assert_eq!(Rules::candidates(None, KernelVersion::new(5, 11)).len(), 3);
        assert_eq!(Rules::candidates(Some(KernelVersion::new(6, 1)), CHANGES[0]).len(), 2);
        assert_eq!(Rules::candidates(Some(KernelVersion::new(5, 15)), CHANGES[0]).len(), 1);
    }
}
