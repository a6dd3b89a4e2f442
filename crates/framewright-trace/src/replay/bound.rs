//! The results of a run that bounds another one: the same trace and mechanisms, with another way to reclaim.

use std::collections::BTreeMap;

use serde::Serialize;

/// The results of a run that bounds another one. The fields are as in [`super::report::Column`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[allow(missing_docs, reason = "the fields are those of a column")]
pub struct Bound {
    pub extfrag_events: u64,
    pub extfrag_fragmenting: u64,
    /// Requests that got nothing, whether the kernel served them or not.
    pub failed_requests: u64,
    pub order9_faults_served: u64,
    pub huge_pages_split: u64,
    pub failed_where_linux_served: u64,
    pub failed_smaller: u64,
    pub failed_because: BTreeMap<&'static str, u64>,
    pub page_moves: u64,
    pub reclaimed_early: u64,
    pub frees_refused: u64,
    pub pages_conserved: bool,
}
