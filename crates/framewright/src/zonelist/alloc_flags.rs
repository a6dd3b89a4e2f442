//! What a request may take: marks and reserves, by its flags (Linux: `gfp_to_alloc_flags`).

use crate::policy::watermark::{AllocFlags, Mark};
use crate::types::migratetype::MigrateType;
use crate::types::request::{__GFP_ATOMIC, __GFP_HIGH, __GFP_MEMALLOC, __GFP_NOFAIL, __GFP_NOMEMALLOC, __GFP_NORETRY};
use crate::zonelist::plan::Plan;

/// Whether a request takes from the high-atomic reserve first, or adds to it.
pub(crate) fn keeps_reserve(plan: &Plan, alloc_flags: AllocFlags) -> bool {
    alloc_flags.highatomic && plan.order.0 != 0
}

/// Returns the flags of a request's first attempt.
///
/// It keeps above the low mark and mixes no mobilities.
pub(crate) fn first_alloc_flags(plan: &Plan) -> AllocFlags {
    first_alloc_flags_of(plan.migratetype)
}

/// Like [`first_alloc_flags`], for a request of this mobility.
pub(crate) fn first_alloc_flags_of(migratetype: MigrateType) -> AllocFlags {
    AllocFlags {
        mark: Mark::Low,
        no_watermarks: false,
        high: false,
        harder: false,
        highatomic: false,
        cma: migratetype == MigrateType::Movable,
        nofragment: true,
        stall: false,
        unboosted: false,
    }
}

/// Returns the flags of a request that found nothing above the low mark.
pub(crate) fn slow_alloc_flags(plan: &Plan, may_wait: bool) -> AllocFlags {
    let may_use = !plan.gfp.contains(__GFP_NOMEMALLOC);
    let harder = plan.gfp.contains(__GFP_ATOMIC) && may_use;
    // A request for a single frame that may not wait would fail without the reserve. A request for several frames has
    // to say that it is urgent.
    let highatomic = if plan.order.0 == 0 { !may_wait && may_use } else { harder };
    AllocFlags { mark: Mark::Min, high: plan.gfp.contains(__GFP_HIGH), harder, highatomic, ..first_alloc_flags(plan) }
}

/// Whether the request may go below every mark.
///
/// A caller that frees memory must not be denied memory because memory is short.
pub(crate) fn may_use_reserves(plan: &Plan) -> bool {
    plan.gfp.contains(__GFP_MEMALLOC) && !plan.gfp.contains(__GFP_NOMEMALLOC)
}

/// Whether the caller has an alternative to this request.
///
/// True for a request for several pages that does not want anything to be tried twice. (Sockets, packets and slabs then
/// take single pages.)
pub(crate) fn is_optional(plan: &Plan) -> bool {
    plan.order.0 != 0 && plan.gfp.contains(__GFP_NORETRY) && !plan.gfp.contains(__GFP_NOFAIL)
}
