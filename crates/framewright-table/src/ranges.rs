//! Ranges and lists of numbers as users type them and Linux prints them: `8`, `0-3`, `0-3,8`.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads `3` or `0-3`; the ends may come in the wrong order. `None` if either end is no number.
pub fn range<T: FromStr>(text: &str) -> Option<RangeInclusive<T>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// Reads `0-3,8`: the ranges between commas, each as [`range`] reads it; empty ones are left out.
pub fn ranges<T: FromStr>(text: &str) -> Option<Vec<RangeInclusive<T>>> {
    text.trim().split(',').filter(|part| !part.is_empty()).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let cases: [(&str, Option<Vec<RangeInclusive<u16>>>); 9] = [
            ("0-3,8\n", Some(vec![0..=3, 8..=8])),
            ("0-1,4,6-7", Some(vec![0..=1, 4..=4, 6..=7])),
            ("8", Some(vec![8..=8])),
            ("\n", Some(Vec::new())),
            ("", Some(Vec::new())),
            ("3-1", Some(vec![RangeInclusive::new(3, 1)])),
            ("a", None),
            ("1-", None),
            ("1,70000", None),
        ];
        for (text, expected) in cases {
            assert_eq!(ranges::<u16>(text), expected, "{text:?}");
        }
    }
}
