//! Planted bugs: what the campaign must find, so that a run without a finding means something.
//!
//! The campaign's machine makes the mistake, not the allocator; the effect equals that of a bug in the allocator. No
//! code of the product knows of it.

use std::fmt;
use std::str::FromStr;

/// A planted bug.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plant {
    /// Every n-th free of a thread does nothing and says that it did: a lost free.
    LostFree(u64),
    /// The n-th store to words of this name is lost, as `lock.serving`: a lock that is never given up.
    LostStore(String, u64),
    /// From the n-th on, exchanges of words of this name succeed whatever they hold.
    BlindExchange(String, u64),
    /// A CPU that goes offline is not drained.
    SkippedDrain,
    /// Interrupts use the lists of the CPU that they interrupt.
    SharedLists,
    /// An NMI makes the calls of an interrupt.
    WaitingNmi,
    /// Every n-th wrong free is reported as a right one.
    AcceptedFree(u64),
    /// A callback that panics leaves the block that it was given allocated.
    LostInPanic,
}

impl Plant {
    /// Returns the name of the words that it spoils.
    pub(crate) fn field(&self) -> Option<&str> {
        match self {
            Plant::LostStore(name, _) | Plant::BlindExchange(name, _) => Some(name),
            _ => None,
        }
    }

    /// Returns whether the n-th store to such a word goes wrong.
    pub(crate) fn spoils(&self, count: u64, is_exchange: bool) -> bool {
        match self {
            Plant::LostStore(_, at) => !is_exchange && count == *at,
            Plant::BlindExchange(_, from) => is_exchange && count >= *from,
            _ => false,
        }
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plant::LostFree(every) => write!(f, "lost-free:{every}"),
            Plant::LostStore(name, at) => write!(f, "lost-store:{name}:{at}"),
            Plant::BlindExchange(name, from) => write!(f, "blind-exchange:{name}:{from}"),
            Plant::SkippedDrain => f.write_str("skipped-drain"),
            Plant::SharedLists => f.write_str("shared-lists"),
            Plant::WaitingNmi => f.write_str("waiting-nmi"),
            Plant::AcceptedFree(every) => write!(f, "accepted-free:{every}"),
            Plant::LostInPanic => f.write_str("lost-in-panic"),
        }
    }
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Plant, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        let number = |text: &str| match text.parse() {
            Ok(number @ 1..) => Ok(number),
            _ => Err(format!("{text:?} is no number of at least 1")),
        };
        match (name, rest.as_slice()) {
            ("lost-free", [every]) => Ok(Plant::LostFree(number(every)?)),
            ("lost-store", [field, at]) => Ok(Plant::LostStore((*field).to_owned(), number(at)?)),
            ("blind-exchange", [field, from]) => Ok(Plant::BlindExchange((*field).to_owned(), number(from)?)),
            ("skipped-drain", []) => Ok(Plant::SkippedDrain),
            ("shared-lists", []) => Ok(Plant::SharedLists),
            ("waiting-nmi", []) => Ok(Plant::WaitingNmi),
            ("accepted-free", [every]) => Ok(Plant::AcceptedFree(number(every)?)),
            ("lost-in-panic", []) => Ok(Plant::LostInPanic),
            _ => Err(format!(
                "{text:?} is no planted bug: lost-free:N, lost-store:FIELD:N, blind-exchange:FIELD:N, skipped-drain, \
                 shared-lists, waiting-nmi, accepted-free:N or lost-in-panic"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plants_parse_back() {
        let texts = [
            "lost-free:3",
            "lost-store:lock.serving:9",
            "blind-exchange:claim:1",
            "skipped-drain",
            "shared-lists",
            "waiting-nmi",
            "accepted-free:2",
            "lost-in-panic",
        ];
        for text in texts {
            assert_eq!(text.parse::<Plant>().unwrap().to_string(), text);
        }
        for text in ["", "lost-free", "lost-free:0", "lost-store:1", "skipped-drain:1"] {
            assert!(text.parse::<Plant>().is_err(), "{text}");
        }
    }
}
