//! Frees and moves memory when the allocator asks: a small `vmscan.c`.
//!
//! A round scans one page in two to the power of the priority of each node's inactive list, from the tail. Clean pages
//! are freed. Dirty pages and pages under writeback go to the active list and are freed when they are written. If the
//! inactive list is too short, as many pages go from the active list to it. Shrinkers scan twice that share of their
//! objects (`seeks` of 2), a thousand at a time. A gentle round asks no shrinker. A request from inside the file system
//! does not ask the file system's shrinker. No round writes pages.
//!
//! Shrinkers of Linux 4.20 scan at least one batch ([`Shrinkers`]).
//!
//! Background reclaim scans its own node. A request scans all nodes, its own first, until it has freed as many pages as
//! it wants. For a block that only compaction can make, that is the larger of two numbers: twice the block, because
//! compaction needs room (`should_continue_reclaim`, `compact_gap`), or what a first round scans, which is not broken
//! off (`shrink_node_memcg`).

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

/// Pages that are scanned at a time (`SWAP_CLUSTER_MAX`).
const CLUSTER: u64 = 32;
/// The first round's priority (`DEF_PRIORITY`).
const PRIORITY: u32 = 12;
/// Objects that a file system's shrinker scans at a time (its `batch`), and its objects for each share of pages.
const BATCH: u64 = 1024;
const PER_SHARE: u64 = 2;
/// Buffers that their shrinker scans at a time (`SHRINK_BATCH`).
const BUFFERS: u64 = 128;
/// Wait of a round that found only pages under writeback.
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
    /// Moves the contents of a frame to another.
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

    /// Removes a file's page from the cache. The page must be clean and unused.
    pub(super) fn drop_page(&mut self, frame: u32, leaves_shadow: bool) -> Option<Pfn> {
        let Use::File { file, index } = self.lists.page(frame).used else { return None };
        self.files.remove(file, usize::from(index), leaves_shadow);
        self.lists.forget(frame);
        Some(Pfn(self.lists.pfn(frame)))
    }

    /// Moves pages from a node's active list to the inactive one, if that is too short.
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

    /// Scans the next pages of a node's inactive list.
    ///
    /// Returns the pages to free, the number scanned, and the number under writeback.
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
    /// Returns the pages that a request reclaims for a block that only compaction can make.
    ///
    /// Blocks do not grow with memory, so this is computed for the machine whose proportions are used.
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

    /// Runs the shrinkers; returns the frames that came free with objects.
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

    /// Returns the frames of slabs and buffers.
    fn frames_of_objects(&self) -> u64 {
        self.with(|memory| memory.caches.frames.iter().sum::<u64>() + memory.buffers.len() * buffers::PAGES as u64)
    }

    /// Returns how many closed files, nodes with only shadows, and buffers are to be scanned now.
    fn scans(&self, priority: u32, may_call_fs: bool) -> [u64; 3] {
        let batches = [BATCH, BUFFERS, BUFFERS].map(|batch| self.scaled(batch).max(1));
        self.with(|memory| {
            let limit = memory.lists.listed() >> 3;
            // An inode is freed with its name, so it has no shrinker of its own.
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

    /// Scans the file that was closed longest ago; frees it if it was not used since the last scan.
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

    /// Frees a closed and clean file, with its pages and objects.
    pub(super) fn forget(&self, file: u32) {
        let (pages, objects) = self.with(|memory| memory.forget_file(file));
        self.free_pages(&pages);
        objects.into_iter().for_each(|object| self.give(object));
    }
}

impl KernelMemory {
    /// Removes a file's pages and objects from the records; returns them for freeing.
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

    /// Takes the next node that has only shadows.
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
