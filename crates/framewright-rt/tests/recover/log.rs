//! The truth about a child's blocks: what it notes itself, in memory that it shares with its parent.
//!
//! Each thread has a lane of words, which it alone writes, but for a place that another thread frees:
//!
//! | word | content |
//! |---|---|
//! | 0 | frames and number of blocks of an allocation that has begun and has not returned; 0 for none |
//! | 1 | the block that the thread's last call allocated; 0 for none |
//! | 2 | a block that is being split, and its number of pieces |
//! | from 4 on | a block each that is held; with a bit, one whose free has begun; 0 for none |

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use framewright::PfnRange;
use framewright_rt::{Arena, HeldFrames};

pub(crate) const LANES: usize = 6;
pub(crate) const PLACES: usize = 64;
const LANE: usize = 4 + PLACES;
/// Words of the log: the lanes, and one by which the child says that it works.
pub(crate) const WORDS: usize = LANES * LANE + 1;
/// The free of the place's block has begun.
const FREEING: u64 = 1 << 63;

/// A block or range as a word; never 0.
pub(crate) fn word_of(frames: PfnRange) -> u64 {
    frames.start.0 << 20 | frames.frames()
}

fn frames_of(word: u64) -> PfnRange {
    let start = (word & !FREEING) >> 20;
    PfnRange::new(start, start + (word & 0xf_ffff))
}

/// The first word of a held block's contents.
pub(crate) fn stamp_of(frames: PfnRange) -> [u8; 8] {
    (frames.start.0 ^ 0x5eed_5eed_0000_0000).to_le_bytes()
}

/// The log, mapped by the child and by its parent.
pub(crate) struct Log(&'static [AtomicU64]);

impl Log {
    /// Maps the log, for good. The file has [`WORDS`] words.
    pub(crate) fn map(file: &File) -> Log {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of as many bytes as the file has. It is never unmapped, and all bits are valid words.
        unsafe {
            let start = mmap(std::ptr::null_mut(), WORDS * 8, prot, MapFlags::SHARED, file, 0).unwrap();
            Log(std::slice::from_raw_parts(start.cast(), WORDS))
        }
    }

    /// The child works from now on; its thread has this number.
    pub(crate) fn begin(&self, thread: u64) {
        self.0[WORDS - 1].store(thread, SeqCst);
    }

    /// The number of the child's thread, if it works.
    pub(crate) fn has_begun(&self) -> Option<u64> {
        Some(self.0[WORDS - 1].load(SeqCst)).filter(|&thread| thread != 0)
    }

    pub(crate) fn lane(&self, lane: usize) -> Lane<'_> {
        Lane(&self.0[lane * LANE..][..LANE])
    }

    pub(crate) fn snapshot(&self) -> Vec<u64> {
        self.0.iter().map(|word| word.load(SeqCst)).collect()
    }
}

/// The words of one thread.
#[derive(Clone, Copy)]
pub(crate) struct Lane<'l>(&'l [AtomicU64]);

impl Lane<'_> {
    /// An allocation of `blocks` blocks of `frames` frames begins.
    pub(crate) fn alloc_begins(&self, frames: u64, blocks: u64) {
        self.0[0].store(frames << 8 | blocks, SeqCst);
    }

    /// Blocks were returned, and are at these places from now on.
    pub(crate) fn alloc_ends(&self, blocks: &[(usize, PfnRange)]) {
        for &(place, frames) in blocks {
            self.0[1].store(word_of(frames), SeqCst);
            self.0[4 + place].store(word_of(frames), SeqCst);
        }
        self.0[0].store(0, SeqCst);
    }

    /// An allocation failed.
    pub(crate) fn alloc_fails(&self) {
        self.0[0].store(0, SeqCst);
    }

    /// The free of a place's block begins, on any thread.
    pub(crate) fn free_begins(&self, place: usize) {
        self.0[4 + place].fetch_or(FREEING, SeqCst);
    }

    pub(crate) fn free_ends(&self, place: usize) {
        self.0[4 + place].store(0, SeqCst);
    }

    /// The thread's last call was no allocation.
    pub(crate) fn forget_last(&self) {
        self.0[1].store(0, SeqCst);
    }

    /// The split of a place's block begins: it counts as nowhere until the pieces have places.
    pub(crate) fn split_begins(&self, place: usize, pieces: u64) {
        let word = self.0[4 + place].load(SeqCst);
        self.0[2].store(word | pieces << 56, SeqCst);
        self.0[4 + place].store(0, SeqCst);
    }

    pub(crate) fn split_ends(&self, pieces: &[(usize, PfnRange)]) {
        for &(place, frames) in pieces {
            self.0[4 + place].store(word_of(frames), SeqCst);
        }
        self.0[2].store(0, SeqCst);
    }
}

