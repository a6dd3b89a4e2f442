//! Files: 64 KiB each, their pages in the cache, and the kernel's objects that a file is.
//!
//! | object | comes | goes |
//! |---|---|---|
//! | name, inode, log item, extents | with the file, or when it is opened again | when a shrinker finds the file closed, for the second time, and perhaps without pages ([`super::Shrinkers`]) |
//! | node that finds its pages | with the second page in the cache | with the file, or when too many nodes find nothing but shadows |
//! | copy for the log | with every transaction that finds none: when the file is created, each time it is written to or written back, and when it is read for the first time after that (`relatime`) | one with the file, one with the log's checkpoint |
//! | open file | when it is opened | when it is closed |
//!
//! A page that reclaim takes leaves its *shadow*: when that was. If it is read again while fewer pages were taken than
//! are active, it becomes active at once (Linux: `workingset.c`).

use std::collections::VecDeque;

use super::chain::NIL;
use super::slab::Object;

/// Pages of a file.
pub(super) const PAGES: usize = 16;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) pages: [u32; PAGES],
    /// When a page was taken, plus one; 0 if it was not.
    pub(super) shadows: [u32; PAGES],
    /// Pages in the cache.
    pub(super) cached: u8,
    /// Pages to be written.
    pub(super) dirty: u8,
    /// Pages being read or written.
    pub(super) busy: u8,
    /// It is among those that are to be written.
    pub(super) is_queued: bool,
    /// It was not read since it was written: who reads it changes its time of access (`relatime`).
    pub(super) is_unread: bool,
    /// It was used since a shrinker last saw it.
    pub(super) is_referenced: bool,
    /// A shrinker may find it.
    pub(super) is_listed: bool,
    /// Somebody reads it as a whole, and others wait.
    pub(super) is_taken: bool,
    pub(super) open: Option<Object>,
    pub(super) name: Option<Object>,
    /// Inode, log item, extents.
    pub(super) inode: Option<[Object; 3]>,
    pub(super) node: Option<Object>,
    /// In the log, and kept for the next transaction.
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
    /// Something of it is to be written, or being read or written.
    pub(super) fn is_busy(&self) -> bool {
        self.dirty != 0 || self.busy != 0 || self.logged.is_some()
    }
}

/// All files, and what is to be done with them.
pub(super) struct Files {
    pub(super) all: Vec<File>,
    /// Those with pages to be written, in the order in which they got them.
    pub(super) dirty: VecDeque<u32>,
    /// Those that were closed: shrinkers begin with the first.
    pub(super) closed: VecDeque<u32>,
    /// Files with a node that finds nothing but shadows, perhaps.
    pub(super) shadowed: VecDeque<u32>,
    /// How many nodes do.
    pub(super) shadow_nodes: u64,
    /// Those with a copy in the log.
    pub(super) log: Vec<u32>,
    /// Pages taken so far: the clock of shadows.
    pub(super) taken: u32,
    /// Pages read again, and of these such as became active at once.
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

    /// A page comes into the cache. Whether it is to be active, with so many active pages there are.
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

    /// A page leaves the cache, and a shadow if it was taken.
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
