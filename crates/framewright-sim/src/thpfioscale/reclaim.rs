//! What frees memory when the allocator asks, and what moves it: `vmscan.c` in small.
//!
//! Of each node's inactive list one in two to the power of the priority is looked at, from the tail: what is clean is
//! freed, what is to be written or being written goes to the active list and is freed when that is done; when the
//! inactive list is short of the active one, as many pages go from that to it. Shrinkers are asked for twice the same
//! share of their objects (`seeks` of 2), and scan them a thousand at a time. A gentle round asks no shrinker, and
//! nothing is written for any; nor does a request from inside of the file system ask the file system's.
//!
//! Shrinkers of Linux 4.20 scan a batch at least ([`Shrinkers`]).
//!
//! Background reclaim looks at its node. A request looks at all nodes, its own first, and at as many pages as it wants
//! at least; where it wants a block that only compaction can make, that is twice the block, as compaction needs room
//! (`should_continue_reclaim`, `compact_gap`), or as many as a first round looks at, which it does not break off
//! (`shrink_node_memcg`). It is content when it has as many.

use framewright::event::Event;
use framewright::machine::{Busy, Need};
use framewright::request::{__GFP_FS, __GFP_THISNODE};
use framewright::{Order, Pfn};

use super::buffers;
use super::chain::NIL;
use super::costs::{COPY, DROP, MOVE, SCAN, SHRINK};
use super::files::PAGES;
use super::kernel::{Kernel, KernelMemory};
use super::lists::{DIRTY, LOCKED, RECLAIM, REFERENCED, Use, WRITEBACK};
use super::options::Shrinkers;
use super::slab::Object;
use crate::engine::here;
use crate::engine::host::Host;
use crate::model::MS;

/// Pages that are looked at in one go (`SWAP_CLUSTER_MAX`).
const CLUSTER: u64 = 32;
/// The first round's priority (`DEF_PRIORITY`).
const PRIORITY: u32 = 12;
/// Objects that a file system's shrinker scans in one go (its `batch`), unless it has fewer; and what it is asked for
/// for a share of pages.
const BATCH: u64 = 1024;
const PER_SHARE: u64 = 2;
/// Buffers that theirs scans in one go, if there are so many (`SHRINK_BATCH`).
const BUFFERS: u64 = 128;
/// How long who found nothing but pages being written waits for them.
const WAIT: u64 = MS;

impl Host for Kernel<'_> {
    fn reclaim(&self, need: &Need) -> u64 {
        here::turn();
        let is_background = self.background.contains(&here::cpu());
        let nodes = self.pages.nodes();
        let first = usize::from(need.node.0);
        let only = is_background || need.gfp.contains(__GFP_THISNODE);
        let mut freed = 0;
        let wanted = if is_background { need.frames } else { need.frames.max(self.room(first, need.order)) };
        for node in (0..nodes).map(|node| (first + node) % nodes).take(if only { 1 } else { nodes }) {
            freed += self.shrink_node(node, need, (wanted - freed, is_background));
            if freed >= wanted {
                break;
            }
        }
        self.with(|memory| {
            let run = if is_background { &mut memory.tally.kswapd } else { &mut memory.tally.direct };
            run.runs += 1;
            run.freed += freed;
        });
        freed
    }

    fn migrates(&self) -> bool {
        true
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        here::turn();
        if order.0 != 0 {
            return Err(Busy);
        }
        self.with(|memory| memory.move_page(from.0, to.0))?;
        here::work(MOVE + COPY);
        self.free(from.0, 0);
        Ok(())
    }

    fn traces(&self) -> bool {
        true
    }

    fn event(&self, event: &Event) {
        if let Event::ExtFrag { alloc_migratetype, fallback_migratetype, fallback_order, change_ownership, .. } = *event
        {
            let types = (alloc_migratetype.index(), fallback_migratetype.index());
            self.with(|memory| memory.tally.note(types, fallback_order.index(), change_ownership));
        }
    }
}

impl KernelMemory {
    /// The contents of a frame are in another one from now on.
    fn move_page(&mut self, from: u64, to: u64) -> Result<(), Busy> {
        let (from, to) = (self.lists.frame(from), self.lists.frame(to));
        match self.lists.page(from).used {
            Use::File { file, index } if !self.lists.has(from, LOCKED | WRITEBACK) => {
                self.files.file(file).pages[usize::from(index)] = to;
            }
            Use::Anon { slot } => self.anon[slot as usize] = to,
            _ => return Err(Busy),
        }
        self.lists.transfer(from, to);
        Ok(())
    }

