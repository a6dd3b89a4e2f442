//! Metadata buffers: XFS's blocks of the disk in memory.
//!
//! Inodes lie on the disk in clusters of 32 ([`CLUSTER`]: inodes of 512 bytes in clusters of 16 KiB, as `mkfs.xfs`
//! makes them since 2015). A cluster is read when one of its inodes is, and used again when a changed inode is written
//! back, after the log. Its buffer is four single pages that cannot move. A shrinker frees a buffer that was not used
//! during its last two scans (`XFS_INO_REF`). So the number of buffers depends on page cache and shrinkers, up to a
//! hundredth of memory here. They come and go as long as files are written and read.
//!
//! Left out: blocks of directories, of free space and of the log, which are far fewer.

use std::collections::VecDeque;

use framewright::Pfn;

use super::slab::Object;

/// Files whose inodes share a buffer.
const CLUSTER: u32 = 32;
/// Pages of a buffer.
pub(super) const PAGES: usize = 4;
/// Scans that a used buffer survives.
const USED: u8 = 2;

/// A buffer's pages and its kernel object.
pub(super) type Buffer = ([Pfn; PAGES], Object);

#[derive(Clone, Default)]
struct Cluster {
    buffer: Option<Buffer>,
    uses: u8,
}

/// All buffers.
pub(super) struct Buffers {
    all: Vec<Cluster>,
    /// Clusters in memory; a shrinker begins with the first.
    present: VecDeque<u32>,
}

impl Buffers {
    pub(super) fn new(files: usize) -> Buffers {
        Buffers { all: vec![Cluster::default(); files.div_ceil(CLUSTER as usize)], present: VecDeque::new() }
    }

    /// Returns the cluster of a file's inode.
    pub(super) fn of(file: u32) -> u32 {
        file / CLUSTER
    }

    /// Returns the number of buffers in memory.
    pub(super) fn len(&self) -> u64 {
        self.present.len() as u64
    }

    /// Uses a cluster; returns whether it is in memory.
    pub(super) fn touch(&mut self, cluster: u32) -> bool {
        let of = &mut self.all[cluster as usize];
        of.uses = USED;
        of.buffer.is_some()
    }

    /// Adds a cluster's buffer; returns it if the cluster already has one.
    pub(super) fn insert(&mut self, cluster: u32, buffer: Buffer) -> Option<Buffer> {
        let of = &mut self.all[cluster as usize];
        if of.buffer.is_some() {
            return Some(buffer);
        }
        of.buffer = Some(buffer);
        self.present.push_back(cluster);
        None
    }

    /// Scans the buffer that was scanned longest ago; returns it if it is to be freed.
    pub(super) fn shrink(&mut self) -> Option<Buffer> {
        let cluster = self.present.pop_front()?;
        let of = &mut self.all[cluster as usize];
        if of.uses == 0 {
            return of.buffer.take();
        }
        of.uses -= 1;
        self.present.push_back(cluster);
        None
    }

    /// Removes and returns all buffers.
    pub(super) fn empty(&mut self) -> Vec<Buffer> {
        self.present.clear();
        self.all.iter_mut().filter_map(|of| of.buffer.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thpfioscale::options::Slabs;
    use crate::thpfioscale::slab::{Caches, ObjectKind};

    #[test]
    fn a_buffer_goes_when_it_was_met_twice_since_it_was_used() {
        let mut caches = Caches::new(Slabs::Single, 1, 1);
        caches.grow(ObjectKind::Buffer, (0, 0), (8, 0));
        let mut buffer =
            |first| ([0_u64, 1, 2, 3].map(|page| Pfn(first + page)), caches.take(ObjectKind::Buffer, (0, 0)).unwrap());
        let mut buffers = Buffers::new(65);
        assert_eq!(["a", "b", "c"].map(|_| buffers.shrink()), [None; 3]);
        assert_eq!([0, 31, 32, 64].map(Buffers::of), [0, 0, 1, 2]);
        let (first, last) = (buffer(16), buffer(32));
        for (cluster, buffer) in [(0, first), (2, last)] {
            assert!(!buffers.touch(cluster));
            assert_eq!(buffers.insert(cluster, buffer), None);
            assert!(buffers.touch(cluster));
        }
        let other = buffer(48);
        assert_eq!(buffers.insert(0, other), Some(other), "one is there");
        assert_eq!([(); 2].map(|()| buffers.shrink()), [None; 2]);
        buffers.touch(0);
        assert_eq!([(); 4].map(|()| buffers.shrink()), [None, None, None, Some(last)]);
        assert_eq!((buffers.len(), buffers.empty(), buffers.len()), (1, vec![first], 0));
    }
}
