//! Options for reading a text trace.

use framewright::units::{Order, Pfn};

use super::migratetypes::Numbering;
use crate::flags::Kernels;

/// Options for reading a text trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TextOptions {
    /// Numbers of mobilities; none to take them from the trace.
    pub numbering: Option<Numbering>,
    /// Address of frame 0's page descriptor, for page moves; the usual ones of x86-64 if none.
    pub vmemmap: Option<u64>,
    /// Kernels that can have printed the trace. Of several, the trace itself reveals which, where it matters.
    pub kernels: Kernels,
    /// Order of a pageblock, where events do not say; 9 if none.
    pub pageblock_order: Option<Order>,
    /// One past the machine's last frame, to check addresses against; not checked if none.
    pub end_pfn: Option<Pfn>,
    /// Whether to count malformed lines and go on, instead of stopping at the first.
    pub lenient: bool,
}
