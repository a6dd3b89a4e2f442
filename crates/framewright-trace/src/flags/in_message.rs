//! The flags of a request in a message of the kernel, such as `mode:0x14000c0(GFP_KERNEL)`.

use framewright::request::Gfp;

use super::gfp_bits::{Kernels, Reading};
use super::gfp_names::named;

/// The flags of a message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InMessage {
    /// The flags that are certain.
    pub gfp: Gfp,
    /// What could not be read: names that no kernel has, or bits whose meaning the kernel's version decides.
    pub left_out: Vec<String>,
}

impl InMessage {
    /// Reads flags by their names, or by their number where there are none (before 4.6).
    ///
    /// `kernels` are those that may have printed the number. A number on which they disagree is read as far as they
    /// agree.
    pub fn read(number: Option<u32>, names: Option<&str>, kernels: Kernels) -> InMessage {
        if let Some(names) = names {
            let named = named(names);
            let is_readable = named.unknown.len() < names.split('|').count();
            if is_readable || number.is_none() {
                let left_out = named.unknown.into_iter().map(str::to_owned).collect();
                return InMessage { gfp: named.gfp, left_out };
            }
        }
        let Some(number) = number else { return InMessage::default() };
        match Reading::new(kernels).read(number, None) {
            Ok(gfp) => InMessage { gfp, left_out: Vec::new() },
            Err((fault, gfp)) => InMessage { gfp, left_out: vec![fault.bits()] },
        }
    }
}
