//! Slabs: pages of kernel objects of one kind, which are freed only when all of their objects are.
//!
//! As in SLUB, a CPU takes objects from a slab of its own. When that is full, it takes the first slab of its node with
//! a free object. If there is none, it needs a new slab. Sizes and orders are those of Linux 6.1 with SLUB, read off
//! `/proc/slabinfo` while this workload ran. Kernels of 2018 often had SLAB, which takes single pages for objects of
//! this size: [`Slabs::Single`].
//!
//! Left out: lists of partial slabs of each CPU, and merging of caches with objects of the same size.

use framewright::request::{__GFP_RECLAIMABLE, GFP_KERNEL, Gfp};

use super::chain::{Chain, Linked, Links, NIL};
use super::options::Slabs;

/// Kinds of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ObjectKind {
    /// A file's inode (`xfs_inode`).
    Inode,
    /// Its name (`dentry`).
    Dentry,
    /// The index of a file's pages, if it has more than one (`radix_tree_node`).
    Node,
    /// An inode's copy for the log (`kmalloc-1k`).
    ///
    /// One is kept; one more exists from a transaction to the log's next checkpoint.
    Copy,
    /// The log's record of an inode (`xfs_ili`).
    LogItem,
    /// A file's extents (`kmalloc-128`).
    Extents,
    /// An open file (`filp`).
    Open,
    /// A request to the disk and its completion (`bio`, `xfs_ioend`).
    Bio,
    /// The record of a metadata buffer (`xfs_buf`).
    Buffer,
    /// A client (`TCP`).
    Socket,
    /// The head of data on the way to a client (`skbuff_head_cache`).
    Head,
}

/// Number of kinds.
const KINDS: usize = 11;

/// Objects of a page, the order of a slab, and whether a shrinker can free them.
const SIZES: [(u16, u8, bool); KINDS] = [
    (4, 2, true),
    (21, 0, true),
    (7, 2, true),
    (4, 2, false),
    (20, 0, false),
    (32, 0, false),
    (16, 0, false),
    (21, 0, false),
    (10, 1, false),
    (2, 3, false),
    (16, 0, false),
];

/// Empty slabs that a cache keeps (`MIN_PARTIAL`).
const KEPT: u64 = 5;

/// An object: its slab, and its place in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Object {
    slab: u32,
    place: u8,
}

#[derive(Clone, Copy, Debug)]
struct Slab {
    kind: u8,
    order: u8,
    node: u8,
    /// Whether a CPU takes objects from it.
    taken: bool,
    partial: bool,
    objects: u16,
    used: u16,
    map: u64,
    pfn: u64,
    links: Links,
}

impl Linked for Slab {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The caches of all kinds.
pub(super) struct Caches {
    how: Slabs,
    slabs: Vec<Slab>,
    unused: Vec<u32>,
    /// Slabs with free objects, by kind and node.
    partial: Vec<Chain>,
    nodes: usize,
    /// By kind and CPU.
    current: Vec<u32>,
    cpus: usize,
    /// Frames of slabs that cannot be freed by a shrinker, and of those that can.
    pub(super) frames: [u64; 2],
    /// Objects in use, by kind.
    pub(super) objects: [u64; KINDS],
}

impl ObjectKind {
    pub(super) fn gfp(self) -> Gfp {
        if SIZES[self as usize].2 { GFP_KERNEL | __GFP_RECLAIMABLE } else { GFP_KERNEL }
    }
}

impl Caches {
    pub(super) fn new(how: Slabs, nodes: usize, cpus: usize) -> Caches {
        Caches {
            how,
            slabs: Vec::new(),
            unused: Vec::new(),
            partial: vec![Chain::EMPTY; KINDS * nodes],
            nodes,
            current: vec![NIL; KINDS * cpus],
            cpus,
            frames: [0; 2],
            objects: [0; KINDS],
        }
    }

    /// Returns the preferred order of a kind's slabs.
    pub(super) fn order(&self, kind: ObjectKind) -> u8 {
        if self.how == Slabs::Slub { SIZES[kind as usize].1 } else { 0 }
    }

    /// Takes an object; returns `None` if that needs a new slab.
    pub(super) fn take(&mut self, kind: ObjectKind, (cpu, node): (usize, usize)) -> Option<Object> {
        let place = kind as usize * self.cpus + cpu;
        let mut current = self.current[place];
        if current == NIL || self.is_full(current) {
            let next = self.partial[kind as usize * self.nodes + node].head;
            if next == NIL {
                return None;
            }
            self.unlink(next);
            self.put_down(current);
            self.slabs[next as usize].taken = true;
            (self.current[place], current) = (next, next);
        }
        let slab = &mut self.slabs[current as usize];
        let free = slab.map.trailing_ones() as u8;
        slab.map |= 1 << free;
        slab.used += 1;
        self.objects[kind as usize] += 1;
        Some(Object { slab: current, place: free })
    }

