//! The system calls of arenas, in one place.
//!
//! Every call here goes through one function, which names it in errors and can let it fail. A [`Faults`] guard says
//! which call of the current thread fails, and with what error number. It is always compiled in, because each of these
//! calls costs a trip into the kernel anyway. A program that embeds arenas can test its own error handling with it.
//!
//! | file | calls |
//! |---|---|
//! | `mapping.rs` | `mmap`, `munmap`, `mprotect`, `madvise`: address ranges that are owned, one owner each |
//! | `memfd.rs` | `memfd_create`, `ftruncate`, `fcntl(F_ADD_SEALS)`: memory that other processes can map |
//! | `file.rs` | `open`, `flock`, `fstat`, `lseek`, `pread`, `pwrite`: files with a ledger |
//! | `numa.rs` | `mbind`, `move_pages`: which node of the machine memory lies on |
//! | `futex.rs` | `futex`: sleeping until a word changes |
//! | `table.rs` | none: mapped memory as words |
//! | `call.rs` | none: their names, their errors, their faults |
//!
//! Rejected: a trait object of the calls with a failing implementation. Every mapping would carry it to the end of its
//! life, for the sake of tests alone. Faults injected from outside (strace, seccomp) need privileges that a test run
//! may not have.

mod numa;
mod table;
mod mapping;
mod memfd;
mod file;
mod placement;
mod huge_page;
mod call;
mod futex;

pub use call::{Call, Faults, OsError};
pub(crate) use file::{duplicate, file_len, lock, next_data, read_at, reopen, set_file_len, write_at};
pub use huge_page::HugePage;
pub(crate) use mapping::{Advice, Backed, Forget, Mapping, page_size};
pub(crate) use memfd::sealed_memfd;
pub(crate) use numa::{distances, node_of, place};
pub use placement::Placement;
pub(crate) use table::{Table, Words};
