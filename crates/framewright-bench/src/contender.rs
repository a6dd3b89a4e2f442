//! What is measured: an allocator of blocks behind two calls.
//!
//! A [`Contender`] is shared by all threads; a thread *attaches* to it for a stretch of work and gets a [`Handle`], which holds
//! what the allocator keeps per thread (a stack, a pinned CPU, nothing). A stretch of work is a [`Work`], generic over
//! the handle, so that every loop is compiled for each contender and nothing is called through a pointer. In
//! exchange every `alloc` and `free` of a handle must be `#[inline(never)]`: each operation of each contender is then
//! one real call with one argument, which is what a program that embeds an allocator gets at least. Without that rule the
//! compiler would melt the simple contenders into the loop and compare loops.
//!
//! Blocks are numbers: a frame number, or an address in frames. A block of order `k` is `1 << k` frames of 4 KiB.

use crate::workload::Shape;

/// Bytes of a frame, for contenders that hand out addresses.
pub const FRAME_BYTES: usize = 4096;

/// An allocator as one thread sees it.
pub trait Handle {
    /// Allocates a block of `1 << ORDER` frames; none if the allocator has none. Must be `#[inline(never)]`.
    fn alloc<const ORDER: u8>(&mut self) -> Option<u64>;

    /// Frees a block that any thread allocated with this order; `false` if the allocator refuses it. Must be
    /// `#[inline(never)]`.
    fn free<const ORDER: u8>(&mut self, block: u64) -> bool;
}

/// Something to do with a handle, on the thread that holds it.
pub trait Work {
    /// Its result.
    type Out;

    /// Does it.
    fn run<H: Handle>(self, handle: &mut H) -> Self::Out;
}

/// An allocator that threads share.
pub trait Contender: Sync {
    /// Does `work` with the handle of the calling thread, which is number `thread` of those it was set up for.
    fn attach<W: Work>(&self, thread: usize, work: W) -> W::Out;
}

/// What a contender is set up for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Threads that will attach, numbered from 0.
    pub threads: usize,
    /// CPUs of the machine that threads may run on.
    pub cpus: usize,
    /// Frames to manage; a power of two.
    pub frames: usize,
    /// Order of the blocks that will be asked for.
    pub order: u8,
    /// Mechanisms of the project's own allocator.
    pub mechanisms: framewright::Mechanisms,
}

impl Setup {
    /// Blocks that each thread may hold at a time, an eighth of the frames being kept back as reserve.
    pub fn share(&self) -> usize {
        ((self.frames >> self.order) / 8 * 7 / self.threads.max(1)).max(1)
    }
}

/// What a contender is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The project's own allocator.
    Own,
    /// The project's own with something that costs more on purpose: shown, but not judged by the goals.
    Variant,
    /// The least that a call could cost; no allocator.
    Limit,
    /// What one would use instead.
    Peer,
}

/// A contender that can be set up, as a row of a list.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// What it is, for the list of contenders.
    pub about: &'static str,
    /// What it is for.
    pub role: Role,
    /// Whether it takes part in a workload.
    pub suits: fn(Shape) -> bool,
    /// Most blocks that it can have allocated at a time.
    pub capacity: fn(&Setup) -> usize,
    /// Whether it is to be had on this machine; the error says why not.
    pub available: fn() -> Result<(), String>,
    /// Sets one up; the error says why it cannot be.
    pub make: fn(&Setup) -> Result<Box<dyn crate::cell::Cells>, String>,
}

impl Entry {
    /// A peer that suits every workload and has all of its frames to give.
    pub const fn peer(
        name: &'static str,
        about: &'static str,
        make: fn(&Setup) -> Result<Box<dyn crate::cell::Cells>, String>,
    ) -> Entry {
        Entry {
            name,
            about,
            role: Role::Peer,
            suits: |_| true,
            capacity: |setup| setup.frames >> setup.order,
            available: || Ok(()),
            make,
        }
    }
}
