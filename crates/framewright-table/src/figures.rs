//! How numbers are written: as many digits as mean something, and a unit that needs no counting of zeros.
//!
//! A result of a model is good for three digits. Headline numbers keep all of theirs, grouped, since people compare
//! them with published tables.

/// `value` with `digits` significant digits, without an exponent.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "-".to_owned() };
    }
    let rounded: f64 = format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value);
    let before_point = rounded.abs().log10().floor() as i64 + 1;
    let decimals = (digits as i64 - before_point).clamp(0, 9) as usize;
    format!("{rounded:.decimals$}")
}

/// A count: exact below ten thousand, else three digits and `k`, `M`, `G` or `T`.
pub fn count(value: u64) -> String {
    if value < 10_000 { value.to_string() } else { scaled(value as f64, &["", "k", "M", "G", "T"]) }
}

/// A number of nanoseconds in a column that names the unit: tenths of them below a hundred.
pub fn short(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".to_owned(),
        value if value.abs() < 0.05 => "0".to_owned(),
        value if value.abs() < 99.95 => format!("{value:.1}"),
        value => count(value.round() as u64),
    }
}

/// Nanoseconds with three digits, in the unit that suits them.
pub fn duration(nanoseconds: f64) -> String {
    // Below a tenth of a nanosecond is nothing that the model knows.
    if nanoseconds.abs() < 0.05 {
        return "0".to_owned();
    }
    scaled(nanoseconds.max(0.0), &[" ns", " µs", " ms", " s"])
}

/// A share in percent, without the sign.
pub fn percent(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value > 0.0 && value < 0.05 {
        return "<0.1".to_owned();
    }
    // A negative zero is no finding.
    format!("{:.1}", if value.abs() < 0.05 { 0.0 } else { value })
}

/// The change from `from` to `to`, in percent of `from`.
pub fn change_percent(from: f64, to: f64) -> f64 {
    (to / from - 1.0) * 100.0
}

/// Like [`change_percent`]; `None` if the result is no number, as for a change from 0.
pub fn change_if_any(from: f64, to: f64) -> Option<f64> {
    Some(change_percent(from, to)).filter(|change| change.is_finite())
}

/// A change in percent, always with a sign.
pub fn change(from: f64, to: f64) -> String {
    let Some(percent) = change_if_any(from, to) else { return "-".to_owned() };
    if percent.abs() < 0.05 { "±0.0 %".to_owned() } else { format!("{percent:+.1} %") }
}

/// How many times as much.
pub fn ratio(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "-".to_owned() }
}

/// A number for comparing: all digits before the point, grouped; decimals only where there are few of those.
pub fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let decimals = match value.abs() {
        magnitude if magnitude == 0.0 || magnitude >= 99.95 => 0,
        magnitude if magnitude >= 9.9995 => 1,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    thousands(whole) + rest
}

/// The digits of a whole number, with a comma every three.
pub fn thousands(number: impl ToString) -> String {
    let whole = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in whole.char_indices() {
        if i != 0 && (whole.len() - i).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `part` of `whole` in percent; 0 if `whole` is 0.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole * 100.0 } else { 0.0 }
}

/// The plural of a unit, as `page faults` of `page fault`.
pub fn plural(unit: &str) -> String {
    if unit.ends_with('s') { unit.to_owned() } else { format!("{unit}s") }
}

/// A number with its unit, in the singular or plural.
pub fn counted(number: usize, unit: &str) -> String {
    if number == 1 { format!("1 {unit}") } else { format!("{number} {}", plural(unit)) }
}

/// `text` in no more than `width` characters; a cut is marked with an ellipsis.
pub fn fitted(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Three digits of `value` in the largest of `units`, each a thousand times the one before, that leaves at least one
/// before the point.
fn scaled(value: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    // The smallest unit is what the model computes with: tenths of it are all there is.
    let text =
        if unit == 0 && value < 100.0 && value.fract() != 0.0 { format!("{value:.1}") } else { significant(value, 3) };
    text + units[unit]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let durations: Vec<_> = [0.0, 0.01, 4.26, 12.34, 117.6, 999.6, 8_127.0, 12_400.0, 3.2e6, 45.678e9]
            .into_iter()
            .map(duration)
            .collect();
        let expected = ["0", "0", "4.3 ns", "12.3 ns", "118 ns", "1.00 µs", "8.13 µs", "12.4 µs", "3.20 ms", "45.7 s"];
        assert_eq!(durations, expected);
        assert_eq!([0, 9_999, 10_000, 4_612_345, 999_999].map(count), ["0", "9999", "10.0k", "4.61M", "1.00M"]);
        assert_eq!([0.0, 0.01, 0.7, 69.24, -0.001].map(percent), ["0.0", "<0.1", "0.7", "69.2", "0.0"]);
        assert_eq!([0.0, 0.4, 149.6, 99.96, 12_345.0].map(short), ["0", "0.4", "150", "100", "12.3k"]);
        assert_eq!(
            [1.25, 12.3456, 0.000_123_4, 9.999].map(|value| significant(value, 3)),
            ["1.25", "12.3", "0.000123", "10.0"]
        );
    }

    #[test]
    fn headline_numbers_keep_their_digits() {
        let numbers = [0.0, 1.234, 12.34, 123.4, 9_225_631.4, -1_234.0, -123.0].map(grouped);
        assert_eq!(numbers, ["0", "1.234", "12.3", "123", "9,225,631", "-1,234", "-123"]);
        assert_eq!(
            [change(10.0, 13.12), change(10.0, 2.7), change(10.0, 10.0), change(0.0, 1.0)],
            ["+31.2 %", "-73.0 %", "±0.0 %", "-"]
        );
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!([f64::NAN, f64::INFINITY].map(grouped), ["-", "-"]);
        assert_eq!([significant(f64::NAN, 3), percent(f64::NAN)], ["-", "-"]);
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!([fitted("pägeset", 7), fitted("pägesets", 7)], ["pägeset", "pägese…"]);
    }
}
