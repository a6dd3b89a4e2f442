//! Cache lines: compile-time proofs of which words share a line.
//!
//! A line travels between CPUs as a whole, and many machines fetch its neighbour with it. Words that one CPU needs
//! together therefore lie on one line. Words that different CPUs write lie on different pairs of lines.
//!
//! A record with such a layout proves it at compile time, from the offsets of its fields ([`Span`]). If the layout does
//! not hold for some machine's words, that build fails.

use crate::seam::field::{Record, Words};

/// Bytes of a line.
pub(crate) const LINE: usize = 64;
/// Bytes that a spatial prefetcher fetches together.
pub(crate) const PAIR: usize = 2 * LINE;

/// Part of a record that begins on a pair of lines.
///
/// `start` is its first byte, `end` the byte after its last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// Returns the span of a field of type `T` at `offset`.
    pub(crate) const fn of<T>(offset: usize) -> Self {
        Self { start: offset, end: offset + size_of::<T>() }
    }

    /// Returns the span from the start of `self` to the end of `other`.
    pub(crate) const fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }

    /// Returns whether the span lies on one line.
    pub(crate) const fn is_on_one_line(self) -> bool {
        self.start / LINE == (self.end - 1) / LINE
    }

    /// Returns whether no pair of lines holds bytes of both spans.
    pub(crate) const fn is_apart_from(self, other: Self) -> bool {
        (self.end - 1) / PAIR < other.start / PAIR || (other.end - 1) / PAIR < self.start / PAIR
    }
}

/// A value that has its pairs of lines to itself.
///
/// The record that contains it is aligned to pairs as well.
#[repr(C, align(128))]
#[derive(Default)]
pub(crate) struct Alone<T>(pub(crate) T);

impl<T: Record> Record for Alone<T> {
    fn words(&self, visit: &mut Words<'_>) {
        self.0.words(visit);
    }
}

const _: () = assert!(align_of::<Alone<u8>>() == PAIR && size_of::<Alone<u8>>() == PAIR);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_apart_if_they_share_no_pair() {
        let span = |start, end| Span { start, end };
        for (one, other, is_apart) in [
            (span(0, PAIR), span(PAIR, 2 * PAIR), true),
            (span(0, PAIR + 1), span(PAIR + 1, 2 * PAIR), false),
            (span(0, 1), span(PAIR - 1, PAIR), false),
            (span(PAIR, 2 * PAIR), span(PAIR - 1, PAIR), true),
        ] {
            assert_eq!((one.is_apart_from(other), other.is_apart_from(one)), (is_apart, is_apart), "{one:?} {other:?}");
        }
    }
}
