//! Listings of allocated blocks: one by one as Linux's `page_owner` file, and in groups as its `page_owner_sort`.
//!
//! The text of a block is that of Linux without what is not kept: flags, process, types. Linux's own tool
//! (`tools/mm/page_owner_sort.c`) reads it, and groups it with `--cull=stacktrace`. The embedder writes the line of a
//! tag, which stands where Linux has the stack.

use core::fmt;

use crate::seam::machine::Machine;
use crate::tags::stamp::{Stamp, Tag};
use crate::tags::table::{TaggedBlock, Tags};

/// Line of a block whose tag is not known.
const UNKNOWN: &str = "not recorded";

/// Number and size of the blocks of one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// Owner of the blocks; `None` for blocks without a tag.
    pub tag: Option<Tag>,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of frames in them.
    pub frames: u64,
}

impl Group {
    fn count(&mut self, block: &TaggedBlock) {
        self.blocks = self.blocks.saturating_add(1);
        self.frames = self.frames.saturating_add(block.order.frames());
    }

    /// Returns a key whose order is that of the listing: most frames first, then most blocks, then by tag.
    fn rank(&self) -> (u64, u64, u64) {
        let tag = self.tag.map_or(0, |tag| u64::from(tag.0).saturating_add(1));
        (u64::MAX.wrapping_sub(self.frames), u64::MAX.wrapping_sub(self.blocks), tag)
    }
}

/// Allocated blocks grouped by owner; from [`Tags::groups`].
#[derive(Clone, Copy, Debug)]
pub struct Groups<'g> {
    groups: &'g [Group],
    rest: Group,
}

impl<M: Machine> Tags<'_, '_, M> {
    /// Groups all allocated blocks by owner, in memory of the caller.
    ///
    /// Takes a group for each owner. Where there are more owners than `room`, the others are summed up in
    /// [`Groups::rest`].
    ///
    /// Context: as [`Tags::blocks`].
    pub fn groups<'g>(&self, room: &'g mut [Group]) -> Groups<'g> {
        let (mut used, mut rest) = (0_usize, Group::default());
        for block in self.blocks() {
            let tag = block.stamp.map(|stamp| stamp.tag);
            let known = room.get_mut(..used).unwrap_or_default();
            if let Some(group) = known.iter_mut().find(|group| group.tag == tag) {
                group.count(&block);
            } else if let Some(group) = room.get_mut(used) {
                *group = Group { tag, ..Group::default() };
                group.count(&block);
                used = used.wrapping_add(1);
            } else {
                rest.count(&block);
            }
        }
        Groups { groups: room.get(..used).unwrap_or_default(), rest }
    }

    /// Lists all allocated blocks; `name` writes the line of a tag.
    ///
    /// Context of the printing: as [`Tags::blocks`].
    pub const fn listing<N: Name>(&self, name: N) -> Listing<'_, Self, N> {
        Listing { tags: self, name }
    }
}

impl<'g> Groups<'g> {
    /// Returns the groups: most frames first.
    ///
    /// Looks at all groups for each.
    pub fn iter(&self) -> impl Iterator<Item = Group> + use<'g> {
        let (groups, mut last) = (self.groups, None);
        core::iter::from_fn(move || {
            let rest = groups.iter().filter(|group| last.is_none_or(|last| group.rank() > last));
            let next = *rest.min_by_key(|group| group.rank())?;
            last = Some(next.rank());
            Some(next)
        })
    }

    /// Returns the sum of all blocks whose owner found no room.
    pub const fn rest(&self) -> Group {
        self.rest
    }

    /// Prints the groups; `name` writes the line of a tag.
    pub const fn named<N: Name>(self, name: N) -> NamedGroups<'g, N> {
        NamedGroups { groups: self, name }
    }
}

/// Writer of the line of a tag; a closure is one.
pub trait Name: Fn(Tag, &mut fmt::Formatter<'_>) -> fmt::Result {}

impl<F: Fn(Tag, &mut fmt::Formatter<'_>) -> fmt::Result> Name for F {}

fn line(f: &mut fmt::Formatter<'_>, name: &impl Name, tag: Option<Tag>) -> fmt::Result {
    f.write_str(" ")?;
    match tag {
        Some(tag) => name(tag, f)?,
        None => f.write_str(UNKNOWN)?,
    }
    f.write_str("\n\n")
}

/// Prints allocated blocks one by one; from [`Tags::listing`].
#[derive(Clone, Copy, Debug)]
pub struct Listing<'l, T, N> {
    tags: &'l T,
    name: N,
}

impl<M: Machine, N: Name> fmt::Display for Listing<'_, Tags<'_, '_, M>, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for TaggedBlock { pfn, order, stamp } in self.tags.blocks() {
            write!(f, "Page allocated via order {order},")?;
            if let Some(stamp) = stamp {
                write!(f, " ts {} ns", stamp.nanoseconds())?;
            }
            writeln!(f, "\nPFN {pfn}")?;
            line(f, &self.name, stamp.map(|Stamp { tag, .. }| tag))?;
        }
        Ok(())
    }
}

/// Prints groups of allocated blocks; from [`Groups::named`].
#[derive(Clone, Copy, Debug)]
pub struct NamedGroups<'g, N> {
    groups: Groups<'g>,
    name: N,
}

impl<N: Name> fmt::Display for NamedGroups<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Group { tag, blocks, frames } in self.groups.iter() {
            writeln!(f, "{blocks} times, {frames} pages:")?;
            line(f, &self.name, tag)?;
        }
        let Group { blocks, frames, .. } = self.groups.rest;
        if blocks != 0 {
            writeln!(f, "{blocks} times, {frames} pages:\n more owners than there was room for\n")?;
        }
        Ok(())
    }
}
