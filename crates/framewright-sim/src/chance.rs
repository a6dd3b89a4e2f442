//! What a random schedule may do besides choosing who goes next: keep stores back, and do wrong on purpose.
//!
//! # Stores that are kept back
//!
//! A simulated word is written at once, so every schedule shows what a sequentially consistent machine would. Real processors show
//! more: each keeps its stores in a buffer for a while, where it alone sees them. With
//! `delays`, CPUs here do the same, as x86-TSO has it (Sewell et al., CACM 53(7), 2010): stores leave a CPU's buffer in
//! their order at random times, all of them before a read-modify-write or a fence of that CPU, and before it waits or
//! ends. The dear half of an asymmetric fence empties the buffers of all CPUs; the cheap half does nothing. A fence that
//! is missing shows then. What only weaker machines do (a store that overtakes a store) does not.
//!
//! # Planted bugs
//!
//! A checker is worth what it finds, so it must be tried. A [`Plant`] makes the simulated machine, not the allocator, do
//! one thing wrong that amounts to a mistake in the allocator: it loses a store, tears a read-modify-write into a load and a
//! store, lets a compare-and-swap write without comparing, takes the dear fences for nothing, or names a CPU where there is none.
//!
//! With chances a word is not looked up in the directory: by lot, time means nothing, and an access costs the same always.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use crate::directory::{Access, NONE};
use crate::run::Simulation;
use crate::world::{World, with};

/// Stores that a CPU keeps back at most; processors of the last ten years have room for 42 to 112.
const MOST_KEPT: usize = 48;
/// One in so many accesses lets the oldest store out.
const OUT_IN: u64 = 8;

/// A mistake that the machine makes, as `lost-store:lock.serving:1000`, `torn-rmw:lock.next:1`, `blind-cas:lock.next:1` or
/// `no-heavy-fence`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plant {
    /// Of all stores to words of this name, the one with this number (from 1) is lost.
    LostStore(String, u64),
    /// From the one with this number on, read-modify-writes of words of this name are a load and then a store.
    TornRmw(String, u64),
    /// From the one with this number on, read-modify-writes of words of this name do not compare: a compare-and-swap always succeeds.
    BlindCas(String, u64),
    /// The dear half of asymmetric fences is nothing.
    NoHeavyFence,
    /// Interrupts come to the lists of the CPU that they met, whatever the mechanisms say.
    SharedInterrupts,
    /// An NMI has a CPU, the one that it met, and makes the calls that an interrupt makes.
    WaitingNmi,
}

/// What a plant may be called.
const FORMS: &str =
    "lost-store:FIELD:N, torn-rmw:FIELD:N, blind-cas:FIELD:N, no-heavy-fence, shared-interrupts or waiting-nmi";

impl Plant {
    /// Name of the words that it concerns.
    pub fn field(&self) -> Option<&str> {
        match self {
            Plant::LostStore(field, _) | Plant::TornRmw(field, _) | Plant::BlindCas(field, _) => Some(field),
            Plant::NoHeavyFence | Plant::SharedInterrupts | Plant::WaitingNmi => None,
        }
    }

