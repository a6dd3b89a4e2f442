//! The ledger of a recoverable arena: which blocks are held, in the arena's own file.
//!
//! The allocator's descriptors are private memory, and are lost when the process is killed. What remains is the file
//! that the blocks lie in. So the file has a second part, the *ledger*, which each allocation and free writes to:
//!
//! | part of the file | size | content |
//! |---|---|---|
//! | blocks | all nodes, up to the limit | what the program keeps there |
//! | journal | 64 bytes a thread, for 4,096 threads | the thread's last call, if that allocates, splits or moves |
//! | table | 4 bytes a frame | at each held block's first frame: its order, and the thread that allocated it |
//! | header | the last 4 KiB | the arena's shape, with a check sum |
//!
//! [`entries`] has the stores, [`format`] the bits, [`read`] the reader that trusts none of them.
//!
//! # Why a kill leaves no doubt
//!
//! Each call has one store that decides: the entry of the block's first frame. It is set after the allocator has
//! returned the block and before the caller gets it; it is cleared before the allocator frees the block. So a held
//! block has its entry, and a free block has none. The journal names the one block of which a thread may not know
//! itself: that of an allocation which was recorded, and may not have returned.
//!
//! A kill ends a thread between two instructions. All its earlier stores are in the file's pages, which outlive the
//! process. So only the order of the instructions counts, which costs no fence of the processor. A crash of the kernel
//! or a loss of power keeps no order among pages, and is not covered.
//!
//! Cost: three stores for an allocation and its free, to lines that the thread mostly has; a look at a thread-local.
//! The table takes memory where entries were written: a page for each 1,024 frames.
//!
//! Rejected: descriptors in the file. A kill in the middle of a merge leaves lists that no reader can trust, and the
//! allocator's stores would all have to be ordered. Also rejected: a log of all calls, which grows or is cut short.

pub(crate) mod entries;
pub(crate) mod read;
mod slots;
mod map;
pub(crate) mod format;
