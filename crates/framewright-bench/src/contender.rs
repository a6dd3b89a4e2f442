//! The interface of a contender: an allocator of blocks with two calls.
//!
//! A [`Contender`] is shared by all threads; a thread *attaches* to it for a stretch of work and gets a [`Handle`],
//! which holds what the allocator keeps per thread (a stack, a pinned CPU, nothing). A stretch of work is a [`Work`],
//! generic over the handle, so that every loop is compiled for each contender and nothing is called through a pointer.
//! In exchange every `alloc` and `free` of a handle must be `#[inline(never)]`: each operation of each contender is
//! then one real call with one argument, which is what a program that embeds an allocator gets at least. Without that
//! rule the compiler would melt the simple contenders into the loop and compare loops.
//!
//! Blocks are numbers: a frame number, or an address in frames. A block of order `k` is `1 << k` frames of 4 KiB.

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

/// The conditions that a contender is set up for.
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
