//! The memory in which lines exist.
//!
//! All memory that CPUs of a simulated machine share lies in an [`Arena`], in named regions. A region is an array; its
//! elements say which node their lines belong to. An access finds its line by its offset in the arena, never by its
//! address, so a run does not depend on where the host places memory. An access outside of every region is a mistake
//! and ends the run, so no shared access escapes its charge.
//!
//! Each region begins on a 64 KiB chunk of its own, so that one small table leads from an offset to its line.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Bytes of a cache line, as a power of two.
pub(crate) const LINE_SHIFT: u32 = 6;
/// Bytes that belong to one region at least, as a power of two.
const CHUNK_SHIFT: u32 = 16;
/// Bytes that belong to one region at least.
const CHUNK: usize = 1 << CHUNK_SHIFT;

/// How a region's bytes map to lines of the simulated machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// As they are: 64 bytes are a line.
    Natural,
    /// Each group of this many bytes (a power of two) is a line: for records that are larger on the simulated machine.
    Spread(u32),
    /// Each group of this many bytes shares the line of the group at its index in another region.
    ///
    /// That region is named by its number and is spread ([`Packing::Spread`]). For one record's words that lie in
    /// different arrays here.
    Over(usize, u32),
}

/// A part of an arena.
#[derive(Clone, Debug)]
pub struct Region {
    /// Name of the records there.
    pub name: String,
    /// Offset of its first byte in the arena.
    pub start: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Elements.
    pub count: usize,
    /// Whether transfers are counted by their place in the region: for records with fields, not for long arrays.
    pub detailed: bool,
    /// How its bytes lie in lines.
    pub packing: Packing,
    /// Homes of runs of elements: the end of the run and its node, ascending.
    homes: Vec<(usize, u16)>,
}

impl Region {
    /// Bytes of the region.
    pub fn bytes(&self) -> usize {
        self.element * self.count
    }

    /// Returns the node that an offset of the region belongs to.
    pub(crate) fn home(&self, offset: usize) -> u16 {
        let element = offset / self.element.max(1);
        let at = self.homes.partition_point(|&(end, _)| end <= element);
        self.homes.get(at).or(self.homes.last()).map_or(0, |&(_, node)| node)
    }

    /// Returns the bytes of one line, as a power of two.
    pub(crate) fn line_shift(&self) -> u32 {
        match self.packing {
            Packing::Natural => LINE_SHIFT,
            Packing::Spread(bytes) | Packing::Over(_, bytes) => bytes.trailing_zeros(),
        }
    }
}

/// Words that have a name.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    /// Offset in the arena of the first.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    /// The record that they are part of, and their own name.
    pub(crate) part: String,
    pub(crate) name: String,
    /// Node that they belong to, if it is not the region's.
    pub(crate) home: Option<u16>,
}

/// The lines of one chunk of the arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// Line of the chunk's first byte.
    pub(crate) line: u32,
    /// Bytes that are one line, as a power of two; none for a chunk of no region.
    pub(crate) shift: u8,
    /// Whether there is a region here.
    pub(crate) is_used: bool,
    /// Number of the region.
    pub(crate) region: u16,
}

impl Chunk {
    pub(crate) const NONE: Chunk = Chunk { line: 0, shift: 0, is_used: false, region: 0 };
}

/// Returns the chunk of an offset, and the offset in it.
#[inline(always)]
pub(crate) fn chunk_of(offset: usize) -> (usize, usize) {
    (offset >> CHUNK_SHIFT, offset & (CHUNK - 1))
}

/// The shared memory of a simulated machine.
pub struct Arena {
    memory: NonNull<u8>,
    layout: Layout,
    used: Cell<usize>,
    regions: RefCell<Vec<Region>>,
    names: RefCell<Vec<Named>>,
    // Words are cells: one thread at a time.
    _one_thread: PhantomData<*mut u8>,
}

impl Arena {
    /// Makes an arena of at most `bytes` bytes; unused ones cost nothing.
    pub fn new(bytes: usize) -> Arena {
        let size = bytes.max(1).next_multiple_of(CHUNK);
        let layout = Layout::from_size_align(size, CHUNK).expect("an arena is smaller than the address space");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Arena {
            memory,
            layout,
            used: Cell::new(0),
            regions: RefCell::default(),
            names: RefCell::default(),
            _one_thread: PhantomData,
        }
    }

    /// Returns the bytes that an array of `count` elements takes.
    pub(crate) fn bytes_of<T>(count: usize) -> usize {
        (size_of::<T>() * count).next_multiple_of(CHUNK).max(CHUNK)
    }

