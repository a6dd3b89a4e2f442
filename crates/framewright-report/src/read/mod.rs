//! Reports in a log, of every kernel since 2.6.32.
//!
//! A [`Reader`] takes lines one at a time and hands out each report when the next one begins. So memory is bounded
//! whatever the log holds, and a log may be followed while it grows.
//!
//! | file | job |
//! |---|---|
//! | `reader.rs` | which report a line belongs to |
//! | `fill.rs` | what a line adds to its report |
//! | `unwrap.rs` | lines that a printer or a mail has split |
//! | `patterns.rs` | the kernel's formats |
//! | `clean.rs` | what others put around the kernel's lines |
//!
//! # Formats, by the kernel that changed them
//!
//! | kernel | change |
//! |---|---|
//! | 2.6.32 | `page allocation failure. order:0, mode:0x20`; `invoked oom-killer: gfp_mask=…, order=…, oom_adj=…` |
//! | | lists of each CPU after `per-cpu:` |
//! | 2.6.36 | `oom_score_adj=` beside `oom_adj=`, which 3.7 removes |
//! | 2.6.39 | `page allocation failure: order:` with a colon |
//! | 3.7 | `free_cma:` |
//! | 3.8 | letters after a number of free blocks: `3*8kB (UEM)` |
//! | 3.9 | `managed:` |
//! | 4.1 | `free_pcp:` and `local_pcp:` instead of `per-cpu:` |
//! | 4.4 | letter H instead of R |
//! | 4.6 | names after the flags' number: `mode:0x14000c0(GFP_KERNEL)` |
//! | 4.8 | LRU lists by node: lines `Node 0 active_anon:…`; `writepending:` |
//! | 4.9 | `page allocation stalls for`, until 4.14 |
//! | 4.10 | `nodemask=` in the head of OOM reports, until 4.20 |
//! | 4.11 | `nodemask=` in the head of failures |
//! | 5.0 | `cpuset=` and `mems_allowed=` in the head of failures; `oom-kill:constraint=…` names the limit |
//! | 5.5 | `reserved_highatomic:` |
//! | 5.16 | `boost:` |
//! | 6.15 | `free_highatomic:` (6.14 has none, 6.16 has it) |
//!
//! Distributions take single changes into older kernels, so a field is read wherever it stands.

mod reader;
mod fill;
mod unwrap;
mod patterns;
mod clean;

pub use self::reader::{Reader, reports};
