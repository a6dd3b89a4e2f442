//! Steps: the points of the code for which a simulator charges instructions.
//!
//! Natively a step does nothing. On a simulated machine the time of a path is a sum. It adds the costs of accesses to
//! words, of fences, pins and interrupt guards, and of the instructions between them. A step stands for those
//! instructions.
//!
//! # How the instructions were counted
//!
//! Callgrind counted x86-64 code by rustc 1.95 in the workspace's release profile. The machine had the words of
//! `framewright-rt`; its pin, fences and interrupt guards did nothing. 170 workloads ran on it, of order 0 to 10, in
//! batches of 1 to 16,384, with a depot and without. Among them were bulk requests, requests by place, drains, and
//! lists of other types in either policy. They ran once more on a machine that counts accesses and steps.
//!
//! | steps | source of the number |
//! |---|---|
//! | `alloc`, `free` | read from the code |
//! | `list-add`, `list-del`, `give`, `merge`, `split` | the profile of these functions alone |
//! | `take-smallest`, `refill-block` | the profile of these functions alone |
//! | `route`, `lookup`, `watermark-list`, `take-list`, `give-unmerged`, `pre-merge`, `unfold` | set by hand |
//! | `marked` | the rest of the 440 instructions that an allocation takes on a kernel's machine, `numa-stat=off` |
//! | `numa-count` | half of the 78 more that it takes with `numa-stat=u16` |
//! | all others | fitted to all workloads at once |
//!
//! The fit minimises the sum of squares of the relative error, with one instruction for each access. Of two steps that
//! always come together only the sum is meaningful.
//!
//! Of the 170 sums, 154 lie within 10 percent of the counts that they were fitted to. The worst differs by 30 percent:
//! a large block cut out of lists of another type is freed, and a pageblock's type changes. No workload was held back
//! to test the numbers on.

/// Defines the type and its tables from one list.
macro_rules! steps {
    ($( $(#[doc = $doc:literal])+ $step:ident $name:literal $instructions:literal; )*) => {
        /// A point with a named instruction cost; its number is its position in [`Step::ALL`].
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Step {
            $( $(#[doc = $doc])+ $step, )*
        }

        impl Step {
            /// Every step.
            pub const ALL: [Step; [$( $instructions ),*].len()] = [$( Step::$step ),*];

            /// Returns the step's name in tables of costs.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Step::$step => $name, )*
                }
            }

            /// Returns the instructions that the step stands for.
            ///
            /// Accesses to words, fences, pins and interrupt guards are not included; each of them counts as one more.
            /// The description of this module says how the numbers were found.
            pub const fn instructions(self) -> u32 {
                match self {
                    $( Step::$step => $instructions, )*
                }
            }
        }
    };
}

steps! {
    /// An allocation at the front, served or not.
    Alloc "alloc" 17;
    /// A free at the front, of a block that is allocated.
    Free "free" 27;
    /// The running CPU's list for an allocation is looked up, by a call other than those of a `Local`.
    Route "route" 52;
    /// The list for a free is looked up, by such a call.
    Lookup "lookup" 28;
    /// An allocation or a free by the lists of its CPU behind the front.
    Behind "behind" 224;
    /// A request's list is found and its zone's mark looked at, where the mechanisms look at each time.
    Marked "marked" 232;
    /// An allocation that takes more than that: its flags and policy are read.
    AllocLong "alloc-long" 181;
    /// A free that takes more than that.
    FreeLong "free-long" 149;
    /// One zone is tried for a request.
    ZoneTry "zone-try" 200;
    /// A watermark is compared with what is free.
    Watermark "watermark" 19;
    /// For a watermark, one list is looked at.
    WatermarkList "watermark-list" 4;
    /// A block is handed out, and counted where that is asked for.
    HandOut "hand-out" 35;
    /// A CPU counts one NUMA event that it may keep.
    NumaCount "numa-count" 39;
    /// A rung of the ladder for when memory is short.
    Rung "rung" 58;
    /// The lists of a CPU are entered, or claimed, and left.
    PcpEnter "pcp-enter" 18;
    /// One block is taken from them.
    PcpTake "pcp-take" 76;
    /// One block is put into them.
    PcpGive "pcp-give" 20;
    /// A block is put among those that wait, or taken from among them.
    Waiting "waiting" 40;
    /// A ring is refilled.
    Refill "refill" 220;
    /// One block of a refill.
    RefillBlock "refill-block" 40;
    /// Blocks of a CPU's lists go back to the zone.
    Drain "drain" 339;
    /// For that, the blocks of each ring are counted, where no count is kept.
    DrainCount "drain-count" 543;
    /// For that, one ring is looked at.
    DrainRing "drain-ring" 34;
    /// One block of a list or a depot goes back to the zone.
    DrainBlock "drain-block" 86;
    /// A block of a batch is looked at to merge it with another of the batch.
    PreMerge "pre-merge" 12;
    /// A page of a run that was cut off is looked at.
    Unfold "unfold" 30;
    /// A ring gets another magazine of its own.
    Magazine "magazine" 22;
    /// A magazine is put into a depot or taken from one.
    Depot "depot" 23;
    /// For that, a shard is looked at.
    DepotShard "depot-shard" 7;
    /// A lock is taken and given up.
    Lock "lock" 89;
    /// A block is taken from a zone.
    Take "take" 158;
    /// For that, or for a refill, the lists of one type are looked through.
    TakeSmallest "take-smallest" 60;
    /// For that, one list is looked at.
    TakeList "take-list" 13;
    /// A block is given to a zone.
    Give "give" 95;
    /// A page is given to a zone without a look at its buddy.
    GiveUnmerged "give-unmerged" 25;
    /// A buddy is looked at, to merge with it.
    Merge "merge" 52;
    /// A block is cut in two.
    Split "split" 65;
    /// A block is put on a free list.
    ListAdd "list-add" 106;
    /// A block is taken off a free list.
    ListDel "list-del" 105;
    /// A free block is moved from one free list to another.
    Move "move" 368;
    /// A list of another type is looked at.
    Fallback "fallback" 13;
    /// One block of a pageblock is looked at, to find what the pageblock is used for.
    Census "census" 60;
    /// One block of a pageblock is looked at, to move it to the lists of another type.
    Retype "retype" 89;
    /// One place is looked at where the free block around a frame could start.
    Around "around" 64;
    /// A bulk request comes to a CPU's lists.
    Bulk "bulk" 93;
    /// One block of a bulk request.
    BulkBlock "bulk-block" 48;
    /// One block of a range is looked at, marked or moved.
    Range "range" 39;
    /// One frame below an address limit is looked at.
    Below "below" 47;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_and_named_apart() {
        for (number, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, number);
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(step.name().chars().all(is_plain), "{}", step.name());
            assert_eq!(Step::ALL.into_iter().filter(|other| other.name() == step.name()).count(), 1, "{}", step.name());
        }
    }
}
