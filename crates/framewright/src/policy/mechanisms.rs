//! Switches: the published mechanism that is at work in each part of the allocator, chosen at boot.
//!
//! The switches are independent, so that any ablation is a configuration and never a branch of the code base. Each
//! choice of a switch exists in the code. The first choice is the baseline for every comparison.
//!
//! [`Mechanisms::conflict`] returns the reason if two choices exclude each other. The texts of the `switches!` rows are
//! printed by `framewright mechanisms`.

use core::fmt;

pub use crate::policy::numbers::{BoostFactor, Proactiveness, StallOrder, Threshold};
use crate::policy::numbers::{MOST_S8, MOST_S16, MOST_U16};

macro_rules! switches {
    (
        $(
            $(#[doc = $doc:literal])+
            $field:ident ($key:literal): $Type:ident {
                $(#[doc = $bdoc:literal])+
                $Baseline:ident = $bname:literal
                $(, $(#[doc = $vdoc:literal])+ $Variant:ident = $name:literal )* $(,)?
            }
        )+
        ; $( $(#[doc = $ndoc:literal])+ $number:ident ($nkey:literal): $Number:ident )+
    ) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
            #[non_exhaustive]
            pub enum $Type { $(#[doc = $bdoc])+ #[default] $Baseline, $( $(#[doc = $vdoc])+ $Variant ),* }

            impl $Type {
                /// Every choice, the baseline first.
                pub const ALL: &[$Type] = &[$Type::$Baseline, $($Type::$Variant),*];

                /// Returns the name of the choice in configuration files and on the command line.
                pub const fn name(self) -> &'static str {
                    match self { $Type::$Baseline => $bname, $($Type::$Variant => $name),* }
                }
            }
        )+

        /// Chosen mechanism of each switch.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub struct Mechanisms {
            $( $(#[doc = $doc])+ pub $field: $Type, )+
            $( $(#[doc = $ndoc])+ pub $number: $Number, )+
        }

        impl Mechanisms {
            /// Description of each switch and of each of its choices, in Markdown.
            ///
            /// A number has no choices; [`Mechanisms::choices`] returns its range.
            pub const ABOUT: &[About] = &[
                $( About {
                    switch: $key,
                    text: concat!($($doc),+),
                    choices: &[($bname, concat!($($bdoc),+)), $(($name, concat!($($vdoc),+))),*],
                }, )+
                $( About { switch: $nkey, text: concat!($($ndoc),+), choices: &[] }, )+
            ];

            /// Names of all switches.
            pub const SWITCHES: &[&str] = &[$($key,)+ $($nkey),+];

            /// Returns the name of a switch that `other` sets otherwise, if there is one.
            pub(crate) fn difference(&self, other: &Mechanisms) -> Option<&'static str> {
                let index = self.in_numbers().iter().zip(other.in_numbers()).position(|(one, other)| *one != other)?;
                Mechanisms::SWITCHES.get(index).copied()
            }

            /// Returns the number of each choice, in the order of [`Mechanisms::SWITCHES`].
            const fn in_numbers(&self) -> [u32; Mechanisms::SWITCHES.len()] {
                [$(self.$field as u32,)+ $(self.$number.raw()),+]
            }

            /// Sets one switch by name.
            ///
            /// # Errors
            /// The switch is unknown, or has no such choice.
            pub fn set(&mut self, switch: &str, choice: &str) -> Result<(), UnknownSwitch> {
                match switch {
                    $( $key => {
                        self.$field = *$Type::ALL.iter().find(|c| c.name() == choice)
                            .ok_or(UnknownSwitch::Choice(Mechanisms::choices(switch)))?;
                    } )+
                    $( $nkey => self.$number = $Number::of(choice).ok_or(UnknownSwitch::Choice($Number::CHOICES))?, )+
                    _ => return Err(UnknownSwitch::Switch),
                }
                Ok(())
            }

            /// Returns the names of a switch's choices, or a number's range.
            ///
            /// The result is empty for an unknown switch.
            pub fn choices(switch: &str) -> &'static [&'static str] {
                match switch {
                    $( $key => &[$bname, $($name),*], )+
                    $( $nkey => $Number::CHOICES, )+
                    _ => &[],
                }
            }
        }

        impl fmt::Display for Mechanisms {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut separator = "";
                $(
                    write!(f, "{separator}{}={}", $key, self.$field.name())?;
                    separator = ",";
                )+
                $( write!(f, ",{}={}", $nkey, self.$number)?; )+
                let _ = separator;
                Ok(())
            }
        }
    };
}

switches! {
    /// The zone lock.
    zone_lock("zone-lock"): ZoneLock {
        /// A fair spin lock: first come, first served.
        Ticket = "ticket",
        /// The same order, but only the next in line looks at the lock, all others at words of their own (the purpose
        /// of Linux's queued spin lock, since 4.2).
        Queued = "queued",
        /// The queued lock, shared by those who do not disturb each other (as in Lu's patches of 2018 for Linux 4.16).
        Rw = "rw",
    }
    /// Where in the zone the lock lies.
    lock_place("lock-place"): LockPlace {
        /// Right before the order-0 lists, which its owner gets for free.
        BesideLists = "beside-lists",
        /// Behind all lists, on other lines than those of the small orders (Linux, but for 3.17 to 3.19).
        BehindLists = "behind-lists",
        /// On a pair of lines of its own.
        OwnLine = "own-line",
    }
    /// How blocks go back to the buddy lists.
    free_path("free-path"): FreePath {
        /// Each block is merged with its buddies under the zone lock.
        MergeUnderLock = "merge",
        /// Many CPUs at once: the zone lock is shared, a lock on the surroundings of each block keeps its buddies
        /// apart, and lists are changed without a lock (patch 7).
        RangeLocks = "range-locks",
        /// The same without locks on ranges: what a batch merges to is put on each list at once. Two buddies that are
        /// freed at the same time may both stay; they are marked (patch 8; with `pre-merge=batch`, patch 9).
        Splice = "splice",
        /// Single pages are put on their list as they are and marked; larger blocks are merged. What was left out is
        /// done when a larger block is not to be had, or when somebody drains.
        NoMerge = "no-merge",
    }
    /// Whether the blocks that go back together are merged with each other before the zone lock is taken.
    pre_merge("pre-merge"): PreMerge {
        /// No.
        Off = "off",
        /// All that go back under one lock.
        Batch = "batch",
    }
    /// How per-CPU lists are filled.
    refill("refill"): Refill {
        /// Block by block under the zone lock, a batch at a time.
        OneByOne = "one-by-one",
        /// Runs of single pages that lie together on their list, each cut off at once; what they are is looked at
        /// afterwards.
        Cluster = "cluster",
        /// The smallest blocks there are, each whole, to be split afterwards; a few under one lock.
        Blocks = "blocks",
        /// What is free in pageblocks that the CPU owns, else a whole pageblock more, of which it becomes the owner;
        /// what that does not give, block by block (Weiner's RFC of 2026). A block freed by another CPU returns to the
        /// owner of its pageblock when it leaves that CPU's list.
        Pageblocks = "pageblocks",
    }
    /// What keeps an interrupt off a per-CPU list while its CPU is at it.
    pcp_protection("pcp-protection"): PcpProtection {
        /// Interrupts are held off (Linux ≤ 6.1, but for 4.11-rc).
        InterruptsOff = "interrupts-off",
        /// They may come, but never use the lists: what they ask for or free goes to the zone (Linux 4.11-rc).
        PreemptionOff = "preemption-off",
        /// They may come, and use the lists unless these are in use, which an exchange finds out; else the zone (Linux
        /// ≥ 6.2).
        Trylock = "trylock",
        /// They may come, and have lists of their own: an interrupt counts as a CPU of its own.
        OwnLists = "own-lists",
    }
    /// Size of the per-CPU lists.
    pcp_size("pcp-size"): PcpSizing {
        /// `batch` and `high` as computed at boot.
        Fixed = "fixed",
        /// `high` grows where lists are refilled and emptied much and shrinks where they are not or memory is short;
        /// refills double (Linux ≥ 6.7).
        Tuned = "tuned",
    }
    /// What lies between the per-CPU lists and the zone, unmerged.
    depot("depot"): Depot {
        /// Nothing: a list that overflows gives back to the zone.
        Off = "off",
        /// Magazines of 64 frames, sharded by CPU, of at most an eighth of the zone (as much as Linux ≥ 6.7 lets its
        /// per-CPU lists grow to).
        Eighth = "eighth",
        /// Like `eighth`, with room for all of a zone of 4 GiB, and for a 64th of a zone of 288 GiB or more: blocks
        /// merge when a larger one is asked for, or when somebody drains.
        All = "all",
    }
    /// When a request that a per-CPU list could serve is held against the watermarks.
    pcp_mark("pcp-mark"): PcpMark {
        /// Every time, as in Linux: below the mark, what lies on the list is not used.
        EveryRequest = "every-request",
        /// When the list is refilled: what lies on it has left the zone's free memory already.
        Refill = "refill",
    }
    /// Which lines are asked for before they are written, so that they come side by side and not one behind the other.
    prefetch("prefetch"): Prefetch {
        /// Those that merging looks at, before the zone lock is taken (Linux ≥ 4.17 asks for the first).
        Buddies = "buddies",
        /// Those as well where the halves of a split block go on their lists, before the first goes there.
        Halves = "halves",
        /// None before the lock is taken: merging waits for each while it holds the lock (Linux ≤ 4.16 and ≥ 5.18).
        Off = "off",
    }
    /// Costlier checks against wrong frees and writes after a free.
    hardened("hardened"): Hardened {
        /// Only those that are free of charge.
        Off = "off",
        /// Of two frees of a block at the same instant one is refused, by an exchange of its head; freed memory is
        /// filled with a pattern, waits a while, and is checked before it is used again: who wrote to it loses the
        /// block to quarantine.
        Poison = "poison",
        /// The same with zeros instead of a pattern: nothing that was in freed memory stays there.
        Zero = "zero",
    }
    /// The zone's numbers of free frames, which watermarks read.
    zone_stat("zone-stat"): ZoneStat {
        /// Added up whenever the zone lock is given up.
        Exact = "exact",
        /// Each CPU keeps what it changed until that is more than a threshold, which grows with CPUs and memory; then
        /// it tells the zone, and the sum of all zones (Linux: `vm_stat_diff`).
        Differentials = "differentials",
    }
    /// NUMA statistics: which node an allocation was meant for, and which it came from.
    numa_stat("numa-stat"): NumaStat {
        /// Two counts of each allocation, per CPU, added up when read (Linux ≥ 5.14).
        Events = "events",
        /// Counted is what is rare, the rest follows from the number of allocations, which each list counts anyway.
        Derived = "derived",
        /// Per CPU in 8 bits with a sign. A CPU that has more than the threshold tells the zone and the sum of all
        /// zones, and half a threshold more than it has, so that the next time is later (Linux ≤ 4.13, and its first
        /// patch that came apart from the zone's counters).
        S8 = "s8",
        /// The same in 16 bits (the first version of the series).
        S16 = "s16",
        /// Per CPU in 16 bits without a sign, all of which it tells (Linux 4.14 to 5.13).
        U16 = "u16",
        /// Not counted; read as 0.
        Off = "off",
    }
    /// Where the zone's NUMA counters lie, if they are told to the zone.
    numa_place("numa-place"): NumaPlace {
        /// On lines of their own.
        OwnLines = "own-lines",
        /// Behind the zone's other counters (Linux ≥ 4.14).
        BehindZone = "behind-zone",
        /// Among them, before the number of free CMA frames (Linux ≤ 4.13); their lines in zoneinfo as well.
        AmongZone = "among-zone",
    }
    /// What a reader of a zone's or node's NUMA counters gets. The sums of all zones never contain what CPUs keep.
    numa_read("numa-read"): NumaRead {
        /// What CPUs have not told the zone yet is added (Linux ≥ 4.14).
        WithCpus = "with-cpus",
        /// What the zone was told (Linux ≤ 4.13).
        ZoneOnly = "zone-only",
    }
    /// How a request is served from the lists of another mobility.
    fallback("fallback"): FallbackPolicy {
        /// Largest block first, whole pageblock claimed where worth it (Linux ≤ 6.14).
        Classic = "classic",
        /// Claim whole pageblocks from the top, else steal the smallest block; a refill remembers which (Linux ≥ 6.15).
        ClaimSteal = "claim-steal",
    }
    /// Which list a free block is on.
    hygiene("hygiene"): Hygiene {
        /// That of its pageblock's type (Linux ≥ 6.10).
        Strict = "strict",
        /// Where a request takes from another mobility and does not claim the pageblock, all that is free there, or of
        /// a small block what it leaves, goes to the request's lists, and only the type stays (Linux ≤ 6.9).
        Loose = "loose",
    }
    /// Avoid mixing mobilities by using a lower zone first (`ALLOC_NOFRAGMENT`).
    nofragment("nofragment"): Nofragment {
        /// In the first pass over the zones.
        FirstPass = "first-pass",
        /// Never.
        Off = "off",
        /// In every pass, until nothing else is left: memory is reclaimed and compacted before mobilities are mixed
        /// (`defrag_mode`, Linux ≥ 6.15).
        Enforced = "enforced",
    }
    /// How memory in use is moved to make large blocks free, where the embedder can move it
    /// (`machine.rs::Machine::migrates`).
    compaction("compaction"): Compaction {
        /// Not at all.
        Off = "off",
        /// A scanner from the start of the zone finds what to move, one from its end a place for it; when they meet
        /// they begin anew (Linux).
        Scanners = "scanners",
        /// The pageblock with least in use of the next few is emptied, whole or not at all; what was there goes where
        /// most is in use.
        Emptiest = "emptiest",
    }
    ;
    /// How many events of a kind a CPU keeps before it tells the zone, where `numa-stat` has such counters.
    numa_threshold("numa-threshold"): Threshold
    /// How far the marks rise when mobilities were mixed, in ten-thousandths of the high mark: background reclaim then
    /// frees as much, and compaction follows it. 0: not at all.
    watermark_boost("watermark-boost"): BoostFactor
    /// How much of free memory background compaction leaves scattered in blocks smaller than a pageblock when nobody
    /// asked for large ones: less, the higher the number (`compaction_proactiveness`, Linux ≥ 5.9; there it is 20). 0:
    /// any amount.
    proactiveness ("proactiveness"): Proactiveness
    /// Smallest order of a block that a movable request takes from another mobility without waiting for background
    /// reclaim first. 0: any block.
    stall_order("stall-order"): StallOrder
}

impl NumaStat {
    /// Returns whether CPUs keep counts of their own, and add them at a threshold.
    pub(crate) const fn has_differentials(self) -> bool {
        matches!(self, NumaStat::S8 | NumaStat::S16 | NumaStat::U16)
    }

    /// Returns the largest threshold.
    pub(crate) const fn most(self) -> u16 {
        match self {
            NumaStat::S8 => MOST_S8,
            NumaStat::S16 => MOST_S16,
            _ => MOST_U16,
        }
    }
}

/// Description of one switch.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name of the switch.
    pub switch: &'static str,
    /// Purpose of the switch.
    pub text: &'static str,
    /// Choices by name, with the effect of each; the baseline first.
    pub choices: &'static [(&'static str, &'static str)],
}

/// Reason for which a list of switches could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnknownSwitch {
    /// No switch has this name; [`Mechanisms::SWITCHES`] has the names.
    Switch,
    /// The switch has no such choice; it has these.
    Choice(&'static [&'static str]),
    /// A part is neither of the form `switch=choice` nor the name of a preset.
    Form,
}

impl Mechanisms {
    /// Returns the reason for which the choices conflict; `None` if they do not.
    pub const fn conflict(&self) -> Option<&'static str> {
        let is_together = matches!(self.free_path, FreePath::RangeLocks | FreePath::Splice);
        if is_together && !matches!(self.zone_lock, ZoneLock::Rw) {
            return Some("free-path=range-locks and free-path=splice share the zone lock, so it must be zone-lock=rw");
        }
        if matches!(self.pcp_size, PcpSizing::Tuned) && !matches!(self.depot, Depot::Off) {
            return Some(
                "pcp-size=tuned sizes the lists that go back to the zone, so it must be depot=off: with a depot, what \
                         lies between CPUs and zone is sized by that",
            );
        }
        if is_together && matches!(self.refill, Refill::Cluster) {
            return Some(
                "refill=cluster keeps account of each list's neighbours, which many CPUs at once \
                         (free-path=range-locks, free-path=splice) would change under it",
            );
        }
        if matches!(self.refill, Refill::Pageblocks) && !matches!(self.depot, Depot::Off) {
            return Some(
                "a depot keeps what overflows for any CPU, so nothing would return to the owner of its pageblock \
                         (refill=pageblocks)",
            );
        }
        if self.stall_order.get().is_some() && self.watermark_boost.get() == 0 {
            return Some(
                "stall-order waits for what background reclaim frees for the boost: watermark-boost must not be 0",
            );
        }
        if self.proactiveness.get() != 0 && matches!(self.compaction, Compaction::Off) {
            return Some("proactiveness says when compaction runs of its own accord: compaction must not be off");
        }
        self.conflict_of_statistics()
    }

    const fn conflict_of_statistics(&self) -> Option<&'static str> {
        match self.numa_threshold.get() {
            Some(_) if !self.numa_stat.has_differentials() => {
                Some("numa-threshold is one of numa-stat=s8, s16 and u16, where CPUs keep what they count")
            }
            Some(events) if events > self.numa_stat.most() => {
                Some("numa-threshold must be 125 or less with numa-stat=s8, and 32765 or less with numa-stat=s16")
            }
            _ => None,
        }
    }
}