    /// Takes a file's page out of the cache. It must be clean, and nobody's.
    pub(super) fn drop_page(&mut self, frame: u32, leaves_shadow: bool) -> Option<Pfn> {
        let Use::File { file, index } = self.lists.page(frame).used else { return None };
        self.files.remove(file, usize::from(index), leaves_shadow);
        self.lists.forget(frame);
        Some(Pfn(self.lists.pfn(frame)))
    }

    /// Moves pages from a node's active list to the inactive one, if that is short.
    fn balance_lists(&mut self, node: usize, most: u64) -> u64 {
        let [inactive, active] = self.lists.sizes(node);
        // Linux: the square root of ten times the gigabytes.
        let gigabytes = (inactive + active) >> 18;
        let ratio = if gigabytes == 0 { 1 } else { (10 * gigabytes).isqrt() };
        if inactive * ratio >= active {
            return 0;
        }
        let count = most.max(CLUSTER).min(active);
        for _ in 0..count {
            let Some(frame) = self.lists.last(node, true) else { break };
            self.lists.clear(frame, REFERENCED);
            self.lists.move_to(frame, false);
        }
        count
    }

    /// Looks at the next pages of a node's inactive list. Those that can be freed, how many were looked at, and how
    /// many are being written.
    fn look(&mut self, node: usize, count: u64) -> (Vec<Pfn>, u64, u64) {
        let (mut freed, mut scanned, mut written) = (Vec::new(), 0, 0);
        while scanned < count {
            let Some(frame) = self.lists.last(node, false) else { break };
            scanned += 1;
            if self.lists.has(frame, LOCKED) {
                self.lists.move_to(frame, false);
            } else if self.lists.has(frame, DIRTY | WRITEBACK) {
                written += u64::from(self.lists.has(frame, WRITEBACK));
                self.lists.set(frame, RECLAIM);
                self.lists.move_to(frame, true);
            } else {
                freed.extend(self.drop_page(frame, true));
            }
        }
        (freed, scanned, written)
    }
}

