//! The flags of a request (`gfp_flags`), as every kernel since 2.6.31 prints them.
//!
//! A kernel prints the flags of a request by names, as a number, or by names and a number of the bits without a name.
//! Both depend on the kernel. Names had no underscores before Linux 4.6 (`GFP_ZERO` is `__GFP_ZERO`), and the bits
//! have moved six times since 2.6.31.
//!
//! `gfp_names.rs` reads names. `gfp_bits.rs` has a table of bits for each era of kernels. `kernel_version.rs` reads
//! the version that tells the era. `in_message.rs` reads a message of the kernel, which may have both. Whatever the
//! kernel, the result is a [`Gfp`] in the core's own numbering.
//!
//! | era | change |
//! |---|---|
//! | 2.6.31 | `__GFP_WAIT`; background reclaim is woken unless `__GFP_NO_KSWAPD` |
//! | 4.4 | `__GFP_DIRECT_RECLAIM` and `__GFP_KSWAPD_RECLAIM` instead; `__GFP_ATOMIC`; `__GFP_RECLAIMABLE` moves |
//! | 4.8 | `GFP_TRANSHUGE` without `__GFP_NORETRY` |
//! | 4.10 | `__GFP_OTHER_NODE` goes, two flags move into the gap |
//! | 4.18 | `__GFP_COLD` and `__GFP_NOTRACK` are gone, three flags move into the gaps |
//! | 5.1 | all from 0x100 up move |
//! | 5.14 | `__GFP_ZEROTAGS` |
//! | 6.3 | `__GFP_ATOMIC` goes; `GFP_ATOMIC` is `__GFP_HIGH` and `__GFP_KSWAPD_RECLAIM` |
//!
//! Where nothing tells the kernel, a value is read if all possible kernels agree on it ([`Kernels`]).
//!
//! [`Gfp`]: framewright::request::Gfp

mod in_message;
mod gfp_names;
mod gfp_bits;
mod kernel_version;

#[cfg(test)]
mod tests;

pub use self::gfp_bits::{BitsFault, Kernels, Reading};
pub(crate) use self::gfp_names::named;
pub use self::in_message::InMessage;
pub use self::kernel_version::KernelVersion;
