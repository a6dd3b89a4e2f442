//! A tag for each allocated block, and listings of the blocks by tag: what Linux calls page owner.
//!
//! An embedder that looks for a leak, or for the user of most memory, gives each block a [`Tag`]: 32 bits that it
//! chooses. A tag may be the number of a subsystem, or of a place in the source. The tags lie in a table of the
//! embedder, one word for each frame, like Linux's `page_ext`. The first frame's word describes the block, so a block
//! of any order takes one store.
//!
//! ```ignore
//! let words: &[M::U64] = zeroed(Tags::words(&pages));              // a word for each frame
//! let tags = Tags::new(&pages, words);                        // two references: made for each use
//! let pfn = pages.alloc(&request)?;
//! tags.record(PfnRange::block(pfn, order), tags.stamp(RX_RING))?;
//! tags.free(PfnRange::block(pfn, order), || pages.free(pfn, order))?;
//! print(tags.groups(&mut [Group::default(); 64]).named(names));  // who has most
//! print(tags.listing(names));                                    // every block
//! ```
//!
//! | time of an allocation | word |
//! |---|---|
//! | after the block was allocated, by its caller | [`Tags::record`] stores tag, time and order |
//! | before the block is freed, by its caller | [`Tags::free`] clears it, and restores it if the free is refused |
//! | after a split, or a free of a part | [`Tags::record`] stores the old stamp for each piece |
//!
//! This is a layer above the calls. They know nothing of it, so it costs nothing where it is not used. Where it is
//! used, a block costs a look at its head byte and a store, for the allocation and for the free; and 8 bytes a frame.
//!
//! A listing may run at any time. It reads each block's word once, so that tag, time and order of an entry belong
//! together. An entry is listed if the allocator also says that a block of this order is allocated there. All other
//! allocated blocks are listed without a tag. So a block that is freed past the table is never listed, and one that
//! is allocated past the table is not hidden.
//!
//! Rejected:
//! - A word of each frame of a block, as in Linux: a block of 1 GiB would take 262,144 stores.
//! - Tags in the allocator's own calls: the fast path would pass them, and test for them.
//! - Sorting the scratch memory of groups: the printer looks for the next largest group, and the groups are few.

mod listing;
mod table;
mod stamp;

pub use listing::{Group, Groups, Listing, Name, NamedGroups};
pub use stamp::{Stamp, Tag};
pub use table::{TaggedBlock, TaggedBlocks, Tags};
