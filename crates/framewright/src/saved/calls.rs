//! Save and restore: the exact state of an allocator as bytes, for live migration, a kernel that starts another, and
//! checkpoints.
//!
//! All state is in words, and no word is an address. So the words of one allocator make another one the same, wherever
//! its descriptors lie. What boot fixes is not saved. The other allocator is booted with the same configuration, and a
//! check sum of each part says whether it is the same ([`RestoreError::Differs`]). The memory itself is the caller's to
//! carry over.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | the name of the format, [`NAME`] |
//! | 8 | its version, [`VERSION`] |
//! | 7 × 8 | check sums of what boot fixed (`words.rs`) |
//! | any | the value of each word (`bytes.rs`) |
//! | 8 | check sum of all that (`crc.rs`) |
//!
//! Numbers are little-endian. A state of another version is refused: between versions the words differ.
//!
//! While it is saved the allocator is held still, as for a fork (`fork.rs`). A restored allocator is what a fork's
//! child is: other CPUs' claims and locks are released there. A restore first reads all and checks it, and changes
//! nothing until nothing can fail. Then it writes all words, and validates the result.
//!
//! Rejected:
//! - A list of allocated blocks, to be allocated again one by one: it is not the exact state. Free lists would have
//!   another order, per-CPU lists would be empty, and counters wrong.
//! - A reader that is asked for bytes: it cannot be asked twice, so a damaged state would be found half written.

use core::fmt;

use crate::api::allocator::Allocator;
use crate::frame::state::{Kind, State};
use crate::observe::validate::{FrameCounts, Violation};
use crate::saved::bytes::{Reader, Writer};
use crate::saved::words::{Of, PARTS, each_word, shape};
use crate::seam::machine::Machine;
use crate::shared::Shared;
use crate::stat::vmstat::ZoneEvent;
use crate::types::units::{Frame, Pfn};
use crate::zonelist::world::World;

/// Name of the format.
pub const NAME: [u8; 8] = *b"FWSTATE\n";
/// Version of the format, which changes with every word of the allocator.
pub const VERSION: u64 = 1;

/// Reason for which a state was not saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaveError<E> {
    /// The allocator is in use, or the caller is in an interrupt.
    Busy,
    /// The sink failed.
    Sink(E),
}

impl<E: fmt::Display> fmt::Display for SaveError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Busy => f.write_str("the allocator is in use, or the caller in an interrupt"),
            SaveError::Sink(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for SaveError<E> {}

/// Reason for which a state was not restored.
///
/// Nothing has changed then, except with [`RestoreError::Unsound`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes do not begin as a saved state does.
    NoState,
    /// The state has another version of the format: this one.
    Version(u64),
    /// The check sum is wrong, or bytes are missing.
    Damaged,
    /// The allocator was booted with another configuration; this part differs.
    Differs(&'static str),
    /// Boot withheld this frame, and the state does not, or in a block of another order.
    ///
    /// It may hold the descriptors, or a kernel.
    Withheld(Pfn),
    /// The allocator has served requests already.
    Used,
    /// The allocator is in use, or the caller is in an interrupt.
    Busy,
    /// The state was written, and is not sound: it was saved while calls were in progress.
    ///
    /// The allocator must not be used.
    Unsound(Violation),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::NoState => f.write_str("this is no saved state of an allocator"),
            RestoreError::Version(found) => {
                write!(f, "the state has version {found} of the format, and this allocator reads version {VERSION}")
            }
            RestoreError::Damaged => f.write_str("the state is damaged: its check sum is wrong, or bytes are missing"),
            RestoreError::Differs(part) => {
                write!(f, "the state is that of an allocator of another configuration: {part} differ")
            }
            RestoreError::Withheld(pfn) => {
                write!(f, "frame {pfn} is withheld by this configuration, and not, or otherwise, in the state")
            }
            RestoreError::Used => f.write_str("the allocator has served requests already; restore right after boot"),
            RestoreError::Busy => SaveError::<fmt::Error>::Busy.fmt(f),
            RestoreError::Unsound(violation) => {
                write!(f, "the state was saved while calls were in progress: {violation}")
            }
        }
    }
}

impl core::error::Error for RestoreError {}

