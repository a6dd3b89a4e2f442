//! Tags of a kernel's blocks, in memory that the kernel hands over.

use std::fmt;

use framewright::request::GFP_KERNEL;
use framewright::tags::{Group, Tag, Tags};
use framewright::{FreeError, Order, PfnRange, Request};
use framewright_kernel::{tag_bytes, tag_words};

use crate::board::{Least, block, small};

const NAMES: [&str; 2] = ["page tables", "disk cache"];

fn name(tag: Tag, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(NAMES.get(tag.0 as usize).unwrap_or(&"?"))
}

#[test]
fn a_kernel_knows_who_has_its_memory() {
    let pages = small(&Least, 1);
    let bytes = tag_bytes(pages);
    for skew in [0, 1, 127, 128, 200] {
        let words = tag_words(block(bytes, skew));
        assert!((Tags::words(pages)..Tags::words(pages) + 32).contains(&words.len()), "{} words", words.len());
        let tags = Tags::new(pages, words);
        let blocks = [(0, 0), (4, 1), (0, 0)].map(|(order, tag)| {
            let pfn = pages.alloc(&Request::new(GFP_KERNEL, order)).unwrap();
            let range = PfnRange::block(pfn, Order(order));
            tags.record(range, tags.stamp(Tag(tag))).unwrap();
            (range, pfn, Order(order))
        });
        let printed = tags.groups(&mut [Group::default(); 4]).named(name).to_string();
        assert_eq!(printed, "1 times, 16 pages:\n disk cache\n\n2 times, 2 pages:\n page tables\n\n");
        for (range, pfn, order) in blocks {
            tags.free(range, || pages.free(pfn, order)).unwrap();
            assert_eq!(tags.free(range, || pages.free(pfn, order)), Err(FreeError::AlreadyFree(pfn)));
        }
        assert_eq!(tags.blocks().count(), 0);
    }
    assert_eq!(tag_words(block(127, 1)).len(), 0, "too short for any word");
}
