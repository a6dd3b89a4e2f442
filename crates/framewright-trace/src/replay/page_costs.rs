//! The stated costs of a page, for the times of a report.
//!
//! A replay counts pages; it cannot know how long a machine takes for them. So its times are products of counts and of
//! these two numbers. `docs/traces.md` has their sources.

use serde::Serialize;

/// The stated costs of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PageCosts {
    /// Nanoseconds to move a page.
    pub move_ns: u64,
    /// Nanoseconds to read a page again that was reclaimed early.
    pub read_ns: u64,
}

impl Default for PageCosts {
    fn default() -> PageCosts {
        PageCosts { move_ns: 5_000, read_ns: 80_000 }
    }
}

impl PageCosts {
    /// Milliseconds to move pages.
    pub(super) fn moves_ms(self, pages: u64) -> f64 {
        pages as f64 * self.move_ns as f64 / 1e6
    }

    /// Milliseconds to read pages again: as if the workload missed each page that was reclaimed early, once.
    pub(super) fn reads_ms(self, pages: u64) -> f64 {
        pages as f64 * self.read_ns as f64 / 1e6
    }
}