    /// The number of the access from which on things go wrong, if it is about accesses.
    pub(crate) fn nth(&mut self) -> Option<&mut u64> {
        match self {
            Plant::LostStore(_, nth) | Plant::TornRmw(_, nth) | Plant::BlindCas(_, nth) => Some(nth),
            Plant::NoHeavyFence | Plant::SharedInterrupts | Plant::WaitingNmi => None,
        }
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plant::LostStore(field, nth) => write!(f, "lost-store:{field}:{nth}"),
            Plant::TornRmw(field, nth) => write!(f, "torn-rmw:{field}:{nth}"),
            Plant::BlindCas(field, nth) => write!(f, "blind-cas:{field}:{nth}"),
            Plant::NoHeavyFence => f.write_str("no-heavy-fence"),
            Plant::SharedInterrupts => f.write_str("shared-interrupts"),
            Plant::WaitingNmi => f.write_str("waiting-nmi"),
        }
    }
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Plant, String> {
        match text {
            "no-heavy-fence" => return Ok(Plant::NoHeavyFence),
            "shared-interrupts" => return Ok(Plant::SharedInterrupts),
            "waiting-nmi" => return Ok(Plant::WaitingNmi),
            _ => {}
        }
        let form = || format!("{text:?} is not {FORMS}");
        let (kind, rest) = text.split_once(':').ok_or_else(form)?;
        let (field, nth) = rest.rsplit_once(':').ok_or_else(form)?;
        let nth = nth.parse().ok().filter(|&nth| nth != 0).ok_or_else(form)?;
        let is_name = !field.is_empty() && field.chars().all(|c| c.is_ascii_graphic() && c != '#');
        match kind {
            "lost-store" if is_name => Ok(Plant::LostStore(field.to_owned(), nth)),
            "torn-rmw" if is_name => Ok(Plant::TornRmw(field.to_owned(), nth)),
            "blind-cas" if is_name => Ok(Plant::BlindCas(field.to_owned(), nth)),
            _ => Err(form()),
        }
    }
}

/// How an access is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// On the word itself.
    Plain,
    /// By the CPU's own stores that are not out yet.
    Buffer,
    /// Not at all.
    Lost,
    /// As a load and a store.
    Torn,
    /// On the word itself, whatever it holds.
    Blind,
}

/// A store that is not out yet.
#[derive(Clone, Copy)]
struct Kept {
    word: Target,
    line: usize,
    value: u64,
}

/// A word of a simulated machine, of any size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    U8(*const Cell<u8>),
    U16(*const Cell<u16>),
    U32(*const Cell<u32>),
    U64(*const Cell<u64>),
    Usize(*const Cell<usize>),
}

