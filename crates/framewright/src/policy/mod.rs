//! Numbers and choices without state: the switches of mechanisms, and the formulas of watermarks and list sizes.

pub mod mechanisms;
pub mod watermark;