impl<M: Machine> Allocator<'_, M> {
    /// Writes the exact state to `sink`, in chunks; returns the number of bytes.
    ///
    /// A sink that does nothing says how many bytes there will be. Few bytes are needed for each block, and about
    /// a kilobyte for each CPU and zone. Blocks that callers own stay allocated in the restored allocator.
    ///
    /// Context: no other call in progress, and none until it returns, interrupts of this CPU included. Live migration
    /// stops the machine. A kernel keeps its other CPUs out of the allocator; where a fence interrupts them
    /// ([`Machine::heavy_fence`]), they still answer it, and the caller has interrupts on.
    ///
    /// # Errors
    /// The allocator is in use, or the sink failed.
    pub fn save<E>(&self, sink: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<u64, SaveError<E>> {
        let world = self.world();
        let mut writer = Writer::new(sink);
        let _frozen = self.freeze().ok_or(SaveError::Busy)?;
        writer.raw(&NAME);
        writer.raw(&VERSION.to_le_bytes());
        shape(world).iter().for_each(|part| writer.raw(&part.to_le_bytes()));
        // The words of an uninitialised section may never have been written.
        let is_blank = |frame| world.shared.frames.is_dirty() && world.shared.frames.is_uninit(frame);
        each_word(world, &mut |of, word| match of {
            Of::State(frame) | Of::Link(frame) if is_blank(frame) => writer.word(0),
            _ => writer.word(word.get()),
        });
        writer.finish().map_err(SaveError::Sink)
    }

    /// Makes this allocator the one that was saved; returns its frames by state.
    ///
    /// Context: right after boot with the saved allocator's configuration, before any other call; that of
    /// [`Allocator::save`].
    ///
    /// # Errors
    /// What is wrong with the state, or with this allocator. Nothing has changed then, with the exception that
    /// [`RestoreError::Unsound`] says.
    pub fn restore(&self, saved: &[u8]) -> Result<FrameCounts, RestoreError> {
        let world = self.world();
        if has_served(world) {
            return Err(RestoreError::Used);
        }
        let words = header(world, saved)?;
        let frozen = self.freeze().ok_or(RestoreError::Busy)?;
        check(world, words)?;
        let mut reader = words;
        world.zones.iter().for_each(|zone| zone.tell_all(&world.shared, i64::wrapping_neg));
        each_word(world, &mut |_, word| word.set(reader.word().unwrap_or(0)));
        tell_restored(world);
        frozen.settle();
        drop(frozen);
        self.validate().map_err(RestoreError::Unsound)
    }
}

/// Tells the machine of all free memory, and of the types of all pageblocks.
fn tell_restored<M: Machine>(world: &World<'_, M>) {
    let Shared { machine, frames, .. } = &world.shared;
    world.zones.iter().for_each(|zone| zone.tell_all(&world.shared, |frames| frames));
    for index in 0..frames.pageblocks.len() {
        let frame = Frame((index as u32) << frames.geometry.pageblock_order.0);
        let pageblock = frames.pageblock(frame);
        if pageblock.zone().is_some() {
            machine.retyped(frames.pfn(frame), pageblock.migratetype());
        }
    }
}

/// Returns whether frames were ever allocated or freed after boot.
fn has_served<M: Machine>(world: &World<'_, M>) -> bool {
    // Of the frames that a zone itself counts as allocated, boot may have allocated some.
    let in_zone = [ZoneEvent::Allocs, ZoneEvent::FreeFrames];
    let on_cpu = [ZoneEvent::AllocFrames, ZoneEvent::FreeFrames];
    let order = world.shared.frames.geometry.pageblock_order;
    world.zones.iter().any(|zone| in_zone.into_iter().any(|event| zone.events.get(event) != 0))
        || world.pcps.records.iter().any(|pcp| on_cpu.into_iter().any(|event| pcp.event_ever(event, order) != 0))
}

/// Reads all that precedes the words; returns the reader of these.
fn header<'b, M: Machine>(world: &World<'_, M>, saved: &'b [u8]) -> Result<Reader<'b>, RestoreError> {
    if !saved.starts_with(&NAME) {
        return Err(RestoreError::NoState);
    }
    let version = saved.get(NAME.len()..).and_then(<[u8]>::first_chunk).map(|bytes| u64::from_le_bytes(*bytes));
    let version = version.ok_or(RestoreError::Damaged)?;
    // Another version may have another check sum.
    if version != VERSION {
        return Err(RestoreError::Version(version));
    }
    let mut reader = Reader::checked(saved).ok_or(RestoreError::Damaged)?;
    reader.raw::<16>().ok_or(RestoreError::Damaged)?;
    for (part, own) in PARTS.into_iter().zip(shape(world)) {
        let saved = reader.raw().map(u64::from_le_bytes).ok_or(RestoreError::Damaged)?;
        if saved != own {
            return Err(RestoreError::Differs(part));
        }
    }
    Ok(reader)
}

/// Checks that there is a value for each word, and that no withheld frame is handed out.
fn check<M: Machine>(world: &World<'_, M>, mut words: Reader<'_>) -> Result<(), RestoreError> {
    let frames = &world.shared.frames;
    let withheld = |state: State| (state.kind() == Kind::Offline).then(|| state.order());
    let is_given = |frame, state| withheld(frames.state(frame)).is_some_and(|order| withheld(state) != Some(order));
    let mut wrong = None;
    each_word(world, &mut |of, word| {
        if wrong.is_some() {
            return;
        }
        match (of, words.word().filter(|&value| word.fits(value))) {
            (_, None) => wrong = Some(RestoreError::Damaged),
            (Of::State(frame), Some(value)) if is_given(frame, State(value)) => {
                wrong = Some(RestoreError::Withheld(frames.pfn(frame)));
            }
            _ => {}
        }
    });
    match wrong {
        None if !words.is_at_end() => Err(RestoreError::Damaged),
        None => Ok(()),
        Some(wrong) => Err(wrong),
    }
}
