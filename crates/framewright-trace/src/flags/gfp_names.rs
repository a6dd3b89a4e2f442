//! The names of flags.
//!
//! Before Linux 4.6 a single flag was printed without underscores: `GFP_ZERO` is `__GFP_ZERO`. Some bits had no name
//! and were printed as a number after the names: the zones, `__GFP_FS`, `__GFP_MEMALLOC`, `__GFP_WRITE`, and
//! `__GFP_NO_KSWAPD` for a while. Since 4.6 every flag that matters to an allocator has a name, so a number after
//! names means nothing to it.
//!
//! Names alone do not show what older kernels imply. Before 4.4 background reclaim is woken unless the request has
//! `__GFP_NO_KSWAPD`. There `GFP_ATOMIC` is another name of `__GFP_HIGH`, and a request that may wait can have it too.

use framewright::request::{__GFP_ATOMIC, __GFP_DIRECT_RECLAIM, __GFP_FS, __GFP_IO, __GFP_KSWAPD_RECLAIM, Gfp};

use super::gfp_bits::{NO_KSWAPD, as_since_4_8, before_4_4};

/// The flags of a request, as read from their names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named<'t> {
    /// The flags that are known.
    pub(crate) gfp: Gfp,
    /// Names that no kernel has; a vendor's may be among them.
    pub(crate) unknown: Vec<&'t str>,
    /// Whether a name shows that the kernel is older than 4.6.
    pub(crate) is_old: bool,
}

/// Reads flags by names, as `GFP_KERNEL|__GFP_ZERO`, `GFP_KERNEL|GFP_ZERO`, `GFP_NOFS|0x800000` or `none`.
pub(crate) fn named(text: &str) -> Named<'_> {
    let mut found = Named { gfp: Gfp::NONE, unknown: Vec::new(), is_old: false };
    let mut has = Has::default();
    for part in text.split('|').map(str::trim) {
        has.note(part);
        if let Some(bits) = number(part) {
            has.rest |= bits;
            continue;
        }
        match flag(part) {
            Some((gfp, is_old)) => {
                found.gfp |= gfp;
                found.is_old |= is_old;
            }
            None => found.unknown.push(part),
        }
    }
    if !has.underscores {
        found.gfp |= before_4_4(has.rest);
    }
    if found.is_old {
        found.gfp = as_since_4_8(as_before_4_4(found.gfp, &has));
    }
    // Combinations that may wait remove a bit of a later kernel's GFP_ATOMIC by their names. Before 4.4 none is left.
    let has_no_bit = found.is_old && !has.reclaim;
    if has.atomic && found.gfp.contains(__GFP_DIRECT_RECLAIM) && (has_no_bit || !has.direct) {
        found.gfp = found.gfp & !__GFP_ATOMIC;
    }
    found
}

/// Evidence of the kernel's age in a list of names.
#[derive(Default)]
struct Has {
    /// A name with underscores.
    underscores: bool,
    /// `GFP_ATOMIC`, not `__GFP_ATOMIC`.
    atomic: bool,
    /// A name that says whether background reclaim is woken.
    reclaim: bool,
    /// A name that allows waiting, other than the usual combinations.
    direct: bool,
    /// A name that says that background reclaim is not woken.
    no_kswapd: bool,
    /// Bits without a name.
    rest: u32,
}

impl Has {
    fn note(&mut self, part: &str) {
        self.underscores |= part.starts_with("__");
        self.direct |= part.ends_with("GFP_DIRECT_RECLAIM") || part == "__GFP_RECLAIM" || part == "GFP_TRANSHUGE";
        match part {
            "GFP_ATOMIC" => self.atomic = true,
            "GFP_DIRECT_RECLAIM" | "GFP_KSWAPD_RECLAIM" => self.reclaim = true,
            "GFP_NO_KSWAPD" | "GFP_TRANSHUGE" => self.no_kswapd = true,
            _ => {}
        }
    }
}

/// Adds the flags that a kernel before 4.4 implies without a name.
fn as_before_4_4(gfp: Gfp, has: &Has) -> Gfp {
    if has.no_kswapd || has.rest & NO_KSWAPD != 0 {
        gfp & !__GFP_KSWAPD_RECLAIM
    } else if has.reclaim {
        gfp
    } else {
        gfp | __GFP_KSWAPD_RECLAIM
    }
}

fn number(part: &str) -> Option<u32> {
    match part.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => part.parse().ok(),
    }
}

/// The flags with this name, and whether only kernels before 4.6 print it.
///
/// The names of combinations never changed.
fn flag(name: &str) -> Option<(Gfp, bool)> {
    if name == "GFP_IOFS" {
        return Some((__GFP_IO | __GFP_FS, true));
    }
    if !name.starts_with("GFP_") && !name.starts_with("__GFP_") && name != "none" {
        return None;
    }
    if let Ok(gfp) = Gfp::parse(name) {
        return Some((gfp, false));
    }
    name.strip_prefix("GFP_").and_then(|_| Gfp::parse(&format!("__{name}")).ok()).map(|gfp| (gfp, true))
}
