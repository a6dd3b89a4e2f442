//! How to read a text trace.

use framewright::pfn::{Order, Pfn};

use super::migratetypes::Numbering;
use crate::flags::Kernels;

/// How to read a text trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TextOptions {
    /// Numbers of mobilities; found out from the trace if none.
    pub numbering: Option<Numbering>,
    /// Address of frame 0's page descriptor, for page moves; the usual ones of x86-64 if none.
    pub vmemmap: Option<u64>,
    /// Kernels that the trace can be of, for flags that are printed as numbers; found out from the trace if several.
    pub kernels: Kernels,
    /// Order of a pageblock, where events do not say; 9 if none.
    pub pageblock_order: Option<Order>,
    /// One past the machine's last frame, to check addresses against; not checked if none.
    pub end_pfn: Option<Pfn>,
    /// Whether to count malformed lines and go on, instead of ending with an error at the first.
    pub lenient: bool,
}