impl Target {
    fn address(self) -> usize {
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
    unsafe fn set(self, value: u64) {
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

/// The chances of a world.
pub(crate) struct Chances {
    /// Each CPU's stores that are not out yet; none if stores are never kept back.
    kept: Option<Vec<VecDeque<Kept>>>,
    plant: Option<Plant>,
    /// Words that the planted bug concerns, ascending, and how often it was met.
    words: Vec<usize>,
    met: u64,
}

impl Chances {
    /// What the planted bug makes of an access.
    fn spoil(&mut self, address: usize, access: Access) -> Way {
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

impl Simulation<'_> {
    /// Takes chances from now on, for a random schedule: keeps stores back (`delays`), and does wrong. `words` are the addresses of
    /// the words that have the name in `plant`.
    pub fn take_chances(&mut self, delays: bool, plant: Option<Plant>, mut words: Vec<usize>) {
        words.sort_unstable();
        let kept = delays.then(|| vec![VecDeque::with_capacity(MOST_KEPT); self.world.cpus.len()]);
        self.world.chances = Some(Box::new(Chances { kept, plant, words, met: 0 }));
    }
}

/// A CPU's stores are all out: another knows of them.
pub(crate) fn publish(cpu: usize) {
    with(|world| {
        if world.chances.is_some() {
            world.let_stores_out(cpu, usize::MAX);
        }
    });
}

impl World {
    /// The same as [`World::access_by_chance`], without a look at who is next, if the running CPU's turn goes on.
    #[inline]
    pub(crate) fn access_within_turn(&mut self, line: usize, address: usize, access: Access) -> Option<Way> {
        self.chances.as_ref()?;
        let cpu = &self.cpus[self.cpu_number()];
        let is_due = self.now.clock >= cpu.next_interrupt.min(cpu.next_nmi);
        if is_due || !self.queue.goes_on_by_lot() { None } else { Some(self.access_by_chance(line, address, access)) }
    }

    /// The running CPU, whose turn it is, accesses a word: how. The caller does it before anybody else runs.
    pub(crate) fn access_by_chance(&mut self, line: usize, address: usize, access: Access) -> Way {
        self.now.accesses += 1;
        self.now.clock += self.model.latency.l1.max(1);
        let number = self.cpu_number();
        let Some(chances) = &mut self.chances else { return Way::Plain };
        let spoilt = chances.spoil(address, access);
        if matches!(spoilt, Way::Lost | Way::Torn) {
            return spoilt;
        }
        if let Some(kept) = &chances.kept {
            let own = &kept[number];
            match access {
                Access::Rmw => self.let_stores_out(number, usize::MAX),
                Access::Store | Access::Release => return Way::Buffer,
                Access::Load => {
                    let is_own = own.iter().any(|kept| kept.word.address() == address);
                    if !own.is_empty() {
                        self.perhaps_let_out(number);
                    }
                    // What has just come out is in the word too.
                    return if is_own { Way::Buffer } else { Way::Plain };
                }
            }
        }
        if access != Access::Load && self.directory.lines[line].parked != NONE {
            self.unpark(line, self.now.clock);
        }
        spoilt
    }

    fn perhaps_let_out(&mut self, number: usize) {
        let mut dice = self.queue.random();
        while dice.is_multiple_of(OUT_IN) {
            self.let_stores_out(number, 1);
            dice /= OUT_IN;
            if dice == 0 {
                return;
            }
        }
    }

    /// The value of the running CPU's newest store to a word that is not out yet.
    pub(crate) fn newest_kept(&self, address: usize) -> Option<u64> {
        let kept = self.chances.as_ref()?.kept.as_ref()?.get(self.cpu_number())?;
        kept.iter().rev().find(|kept| kept.word.address() == address).map(|kept| kept.value)
    }

    /// The running CPU keeps a store back.
    pub(crate) fn keep_store(&mut self, word: Target, value: u64) {
        let number = self.cpu_number();
        let (line, _) = self.line_of(word.address());
        let Some(kept) = self.chances.as_mut().and_then(|chances| chances.kept.as_mut()) else { return };
        kept[number].push_back(Kept { word, line, value });
        if kept[number].len() > MOST_KEPT {
            self.let_stores_out(number, 1);
        }
        self.perhaps_let_out(number);
    }

    /// Lets the oldest stores of a CPU out, so many at most.
    fn let_stores_out(&mut self, number: usize, most: usize) {
        for _ in 0..most {
            let kept = self.chances.as_mut().and_then(|chances| chances.kept.as_mut());
            let Some(Kept { word, line, value }) = kept.and_then(|kept| kept[number].pop_front()) else { return };
            // SAFETY: the word lies in the arena (`line_of` found it), which outlives the simulation; nothing in it is ever moved
            // or dropped.
            unsafe { word.set(value) };
            if self.directory.lines[line].parked != NONE {
                self.unpark(line, self.now.clock);
            }
        }
    }

    /// The running CPU's stores are all out before it goes on.
    pub(crate) fn settle(&mut self) {
        if self.chances.is_some() {
            self.let_stores_out(self.cpu_number(), usize::MAX);
        }
    }

    /// Whether this is the mistake that the machine makes.
    pub(crate) fn is_planted(&self, plant: &Plant) -> bool {
        self.chances.as_ref().is_some_and(|chances| chances.plant.as_ref() == Some(plant))
    }

    /// The dear half of an asymmetric fence.
    pub(crate) fn heavy_fence_by_chance(&mut self) {
        if self.chances.is_some() && !self.is_planted(&Plant::NoHeavyFence) {
            (0..self.cpus.len()).for_each(|number| self.let_stores_out(number, usize::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plants_print_and_parse_back() {
        for text in
            ["lost-store:lock.serving:1000", "torn-rmw:claim:1", "blind-cas:head:7", "no-heavy-fence", "waiting-nmi"]
        {
            assert_eq!(text.parse::<Plant>().unwrap().to_string(), text);
        }
        for wrong in ["", "lost-store", "lost-store:x", "lost-store:x:0", "lost-store::1", "torn-rmw:a b:1", "x:y:1"] {
            let error = wrong.parse::<Plant>().unwrap_err();
            assert!(error.starts_with(&format!("{wrong:?} is not lost-store:FIELD:N")), "{error}");
        }
    }
}
