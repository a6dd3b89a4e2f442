//! Cache lines, as far as records are laid out by them.
//!
//! A line travels between CPUs as a whole, and many machines fetch its neighbour with it. So words that one CPU needs together
//! lie on one line, and words that different CPUs write lie on different pairs. A record that promises such a thing proves it where
//! it is compiled, from the offsets of its fields ([`Span`]): a promise that does not hold for some machine's words is an error of
//! that build.

/// Bytes of a line.
pub(crate) const LINE: usize = 64;
/// Bytes that a spatial prefetcher fetches together.
pub(crate) const PAIR: usize = 2 * LINE;

/// A part of a record that begins on a pair of lines: its first byte, and the one behind its last.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// Of a field that is a `T`.
    pub(crate) const fn of<T>(offset: usize) -> Self {
        Self { start: offset, end: offset + size_of::<T>() }
    }

    /// Both, and what lies between.
    pub(crate) const fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }

    /// Whether all of it lies on one line.
    pub(crate) const fn is_on_one_line(self) -> bool {
        self.start / LINE == (self.end - 1) / LINE
    }

    /// Whether no pair of lines holds bytes of both.
    pub(crate) const fn is_apart_from(self, other: Self) -> bool {
        (self.end - 1) / PAIR < other.start / PAIR || (other.end - 1) / PAIR < self.start / PAIR
    }
}

/// Something that has its pairs of lines to itself, in a record that is aligned likewise.
#[repr(C, align(128))]
#[derive(Default)]
pub(crate) struct Alone<T>(pub(crate) T);

const _: () = assert!(align_of::<Alone<u8>>() == PAIR && size_of::<Alone<u8>>() == PAIR);
