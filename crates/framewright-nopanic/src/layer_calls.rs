//! One kept function for every public operation of the seam at the zones, and of the core's layers above the calls:
//! saved states and tags.

use core::fmt::{self, Write};

use framewright::error::{AllocError, FreeError};
use framewright::machine::Machine;
use framewright::request::Request;
use framewright::tags::{Group, Stamp, Tag, Tags};
use framewright::units::{MigrateType, Order, Pfn, PfnRange, ZoneIdx};
use framewright::validate::FrameCounts;
use framewright::{Allocator, Compacted, InZone, RestoreError, Rights, SaveError};
use framewright_kernel::U64;

use crate::board::Board;
use crate::call::{Sink, call};

type Pages = Allocator<'static, Board>;

// Calls of an embedder that walks the zones itself.
call! {
    fn alloc_in(
        pages: &'static Pages,
        zone: ZoneIdx,
        preferred: ZoneIdx,
        request: Request,
        rights: Rights
    ) -> Result<InZone, AllocError> {
        pages.alloc_in(zone, preferred, &request, rights)
    }

    fn listed(pages: &'static Pages, zone: ZoneIdx, order: Order, mt: MigrateType, pfn: Pfn) -> (bool, Option<Pfn>) {
        let pin = pages.machine().pin();
        let freed = pages.serves_listed() && pages.free_listed(&pin, pfn, order);
        (freed, pages.alloc_listed(&pin, zone, order, mt))
    }

    fn zone_look(pages: &'static Pages, zone: ZoneIdx, order: Order, mt: MigrateType, rights: Rights) -> (bool, u64) {
        (pages.has_block_in(zone, order, rights), pages.free_blocks(zone, order, mt))
    }

    fn zone_gather(pages: &'static Pages, zone: ZoneIdx, order: Order, mt: MigrateType, rights: Rights) -> (u64, bool) {
        (pages.gather(zone, order, rights), pages.unreserve_highatomic(zone, order, mt))
    }

    fn compact_in(
        pages: &'static Pages,
        zone: ZoneIdx,
        order: Order,
        rights: Rights,
        keep: u64,
        insists: bool
    ) -> Compacted {
        pages.compact_in(zone, order, rights, keep, insists)
    }

    fn free_part(pages: &'static Pages, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        pages.free_part(pfn, order)
    }

    fn isolation(pages: &'static Pages, pfn: Pfn, order: Order) -> (bool, bool) {
        let kept = (pages.isolate(pfn), pages.take_free(pfn, order));
        pages.unisolate(pfn);
        kept
    }
}

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
