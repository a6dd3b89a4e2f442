//! Numbers out of rounds.
//!
//! A shared machine is slow for seconds at a time, so means and single runs say little. Every contender runs once in
//! each round, and what is compared is compared within a round: the median of those ratios moves far less than the
//! ratio of medians.

/// The middle of some numbers, the mean of the middle two if there are two; none if there is none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// The arithmetic mean; none if there is no number.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The smallest and the largest; none if there is none.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let smallest = values.iter().copied().min_by(f64::total_cmp)?;
    let largest = values.iter().copied().max_by(f64::total_cmp)?;
    Some((smallest, largest))
}

/// The median over rounds of `values` to `base` in the same round; none if there is no round with both.
pub(crate) fn paired_ratio(values: &[Option<f64>], base: &[Option<f64>]) -> Option<f64> {
    let pairs = values.iter().zip(base).filter_map(|(value, base)| Some((*value)?).zip(*base));
    let ratios: Vec<f64> = pairs.filter(|(_, base)| *base > 0.0).map(|(value, base)| value / base).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges() {
        type Case<'a> = (&'a [f64], Option<f64>, Option<(f64, f64)>);
        let cases: [Case<'_>; 6] = [
            (&[], None, None),
            (&[3.0], Some(3.0), Some((3.0, 3.0))),
            (&[3.0, 1.0], Some(2.0), Some((1.0, 3.0))),
            (&[9.0, 1.0, 2.0], Some(2.0), Some((1.0, 9.0))),
            (&[4.0, 1.0, 2.0, 1000.0], Some(3.0), Some((1.0, 1000.0))),
            (&[2.0, 2.0, 2.0, 2.0, 50.0], Some(2.0), Some((2.0, 50.0))),
        ];
        for (values, middle, ends) in cases {
            assert_eq!((median(values), range(values)), (middle, ends), "{values:?}");
        }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let cases: [(&[f64], &[f64], Option<f64>); 7] = [
            // The machine was ten times slower in the second round, for both.
            (&[3.0, 30.0, 3.0], &[2.0, 20.0, 2.0], Some(1.5)),
            // A disturbance of one of them in one round.
            (&[3.0, 30.0, 3.0], &[2.0, 2.0, 2.0], Some(1.5)),
            // NAN: sat out.
            (&[3.0, f64::NAN, 4.0], &[2.0, 1.0, 2.0], Some(1.75)),
            (&[3.0, 5.0], &[2.0, f64::NAN], Some(1.5)),
            (&[3.0, 3.0], &[2.0], Some(1.5)),
            (&[3.0], &[0.0], None),
            (&[], &[], None),
        ];
        let taken = |values: &[f64]| -> Vec<_> { values.iter().map(|&v| (!v.is_nan()).then_some(v)).collect() };
        for (values, base, ratio) in cases {
            assert_eq!(paired_ratio(&taken(values), &taken(base)), ratio, "{values:?} to {base:?}");
        }
    }
}
