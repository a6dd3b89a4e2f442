//! Blocks and their tags: each page of an allocated block says whose it is.
//!
//! A block is one word, so that any context can exchange it for another by one instruction. The tag of a page is made
//! of the block's word and the page's number. It lies in the page's first and last words from allocation to free:
//!
//! | found | where | mistake |
//! |---|---|---|
//! | another tag or none | at the free | the page was given to a second owner, who wrote to it |
//! | a tag of an allocated block | at the allocation | the page has an owner |
//! | any word but 0 | at an allocation with `__GFP_ZERO` | the page was not zeroed, or has an owner |

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::units::{Order, Pfn};

/// Order of a block that is a range of other size; its first page is tagged as the block's.
const RANGE: u64 = 0x3f;
const WORDS: usize = 4096 / 8;
/// What a free leaves in place of a tag.
const FREED: u64 = 0xf4ee_f4ee_f4ee_f4ee;

/// An allocated block: its first frame, order and owner; [`Block::NONE`] is no block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block(pub(crate) u64);

/// A page that is not its owner's.
pub(crate) struct WrongPage {
    pub(crate) pfn: u64,
    /// What its tag says.
    pub(crate) tag: u64,
    /// The owner that it should have, if there should be one.
    pub(crate) owner: Option<u16>,
}

impl Block {
    /// No block: frame 0 is never allocated.
    pub(crate) const NONE: Block = Block(0);

    pub(crate) fn new(pfn: Pfn, order: Order, owner: u16) -> Block {
        Block(pfn.0 << 24 | u64::from(order.0) << 16 | u64::from(owner))
    }

    pub(crate) fn range(start: Pfn, owner: u16) -> Block {
        Block(start.0 << 24 | RANGE << 16 | u64::from(owner))
    }

    pub(crate) fn pfn(self) -> Pfn {
        Pfn(self.0 >> 24)
    }

    pub(crate) fn order(self) -> Order {
        Order((self.0 >> 16) as u8)
    }

    pub(crate) fn owner(self) -> u16 {
        self.0 as u16
    }

    fn tag(self, pfn: u64) -> u64 {
        self.0 ^ mask(pfn)
    }

    /// Tags the `frames` pages of the block, which are zeroed if `zeroed` says so.
    ///
    /// # Errors
    /// The first page that has an owner, or is not zeroed.
    pub(crate) fn write(self, frames: u64, zeroed: bool) -> Result<(), WrongPage> {
        for pfn in self.pfn().0..self.pfn().0 + frames {
            for word in ends(pfn) {
                let tag = word.load(Ordering::Relaxed);
                if Block(tag ^ mask(pfn)).has(pfn) || (zeroed && tag != 0) {
                    return Err(WrongPage { pfn, tag, owner: None });
                }
                word.store(self.tag(pfn), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Checks the tags of the `frames` pages of the block, and replaces them by [`FREED`].
    ///
    /// # Errors
    /// The first page whose tag is not the block's.
    pub(crate) fn check(self, frames: u64) -> Result<(), WrongPage> {
        for pfn in self.pfn().0..self.pfn().0 + frames {
            for word in ends(pfn) {
                let tag = word.swap(FREED, Ordering::Relaxed);
                if tag != self.tag(pfn) {
                    return Err(WrongPage { pfn, tag, owner: Some(self.owner()) });
                }
            }
        }
        Ok(())
    }

    /// Whether this is a block with the page: what is decoded from a word that is no tag almost never is.
    fn has(self, pfn: u64) -> bool {
        let order = u64::from(self.order().0);
        let frames = if order == RANGE { 1 } else { 1 << order.min(20) };
        self.pfn().0 <= pfn && pfn < self.pfn().0 + frames && (order <= 10 || order == RANGE)
    }
}

impl WrongPage {
    /// Returns the owner that the tag names.
    pub(crate) fn found(&self) -> Option<u16> {
        let block = Block(self.tag ^ mask(self.pfn));
        block.has(self.pfn).then(|| block.owner())
    }
}

/// Makes the tags of two pages of one block differ in all their bits.
fn mask(pfn: u64) -> u64 {
    pfn.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63
}

/// Returns the first and the last word of a page.
fn ends(pfn: u64) -> [&'static AtomicU64; 2] {
    let page = (pfn << 12) as *const AtomicU64;
    // SAFETY: all memory is mapped at its address, the allocator hands out memory alone, and a page without tag is
    // used by nobody else. Words of a page that has two owners by mistake are atomic, so even that is defined.
    unsafe { [&*page, &*page.add(WORDS - 1)] }
}
