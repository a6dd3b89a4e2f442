//! The kernel around the allocator: its records, and how its parts get memory.
//!
//! All of it is data of the host: virtual CPUs are charged for it only as `costs.rs` says. It is changed only between
//! two points at which another CPU may run. Nothing is borrowed across a call of the allocator, a sleep or a turn.

use std::cell::{Cell, RefCell};

use framewright::request::{
    __GFP_FS, __GFP_NOFAIL, __GFP_NOMEMALLOC, __GFP_NORETRY, __GFP_NOWARN, __GFP_RECLAIM, __GFP_ZERO,
    GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp,
};
use framewright::{AllocError, Allocator, Order, Pfn, Request};

use super::buffers::{self, Buffer, Buffers};
use super::chain::NIL;
use super::costs::{CREATE, LOG, OBJECT, OPEN, to_read};
use super::files::Files;
use super::lists::{ACTIVE, DIRTY, LOCKED, Lists, REFERENCED, Use};
use super::options::{Load, Shrinkers};
use super::outcome::Tally;
use super::slab::{Caches, Object, ObjectKind};
use crate::engine::here;
use crate::engine::sim::Sim;
use crate::model::{MS, Model, Ps};

/// Flags of page cache: any zone, movable, and without calls into the file system.
pub(super) const GFP_CACHE: Gfp = Gfp(GFP_HIGHUSER_MOVABLE.0 & !__GFP_FS.0);
/// Wait of a failed request before its next try, and tries before the run is given up.
///
/// Linux tries as long as there is progress.
const PAUSE: Ps = 2 * MS;
const TRIES: u32 = 2_000;
/// Pages that are freed at a time when a process ends (`struct mmu_gather`).
const GATHER: usize = 506;
/// Page tables of a process, besides those of the memory that it takes later. Assumed.
const PROCESS_TABLES: usize = 20;

/// Records of frames, files and objects.
pub(super) struct KernelMemory {
    pub(super) lists: Lists,
    pub(super) files: Files,
    pub(super) caches: Caches,
    pub(super) buffers: Buffers,
    /// Dirty pages, and pages under writeback.
    pub(super) dirty: u64,
    pub(super) writeback: u64,
    /// Base pages of processes.
    pub(super) anon: Vec<u32>,
    /// Objects that shrinkers still have to scan.
    pub(super) deferred: [u64; 3],
    pub(super) tally: Tally,
}

/// The kernel, as all CPUs share it.
pub(super) struct Kernel<'a> {
    pub(super) pages: &'a Allocator<'a, Sim>,
    pub(super) model: &'a Model,
    pub(super) memory: RefCell<KernelMemory>,
    /// CPUs of background threads, which reclaim their own node only.
    pub(super) background: Vec<usize>,
    /// Frames of the machine, and of the machine whose proportions are used.
    pub(super) frames: u64,
    pub(super) like: u64,
    /// Inodes that fill the log.
    pub(super) log: u64,
    pub(super) shrinkers: Shrinkers,
    pub(super) load: Load,
    pub(super) trouble: Cell<Option<(AllocError, Request)>>,
}

impl KernelMemory {
    /// Notes that a page of a file was read. It may have moved meanwhile, but was not freed.
    fn read(&mut self, file: u32, index: usize) {
        let frame = self.files.file(file).pages[index];
        self.lists.clear(frame, LOCKED);
        self.files.file(file).busy -= 1;
    }

    /// Forgets a base page of a process.
    fn forget_anon(&mut self, slot: u32) -> Pfn {
        let frame = std::mem::replace(&mut self.anon[slot as usize], NIL);
        self.lists.set_use(frame, Use::Other);
        Pfn(self.lists.pfn(frame))
    }
}