    /// Makes a region: an array of `count` elements, all on node 0 until [`Arena::set_homes`].
    ///
    /// # Panics
    /// The arena is full. Elements must not need dropping, because nothing here is ever dropped.
    #[allow(clippy::mut_from_ref, reason = "each call returns memory that no other has")]
    pub fn place<T>(
        &self,
        name: &str,
        (detailed, packing): (bool, Packing),
        count: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> &mut [T] {
        const { assert!(!std::mem::needs_drop::<T>() && align_of::<T>() <= CHUNK) };
        let start = self.used.get();
        let end = start + Arena::bytes_of::<T>(count);
        assert!(end <= self.layout.size(), "the arena has {} bytes, which is too few for {name}", self.layout.size());
        self.used.set(end);
        let element = size_of::<T>();
        self.regions.borrow_mut().push(Region {
            name: name.to_owned(),
            start,
            element,
            count,
            detailed,
            packing,
            homes: Vec::new(),
        });
        // SAFETY: the bytes from `start` to `end` are part of the allocation, aligned to a chunk and so for `T`, and
        // belong to no other region: `used` has passed them. Each element is written before the slice is made, and
        // lives as long as `self`.
        unsafe {
            let first = self.memory.add(start).cast::<T>();
            for i in 0..count {
                first.add(i).write(make(i));
            }
            std::slice::from_raw_parts_mut(first.as_ptr(), count)
        }
    }

    /// Sets the node of each element of a region.
    pub fn set_homes(&self, name: &str, home: impl Fn(usize) -> usize) {
        let mut regions = self.regions.borrow_mut();
        for region in regions.iter_mut().filter(|region| region.name == name) {
            region.homes = homes_of(region.count, &home);
        }
    }

    /// Names words: the record that they are part of, and their own name.
    ///
    /// `home` is their node, if it is not the region's.
    pub fn name(&self, address: usize, bytes: usize, (part, name): (String, String), home: Option<usize>) {
        let offset = address.wrapping_sub(self.base());
        self.names.borrow_mut().push(Named { offset, bytes, part, name, home: home.map(|node| node as u16) });
    }

    pub(crate) fn names(&self) -> Vec<Named> {
        self.names.borrow().clone()
    }

    /// Returns the number of the region with this name.
    pub(crate) fn number_of(&self, name: &str) -> Option<usize> {
        self.regions.borrow().iter().position(|region| region.name == name)
    }

    /// Returns the address of the first byte.
    pub(crate) fn base(&self) -> usize {
        self.memory.addr().get()
    }

    /// Returns all regions, in the order of their addresses.
    pub fn regions(&self) -> Vec<Region> {
        self.regions.borrow().clone()
    }

    /// Returns the lines of each chunk, and the number of lines.
    ///
    /// With `pairs`, two neighbouring lines count as one, because they move together.
    pub(crate) fn chunks(&self, pairs: bool) -> (Vec<Chunk>, usize) {
        let regions = self.regions.borrow();
        let mut chunks = vec![Chunk::NONE; self.used.get() >> CHUNK_SHIFT];
        let mut firsts: Vec<u32> = Vec::with_capacity(regions.len());
        let mut lines = 0_usize;
        for (number, region) in regions.iter().enumerate() {
            let shift = region.line_shift() + u32::from(pairs);
            let first = match region.packing {
                Packing::Over(other, _) => firsts[other],
                // Pairs of lines do not reach from one region into another.
                _ => u32::try_from(lines.next_multiple_of(2)).expect("fewer than 2^32 lines"),
            };
            firsts.push(first);
            let held = Arena::chunks_of(region);
            for (i, chunk) in chunks[region.start >> CHUNK_SHIFT..][..held].iter_mut().enumerate() {
                let line = first + ((i << CHUNK_SHIFT) >> shift) as u32;
                *chunk = Chunk { line, shift: shift as u8, is_used: true, region: number as u16 };
            }
            lines = lines.max(first as usize + region.bytes().div_ceil(1 << shift));
        }
        (chunks, lines.next_multiple_of(2))
    }

    fn chunks_of(region: &Region) -> usize {
        region.bytes().div_ceil(CHUNK).max(1)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; every borrow of it has ended.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// Returns the runs of elements that have one home.
fn homes_of(count: usize, home: impl Fn(usize) -> usize) -> Vec<(usize, u16)> {
    let mut homes: Vec<(usize, u16)> = Vec::new();
    for element in 0..count {
        let node = home(element) as u16;
        match homes.last_mut() {
            Some((end, last)) if *last == node => *end = element + 1,
            _ => homes.push((element + 1, node)),
        }
    }
    homes
}
