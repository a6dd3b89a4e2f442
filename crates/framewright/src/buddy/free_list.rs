//! Free lists of a zone: circular, doubly linked by index.
//!
//! A link word names a neighbour as a [`Node`]:
//!
//! | value | neighbour |
//! |---|---|
//! | 0 | none: zeroed memory is linked to nothing |
//! | `frame + 1` | a block |
//! | from `FIRST_HEAD` on | the heads of the zone's lists |
//!
//! The head is a node of its ring like any other, so no operation has a special case for the ends. A node that is on no
//! list holds 0, so that a stale neighbour is detected. Every operation first checks that the neighbours agree (two
//! loads, in release builds too), and changes nothing if they disagree.
//!
//! The words have two views. The exclusive holder of the zone lock changes them by plain relaxed stores; the lock
//! orders them ([`FreeLists`]). CPUs that share the lock change them by the protocol of `smp_list.rs`, and lengths
//! atomically ([`ConcurrentLists`]). At rest both views leave the lists in one form.

use crate::frame::cluster::CutRun;
use crate::frame::frame::{Corrupt, Frames};
use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::sync::cache_line::Span;
use crate::sync::smp_list::{self, Broken, Link, Links, Node};
use crate::types::counts::BlockCount;
use crate::types::migratetype::{ListId, MigrateType};
use crate::types::units::{Frame, Order};

const FIRST_HEAD: u32 = 0xffff_ff00;

const _: () = assert!(FIRST_HEAD as u64 > Frame::LIMIT && Order::COUNT * MigrateType::COUNT <= 0x100);

const fn node_of(frame: Frame) -> Node {
    Node(frame.0.wrapping_add(1))
}

const fn head_of(list: ListId) -> Node {
    Node(FIRST_HEAD.wrapping_add(list.order.0 as u32 * MigrateType::COUNT as u32 + list.migratetype as u32))
}

fn block_of(node: Node) -> Option<Frame> {
    (node.0 != 0 && node.0 < FIRST_HEAD).then(|| Frame(node.0.wrapping_sub(1)))
}

/// End of a list.
///
/// Blocks are taken from the front, so blocks that should stay longest are at the back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Front,
    Back,
}

record! {
    /// One free list: its head and length.
    struct List<M: Machine> {
        record head: Link<M>,
        word len: M::U32,
    }
}

record! {
    /// Free lists of one zone, by order and migratetype.
    ///
    /// `crate::zone::zone_guard::ZoneGuard`, which holds the lock, gives access to them.
    ///
    /// Invariants, with the lock free:
    /// - B1 a block is on list (o, t) ⇔ its state is free with order o and type t
    /// - B2 `len` is the number of blocks on the list
    /// - B3 `next` and `prev` of neighbours name each other
    // The array and nothing else: its elements are contiguous, which `FreeLists::span` relies on.
    #[repr(transparent)]
    pub(crate) struct FreeLists<M: Machine> {
        record("lists[{migratetype}].{} order {order}"; order in 0..; migratetype in MigrateType::ALL)
            lists: [[List<M>; MigrateType::COUNT]; Order::COUNT] = empty_lists(),
    }
}

/// Returns lists whose heads name themselves.
fn empty_lists<M: Machine>() -> [[List<M>; MigrateType::COUNT]; Order::COUNT] {
    let list = |order: usize, migratetype: usize| {
        let migratetype = MigrateType::from_index(migratetype).unwrap_or_default();
        let node = head_of(ListId { order: Order(order as u8), migratetype });
        List { head: Link { next: Word::new(node.0), prev: Word::new(node.0) }, len: Word::new(0) }
    };
    core::array::from_fn(|order| core::array::from_fn(|migratetype| list(order, migratetype)))
}

impl<M: Machine> FreeLists<M> {
    /// Returns the span of the lists of an order, of its first `types` types.
    ///
    /// `offset` is the position of the lists in their record.
    pub(crate) const fn span(offset: usize, order: usize, types: usize) -> Span {
        let start = offset + order * MigrateType::COUNT * size_of::<List<M>>();
        Span { start, end: start + types * size_of::<List<M>>() }
    }

    fn list(&self, id: ListId) -> Option<&List<M>> {
        self.lists.get(id.order.index())?.get(id.migratetype.index())
    }

