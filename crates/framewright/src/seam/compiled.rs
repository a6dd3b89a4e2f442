//! What a machine's constant mechanisms rule out, as constants that remove code.
//!
//! [`Machine::MECHANISMS`] is read in two ways. A question about the mechanisms at work goes to the shared record
//! (`shared.rs::Shared::mechanisms`), or to the rules that a record keeps. Some code has no such question. It finds
//! its arrays empty, or a count 0, where its mechanism is off. Such code asks one of the constants here first. They are
//! true unless the machine was compiled for mechanisms that never need it.
//!
//! Cost: none. Where a machine has no constant mechanisms, the condition is `true`.

use crate::policy::features::Features;
use crate::policy::mechanisms::Mechanisms;
use crate::seam::machine::Machine;
use crate::types::migratetype::MigrateType;
use crate::types::request::Gfp;

macro_rules! compiled {
    ($( $(#[doc = $doc:literal])+ $name:ident = $question:ident; )+) => {
        /// What is known when an embedder is compiled; the description of this module explains it.
        pub(crate) trait Compiled {
            /// The mechanisms, if they are known.
            const FIXED: Option<Mechanisms>;
            /// The features.
            const PARTS: Features;
            $(
                $(#[doc = $doc])+
                const $name: bool = match Self::FIXED {
                    Some(fixed) => fixed.$question(),
                    None => true,
                };
            )+

            /// Whether a request may take the marked path.
            ///
            /// An embedder that leaves mobility out has no kernel's preset, and wants the least code.
            const MAY_TAKE_MARKED: bool = Self::PARTS.mobility && Self::MAY_BE_MARKED;

            /// Returns the type of the pageblocks that a request prefers.
            #[inline(always)]
            fn mobility_of(gfp: Gfp) -> MigrateType {
                Self::one_type(gfp.migratetype())
            }

            /// Returns the type; without mobility the one type that all pageblocks have.
            #[inline(always)]
            fn one_type(migratetype: MigrateType) -> MigrateType {
                if Self::PARTS.mobility { migratetype } else { MigrateType::Movable }
            }
        }
    };
}

compiled! {
    /// Whether per-CPU lists may serve requests and accept frees without a check.
    MAY_BE_FAST = allows_fast_path;
    /// Whether per-CPU lists may serve requests after a look at their zone's mark.
    MAY_BE_MARKED = allows_marked_path;
    /// Whether depots may have magazines.
    MAY_STORE = has_depot;
    /// Whether free blocks may stay unmerged.
    MAY_SKIP = skips_merging;
    /// Whether a free may take locks of ranges.
    MAY_LOCK_RANGES = locks_ranges;
    /// Whether zones may have clusters.
    MAY_CLUSTER = keeps_clusters;
    /// Whether CPUs may own pageblocks.
    MAY_OWN = owns_pageblocks;
    /// Whether CPUs may keep counts of their own.
    MAY_KEEP = keeps_counts;
    /// Whether the sizes of per-CPU lists may follow their use.
    MAY_TUNE = tunes_lists;
    /// Whether freed blocks may wait before their reuse.
    MAY_WAIT = is_hardened;
}

impl<M: Machine> Compiled for M {
    const FIXED: Option<Mechanisms> = M::MECHANISMS;
    const PARTS: Features = M::FEATURES;
}

/// Any machine: nothing is known before the configuration.
pub(crate) struct AnyMachine;

impl Compiled for AnyMachine {
    const FIXED: Option<Mechanisms> = None;
    const PARTS: Features = Features::ALL;
}
