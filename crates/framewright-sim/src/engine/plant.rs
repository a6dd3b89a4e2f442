//! Bugs that the simulated machine can be told to have.
//!
//! A checker that has never found anything proves nothing, so it is tried on planted bugs. A [`Plant`] makes the
//! simulated machine, not the allocator, do one thing wrong. Each amounts to a mistake in the allocator:
//!
//! - a store that is lost;
//! - a read-modify-write torn into a load and a store;
//! - a compare-and-swap that writes without comparing;
//! - an asymmetric fence whose heavy half does nothing;
//! - interrupts that use the lists of the CPU that they hit;
//! - an NMI that is given a CPU.

use std::fmt;
use std::str::FromStr;

/// A mistake that the machine makes, as `lost-store:lock.serving:1000`, `torn-rmw:lock.next:1`, `blind-cas:lock.next:1`
/// or `no-heavy-fence`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plant {
    /// Loses the store with this number (from 1) among all stores to words of this name.
    LostStore(String, u64),
    /// Tears read-modify-writes of words of this name into a load and a store, from this number on.
    TornRmw(String, u64),
    /// Lets each compare-and-swap of words of this name succeed, from this number on.
    BlindCas(String, u64),
    /// The heavy half of asymmetric fences does nothing.
    NoHeavyFence,
    /// Interrupts use the lists of the CPU that they hit, against the mechanisms.
    SharedInterrupts,
    /// An NMI has the CPU that it hit, and makes the calls of an interrupt.
    WaitingNmi,
}

/// The forms of a plant's text.
const FORMS: &str =
    "lost-store:FIELD:N, torn-rmw:FIELD:N, blind-cas:FIELD:N, no-heavy-fence, shared-interrupts or waiting-nmi";

impl Plant {
    /// Returns the name of the words that the bug is in.
    pub fn field(&self) -> Option<&str> {
        match self {
            Plant::LostStore(field, _) | Plant::TornRmw(field, _) | Plant::BlindCas(field, _) => Some(field),
            Plant::NoHeavyFence | Plant::SharedInterrupts | Plant::WaitingNmi => None,
        }
    }

    /// Returns the number of the first access that goes wrong, if the bug is in accesses.
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

#[cfg(test)]
mod tests {
    use super::Plant;

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