    /// Returns the number of blocks on a list.
    ///
    /// Exact for the holder of the lock; otherwise a momentary view.
    pub(crate) fn len_racy(&self, order: Order, migratetype: MigrateType) -> BlockCount {
        self.list(ListId { order, migratetype })
            .map_or(BlockCount::ZERO, |list| BlockCount(u64::from(list.len.load(Ordering::Relaxed))))
    }

    /// Returns the block at the front of a list.
    pub(crate) fn first(&self, order: Order, migratetype: MigrateType) -> Option<Frame> {
        block_of(Node(self.list(ListId { order, migratetype })?.head.next.load(Ordering::Relaxed)))
    }

    /// Returns the block at the back of a list.
    pub(crate) fn last(&self, order: Order, migratetype: MigrateType) -> Option<Frame> {
        block_of(Node(self.list(ListId { order, migratetype })?.head.prev.load(Ordering::Relaxed)))
    }

    /// Returns the block after `frame` on its list.
    pub(crate) fn next(&self, frames: &Frames<'_, M>, frame: Frame) -> Option<Frame> {
        block_of(Node(frames.links.get(frame.index())?.next.load(Ordering::Relaxed)))
    }

    /// Returns the block before `frame` on its list.
    pub(crate) fn prev(&self, frames: &Frames<'_, M>, frame: Frame) -> Option<Frame> {
        block_of(Node(frames.links.get(frame.index())?.prev.load(Ordering::Relaxed)))
    }

    /// Empties every list without reading the blocks on them.
    pub(crate) fn reset(&self) {
        for order in Order(0).up_to(Order::LIMIT) {
            for migratetype in MigrateType::ALL {
                let id = ListId { order, migratetype };
                if let Some(list) = self.list(id) {
                    let node = head_of(id);
                    list.head.next.store(node.0, Ordering::Relaxed);
                    list.head.prev.store(node.0, Ordering::Relaxed);
                    list.len.store(0, Ordering::Relaxed);
                }
            }
        }
    }

    /// Inserts a block into a list, at this end.
    pub(crate) fn insert(&self, frames: &Frames<'_, M>, frame: Frame, id: ListId, end: End) -> Result<(), Corrupt> {
        let list = self.list(id).ok_or(Corrupt(frame))?;
        let link = frames.links.get(frame.index()).ok_or(Corrupt(frame))?;
        let head = head_of(id);
        let node = node_of(frame);
        let (prev, next) = match end {
            End::Front => (head, Node(list.head.next.load(Ordering::Relaxed))),
            End::Back => (Node(list.head.prev.load(Ordering::Relaxed)), head),
        };
        let before = list.link(frames, head, prev).ok_or(Corrupt(frame))?;
        let after = list.link(frames, head, next).ok_or(Corrupt(frame))?;
        if before.next.load(Ordering::Relaxed) != next.0 || after.prev.load(Ordering::Relaxed) != prev.0 {
            return Err(Corrupt(block_of(next).or(block_of(prev)).unwrap_or(frame)));
        }
        link.next.store(next.0, Ordering::Relaxed);
        link.prev.store(prev.0, Ordering::Relaxed);
        after.prev.store(node.0, Ordering::Relaxed);
        before.next.store(node.0, Ordering::Relaxed);
        list.len.store(list.len.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        Ok(())
    }

    /// Removes a run of blocks from the front of a list.
    ///
    /// Their links keep their values.
    pub(crate) fn cut(&self, frames: &Frames<'_, M>, id: ListId, run: &CutRun) -> Result<(), Corrupt> {
        let CutRun { last, count, .. } = *run;
        let list = self.list(id).ok_or(Corrupt(last))?;
        let head = head_of(id);
        let next = Node(frames.links.get(last.index()).ok_or(Corrupt(last))?.next.load(Ordering::Relaxed));
        let after = list.link(frames, head, next).ok_or(Corrupt(last))?;
        if after.prev.load(Ordering::Relaxed) != node_of(last).0 {
            return Err(Corrupt(last));
        }
        after.prev.store(head.0, Ordering::Relaxed);
        list.head.next.store(next.0, Ordering::Relaxed);
        list.len.store(list.len.load(Ordering::Relaxed).wrapping_sub(count.0 as u32), Ordering::Relaxed);
        Ok(())
    }

    /// Removes a block from its list.
    ///
    /// `ask` receives the blocks that will be written to, before any of them is read.
    pub(crate) fn remove(
        &self,
        frames: &Frames<'_, M>,
        frame: Frame,
        id: ListId,
        ask: impl Fn(Frame),
    ) -> Result<(), Corrupt> {
        let list = self.list(id).ok_or(Corrupt(frame))?;
        let link = frames.links.get(frame.index()).ok_or(Corrupt(frame))?;
        let (head, node) = (head_of(id), node_of(frame));
        let next = Node(link.next.load(Ordering::Relaxed));
        let prev = Node(link.prev.load(Ordering::Relaxed));
        [next, prev].into_iter().filter_map(block_of).for_each(ask);
        let after = list.link(frames, head, next).ok_or(Corrupt(frame))?;
        let before = list.link(frames, head, prev).ok_or(Corrupt(frame))?;
        if before.next.load(Ordering::Relaxed) != node.0 || after.prev.load(Ordering::Relaxed) != node.0 {
            return Err(Corrupt(frame));
        }
        after.prev.store(prev.0, Ordering::Relaxed);
        before.next.store(next.0, Ordering::Relaxed);
        link.next.store(Node::NOBODY.0, Ordering::Relaxed);
        link.prev.store(Node::NOBODY.0, Ordering::Relaxed);
        list.len.store(list.len.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        Ok(())
    }
}

impl<M: Machine> List<M> {
    /// Returns the link words of a node of this list, whose head is `head`.
    fn link<'l>(&'l self, frames: &'l Frames<'_, M>, head: Node, node: Node) -> Option<&'l Link<M>> {
        if node == head {
            return Some(&self.head);
        }
        frames.links.get(block_of(node)?.index())
    }
}

