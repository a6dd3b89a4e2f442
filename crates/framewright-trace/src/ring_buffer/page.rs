//! One page of a ring buffer: its header, and the events in it with their times.
//!
//! Times are in nanoseconds of the buffer's clock, or in another unit that the clock counts. A page has the time of
//! its first event; an event has the difference to the one before. A discarded event keeps its place and its
//! difference.

use super::event_format::{Field, fields};
use crate::error::{RawFault, RawResult};

/// Bits of the length word that hold the length of the data.
const LENGTH: u64 = (1 << 27) - 1;
/// Events were lost before this page.
const MISSED: u64 = 1 << 31;
/// The number of lost events follows the data.
const COUNTED: u64 = 1 << 30;

/// Kinds of entries above the lengths.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of a difference of times.
const SHIFT: u32 = 27;
/// Bits of a time that a time stamp leaves out.
const TOP: u64 = !((1 << 59) - 1);

/// The places of a page's fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageLayout {
    time: Field,
    length: Field,
    data: usize,
    size: usize,
}

/// A loss of events; their number, if it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost(pub Option<u64>);

/// An iterator over the events of a page, as time and bytes.
#[derive(Clone, Debug)]
pub struct Page<'p> {
    time: u64,
    lost: Option<Lost>,
    data: &'p [u8],
    at: usize,
}

impl PageLayout {
    /// Reads `events/header_page`.
    ///
    /// # Errors
    /// A field is missing or its description is malformed.
    pub fn parse(text: &str) -> RawResult<PageLayout> {
        let fields = fields(text)?;
        let find = |name: &'static str| {
            let missing = || RawFault::Missing { what: "header_page".into(), field: name };
            fields.iter().find(|field| field.name == name).cloned().ok_or_else(missing)
        };
        let data = find("data")?;
        Ok(PageLayout {
            time: find("timestamp")?.into_number()?,
            length: find("commit")?.into_number()?,
            size: data.offset.saturating_add(data.size),
            data: data.offset,
        })
    }

    /// Bytes of a page, unless the buffer was set up with another size.
    pub fn page_size(&self) -> usize {
        self.size
    }

    /// The events of a page.
    ///
    /// # Errors
    /// The page is shorter than its header, or than its header says.
    pub fn open<'p>(&self, page: &'p [u8]) -> RawResult<Page<'p>> {
        let short = |needed: usize| RawFault::Short { found: page.len(), needed };
        let time = self.time.number(page).ok_or_else(|| short(self.data))?;
        let word = self.length.number(page).ok_or_else(|| short(self.data))?;
        let behind = page.get(self.data..).ok_or_else(|| short(self.data))?;
        let length = (word & LENGTH) as usize;
        let data = behind.get(..length).ok_or_else(|| short(self.data.saturating_add(length)))?;
        let lost = (word & MISSED != 0).then(|| {
            let count =
                behind.get(length..).and_then(|rest| rest.first_chunk()).map(|count| u64::from_le_bytes(*count));
            Lost(count.filter(|_| word & COUNTED != 0))
        });
        Ok(Page { time, lost, data, at: 0 })
    }
}

impl<'p> Page<'p> {
    /// Whether events were lost before this page.
    pub fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// The word at `at`.
    fn word(&self, at: usize) -> Option<u32> {
        self.data.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
    }

    /// The next event, none at the end of the page.
    fn read(&mut self) -> RawResult<Option<(u64, &'p [u8])>> {
        while self.at < self.data.len() {
            let at = self.at;
            let beyond = RawFault::Beyond { at };
            let head = self.word(at).ok_or(beyond.clone())?;
            let (kind, delta) = (head & 31, u64::from(head >> 5));
            // Everything but a short event has a second word.
            let second = self.word(at + 4);
            let wide = || second.map(u64::from).ok_or(beyond.clone());
            let (start, end) = match kind {
                PADDING if delta == 0 => break,
                TIME_EXTEND | TIME_STAMP => {
                    let value = wide()? << SHIFT | delta;
                    self.time =
                        if kind == TIME_STAMP { value | self.time & TOP } else { self.time.wrapping_add(value) };
                    self.at = at + 8;
                    continue;
                }
                // The length counts itself.
                0 | PADDING => (at + 8, (at + 4).saturating_add(wide()? as usize)),
                words => (at + 4, at + 4 + 4 * words as usize),
            };
            self.time = self.time.wrapping_add(delta);
            let event = self.data.get(start..end).ok_or(beyond)?;
            self.at = end.next_multiple_of(4);
            if kind != PADDING {
                return Ok(Some((self.time, event)));
            }
        }
        self.at = self.data.len();
        Ok(None)
    }
}

impl<'p> Iterator for Page<'p> {
    type Item = RawResult<(u64, &'p [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.at = self.data.len();
        }
        next
    }
}
