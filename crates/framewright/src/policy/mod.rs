//! Numbers and choices without state: the switches of mechanisms, and the formulas of watermarks and list sizes.

pub(crate) mod presets;
pub(crate) mod rules;
pub(crate) mod mechanisms;
pub(crate) mod features;
pub(crate) mod numbers;
pub(crate) mod watermark;
pub(crate) mod pcp_size;