impl Kernel<'_> {
    /// Reads or changes the records; no other CPU runs meanwhile.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut KernelMemory) -> T) -> T {
        change(&mut self.memory.borrow_mut())
    }

    /// Scales an amount that does not grow with memory to this machine's size.
    pub(super) fn scaled(&self, amount: u64) -> u64 {
        (u128::from(amount) * u128::from(self.frames) / u128::from(self.like)) as u64
    }

    /// Returns whether no request has failed for good.
    pub(super) fn is_well(&self) -> bool {
        self.trouble.get().is_none()
    }

    /// Allocates a block that the caller needs; waits for one.
    ///
    /// Returns `None` if there is none at all.
    pub(super) fn must_alloc(&self, request: &Request) -> Option<Pfn> {
        for _ in 0..TRIES {
            match self.pages.alloc(request) {
                Ok(pfn) => return Some(pfn),
                Err(_) if !self.is_well() => return None,
                Err(_) => self.with(|memory| memory.tally.retries += 1),
            }
            here::sleep_until(here::clock() + PAUSE);
        }
        let error = self.pages.alloc(request).err()?;
        self.trouble.set(Some((error, *request)));
        None
    }

    pub(super) fn free(&self, pfn: u64, order: u8) {
        let freed = self.pages.free(Pfn(pfn), Order(order));
        assert!(freed.is_ok(), "a block of the model's own cannot be freed: {freed:?}");
    }

    pub(super) fn free_blocks(&self, blocks: Vec<(Pfn, Order)>) {
        blocks.into_iter().for_each(|(pfn, order)| self.free(pfn.0, order.0));
    }

    /// Allocates an object; returns `None` if the run is to end.
    pub(super) fn object(&self, kind: ObjectKind) -> Option<Object> {
        let cpu = here::cpu();
        let place = (cpu, self.model.topology.socket_of(cpu));
        here::work(OBJECT);
        loop {
            if let Some(object) = self.with(|memory| memory.caches.take(kind, place)) {
                return Some(object);
            }
            let gfp = Gfp(kind.gfp().0 & !__GFP_FS.0);
            let order = self.with(|memory| memory.caches.order(kind));
            // Several pages if there are some, without waking anything; else one, at any cost.
            let quick =
                Gfp((gfp | __GFP_NOMEMALLOC | __GFP_NORETRY | __GFP_NOWARN).0 & !(__GFP_RECLAIM | __GFP_NOFAIL).0);
            let several = if order == 0 { None } else { self.pages.alloc(&Request::new(quick, order)).ok() };
            let (pfn, order) = match several {
                Some(pfn) => (pfn, order),
                None => (self.must_alloc(&Request::page(gfp))?, 0),
            };
            self.with(|memory| memory.caches.grow(kind, place, (pfn.0, order)));
        }
    }

    pub(super) fn give(&self, object: Object) {
        here::work(OBJECT);
        if let Some((pfn, order)) = self.with(|memory| memory.caches.give(object)) {
            self.free(pfn, order);
        }
    }

    pub(super) fn files(&self) -> usize {
        self.with(|memory| memory.files.all.len())
    }

    pub(super) fn done(&self) {
        self.with(|memory| memory.tally.pages += 1);
    }

    /// Opens a file, or creates it if there is none.
    pub(super) fn open(&self, file: u32, creates: bool) -> Option<()> {
        here::work(if creates { CREATE } else { OPEN });
        let (has_name, has_inode) = self.with(|memory| {
            let of = memory.files.file(file);
            (of.name.is_some(), of.inode.is_some())
        });
        let name = if has_name { None } else { Some(self.object(ObjectKind::Dentry)?) };
        let inode = if has_inode {
            None
        } else {
            if !self.cluster(file)? && !creates {
                here::sleep_until(here::clock() + to_read(buffers::PAGES as u64));
            }
            Some([
                self.object(ObjectKind::Inode)?,
                self.object(ObjectKind::LogItem)?,
                self.object(ObjectKind::Extents)?,
            ])
        };
        let open = self.object(ObjectKind::Open)?;
        self.with(|memory| {
            let of = memory.files.file(file);
            of.name = name.or(of.name);
            of.inode = inode.or(of.inode);
            of.open = Some(open);
            of.is_referenced = true;
        });
        if creates { self.log(file) } else { Some(()) }
    }

    /// Closes a file, which shrinkers may then free.
    pub(super) fn close(&self, file: u32) {
        let open = self.with(|memory| {
            let of = memory.files.file(file);
            let open = of.open.take();
            if open.is_some() && !std::mem::replace(&mut of.is_listed, true) {
                memory.files.closed.push_back(file);
            }
            open
        });
        open.into_iter().for_each(|object| self.give(object));
    }

    /// Logs a change of a file's inode.
    ///
    /// A copy of the inode goes into the log, unless one is there. Another copy is made ready before that is known.
    pub(super) fn log(&self, file: u32) -> Option<()> {
        here::work(LOG);
        let has_copy = self.with(|memory| memory.files.file(file).copy.is_some());
        let copy = if has_copy { None } else { Some(self.object(ObjectKind::Copy)?) };
        let spare = self.with(|memory| {
            let of = memory.files.file(file);
            let spare = if of.copy.is_some() { copy } else { std::mem::replace(&mut of.copy, copy).and(None) };
            if of.logged.is_none() {
                of.logged = of.copy.take();
                memory.files.log.push(file);
            }
            spare
        });
        spare.into_iter().for_each(|object| self.give(object));
        Some(())
    }

    /// Writes the log and frees the copies in it; returns the files that were in it.
    pub(super) fn checkpoint(&self) -> Vec<u32> {
        let files = self.with(|memory| std::mem::take(&mut memory.files.log));
        for &file in &files {
            let logged = self.with(|memory| memory.files.file(file).logged.take());
            logged.into_iter().for_each(|object| self.give(object));
        }
        files
    }

    /// Uses the buffer of a file's inode, which is read or written back.
    ///
    /// Returns whether it was in memory.
    pub(super) fn cluster(&self, file: u32) -> Option<bool> {
        let cluster = Buffers::of(file);
        if self.with(|memory| memory.buffers.touch(cluster)) {
            return Some(true);
        }
        let object = self.object(ObjectKind::Buffer)?;
        let mut pages = [Pfn(0); buffers::PAGES];
        for page in &mut pages {
            *page = self.must_alloc(&Request::page(Gfp(GFP_KERNEL.0 & !__GFP_FS.0)))?;
        }
        let other = self.with(|memory| memory.buffers.insert(cluster, (pages, object)));
        other.into_iter().for_each(|buffer| self.free_buffer(buffer));
        Some(false)
    }

    /// Frees all buffers, when the files are deleted.
    pub(super) fn free_buffers(&self) {
        self.with(|memory| memory.buffers.empty()).into_iter().for_each(|buffer| self.free_buffer(buffer));
    }

    pub(super) fn free_buffer(&self, (pages, object): Buffer) {
        pages.into_iter().for_each(|pfn| self.free(pfn.0, 0));
        self.give(object);
    }

    /// Puts a new page into a file's cache, to be written (`dirty`) or read; returns its frame.
    pub(super) fn add_page(&self, file: u32, index: usize, dirty: bool) -> Option<u32> {
        let pfn = self.must_alloc(&Request::page(GFP_CACHE))?;
        let needs_node = self.with(|memory| {
            let of = memory.files.file(file);
            of.node.is_none() && (of.cached > 0 || index > 0)
        });
        let node = if needs_node { Some(self.object(ObjectKind::Node)?) } else { None };
        Some(self.with(|memory| {
            let frame = memory.lists.frame(pfn.0);
            let active: u64 = memory.lists.sizes(memory.lists.node(frame))[1];
            let is_active = memory.files.insert(file, index, frame, active);
            memory.files.file(file).node = node.or(memory.files.file(file).node);
            memory.lists.set_use(frame, Use::File { file, index: index as u8 });
            memory.lists.set(frame, REFERENCED | if is_active { ACTIVE } else { 0 });
            memory.lists.push(frame);
            let of = memory.files.file(file);
            if dirty {
                of.is_unread = true;
                of.dirty += 1;
                memory.dirty += 1;
                memory.lists.set(frame, DIRTY);
                if !std::mem::replace(&mut of.is_queued, true) {
                    memory.files.dirty.push_back(file);
                }
            } else {
                of.busy += 1;
                memory.lists.set(frame, LOCKED);
            }
            frame
        }))
    }

    /// Reads pages, which are in a file's cache, from the disk.
    pub(super) fn fetch(&self, file: u32, indices: &[usize]) -> Option<()> {
        let request = self.object(ObjectKind::Bio)?;
        here::sleep_until(here::clock() + to_read(indices.len() as u64));
        self.give(request);
        self.with(|memory| indices.iter().for_each(|&index| memory.read(file, index)));
        Some(())
    }

    /// Allocates a base page of a process; returns `None` if the run is to end.
    pub(super) fn add_anon(&self) -> Option<u32> {
        let pfn = self.must_alloc(&Request::page(GFP_HIGHUSER_MOVABLE | __GFP_ZERO))?;
        Some(self.with(|memory| {
            let (slot, frame) = (memory.anon.len() as u32, memory.lists.frame(pfn.0));
            memory.anon.push(frame);
            memory.lists.set_use(frame, Use::Anon { slot });
            slot
        }))
    }

    pub(super) fn free_pages(&self, pages: &[Pfn]) {
        if !pages.is_empty() {
            let freed = self.pages.free_bulk(pages, Order(0));
            assert!(freed.first.is_none(), "pages of the cache cannot be freed: {:?}", freed.first);
        }
    }

    /// Frees the base pages of a process that ends.
    pub(super) fn free_anon(&self, slots: &[u32]) {
        for slots in slots.chunks(GATHER) {
            let pages: Vec<Pfn> = self.with(|memory| slots.iter().map(|&slot| memory.forget_anon(slot)).collect());
            self.free_pages(&pages);
        }
    }

    /// Uses a page of a file; returns whether it is in the cache.
    pub(super) fn touch(&self, file: u32, index: usize) -> bool {
        self.with(|memory| {
            let frame = memory.files.file(file).pages[index];
            if frame != NIL {
                memory.lists.mark_accessed(frame);
            }
            frame != NIL
        })
    }

    /// Starts a process; returns its stack and page tables, as far as they could be allocated.
    pub(super) fn fork(&self) -> Vec<(Pfn, Order)> {
        let stack = self.pages.alloc(&Request::new(GFP_KERNEL, 2)).ok().map(|pfn| (pfn, Order(2)));
        let tables = (0..PROCESS_TABLES).filter_map(|_| self.pages.alloc(&Request::page(GFP_KERNEL)).ok());
        stack.into_iter().chain(tables.map(|pfn| (pfn, Order(0)))).collect()
    }

    /// Allocates an unmovable page of the kernel; returns `None` if the run is to end.
    pub(super) fn fixed_page(&self) -> Option<Pfn> {
        self.must_alloc(&Request::page(GFP_KERNEL | __GFP_ZERO))
    }
}
