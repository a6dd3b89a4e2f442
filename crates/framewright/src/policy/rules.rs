//! Rules: what the chosen mechanisms mean for the code, one pure function for each question.
//!
//! The layers above ask a question instead of comparing a switch. So each switch is read here, and where its choices
//! are carried out. A record that answers a question at every call keeps the answers, as one of the structs below. Boot
//! sets them once, and nothing changes them.
//!
//! | record | keeps | set by |
//! |---|---|---|
//! | `Pcp` | [`ListRules`] | [`Mechanisms::list_rules`], through `PcpPlan` |
//! | `Cpu` | `has_fast_path` | [`Mechanisms::allows_fast_path`], if the machine's fences and interrupts allow it too |
//! | `ZoneCounters` | [`CounterRules`] | [`Mechanisms::counter_rules`] |
//! | `ZoneDiffs` | [`NumaRules`] | [`Mechanisms::numa_rules`] |
//!
//! Cost: a comparison of a byte that no CPU writes. Where the machine's mechanisms are a constant there is none: each
//! function is inlined, so that the compiler knows its result and removes the other choice's code.

use crate::policy::mechanisms::{
    Compaction, Depot, FreePath, Hardened, Mechanisms, Nofragment, NumaStat, PcpMark, PcpProtection, PcpSizing, Refill,
    Threshold, ZoneStat,
};

/// Rules of a CPU's lists of one zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ListRules {
    /// Whether the lists exchange magazines with a depot.
    pub(crate) has_depot: bool,
    /// Whether the fast path may use the lists; false until boot has asked the machine.
    pub(crate) has_fast_path: bool,
    pub(crate) protection: PcpProtection,
}

/// Rules of a zone's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CounterRules {
    /// Whether CPUs keep deltas of the numbers of free frames.
    pub(crate) has_deltas: bool,
    /// Whether marks may rise when mobilities are mixed.
    pub(crate) has_boost: bool,
}

/// Rules of the NUMA counters that a CPU keeps for a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NumaRules {
    pub(crate) kind: NumaStat,
    /// Events that a CPU keeps before it tells the zone.
    pub(crate) threshold: Threshold,
}

impl Mechanisms {
    /// Returns the rules of a CPU's lists, with a fast path if the machine has one too.
    #[inline(always)]
    pub(crate) const fn list_rules(&self, machine_has_fast_path: bool) -> ListRules {
        let has_fast_path = machine_has_fast_path && self.allows_fast_path();
        ListRules { has_depot: self.has_depot(), has_fast_path, protection: self.pcp_protection }
    }

    /// Returns the rules of a zone's counters.
    #[inline(always)]
    pub(crate) const fn counter_rules(&self) -> CounterRules {
        CounterRules { has_deltas: self.keeps_deltas(), has_boost: self.boosts_marks() }
    }

    /// Returns the rules of the NUMA counters that a CPU keeps for a zone.
    #[inline(always)]
    pub(crate) const fn numa_rules(&self) -> NumaRules {
        NumaRules { kind: self.numa_stat, threshold: self.numa_threshold }
    }

    /// Returns whether no mechanism asks anything of a request or a free that a per-CPU list could serve.
    ///
    /// Three conditions. No mechanism needs a check. The frames of a list need not be counted together with those of
    /// the CPU's other lists. No interrupt uses the lists.
    #[inline(always)]
    pub(crate) const fn allows_fast_path(&self) -> bool {
        let counts = !matches!(self.numa_stat, NumaStat::Derived | NumaStat::Off);
        self.has_depot() && self.needs_interrupts_apart() && !self.marks_bind_cached() && !self.is_hardened() && !counts
    }

    /// Returns whether a per-CPU list may serve a request after no check but that of its zone's mark.
    #[inline(always)]
    pub(crate) const fn allows_marked_path(&self) -> bool {
        self.marks_bind_cached() && !self.is_hardened()
    }

    /// Returns whether interrupts must have lists of their own, or never call the allocator.
    #[inline(always)]
    pub(crate) const fn needs_interrupts_apart(&self) -> bool {
        matches!(self.pcp_protection, PcpProtection::OwnLists)
    }

    /// Returns whether a depot lies between the per-CPU lists and the zone.
    #[inline(always)]
    pub(crate) const fn has_depot(&self) -> bool {
        !matches!(self.depot, Depot::Off)
    }

    /// Returns whether the sizes of per-CPU lists follow their use.
    #[inline(always)]
    pub(crate) const fn tunes_lists(&self) -> bool {
        matches!(self.pcp_size, PcpSizing::Tuned)
    }

    /// Returns whether a cached block may be used only above the request's mark.
    #[inline(always)]
    pub(crate) const fn marks_bind_cached(&self) -> bool {
        matches!(self.pcp_mark, PcpMark::EveryRequest)
    }

    /// Returns whether free blocks may stay unmerged.
    #[inline(always)]
    pub(crate) const fn skips_merging(&self) -> bool {
        !matches!(self.free_path, FreePath::MergeUnderLock)
    }

    /// Returns whether a free takes locks of ranges of frames.
    #[inline(always)]
    pub(crate) const fn locks_ranges(&self) -> bool {
        matches!(self.free_path, FreePath::RangeLocks)
    }

    /// Returns whether CPUs own pageblocks.
    #[inline(always)]
    pub(crate) const fn owns_pageblocks(&self) -> bool {
        matches!(self.refill, Refill::Pageblocks)
    }

    /// Returns whether each list keeps account of runs of neighbours.
    #[inline(always)]
    pub(crate) const fn keeps_clusters(&self) -> bool {
        matches!(self.refill, Refill::Cluster)
    }

    /// Returns whether freed memory is filled, waits, and is checked before its reuse.
    #[inline(always)]
    pub(crate) const fn is_hardened(&self) -> bool {
        !matches!(self.hardened, Hardened::Off)
    }

    /// Returns whether freed memory is filled with zeros.
    #[inline(always)]
    pub(crate) const fn zeroes_freed(&self) -> bool {
        matches!(self.hardened, Hardened::Zero)
    }

    /// Returns whether CPUs keep deltas of the counters of zones and nodes.
    #[inline(always)]
    pub(crate) const fn keeps_deltas(&self) -> bool {
        matches!(self.zone_stat, ZoneStat::Differentials)
    }

    /// Returns whether CPUs keep some of their counts to themselves.
    #[inline(always)]
    pub(crate) const fn keeps_counts(&self) -> bool {
        self.keeps_deltas() || self.numa_stat.has_differentials()
    }

    /// Returns whether NUMA counters exist.
    #[inline(always)]
    pub(crate) const fn counts_numa(&self) -> bool {
        !matches!(self.numa_stat, NumaStat::Off)
    }

    /// Returns whether mobilities are mixed only when nothing else is left.
    #[inline(always)]
    pub(crate) const fn mixes_last(&self) -> bool {
        matches!(self.nofragment, Nofragment::Enforced)
    }

    /// Returns whether marks rise when mobilities are mixed.
    #[inline(always)]
    pub(crate) const fn boosts_marks(&self) -> bool {
        self.watermark_boost.get() != 0
    }

    /// Returns whether memory in use is moved to make large blocks free.
    #[inline(always)]
    pub(crate) const fn has_compaction(&self) -> bool {
        !matches!(self.compaction, Compaction::Off)
    }

    /// Returns whether compaction empties single pageblocks, those with least in use.
    #[inline(always)]
    pub(crate) const fn empties_pageblocks(&self) -> bool {
        matches!(self.compaction, Compaction::Emptiest)
    }
}
