//! Numbers with their units, as messages and reports print them.

use framewright_table::figures::thousands;

/// Returns a count and its unit, as `2,048 frames` or `1 gap`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", thousands(count), if count == 1 { "" } else { "s" })
}
