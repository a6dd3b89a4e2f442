//! Edits the files of a Linux source tree: all edits of a list, or none.
//!
//! Framewright reaches Linux's allocator through a few calls in files such as mm/page_alloc.c. The list of these calls
//! is a TOML file (linux/edits.toml). A patch would name line numbers and three lines of context, and so fail for most
//! releases. An edit instead names a file, a function and a piece of text in it, its *anchor*. It applies to every
//! release that still has the anchor.
//!
//! The idea is to look before writing:
//!
//! 1. [`EditList`] reads the list.
//! 2. [`Plan::new`] finds every anchor in the untouched files. It reports all edits that find no place, at once.
//! 3. [`Plan::apply`] writes the files. Each is written under another name first; all are renamed at the end.
//!
//! | field | meaning |
//! |---|---|
//! | `file` | path in the tree |
//! | `function` | C function in which the anchor must lie; the whole file without it |
//! | `anchor` | text to find; a run of blanks and line ends matches any other such run |
//! | `occurrence` | which match to take, from 1; without it there must be exactly one |
//! | `place` | `before` or `after` the lines of the anchor, `replace` the anchor, `at-start` or `at-end` |
//! | `text` | what is inserted; lines get the indentation of the anchor's first line |
//! | `since`, `until` | first and last Linux version that the edit is for, as `6.2` |
//! | `optional` | the edit is left out, and reported, where it finds no place |
//!
//! `at-start` and `at-end` take no anchor. With `function` they mean the body's first and last line, otherwise the
//! file's. A `replace` edit whose text is empty removes its anchor. Edits at the same place keep the list's order.
//!
//! Cost: one pass over each edited file, some milliseconds in all.
//!
//! Rejected: `patch`, whose context breaks from release to release. Coccinelle, which is a large dependency and does
//! not report all failures before it writes. Edits that see the result of earlier edits: the order would then matter.

mod apply;
mod plan;
mod place;
mod list;
mod problem;
mod version;
mod anchor;
mod c_text;
#[cfg(test)]
mod tests;

pub use apply::{Ours, is_edited, written_files};
pub use list::{Edit, EditList, Place};
pub use plan::{FileChange, LeftOut, Plan, Summary};
pub use problem::{EditError, Problem};
pub use version::KernelVersion;
