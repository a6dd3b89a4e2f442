//! Why a kernel's allocation failed: reports of Linux's page allocator, read, decided to the frame and tried again.
//!
//! A kernel that cannot serve a request prints a report: `page allocation failure: order:4, mode:0x40d40(GFP_NOFS)`,
//! then the state of its zones. An OOM kill and SysRq-m print such a state as well. [`read::reports`] finds them in a
//! log. [`answer::answer`] computes what the kernel decided, zone by zone, and which single change would have changed
//! it. [`trial::try_again`] makes the request on Framewright's allocator, in the same state.
//!
//! ```
//! use framewright_report::{answer::answer, read::reports};
//!
//! let log = "\
//! ping: page allocation failure: order:1, mode:0x820(GFP_ATOMIC), nodemask=(null)
//! CPU: 0 PID: 7 Comm: ping Not tainted 5.10.2 #1
//! Mem-Info:
//! Normal free:700kB min:1000kB low:1250kB high:1500kB managed:64000kB free_pcp:0kB free_cma:0kB
//! lowmem_reserve[]: 0 0
//! Normal: 171*4kB (UM) 2*8kB (M) 0*16kB = 700kB";
//! let answer = answer(&reports(log)[0]);
//! assert_eq!(answer.verdict.sentence, "would succeed with these numbers: zone 0 Normal has a block of order 1 above \
//!     its mark; memory became free after the try, or a limit that the report does not show applied");
//! ```
//!
//! The modules stand in call order, and each uses only modules below it:
//!
//! | module | job |
//! |---|---|
//! | `answer_text.rs`, `answer.rs` | the whole answer: request, decision, verdict, changes; and its text |
//! | `trial.rs`, `rebuild.rs` | the state as a list of operations, and the request on our allocator |
//! | `remedies.rs` | single changes, each tried on the state |
//! | `decision/` | the kernel's rule, by version |
//! | `from_proc.rs` | a state from files of `/proc` |
//! | `read/` | reports in a log |
//! | `report.rs`, `memory.rs` | a report, and the memory that it shows |
//!
//! A log comes from anywhere. So memory is bounded whatever it holds, and nothing in it can make the program panic.
#![forbid(unsafe_code)]

mod answer_text;
pub mod answer;
pub mod trial;
pub mod rebuild;
pub mod remedies;
pub mod decision;
pub mod from_proc;
pub mod read;
pub mod report;
pub mod memory;

/// Tests the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