impl Kernel<'_> {
    /// Pages that a request reclaims for a block that only compaction can make. Blocks do not grow with memory: so this
    /// is as on the machine whose proportions this one has.
    fn room(&self, node: usize, order: Order) -> u64 {
        if order.0 == 0 {
            return 0;
        }
        let inactive = self.with(|memory| memory.lists.sizes(node)[0]);
        let first_round = (inactive * self.like / self.frames) >> PRIORITY;
        first_round.max(2 * order.frames())
    }

    fn shrink_node(&self, node: usize, need: &Need, (wanted, is_background): (u64, bool)) -> u64 {
        let priority = need.priority.min(20);
        let [inactive, active] = self.with(|memory| memory.lists.sizes(node));
        let deactivated = self.with(|memory| memory.balance_lists(node, active >> priority));
        here::work(SCAN * deactivated);
        let goal = (inactive >> priority).max(if is_background { CLUSTER } else { wanted });
        let (mut freed, mut scanned, mut writing) = (0, 0, 0);
        while scanned < goal && freed < wanted {
            let (pages, looked_at, written) = self.with(|memory| memory.look(node, CLUSTER.min(goal - scanned)));
            scanned += looked_at;
            writing += written;
            here::work(SCAN * looked_at + DROP * pages.len() as u64);
            freed += pages.len() as u64;
            self.free_pages(&pages);
            if looked_at == 0 {
                break;
            }
        }
        self.with(|memory| {
            let run = if is_background { &mut memory.tally.kswapd } else { &mut memory.tally.direct };
            run.scanned += scanned;
        });
        if !need.gentle {
            freed += self.shrink_slab(priority, need.gfp.contains(__GFP_FS));
        }
        if freed == 0 && writing != 0 {
            here::sleep_until(here::clock() + WAIT);
        }
        freed
    }

    /// Asks the shrinkers for their share. Frames that came free with objects.
    fn shrink_slab(&self, priority: u32, may_call_fs: bool) -> u64 {
        let before = self.frames_of_objects();
        let [files, nodes, buffers] = self.scans(priority, may_call_fs);
        here::work(SHRINK * (files + nodes + buffers));
        (0..files).for_each(|_| self.shrink_file());
        for _ in 0..nodes {
            let node = self.with(KernelMemory::next_shadow_node);
            node.into_iter().for_each(|object| self.give(object));
        }
        for _ in 0..buffers {
            let buffer = self.with(|memory| memory.buffers.shrink());
            buffer.into_iter().for_each(|buffer| self.free_buffer(buffer));
        }
        before.saturating_sub(self.frames_of_objects())
    }

    /// Frames of slabs and buffers.
    fn frames_of_objects(&self) -> u64 {
        self.with(|memory| memory.caches.frames.iter().sum::<u64>() + memory.buffers.len() * buffers::PAGES as u64)
    }

    /// How many closed files, nodes with nothing but shadows, and buffers are to be scanned now.
    fn scans(&self, priority: u32, may_call_fs: bool) -> [u64; 3] {
        let batches = [BATCH, BUFFERS, BUFFERS].map(|batch| self.scaled(batch).max(1));
        self.with(|memory| {
            let limit = memory.lists.listed() >> 3;
            // An inode is the shrinker's only when its name is gone: then it goes with that.
            let freeable = [
                memory.files.closed.len() as u64,
                memory.files.shadow_nodes.saturating_sub(limit),
                memory.buffers.len(),
            ];
            let asked = [may_call_fs, true, true];
            let scans = std::array::from_fn(|cache| {
                let (freeable, batch) = (freeable[cache], batches[cache]);
                let share = (freeable >> priority) * PER_SHARE;
                let least = if self.shrinkers == Shrinkers::Batch { batch.min(freeable) } else { 0 };
                let due = (memory.deferred[cache] + share.max(least)).min(2 * freeable);
                let scan = if due >= freeable { due } else { due / batch * batch };
                let scan = if asked[cache] { scan } else { 0 };
                memory.deferred[cache] = due - scan;
                scan
            });
            memory.tally.shrunk += scans.iter().sum::<u64>();
            scans
        })
    }

    /// Looks at the file that was closed longest ago: frees it if it was not used since the last look.
    fn shrink_file(&self) {
        let unused = self.with(|memory| {
            let file = memory.files.closed.pop_front()?;
            let of = memory.files.file(file);
            of.is_listed = false;
            if of.open.is_some() || of.inode.is_none() {
                return None;
            }
            let is_let_be = self.shrinkers == Shrinkers::Batch && of.cached > 1;
            if is_let_be || of.is_busy() || std::mem::take(&mut of.is_referenced) {
                of.is_listed = true;
                memory.files.closed.push_back(file);
                return None;
            }
            Some(file)
        });
        unused.into_iter().for_each(|file| self.forget(file));
    }

    /// Takes a file that is closed and clean out of memory, with all that belongs to it.
    pub(super) fn forget(&self, file: u32) {
        let (pages, objects) = self.with(|memory| memory.forget_file(file));
        self.free_pages(&pages);
        objects.into_iter().for_each(|object| self.give(object));
    }
}

impl KernelMemory {
    /// What is to be freed of a file that is forgotten.
    fn forget_file(&mut self, file: u32) -> (Vec<Pfn>, Vec<Object>) {
        let frames: [u32; PAGES] = self.files.file(file).pages;
        let pages: Vec<Pfn> =
            frames.into_iter().filter(|&frame| frame != NIL).filter_map(|frame| self.drop_page(frame, false)).collect();
        let of = self.files.file(file);
        let had_node = of.node.is_some();
        let objects: Vec<Object> = of.inode.take().into_iter().flatten().collect();
        let others = [of.name.take(), of.node.take(), of.copy.take(), of.logged.take(), of.open.take()];
        of.shadows = [0; PAGES];
        if had_node {
            self.files.shadow_nodes = self.files.shadow_nodes.saturating_sub(1);
        }
        (pages, objects.into_iter().chain(others.into_iter().flatten()).collect())
    }

    /// The next node that finds nothing but shadows.
    fn next_shadow_node(&mut self) -> Option<Object> {
        while let Some(file) = self.files.shadowed.pop_front() {
            let of = self.files.file(file);
            if of.cached == 0
                && let Some(node) = of.node.take()
            {
                of.shadows = [0; PAGES];
                self.files.shadow_nodes = self.files.shadow_nodes.saturating_sub(1);
                return Some(node);
            }
        }
        None
    }
}
