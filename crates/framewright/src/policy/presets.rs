//! Sets of choices that have a name: kernels that tables were published of, what they were compared with, and our own.

use crate::policy::mechanisms::{
    BoostFactor, Compaction, Depot, FallbackPolicy, FreePath, Hardened, Hygiene, LockPlace, Mechanisms, Nofragment,
    NumaPlace, NumaRead, NumaStat, PcpMark, PcpProtection, PcpSizing, PreMerge, Prefetch, Proactiveness, Refill,
    RemoteFree, StallOrder, Threshold, UnknownSwitch, ZoneLock, ZoneStat,
};
use crate::policy::numbers::{MOST_S8, MOST_S16};

/// Sets of choices that have a name.
pub const PRESETS: &[(&str, Mechanisms)] = &[
    ("default", Mechanisms::DEFAULT),
    ("baseline", Mechanisms::BASELINE),
    ("patch1", Mechanisms::PATCH1),
    ("patch7", Mechanisms { free_path: FreePath::RangeLocks, ..Mechanisms::PATCH4 }),
    ("patch8", Mechanisms { free_path: FreePath::Splice, ..Mechanisms::PATCH4 }),
    ("patch9", Mechanisms { free_path: FreePath::Splice, pre_merge: PreMerge::Batch, ..Mechanisms::PATCH4 }),
    ("no_merge", Mechanisms { free_path: FreePath::NoMerge, ..Mechanisms::PATCH1 }),
    (
        "no_merge+cluster_alloc",
        Mechanisms { free_path: FreePath::NoMerge, refill: Refill::Cluster, ..Mechanisms::PATCH1 },
    ),
    ("tuned-pcp", Mechanisms { pcp_size: PcpSizing::Tuned, ..Mechanisms::PATCH1 }),
    ("owned-pageblocks", Mechanisms::OWNED_PAGEBLOCKS),
    ("numa-base", Mechanisms::NUMA_BASE),
    ("numa-patch1", Mechanisms::NUMA_PATCH1),
    ("numa-patch2", Mechanisms { numa_stat: NumaStat::U16, ..Mechanisms::NUMA_PATCH1 }),
    ("numa-patch3", Mechanisms { numa_stat: NumaStat::U16, numa_read: NumaRead::WithCpus, ..Mechanisms::NUMA_PATCH1 }),
    ("irqsafe", Mechanisms { pcp_protection: PcpProtection::PreemptionOff, ..Mechanisms::NUMA_BASE }),
    ("numa-off", Mechanisms { numa_stat: NumaStat::Off, ..Mechanisms::NUMA_PATCH1 }),
    ("claim-steal", Mechanisms { fallback: FallbackPolicy::ClaimSteal, ..Mechanisms::BASELINE }),
    ("mixing", Mechanisms { nofragment: Nofragment::Off, ..Mechanisms::BASELINE }),
    ("vanilla-4.20", Mechanisms::VANILLA),
    ("linux-6.1", Mechanisms::LINUX_6_1),
    ("lowzone", Mechanisms::LOWZONE),
    ("boost", Mechanisms::BOOST),
    ("stall", Mechanisms { stall_order: StallOrder(4), ..Mechanisms::BOOST }),
    ("boost-as-mailed", Mechanisms { nofragment: Nofragment::Off, ..Mechanisms::BOOST }),
    ("stall-as-mailed", Mechanisms { nofragment: Nofragment::Off, stall_order: StallOrder(4), ..Mechanisms::BOOST }),
];

impl Mechanisms {
    /// Linux's choices before the published mechanisms; nearest to 6.1, but for `hygiene`.
    pub const BASELINE: Mechanisms = Mechanisms {
        zone_lock: ZoneLock::Ticket,
        lock_place: LockPlace::BesideLists,
        free_path: FreePath::MergeUnderLock,
        pre_merge: PreMerge::Off,
        refill: Refill::OneByOne,
        remote_free: RemoteFree::FreeingCpu,
        pcp_protection: PcpProtection::InterruptsOff,
        pcp_size: PcpSizing::Fixed,
        depot: Depot::Off,
        pcp_mark: PcpMark::EveryRequest,
        prefetch: Prefetch::Buddies,
        hardened: Hardened::Off,
        zone_stat: ZoneStat::Exact,
        numa_stat: NumaStat::Events,
        numa_place: NumaPlace::OwnLines,
        numa_read: NumaRead::WithCpus,
        fallback: FallbackPolicy::Classic,
        hygiene: Hygiene::Strict,
        nofragment: Nofragment::FirstPass,
        compaction: Compaction::Off,
        numa_threshold: Threshold::COMPUTED,
        watermark_boost: BoostFactor(0),
        proactiveness: Proactiveness(0),
        stall_order: StallOrder(0),
    };

    /// Linux 6.1, with what works in the background there.
    const LINUX_6_1: Mechanisms = Mechanisms {
        zone_lock: ZoneLock::Queued,
        lock_place: LockPlace::BehindLists,
        hygiene: Hygiene::Loose,
        watermark_boost: BoostFactor(15_000),
        compaction: Compaction::Scanners,
        proactiveness: Proactiveness(20),
        ..Mechanisms::BASELINE
    };

    /// What the fragmentation avoidance series of 2018 was measured against: Linux 4.20.
    const VANILLA: Mechanisms = Mechanisms {
        hygiene: Hygiene::Loose,
        nofragment: Nofragment::Off,
        compaction: Compaction::Scanners,
        ..Mechanisms::PATCH1
    };

