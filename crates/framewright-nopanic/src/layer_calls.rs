//! One kept function for every public operation of the core's layers above the calls: saved states and tags.

use core::fmt::{self, Write};

use framewright::error::FreeError;
use framewright::tags::{Group, Stamp, Tag, Tags};
use framewright::units::{Pfn, PfnRange};
use framewright::validate::FrameCounts;
use framewright::{Allocator, RestoreError, SaveError};
use framewright_kernel::U64;

use crate::board::Board;
use crate::call::{Sink, call};

type Pages = Allocator<'static, Board>;

// Saved states.
call! {
    fn save(sink: &'static mut Sink, pages: &'static Pages) -> Result<u64, SaveError<fmt::Error>> {
        pages.save(&mut |bytes| sink.write_str(if bytes.is_empty() { "" } else { "bytes" }))
    }

    fn restore(pages: &'static Pages, saved: &'static [u8]) -> Result<FrameCounts, RestoreError> {
        pages.restore(saved)
    }

    fn display_restore_errors(sink: &'static mut Sink, s: SaveError<fmt::Error>, r: RestoreError) -> fmt::Result {
        write!(sink, "{s} {r}")
    }
}

/// Writes a tag as a number.
fn number(tag: Tag, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}", tag.0)
}

// Tags.
call! {
    fn tags_record(pages: &'static Pages, words: &'static [U64], range: PfnRange, tag: Tag) -> Result<u64, FreeError> {
        let tags = Tags::new(pages, words);
        let recorded = tags.record(range, tags.stamp(tag));
        recorded.and_then(|()| tags.free(range, || pages.free_range(range))).and_then(|()| tags.clear(range))
    }

    fn tags_look(pages: &'static Pages, words: &'static [U64], pfn: Pfn, now: u64) -> (usize, u64, u64) {
        let tags = Tags::new(pages, words);
        let stamp = tags.of(pfn).unwrap_or(Stamp::at(Tag(0), now));
        (Tags::words(pages), stamp.nanoseconds(), tags.blocks().map(|block| block.pfn.0).sum())
    }

    fn tags_print(sink: &'static mut Sink, pages: &'static Pages, words: &'static [U64]) -> fmt::Result {
        write!(sink, "{}", Tags::new(pages, words).listing(number))
    }

    fn tags_sum(sink: &'static mut Sink, pages: &'static Pages, room: &'static mut [Group]) -> Result<u64, fmt::Error> {
        let groups = Tags::new(pages, &[]).groups(room);
        let frames = groups.iter().fold(groups.rest().frames, |sum, group| sum ^ group.frames);
        write!(sink, "{}", groups.named(number)).map(|()| frames)
    }
}