    /// Adds a slab, from which the CPU then takes objects.
    pub(super) fn grow(&mut self, kind: ObjectKind, (cpu, node): (usize, usize), (pfn, order): (u64, u8)) {
        let (each, _, reclaimable) = SIZES[kind as usize];
        let objects = (each << order).min(64);
        self.frames[usize::from(reclaimable)] += 1 << order;
        let (kind8, node8) = (kind as u8, node as u8);
        let slab = Slab {
            kind: kind8,
            order,
            node: node8,
            taken: true,
            partial: false,
            objects,
            used: 0,
            map: 0,
            pfn,
            links: Links::NONE,
        };
        let number = self.unused.pop().unwrap_or(self.slabs.len() as u32);
        if number as usize == self.slabs.len() {
            self.slabs.push(slab);
        } else {
            self.slabs[number as usize] = slab;
        }
        let before = std::mem::replace(&mut self.current[kind as usize * self.cpus + cpu], number);
        self.put_down(before);
    }

    /// Frees an object; returns the slab's memory if it is to be freed.
    pub(super) fn give(&mut self, object: Object) -> Option<(u64, u8)> {
        let slab = &mut self.slabs[object.slab as usize];
        slab.map &= !(1 << object.place);
        slab.used -= 1;
        self.objects[usize::from(slab.kind)] -= 1;
        if slab.taken {
            return None;
        }
        if !slab.partial {
            self.link(object.slab);
        }
        let (used, list) = (self.slabs[object.slab as usize].used, self.list_of(object.slab));
        (used == 0 && self.partial[list].len > KEPT).then(|| self.release(object.slab))
    }

    /// Removes all empty slabs at the end; returns their memory.
    pub(super) fn empty(&mut self) -> Vec<(u64, u8)> {
        let current = self.current.clone();
        self.current.fill(NIL);
        current.into_iter().for_each(|slab| self.put_down(slab));
        let empty =
            |caches: &Caches, slab: u32| caches.slabs[slab as usize].partial && caches.slabs[slab as usize].used == 0;
        let found: Vec<u32> = (0..self.slabs.len() as u32).filter(|&slab| empty(self, slab)).collect();
        found.into_iter().map(|slab| self.release(slab)).collect()
    }

    fn is_full(&self, slab: u32) -> bool {
        let slab = &self.slabs[slab as usize];
        slab.used == slab.objects
    }

    /// Releases a slab that a CPU took objects from.
    fn put_down(&mut self, slab: u32) {
        if slab != NIL {
            self.slabs[slab as usize].taken = false;
            if !self.is_full(slab) {
                self.link(slab);
            }
        }
    }

    fn release(&mut self, number: u32) -> (u64, u8) {
        self.unlink(number);
        let Slab { kind, order, pfn, .. } = self.slabs[number as usize];
        self.frames[usize::from(SIZES[usize::from(kind)].2)] -= 1 << order;
        self.unused.push(number);
        (pfn, order)
    }

    fn link(&mut self, number: u32) {
        let list = self.list_of(number);
        self.slabs[number as usize].partial = true;
        self.partial[list].push_last(&mut self.slabs, number);
    }

    fn unlink(&mut self, number: u32) {
        let list = self.list_of(number);
        self.slabs[number as usize].partial = false;
        self.partial[list].remove(&mut self.slabs, number);
    }

    /// Returns the number of the list for a slab's kind and node.
    fn list_of(&self, number: u32) -> usize {
        let Slab { kind, node, .. } = self.slabs[number as usize];
        usize::from(kind) * self.nodes + usize::from(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slab_is_freed_with_its_last_object() {
        let mut caches = Caches::new(Slabs::Slub, 1, 1);
        let mut taken = Vec::new();
        for slab in 0..20_u64 {
            assert_eq!(caches.take(ObjectKind::Inode, (0, 0)), None);
            caches.grow(ObjectKind::Inode, (0, 0), (slab * 4, 2));
            taken.extend(std::iter::from_fn(|| caches.take(ObjectKind::Inode, (0, 0))));
        }
        assert_eq!((taken.len(), caches.frames), (320, [0, 80]));
        // One object of each slab is kept: nothing comes free.
        let (kept, rest): (Vec<Object>, Vec<Object>) = taken.into_iter().partition(|object| object.place == 3);
        assert!(rest.into_iter().all(|object| caches.give(object).is_none()));
        let freed = kept.into_iter().filter_map(|object| caches.give(object)).count();
        // The last slab is the CPU's.
        assert_eq!(freed, 19 - KEPT as usize);
        assert_eq!((freed + caches.empty().len(), caches.frames), (20, [0, 0]));
    }
}