    /// Its first patch; its first four, with the factor that it proposed; all five add its order of 4. As they were mailed, the third lost the
    /// flag of the first (`-as-mailed`): the numbers that were published with the patches are probably of that.
    const LOWZONE: Mechanisms = Mechanisms { nofragment: Nofragment::FirstPass, ..Mechanisms::VANILLA };
    const BOOST: Mechanisms = Mechanisms { watermark_boost: BoostFactor(15_000), ..Mechanisms::LOWZONE };

    /// What the zone lock series was measured against: Linux 4.19, whose spin locks are queued. (Its patch 1 keeps pages off
    /// the LRU lists, which are not the allocator's.)
    const PATCH1: Mechanisms =
        Mechanisms { zone_lock: ZoneLock::Queued, lock_place: LockPlace::BehindLists, ..Mechanisms::BASELINE };

    /// The same with a lock that can be shared, as from patch 4 of the series on.
    const PATCH4: Mechanisms = Mechanisms { zone_lock: ZoneLock::Rw, ..Mechanisms::PATCH1 };

    /// CPUs own pageblocks. Compared with patch 9, which merges a batch before the lock is taken as well.
    const OWNED_PAGEBLOCKS: Mechanisms = Mechanisms {
        pre_merge: PreMerge::Batch,
        refill: Refill::Pageblocks,
        remote_free: RemoteFree::Owner,
        ..Mechanisms::PATCH1
    };

    /// What the NUMA statistics series of 2017 was measured against: NUMA counters among the zone's, with their threshold.
    const NUMA_BASE: Mechanisms = Mechanisms {
        zone_stat: ZoneStat::Differentials,
        numa_stat: NumaStat::S8,
        numa_place: NumaPlace::AmongZone,
        numa_read: NumaRead::ZoneOnly,
        ..Mechanisms::PATCH1
    };

    /// Its first patch: they come behind the zone's counters.
    const NUMA_PATCH1: Mechanisms = Mechanisms { numa_place: NumaPlace::BehindZone, ..Mechanisms::NUMA_BASE };

    /// The kernel that the series was measured with at this threshold: with the smallest counters that have it, read as the kernel
    /// before the third patch did.
    pub const fn numa_threshold(threshold: Threshold) -> Mechanisms {
        let numa_stat = match threshold.get() {
            Some(..=MOST_S8) => NumaStat::S8,
            Some(..=MOST_S16) => NumaStat::S16,
            _ => NumaStat::U16,
        };
        Mechanisms { numa_stat, numa_threshold: threshold, ..Mechanisms::NUMA_PATCH1 }
    }

    /// The preset of a name: one of [`PRESETS`], or `numa-threshold-N` ([`Mechanisms::numa_threshold`]).
    pub fn preset(name: &str) -> Option<Mechanisms> {
        let listed = PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, mechanisms)| *mechanisms);
        listed.or_else(|| Some(Mechanisms::numa_threshold(Threshold::of(name.strip_prefix("numa-threshold-")?)?)))
    }

    /// What we believe best.
    pub const DEFAULT: Mechanisms = Mechanisms {
        zone_lock: ZoneLock::Queued,
        lock_place: LockPlace::OwnLine,
        refill: Refill::Blocks,
        depot: Depot::All,
        pcp_mark: PcpMark::Refill,
        prefetch: Prefetch::Halves,
        numa_stat: NumaStat::Derived,
        pcp_protection: PcpProtection::OwnLists,
        nofragment: Nofragment::Enforced,
        compaction: Compaction::Emptiest,
        ..Mechanisms::BASELINE
    };

    /// Reads a list such as `baseline,fallback=claim-steal`: presets and switches, later ones winning.
    ///
    /// # Errors
    /// The part that is wrong, and how.
    pub fn parse(text: &str) -> Result<Mechanisms, (&str, UnknownSwitch)> {
        let mut mechanisms = Mechanisms::BASELINE;
        // Patterns of several chars: the search for a single one links a panic.
        for part in text.split([',']).map(str::trim).filter(|part| !part.is_empty()) {
            if let Some(preset) = Mechanisms::preset(part) {
                mechanisms = preset;
            } else {
                let (switch, choice) = part.split_once(['=']).ok_or((part, UnknownSwitch::Form))?;
                mechanisms.set(switch.trim(), choice.trim()).map_err(|error| (part, error))?;
            }
        }
        Ok(mechanisms)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn lists_of_switches_round_trip() {
        let text = "baseline, fallback=claim-steal,nofragment=off";
        let mechanisms = Mechanisms::parse(text).unwrap();
        assert_eq!(mechanisms.fallback, FallbackPolicy::ClaimSteal);
        assert_eq!(Mechanisms::parse(&mechanisms.to_string()), Ok(mechanisms));
        assert_eq!(Mechanisms::parse(""), Ok(Mechanisms::default()));
        assert_eq!(Mechanisms::BASELINE, Mechanisms::default());
    }

    #[test]
    fn wrong_names_are_named() {
        assert_eq!(
            Mechanisms::parse("fallback=x"),
            Err(("fallback=x", UnknownSwitch::Choice(&["classic", "claim-steal"])))
        );
        assert_eq!(Mechanisms::parse("speed=9"), Err(("speed=9", UnknownSwitch::Switch)));
        assert_eq!(Mechanisms::parse("fast"), Err(("fast", UnknownSwitch::Form)));
    }
}