/// Blocks of one order and type that are linked by [`ConcurrentLists::chain`], and their number.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    pub(crate) first: Frame,
    pub(crate) last: Frame,
    pub(crate) count: BlockCount,
}

/// Free lists for CPUs that share the zone lock.
pub(crate) struct ConcurrentLists<'l, 'a, M: Machine> {
    pub(crate) lists: &'l FreeLists<M>,
    pub(crate) frames: &'l Frames<'a, M>,
    pub(crate) machine: &'l M,
}

impl<M: Machine> Links<M> for ConcurrentLists<'_, '_, M> {
    fn link(&self, node: Node) -> Option<&Link<M>> {
        if let Some(frame) = block_of(node) {
            return self.frames.links.get(frame.index());
        }
        let list = node.0.checked_sub(FIRST_HEAD)? as usize;
        Some(&self.lists.lists.get(list / MigrateType::COUNT)?.get(list % MigrateType::COUNT)?.head)
    }

    fn is_head(&self, node: Node) -> bool {
        node.0 >= FIRST_HEAD
    }
}

impl<M: Machine> ConcurrentLists<'_, '_, M> {
    /// Removes a block from its list.
    ///
    /// Caller holds: the block; no other CPU removes it.
    pub(crate) fn del(&self, frame: Frame, list: ListId) -> Result<(), Broken> {
        smp_list::del(self.machine, self, node_of(frame))?;
        self.count(list, 1_u32.wrapping_neg());
        Ok(())
    }

    /// Links two blocks that belong to the caller.
    pub(crate) fn chain(&self, before: Frame, after: Frame) {
        smp_list::chain(self, node_of(before), node_of(after));
    }

    /// Inserts a chain of blocks at the front of a list.
    pub(crate) fn splice(&self, list: ListId, chain: Chain) -> Result<(), Broken> {
        let Chain { first, last, count } = chain;
        let count = count.0 as u32;
        // Counted first, so that the line with both words is fetched once.
        self.count(list, count);
        smp_list::splice(self.machine, self, head_of(list), node_of(first), node_of(last))
            .inspect_err(|_| self.count(list, count.wrapping_neg()))
    }

    fn count(&self, list: ListId, change: u32) {
        if let Some(list) = self.lists.list(list) {
            list.len.add(change, Ordering::Relaxed);
        }
    }
}
