//! Files of 64 KiB: their pages in the cache, and their kernel objects.
//!
//! | object | comes | goes |
//! |---|---|---|
//! | name, inode, log item, extents | with the file, or at its next opening | when a shrinker frees the file |
//! | page node | with the second page in the cache | with the file, or when too many nodes have only shadows |
//! | copy for the log | with every transaction that finds none | one with the file, one with the log's checkpoint |
//! | open file | when it is opened | when it is closed |
//!
//! A shrinker frees a file that it finds closed for the second time, and perhaps only without pages
//! ([`super::Shrinkers`]). A transaction changes the inode when the file is created, each time it is written to or
//! written back, and when it is first read after that (`relatime`).
//!
//! A page that is reclaimed leaves a *shadow*: the time of its eviction, counted in evictions. If it is read again
//! after fewer evictions than there are active pages, it becomes active at once (Linux: `workingset.c`).

use std::collections::VecDeque;

use super::chain::NIL;
use super::slab::Object;

/// Pages of a file.
pub(super) const PAGES: usize = 16;

/// One file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) pages: [u32; PAGES],
    /// Time of each page's eviction, plus one; 0 if there was none.
    pub(super) shadows: [u32; PAGES],
    /// Pages in the cache.
    pub(super) cached: u8,
    /// Pages to be written.
    pub(super) dirty: u8,
    /// Pages being read or written.
    pub(super) busy: u8,
    /// Whether it is in the queue of files to be written.
    pub(super) is_queued: bool,
    /// Whether it was not read since it was written: the next read changes its time of access (`relatime`).
    pub(super) is_unread: bool,
    /// Whether it was used since a shrinker last scanned it.
    pub(super) is_referenced: bool,
    /// Whether it is in the shrinkers' queue.
    pub(super) is_listed: bool,
    /// Whether a CPU reads it as a whole, and others wait.
    pub(super) is_taken: bool,
    pub(super) open: Option<Object>,
    pub(super) name: Option<Object>,
    /// Inode, log item, extents.
    pub(super) inode: Option<[Object; 3]>,
    pub(super) node: Option<Object>,
    /// Copies in the log, and kept for the next transaction.
    pub(super) logged: Option<Object>,
    pub(super) copy: Option<Object>,
}

const NEW: File = File {
    pages: [NIL; PAGES],
    shadows: [0; PAGES],
    cached: 0,
    dirty: 0,
    busy: 0,
    is_queued: false,
    is_unread: false,
    is_referenced: false,
    is_listed: false,
    is_taken: false,
    open: None,
    name: None,
    inode: None,
    node: None,
    logged: None,
    copy: None,
};

impl File {
    /// Returns whether a part of it is dirty, or is being read or written.
    pub(super) fn is_busy(&self) -> bool {
        self.dirty != 0 || self.busy != 0 || self.logged.is_some()
    }
}

/// All files, and the queues that they are in.
pub(super) struct Files {
    pub(super) all: Vec<File>,
    /// Files with dirty pages, in the order in which they got them.
    pub(super) dirty: VecDeque<u32>,
    /// Closed files; shrinkers begin with the first.
    pub(super) closed: VecDeque<u32>,
    /// Files whose node may have only shadows.
    pub(super) shadowed: VecDeque<u32>,
    /// Number of nodes with only shadows.
    pub(super) shadow_nodes: u64,
    /// Files with a copy in the log.
    pub(super) log: Vec<u32>,
    /// Pages evicted so far: the clock of shadows.
    pub(super) taken: u32,
    /// Pages read again, and those of them that became active at once.
    pub(super) refaults: [u64; 2],
}

impl Files {
    pub(super) fn new(count: usize) -> Files {
        Files {
            all: vec![NEW; count],
            dirty: VecDeque::new(),
            closed: VecDeque::new(),
            shadowed: VecDeque::new(),
            shadow_nodes: 0,
            log: Vec::new(),
            taken: 0,
            refaults: [0; 2],
        }
    }

    pub(super) fn file(&mut self, file: u32) -> &mut File {
        &mut self.all[file as usize]
    }

    /// Puts a page into the cache; returns whether it is to be active.
    ///
    /// `active` is the number of active pages.
    pub(super) fn insert(&mut self, file: u32, index: usize, frame: u32, active: u64) -> bool {
        let taken = self.taken;
        let of = self.file(file);
        let shadow = std::mem::take(&mut of.shadows[index]);
        of.pages[index] = frame;
        of.cached += 1;
        let had_only_shadows = of.cached == 1 && of.node.is_some();
        if had_only_shadows {
            self.shadow_nodes = self.shadow_nodes.saturating_sub(1);
        }
        if shadow == 0 {
            return false;
        }
        let is_soon = u64::from(taken.wrapping_sub(shadow - 1)) <= active;
        self.refaults[0] += 1;
        self.refaults[1] += u64::from(is_soon);
        is_soon
    }

    /// Removes a page from the cache; leaves a shadow if it was evicted.
    pub(super) fn remove(&mut self, file: u32, index: usize, leaves_shadow: bool) {
        let taken = self.taken;
        let of = self.file(file);
        of.pages[index] = NIL;
        of.cached -= 1;
        of.shadows[index] = if leaves_shadow { taken + 1 } else { 0 };
        if of.cached == 0 && of.node.is_some() {
            self.shadow_nodes += 1;
            self.shadowed.push_back(file);
        }
        self.taken += u32::from(leaves_shadow);
    }
}
