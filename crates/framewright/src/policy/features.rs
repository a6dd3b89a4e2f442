//! Features: parts of the allocator that an embedder can leave out when it is compiled.
//!
//! A mechanism is one of several ways to do a thing. A feature is a thing that not every embedder asks for, such as
//! several nodes. A machine states the features that it needs ([`crate::Machine::FEATURES`]). Every check of a feature
//! is a comparison of constants, so the compiler removes the code of those that are left out.
//!
//! Rejected: Cargo features. All crates of one build share them, and a laboratory needs the allocator whole.

/// Parts of the allocator that are compiled; a machine names them ([`crate::Machine::FEATURES`]).
///
/// A configuration that needs a feature that was left out is refused ([`crate::BootError::LeftOut`]), and so is a call
/// ([`crate::AllocError::LeftOut`]). The error names the feature.
///
/// | left out | what the allocator does instead |
/// |---|---|
/// | `nodes` | all memory and all CPUs are on node 0; no policy, no NUMA statistics |
/// | `address_limits` | a request has no limit besides its zone |
/// | `mobility` | all pageblocks are of one type, for all requests; no range is taken by place |
/// | `deferred_frees` | a free from any context fails where its zone is locked |
/// | `repair` | a zone with damaged lists serves no request that meets the damage |
/// | `reclaim` | a request fails where memory would have to be reclaimed |
/// | `section_init` | boot puts all memory on the free lists; no memory comes later |
/// | `zero` | a request with `__GFP_ZERO` is refused |
/// | `hardened` | the mechanism of that name is refused |
/// | `shortage` | the error of a request that failed has no figures ([`crate::error::Shortage`]) |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// More than one node, and policies that choose among them.
    pub nodes: bool,
    /// Requests with an address limit ([`crate::Request::below`]).
    pub address_limits: bool,
    /// Pageblocks of several types: grouping by mobility, the high-atomic reserve, CMA, and ranges by their place.
    pub mobility: bool,
    /// Frees from any context to a zone that is locked ([`crate::Allocator::free_nolock`]).
    pub deferred_frees: bool,
    /// Repair of a zone's damaged lists.
    pub repair: bool,
    /// Reclaim by the machine ([`crate::Machine::reclaim`]), by a request or in the background.
    pub reclaim: bool,
    /// Sections that are initialised after boot: when they are used, or where memory is added.
    ///
    /// [`crate::config::SectionInit`] and [`crate::Region::possible`] say which.
    pub section_init: bool,
    /// Blocks that are zeroed for `__GFP_ZERO` ([`crate::Machine::zero`]).
    pub zero: bool,
    /// Freed blocks that are filled, and checked before their next use ([`crate::Machine::poison`] and
    /// [`crate::Machine::is_poisoned`]).
    pub hardened: bool,
    /// Errors that say how much memory was free, and where, when a request failed ([`crate::error::Shortage`]).
    ///
    /// For programs, which print their errors. It costs a look at each CPU's lists for each request that fails without
    /// `__GFP_NOWARN`.
    pub shortage: bool,
}

impl Features {
    /// Everything that decides whether a call is served: all but `shortage`.
    pub const ALL: Features = Features {
        nodes: true,
        address_limits: true,
        mobility: true,
        deferred_frees: true,
        repair: true,
        reclaim: true,
        section_init: true,
        zero: true,
        hardened: true,
        shortage: false,
    };
    /// Everything that can be done without the contents of frames.
    pub const WITHOUT_CONTENTS: Features = Features { zero: false, hardened: false, ..Features::ALL };
    /// Nothing that can be left out.
    pub const NONE: Features = Features {
        nodes: false,
        address_limits: false,
        mobility: false,
        deferred_frees: false,
        repair: false,
        reclaim: false,
        section_init: false,
        zero: false,
        hardened: false,
        shortage: false,
    };
}
