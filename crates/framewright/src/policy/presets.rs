//! Presets: named sets of choices. Some are kernels with published tables, some the kernels they were compared with,
//! and one is our default.

use crate::policy::mechanisms::{
    BoostFactor, Compaction, Depot, FallbackPolicy, FreePath, Hardened, Hygiene, LockPlace, Mechanisms, Nofragment,
    NumaPlace, NumaRead, NumaStat, PcpMark, PcpProtection, PcpSizing, PreMerge, Prefetch, Proactiveness, Refill,
    StallOrder, Threshold, UnknownSwitch, ZoneLock, ZoneStat,
};
use crate::policy::numbers::{MOST_S8, MOST_S16};

/// Named sets of choices.
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
    /// Linux's choices before the published mechanisms; nearest to 6.1, except for `hygiene`.
    pub const BASELINE: Mechanisms = Mechanisms {
        zone_lock: ZoneLock::Ticket,
        lock_place: LockPlace::BesideLists,
        free_path: FreePath::MergeUnderLock,
        pre_merge: PreMerge::Off,
        refill: Refill::OneByOne,
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

    /// Linux 6.1, with its background work.
    pub const LINUX_6_1: Mechanisms = Mechanisms {
        zone_lock: ZoneLock::Queued,
        lock_place: LockPlace::BehindLists,
        prefetch: Prefetch::Off,
        hygiene: Hygiene::Loose,
        watermark_boost: BoostFactor(15_000),
        compaction: Compaction::Scanners,
        proactiveness: Proactiveness(20),
        ..Mechanisms::BASELINE
    };

    /// Baseline of the fragmentation avoidance series of 2018: Linux 4.20.
    const VANILLA: Mechanisms = Mechanisms {
        hygiene: Hygiene::Loose,
        nofragment: Nofragment::Off,
        compaction: Compaction::Scanners,
        ..Mechanisms::PATCH1
    };

    /// First patch of that series.
    ///
    /// [`Self::BOOST`] has its first four patches, with the factor that the series proposed.
    ///
    /// The preset `stall` has all five patches, which adds the series' order of 4. As mailed, the third patch lost the
    /// flag of the first (`-as-mailed`). The numbers published with the patches probably come from that version.
    const LOWZONE: Mechanisms = Mechanisms { nofragment: Nofragment::FirstPass, ..Mechanisms::VANILLA };
    const BOOST: Mechanisms = Mechanisms { watermark_boost: BoostFactor(15_000), ..Mechanisms::LOWZONE };

    /// Baseline of the zone lock series: Linux 4.19, whose spin locks are queued.
    ///
    /// Patch 1 of the series keeps pages off the LRU lists, which are not part of the allocator.
    const PATCH1: Mechanisms =
        Mechanisms { zone_lock: ZoneLock::Queued, lock_place: LockPlace::BehindLists, ..Mechanisms::BASELINE };

    /// Like [`Self::PATCH1`], with a shareable lock, as from patch 4 of the series on.
    const PATCH4: Mechanisms = Mechanisms { zone_lock: ZoneLock::Rw, ..Mechanisms::PATCH1 };

    /// CPUs own pageblocks.
    ///
    /// Compared with patch 9, which also merges a batch before it takes the lock.
    const OWNED_PAGEBLOCKS: Mechanisms =
        Mechanisms { pre_merge: PreMerge::Batch, refill: Refill::Pageblocks, ..Mechanisms::PATCH1 };

    /// Baseline of the NUMA statistics series of 2017.
    ///
    /// The NUMA counters lie among the zone's counters and share their threshold.
    const NUMA_BASE: Mechanisms = Mechanisms {
        zone_stat: ZoneStat::Differentials,
        numa_stat: NumaStat::S8,
        numa_place: NumaPlace::AmongZone,
        numa_read: NumaRead::ZoneOnly,
        ..Mechanisms::PATCH1
    };

    /// First patch of that series: the NUMA counters follow the zone's counters.
    const NUMA_PATCH1: Mechanisms = Mechanisms { numa_place: NumaPlace::BehindZone, ..Mechanisms::NUMA_BASE };

    /// Returns the kernel with which the series was measured at this threshold.
    ///
    /// It has the smallest counters that hold the threshold, and is read as the kernel before the third patch was.
    pub const fn numa_threshold(threshold: Threshold) -> Mechanisms {
        let numa_stat = match threshold.get() {
            Some(..=MOST_S8) => NumaStat::S8,
            Some(..=MOST_S16) => NumaStat::S16,
            _ => NumaStat::U16,
        };
        Mechanisms { numa_stat, numa_threshold: threshold, ..Mechanisms::NUMA_PATCH1 }
    }

    /// Returns the preset of this name: one of [`PRESETS`], or `numa-threshold-N`.
    ///
    /// See [`Mechanisms::numa_threshold`].
    pub fn preset(name: &str) -> Option<Mechanisms> {
        let listed = PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, mechanisms)| *mechanisms);
        listed.or_else(|| Some(Mechanisms::numa_threshold(Threshold::of(name.strip_prefix("numa-threshold-")?)?)))
    }

    /// Choices that we believe are the best.
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

    /// Least mechanisms.
    pub const MINIMAL: Mechanisms = Mechanisms {
        numa_stat: NumaStat::Off,
        pcp_protection: PcpProtection::OwnLists,
        nofragment: Nofragment::Off,
        ..Mechanisms::BASELINE
    };

    /// Parses a list such as `baseline,fallback=claim-steal`.
    ///
    /// The parts are presets and switches; a later part overrides earlier parts.
    ///
    /// # Errors
    /// The part that is wrong, and the reason.
    pub fn parse(text: &str) -> Result<Mechanisms, (&str, UnknownSwitch)> {
        let mut mechanisms = Mechanisms::BASELINE;
        // The pattern is a slice of chars: the search for a single char links a panic.
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
    fn counters_of_a_threshold_are_the_smallest_that_hold_it() {
        for (events, numa_stat) in [
            (1, NumaStat::S8),
            (125, NumaStat::S8),
            (126, NumaStat::S16),
            (32_765, NumaStat::S16),
            (32_766, NumaStat::U16),
            (65_533, NumaStat::U16),
        ] {
            let mechanisms = Mechanisms::preset(&std::format!("numa-threshold-{events}")).unwrap();
            assert_eq!((mechanisms.numa_stat, mechanisms.conflict()), (numa_stat, None), "{events}");
            let smaller = match numa_stat {
                NumaStat::U16 => NumaStat::S16,
                _ => NumaStat::S8,
            };
            let conflict = Mechanisms { numa_stat: smaller, ..mechanisms }.conflict();
            assert_eq!(conflict.is_some(), smaller != numa_stat, "{events}");
        }
    }

    #[test]
    fn thresholds_out_of_range_are_none() {
        for (events, is_valid) in [(0, false), (1, true), (65_533, true), (65_534, false), (u16::MAX, false)] {
            assert_eq!(Threshold::new(events).is_some(), is_valid, "{events}");
        }
    }

    #[test]
    fn a_switch_that_differs_is_named() {
        let numbers = ["numa-threshold=7", "watermark-boost=1", "proactiveness=5", "stall-order=3"];
        for changed in ["fallback=claim-steal", "zone-lock=queued"].iter().chain(&numbers) {
            let other = Mechanisms::parse(changed).unwrap();
            let (switch, _) = changed.split_once('=').unwrap();
            assert_eq!(Mechanisms::BASELINE.difference(&other), Some(switch));
            assert_eq!(other.difference(&other), None);
        }
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
