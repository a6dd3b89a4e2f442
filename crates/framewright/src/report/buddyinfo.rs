//! `/proc/buddyinfo`: the number of free blocks, a line for each zone with memory, a column for each order.

use core::fmt;

use super::source::{Source, orders, populated};

/// Prints `/proc/buddyinfo`.
///
/// A count of more than six digits makes its column wider, as in Linux. Each line ends with a blank.
#[derive(Clone, Copy, Debug)]
pub struct BuddyInfo<'a, S: Source + ?Sized>(pub &'a S);

impl<S: Source + ?Sized> fmt::Display for BuddyInfo<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for zone in populated(self.0) {
            write!(f, "Node {}, zone {:>8} ", zone.node.0, zone.kind)?;
            for blocks in zone.free_by_order().iter().take(orders(self.0)) {
                write!(f, "{blocks:6} ")?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}
