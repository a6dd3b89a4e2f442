//! What a random schedule may do besides choosing the next CPU: delay stores, and show a planted bug.
//!
//! Here are the records alone. How an access is done with them is said in `store_buffer.rs`.

use std::cell::Cell;
use std::collections::VecDeque;

use crate::engine::plant::Plant;
use crate::memory::directory::Access;

/// Most stores that a CPU delays; processors of the last ten years have room for 42 to 112.
pub(super) const MOST_KEPT: usize = 48;

/// How an access is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// On the word itself.
    Plain,
    /// Through the CPU's own delayed stores.
    Buffer,
    /// Not at all.
    Lost,
    /// As a load and a store.
    Torn,
    /// On the word itself, whatever it holds.
    Blind,
}

/// A delayed store: its CPU alone sees it.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) word: Target,
    pub(super) line: usize,
    pub(super) value: u64,
}

/// A word of a simulated machine, of any width.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    U8(*const Cell<u8>),
    U16(*const Cell<u16>),
    U32(*const Cell<u32>),
    U64(*const Cell<u64>),
    Usize(*const Cell<usize>),
}

impl Target {
    pub(super) fn address(self) -> usize {
        match self {
            Target::U8(word) => word.addr(),
            Target::U16(word) => word.addr(),
            Target::U32(word) => word.addr(),
            Target::U64(word) => word.addr(),
            Target::Usize(word) => word.addr(),
        }
    }

    /// # Safety
    /// The word must still be there.
    pub(super) unsafe fn set(self, value: u64) {
        // SAFETY: the caller's promise; cells may be written to through shared references.
        unsafe {
            match self {
                Target::U8(word) => (*word).set(value as u8),
                Target::U16(word) => (*word).set(value as u16),
                Target::U32(word) => (*word).set(value as u32),
                Target::U64(word) => (*word).set(value),
                Target::Usize(word) => (*word).set(value as usize),
            }
        }
    }
}

/// Delayed stores and a planted bug of one machine.
pub(crate) struct Chances {
    /// Each CPU's delayed stores; none if stores are never delayed.
    pub(super) kept: Option<Vec<VecDeque<Kept>>>,
    pub(super) plant: Option<Plant>,
    /// Addresses of the words that the planted bug is in, ascending, and how often it was met.
    words: Vec<usize>,
    met: u64,
}

impl Chances {
    /// Records for `cpus` CPUs; `words` are the addresses of the words named in `plant`.
    pub(super) fn new(cpus: usize, delays: bool, plant: Option<Plant>, mut words: Vec<usize>) -> Chances {
        words.sort_unstable();
        let kept = delays.then(|| vec![VecDeque::with_capacity(MOST_KEPT); cpus]);
        Chances { kept, plant, words, met: 0 }
    }

    /// Returns how the planted bug changes an access.
    pub(super) fn spoil(&mut self, address: usize, access: Access) -> Way {
        let (nth, spoilt) = match (&self.plant, access) {
            (Some(Plant::LostStore(_, nth)), Access::Store | Access::Release) => (*nth, Way::Lost),
            (Some(Plant::TornRmw(_, nth)), Access::Rmw) => (*nth, Way::Torn),
            (Some(Plant::BlindCas(_, nth)), Access::Rmw) => (*nth, Way::Blind),
            _ => return Way::Plain,
        };
        if self.words.binary_search(&address).is_err() {
            return Way::Plain;
        }
        self.met += 1;
        let is_hit = if spoilt == Way::Lost { self.met == nth } else { self.met >= nth };
        if is_hit { spoilt } else { Way::Plain }
    }
}
