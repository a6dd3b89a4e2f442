//! Memory shortage: the slow path of a request, and the run of background reclaim.
//!
//! Each loop here has a bound. The embedder's callbacks are called from here, with no lock held and no CPU pinned.

pub(crate) mod one_zone;
pub(crate) mod slowpath;
pub(crate) mod kswapd;