/// Held blocks by their first frame, each with whether it is in flight.
type Left = BTreeMap<u64, (PfnRange, bool)>;

/// Compares what was recovered with the log; an error says what differs.
pub(crate) fn compare(words: &[u64], arena: &Arena, held: &[HeldFrames]) -> Result<(), String> {
    let mut left: Left = held.iter().map(|held| (held.frames().start.0, (held.frames(), held.in_flight()))).collect();
    if left.len() != held.len() {
        return Err("two held blocks begin at one frame".into());
    }
    let lanes: Vec<&[u64]> = words.chunks_exact(LANE).collect();
    let last: Vec<u64> = lanes.iter().map(|lane| lane[1]).collect();
    let splits = take_splits(&lanes, &mut left)?;
    let noted = || lanes.iter().flat_map(|lane| &lane[4..]).copied().filter(|&word| word != 0);
    for word in noted().filter(|word| word & FREEING == 0) {
        let frames = frames_of(word);
        if splits.iter().any(|block| !block.intersect(frames).is_empty()) {
            continue;
        }
        match left.remove(&frames.start.0) {
            Some((found, flight)) if found == frames => {
                if flight && !last.contains(&word) {
                    return Err(format!("{frames} is called in flight, and is no thread's last block"));
                }
            }
            found => return Err(format!("{frames} was held, and is {found:?}")),
        }
        let at = arena.address(frames.start).ok_or("no address")?;
        // SAFETY: the frames are memory of the arena, and no code uses them now.
        let stamp = unsafe { at.cast::<[u8; 8]>().read() };
        if stamp != stamp_of(frames) {
            return Err(format!("the contents of {frames} are {stamp:x?}"));
        }
    }
    // Then the frees that have begun. The frames may be another caller's by now.
    for frames in noted().filter(|word| word & FREEING != 0).map(frames_of) {
        if left.get(&frames.start.0).is_some_and(|(found, _)| *found == frames) {
            left.remove(&frames.start.0);
        }
    }
    take_begun(&lanes, &mut left)?;
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("held, and never allocated or freed before: {:?}", left.values()))
    }
}

/// Takes out the blocks that were being split, which are whole or in all pieces. Returns them.
fn take_splits(lanes: &[&[u64]], left: &mut Left) -> Result<Vec<PfnRange>, String> {
    let mut splits = Vec::new();
    for word in lanes.iter().map(|lane| lane[2]).filter(|&word| word != 0) {
        let (block, pieces) = (frames_of(word & ((1 << 56) - 1)), word >> 56);
        let inside: Vec<u64> = left.range(block.start.0..block.end.0).map(|(&start, _)| start).collect();
        let sizes: Vec<u64> = inside.iter().map(|start| left[start].0.frames()).collect();
        let (whole, piece) = (block.frames(), block.frames() / pieces);
        if sizes != [whole] && sizes != vec![piece; pieces as usize] {
            return Err(format!("{block} was being split into {pieces} pieces, and is {sizes:?}"));
        }
        left.retain(|start, _| !inside.contains(start));
        splits.push(block);
    }
    Ok(splits)
}

/// Takes out the blocks of allocations that had begun.
///
/// A call for one block has at most that one, in flight. A bulk call may have more: each of its blocks is an allocation,
/// and all but one of them have returned.
fn take_begun(lanes: &[&[u64]], left: &mut Left) -> Result<(), String> {
    let begun: Vec<(u64, usize)> =
        lanes.iter().filter(|lane| lane[0] != 0).map(|lane| (lane[0] >> 8, (lane[0] & 0xff) as usize)).collect();
    for &(frames, _) in &begun {
        let same = || begun.iter().filter(|call| call.0 == frames);
        let own = || left.values().filter(|(held, _)| held.frames() == frames);
        let (flying, sure) = (own().filter(|(_, flight)| *flight).count(), own().filter(|(_, flight)| !flight).count());
        if flying > same().count() || sure > same().map(|call| call.1 - 1).sum() {
            return Err(format!("held, and never noted: {:?}", own().collect::<Vec<_>>()));
        }
        left.retain(|_, (held, _)| held.frames() != frames);
    }
    Ok(())
}
