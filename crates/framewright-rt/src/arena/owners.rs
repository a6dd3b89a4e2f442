//! The owners of an arena's blocks: which place in the source allocated what, as Linux's page owner.
//!
//! The owner of a block is the place that called for it, or a name that the program gives it. The numbers of owners
//! lie in the table of `framewright::tags`, in a mapping of its own, of which only used pages take memory.
//!
//! It is there where the crate is compiled with debug assertions, or with the feature `owners`. Otherwise [`KEPT`] is
//! false: the compiler removes every test for it, and all blocks are listed as `not recorded`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use framewright::machine::Machine;
use framewright::tags::{Group, Tag, TaggedBlock, Tags};
use framewright::{Allocator, Order, Pfn};

use super::metadata::FrameWords;
use crate::native::Native;
use crate::os::OsError;
use crate::owner::Owner;

/// Whether arenas keep the owners of their blocks.
pub(crate) const KEPT: bool = cfg!(any(debug_assertions, feature = "owners"));
/// Owners of one listing at most; each place and name, no owner, and an unknown place.
const MOST: usize = 4096 + 1024 + 2;

/// The table of an arena's owners; none in an arena that keeps none.
pub(super) struct OwnerTable(Option<FrameWords>);

impl OwnerTable {
    /// Maps the table of an allocator, if it is wanted.
    pub(super) fn new(pages: &Allocator<'static, Native>, wanted: bool) -> Result<OwnerTable, OsError> {
        // The clock starts here, and not in a signal handler, which might wait for the call that it interrupted.
        let _ = pages.machine().now();
        let words = (KEPT && wanted).then(|| FrameWords::new(Tags::words(pages)));
        words.transpose().map(OwnerTable)
    }

    #[inline(always)]
    pub(super) fn tags<'t>(&'t self, pages: &'t Allocator<'static, Native>) -> Option<Tags<'t, 'static, Native>> {
        if !KEPT {
            return None;
        }
        self.0.as_ref().map(|words| Tags::new(pages, words.get()))
    }

    /// The caller's place, if owners are kept.
    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    #[inline(always)]
    pub(super) fn caller(&self) -> Option<Owner> {
        if KEPT && self.0.is_some() { Some(Owner::here()) } else { None }
    }
}

/// The allocated blocks of an arena by their owners; from [`crate::Arena::owners`].
///
/// `Display` prints the owners, those of most pages first:
///
/// ```text
/// 12 times, 6144 pages:
///  src/main.rs:40:27
///
/// 3 times, 3 pages:
///  rx ring
/// ```
///
/// Each method looks at all blocks of the arena. Other threads may allocate and free meanwhile: each listed block was
/// allocated at some moment of the look. The owner of a block that is just being allocated or freed may be missing, and
/// so is that of a block which the allocator holds itself, for a move or for [`crate::Arena::trim`].
#[derive(Clone, Copy)]
pub struct Owners<'a>(Tags<'a, 'static, Native>);

/// What the program does with blocks that are still allocated when their arena is dropped.
#[derive(Clone)]
pub(super) struct LeakReport(pub(super) Arc<dyn Fn(&Owners<'_>) + Send + Sync>);

impl fmt::Debug for LeakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeakReport")
    }
}

/// An allocated block and its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnedBlock {
    /// First frame of the block.
    pub pfn: Pfn,
    /// Order of the block: it has `1 << order` frames.
    pub order: Order,
    /// Its owner, if that was recorded.
    pub owner: Option<Owner>,
    /// Time since its allocation, exact to about a second, if its owner was recorded.
    pub age: Option<Duration>,
}

/// The blocks of one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerTotal {
    /// The owner; none for the blocks of which none was recorded.
    pub owner: Option<Owner>,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of frames in them.
    pub frames: u64,
}

impl<'a> Owners<'a> {
    pub(super) const fn new(tags: Tags<'a, 'static, Native>) -> Owners<'a> {
        Owners(tags)
    }

    /// Every allocated block, in the order of frames.
    pub fn blocks(&self) -> impl Iterator<Item = OwnedBlock> + use<'a> {
        let (tags, now) = (self.0, self.0.stamp(Tag(0)));
        tags.blocks().map(move |TaggedBlock { pfn, order, stamp }| OwnedBlock {
            pfn,
            order,
            owner: stamp.map(|stamp| Owner::of(stamp.tag)),
            age: stamp.map(|stamp| Duration::from_nanos(now.nanoseconds().saturating_sub(stamp.nanoseconds()))),
        })
    }

    /// The blocks of each owner together, those of most frames first.
    pub fn totals(&self) -> Vec<OwnerTotal> {
        let mut room = vec![Group::default(); MOST];
        let total =
            |group: Group| OwnerTotal { owner: group.tag.map(Owner::of), blocks: group.blocks, frames: group.frames };
        self.0.groups(&mut room).iter().map(total).collect()
    }

    /// Every allocated block as text, as in Linux's file `page_owner`; `page_owner_sort` reads it.
    pub fn listing(&self) -> impl fmt::Display + use<'a> {
        struct Whole<'a>(Tags<'a, 'static, Native>);
        impl fmt::Display for Whole<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.listing(name).fmt(f)
            }
        }
        Whole(self.0)
    }
}

fn name(tag: Tag, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    fmt::Display::fmt(&Owner::of(tag), f)
}

impl fmt::Display for Owners<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = vec![Group::default(); MOST];
        self.0.groups(&mut room).named(name).fmt(f)
    }
}

impl fmt::Debug for Owners<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.totals()).finish()
    }
}
