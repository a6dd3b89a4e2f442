//! Switches that are numbers: each type holds one number within its range.

use core::fmt;
use core::num::NonZeroU16;

use crate::types::units::Order;

/// Largest threshold of 8-bit counters.
///
/// The range must also hold one more, and half a threshold below 0.
pub(crate) const MOST_S8: u16 = 125;
/// Largest threshold of signed 16-bit counters.
pub(crate) const MOST_S16: u16 = 32_765;
/// Largest threshold of unsigned 16-bit counters.
pub(crate) const MOST_U16: u16 = u16::MAX - 2;

/// A number of events: 1 to 65,533.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Threshold(Option<NonZeroU16>);

impl Threshold {
    /// Returns the number; 0 for none.
    pub(crate) const fn raw(self) -> u32 {
        match self.0 {
            Some(events) => events.get() as u32,
            None => 0,
        }
    }

    /// Threshold that the kind of counters implies.
    ///
    /// For 8 bits it is the threshold of the zone's other counters; for 16 bits it is the largest that fits.
    pub const COMPUTED: Threshold = Threshold(None);
    pub(crate) const CHOICES: &[&str] = &["computed", "a number from 1 to 65533"];

    /// Returns a threshold of `events`; `None` if it is out of range.
    pub const fn new(events: u16) -> Option<Threshold> {
        match NonZeroU16::new(events) {
            Some(events) if events.get() <= MOST_U16 => Some(Threshold(Some(events))),
            _ => None,
        }
    }

    pub(crate) fn of(text: &str) -> Option<Threshold> {
        if text == "computed" { Some(Threshold::COMPUTED) } else { Threshold::new(text.parse().ok()?) }
    }

    /// Returns the number, or `None` if it is computed.
    pub const fn get(self) -> Option<u16> {
        match self.0 {
            Some(events) => Some(events.get()),
            None => None,
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(events) => write!(f, "{events}"),
            None => f.write_str("computed"),
        }
    }
}

/// Ten-thousandths of the high mark: 0 to 1,000,000. Linux's default is 15,000.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct BoostFactor(pub(crate) u32);

impl BoostFactor {
    /// Returns the number; 0 for none.
    pub(crate) const fn raw(self) -> u32 {
        self.0
    }

    const MOST: u32 = 1_000_000;
    pub(crate) const CHOICES: &[&str] = &["0", "15000", "a number up to 1000000"];

    /// Returns this factor; `None` if it is too large.
    pub const fn new(factor: u32) -> Option<BoostFactor> {
        if factor <= BoostFactor::MOST { Some(BoostFactor(factor)) } else { None }
    }

    pub(crate) fn of(text: &str) -> Option<BoostFactor> {
        BoostFactor::new(text.parse().ok()?)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for BoostFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Proactiveness of background compaction: 0 to 100.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Proactiveness(pub(crate) u8);

impl Proactiveness {
    /// Returns the number; 0 for none.
    pub(crate) const fn raw(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const CHOICES: &[&str] = &["0", "20", "a number up to 100"];

    /// Returns this proactiveness; `None` if it is too large.
    pub const fn new(proactiveness: u8) -> Option<Proactiveness> {
        if proactiveness <= 100 { Some(Proactiveness(proactiveness)) } else { None }
    }

    pub(crate) fn of(text: &str) -> Option<Proactiveness> {
        Proactiveness::new(text.parse().ok()?)
    }

    /// Returns the number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Proactiveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Order of blocks, or none, which is written 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StallOrder(pub(crate) u8);

impl StallOrder {
    /// Returns the number; 0 for none.
    pub(crate) const fn raw(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const CHOICES: &[&str] = &["0", "4", "an order up to 18"];

    /// Returns this order; `None` if no block can be so large.
    ///
    /// 0 means no order.
    pub const fn new(order: u8) -> Option<StallOrder> {
        if order <= Order::LIMIT.0 { Some(StallOrder(order)) } else { None }
    }

    pub(crate) fn of(text: &str) -> Option<StallOrder> {
        StallOrder::new(text.parse().ok()?)
    }

    /// Returns the order, or `None` for 0.
    pub const fn get(self) -> Option<Order> {
        if self.0 == 0 { None } else { Some(Order(self.0)) }
    }
}

impl fmt::Display for StallOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
