//! Statistics of a few measurements: a median with its interval, and a test whether two samples differ.
//!
//! Nothing is assumed about the distribution of measurements: times of programs have long tails. The middle is the
//! median. Its interval goes from one measurement to another, chosen by the binomial distribution so that it holds the
//! population's median at least 95 times of 100. Fewer than six measurements give no such interval. The U test of Mann
//! and Whitney, which looks at ranks alone, compares two samples. Go's `benchstat` does both too, so that the numbers
//! can be compared with its.
//!
//! For up to `EXACT` measurements a side (`EXACT_TIED` if some are equal), the U test's probability is exact: all
//! ways to deal the ranks to both sides are counted. For more, the normal distribution is used, corrected for ties and
//! continuity. A t-test was rejected, because it assumes a normal distribution. A paired test was rejected, because
//! rounds and seeds of two files are not pairs.

use std::cmp::Ordering;

/// Measurements of each side for which the U test is exact, if no two are equal.
pub(crate) const EXACT: usize = 50;
/// That limit if some are equal.
pub(crate) const EXACT_TIED: usize = 25;
/// The confidence of an interval.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// The probability at or below which a difference is believed.
pub(crate) const ALPHA: f64 = 0.05;

/// A sample, summed up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// Its middle.
    pub median: f64,
    /// Ends of the median's interval; none if there are too few measurements for one.
    pub interval: Option<(f64, f64)>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the population, as estimated from the sample; 0 of one measurement.
    pub deviation: f64,
}

impl Summary {
    /// Of some measurements; none of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = framewright_bench::stats::median(&sorted)?;
        let count = sorted.len();
        let mean = framewright_bench::stats::mean(&sorted)?;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let interval = median_ranks(count).map(|(low, high)| (sorted[low - 1], sorted[high - 1]));
        Some(Self { median, interval, mean, deviation })
    }

    /// The farther end of the interval, in percent of the median; none if that says nothing.
    pub(crate) fn spread_percent(&self) -> Option<f64> {
        let (low, high) = self.interval?;
        if low == high {
            return Some(0.0);
        }
        let signs_agree = low.signum() == high.signum() && self.median != 0.0;
        signs_agree.then(|| (high / self.median - 1.0).max(1.0 - low / self.median) * 100.0)
    }

    /// The standard deviation in percent of the mean; 0 if there is none.
    pub(crate) fn variation_percent(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { (self.deviation / self.mean * 100.0).abs() }
    }
}

/// Ranks (from 1) of the measurements between which the median lies with [`CONFIDENCE`]; none if there are too few.
///
/// A measurement is below the population's median with probability 1/2, so the number of those below it is binomial.
/// Shares are added up from the middle outwards, the lower one first of two that are equal.
pub(crate) fn median_ranks(count: usize) -> Option<(usize, usize)> {
    let share = |below: usize| binomial(count, below);
    let middle = count / 2;
    let (mut low, mut high) = (middle, middle + 1);
    let mut sum = share(middle);
    while sum < CONFIDENCE && (low > 0 || high <= count) {
        let (left, right) = (if low > 0 { share(low - 1) } else { 0.0 }, if high <= count { share(high) } else { 0.0 });
        if left >= right * (1.0 - 1e-12) {
            sum += left;
            low -= 1;
        } else {
            sum += right;
            high += 1;
        }
    }
    (low >= 1 && high <= count).then_some((low, high))
}

/// Probability that of `count` tosses of a coin `heads` are heads.
fn binomial(count: usize, heads: usize) -> f64 {
    let rest = heads.min(count - heads);
    let logarithm: f64 = (0..rest).map(|i| ((count - i) as f64 / (i + 1) as f64).ln()).sum();
    (logarithm - count as f64 * std::f64::consts::LN_2).exp()
}

/// Probability that two samples of one population differ in rank as much as these, or more; none if one is empty.
pub(crate) fn u_test(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let ranked = Ranked::new(a, b);
    if ranked.ties.len() == 1 {
        return Some(1.0);
    }
    let tied = ranked.ties.len() < a.len() + b.len();
    let limit = if tied { EXACT_TIED } else { EXACT };
    let exact = a.len() <= limit && b.len() <= limit;
    Some(if exact { ranked.exact(a.len()) } else { ranked.normal(a.len(), b.len()) })
}

/// Whether a difference between samples of `a` and of `b` measurements would be believed if they were as far apart as
/// they can be.
pub(crate) fn can_differ(a: usize, b: usize) -> bool {
    let deals = |a: usize, b: usize| (0..a).map(|i| (a + b - i) as f64 / (i + 1) as f64).product::<f64>();
    2.0 / deals(a.min(b), a.max(b)) <= ALPHA
}

/// Measurements that two samples need for a difference to be believed: 4.
pub(crate) fn least_count() -> usize {
    (1..).find(|&count| can_differ(count, count)).unwrap_or(usize::MAX)
}

/// Measurements that an interval needs: 6.
pub(crate) fn least_for_interval() -> usize {
    (2..).find(|&count| median_ranks(count).is_some()).unwrap_or(usize::MAX)
}

/// Both samples in one order.
struct Ranked {
    /// How many measurements share each value, the least value first.
    ties: Vec<usize>,
    /// Twice the sum of the first sample's ranks; equal measurements share the mean of their ranks.
    twice_sum: usize,
}

impl Ranked {
    fn new(a: &[f64], b: &[f64]) -> Self {
        let mut all: Vec<(f64, bool)> = a.iter().map(|&value| (value, true)).collect();
        all.extend(b.iter().map(|&value| (value, false)));
        all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
        let (mut ties, mut twice_sum, mut before) = (Vec::new(), 0, 0);
        for equal in all.chunk_by(|x, y| x.0.partial_cmp(&y.0) == Some(Ordering::Equal)) {
            let ours = equal.iter().filter(|(_, ours)| *ours).count();
            twice_sum += ours * (2 * before + equal.len() + 1);
            before += equal.len();
            ties.push(equal.len());
        }
        Self { ties, twice_sum }
    }

    /// Twice the smaller tail of all ways to deal the ranks, `count` of them to the first sample; 1 at most.
    fn exact(&self, count: usize) -> f64 {
        let mut ranks: Vec<usize> = Vec::new();
        for &equal in &self.ties {
            let twice = 2 * ranks.len() + equal + 1;
            ranks.extend(std::iter::repeat_n(twice, equal));
        }
        let most: usize = ranks.iter().rev().take(count).sum();
        // Ways to choose some of the ranks so far, by how many and by twice their sum. Counts below 2^53 are exact,
        // larger ones to 16 digits.
        let mut ways = vec![vec![0.0_f64; most + 1]; count + 1];
        ways[0][0] = 1.0;
        for (seen, &rank) in ranks.iter().enumerate() {
            for chosen in (1..=count.min(seen + 1)).rev() {
                let (fewer, more) = ways.split_at_mut(chosen);
                let (from, to) = (&fewer[chosen - 1], &mut more[0]);
                to[rank.min(most + 1)..].iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
        }
        let row = &ways[count];
        let all: f64 = row.iter().sum();
        let lower: f64 = row[..=self.twice_sum].iter().sum();
        let upper: f64 = row[self.twice_sum..].iter().sum();
        (2.0 * lower.min(upper) / all).min(1.0)
    }

    /// By the normal distribution, with corrections for ties and for continuity.
    fn normal(&self, a: usize, b: usize) -> f64 {
        let (m, n) = (a as f64, b as f64);
        let all = m + n;
        let u = self.twice_sum as f64 / 2.0 - m * (m + 1.0) / 2.0;
        let ties: f64 = self.ties.iter().map(|&equal| (equal as f64).powi(3) - equal as f64).sum();
        let variance = m * n / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
        let off = ((u - m * n / 2.0).abs() - 0.5).max(0.0);
        erfc(off / variance.sqrt() / std::f64::consts::SQRT_2).min(1.0)
    }
}

/// The complementary error function of a number that is not negative, to 1.2e-7 of its value (the rational Chebyshev
/// fit in Press et al., *Numerical Recipes*, 6.2).
fn erfc(x: f64) -> f64 {
    const FIT: [f64; 10] = [
        0.17087277,
        -0.82215223,
        1.48851587,
        -1.13520398,
        0.27886807,
        -0.18628806,
        0.09678418,
        0.37409196,
        1.00002368,
        -1.26551223,
    ];
    let t = 1.0 / (1.0 + 0.5 * x);
    let fit = FIT.iter().fold(0.0, |sum, factor| sum * t + factor);
    t * (fit - x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `QuantileCI` of go-moremath, which benchstat computes its intervals with; but of 24, where two are
    /// equally sure and its rounding takes (8, 18).
    #[test]
    fn intervals_are_benchstats() {
        let few: Vec<_> = (1..=30).map(median_ranks).collect();
        assert_eq!(few[..5], [None; 5]);
        let low = [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 8, 8, 8, 9, 9, 10];
        let high = [6, 7, 7, 8, 9, 9, 10, 11, 11, 12, 12, 13, 14, 14, 15, 16, 16, 17, 17, 18, 19, 19, 20, 20, 21];
        let theirs: Vec<_> = low.into_iter().zip(high).map(Some).collect();
        assert_eq!(few[5..], theirs);
        assert_eq!([40, 100].map(median_ranks), [Some((14, 27)), Some((40, 60))]);
        assert_eq!((least_for_interval(), least_count()), (6, 4));
    }

    /// Without ties and beyond the exact limits from scipy's `mannwhitneyu`, the fifth being the example of R's
    /// `wilcox.test`; with ties from all permutations, counted one by one, and from go-moremath, which agree.
    #[test]
    fn probabilities_are_known_ones() {
        let numbers = |count: u32, by: f64| (0..count).map(|i| f64::from(i) + by).collect::<Vec<f64>>();
        let modulo = |of: fn(u32) -> u32| (0..60).map(|i| f64::from(of(i))).collect::<Vec<f64>>();
        let depression = vec![0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let cases: [(Vec<f64>, Vec<f64>, f64); 11] = [
            (vec![1.0], vec![2.0], 1.0),
            (vec![3.0, 3.0], vec![3.0, 3.0, 3.0], 1.0),
            (vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0, 7.0, 8.0], 0.028_571_428_571_428_57),
            (vec![1.0, 3.0, 5.0], vec![2.0, 4.0, 6.0], 0.7),
            (depression, vec![1.15, 0.88, 0.90, 0.74, 1.21], 0.254_412_254_412_254_4),
            (vec![1.0, 2.0, 2.0, 3.0], vec![2.0, 3.0, 4.0, 4.0], 0.2),
            (vec![1.0, 1.0, 1.0, 2.0, 9.0], vec![1.0, 2.0, 2.0, 2.0, 2.0, 3.0], 0.376_623_376_623_376_64),
            (numbers(30, 0.0), numbers(30, 4.5), 0.065_399_114_713_278_9),
            (numbers(10, 0.0), numbers(10, 100.0), 2.0 / 184_756.0),
            (modulo(|i| i % 17), modulo(|i| i * i % 19 + 1), 0.227_252_934_256_735_87),
            (numbers(60, 0.0), numbers(60, 20.5), 8.747_567_722_893_498e-8),
        ];
        for (a, b, expected) in cases {
            for (a, b) in [(&a, &b), (&b, &a)] {
                let found = u_test(a, b).unwrap();
                assert!((found / expected - 1.0).abs() < 1e-6, "{a:?} {b:?}: {found}, not {expected}");
            }
        }
        assert_eq!([u_test(&[], &[1.0]), u_test(&[1.0], &[])], [None, None]);
    }

    /// As the test itself has it, of samples that lie apart.
    #[test]
    fn too_few_are_those_of_which_no_test_believes_anything() {
        for (a, b) in (0..9).flat_map(|a| (0..9).map(move |b| (a, b))) {
            let numbers = |count: u32, from: u32| (from..from + count).map(f64::from).collect::<Vec<f64>>();
            let p = u_test(&numbers(a, 0), &numbers(b, 100));
            assert_eq!(can_differ(a as usize, b as usize), p.is_some_and(|p| p <= ALPHA), "{a} and {b}: {p:?}");
        }
    }

    #[test]
    fn summaries_say_what_there_is() {
        assert_eq!(Summary::of(&[]), None);
        let one = Summary::of(&[7.0]).unwrap();
        assert_eq!((one.median, one.interval, one.deviation, one.spread_percent()), (7.0, None, 0.0, None));
        let six = Summary::of(&[12.0, 8.0, 10.0, 11.0, 9.0, 10.0]).unwrap();
        assert_eq!((six.median, six.interval, six.mean), (10.0, Some((8.0, 12.0)), 10.0));
        assert!((six.deviation - 2.0_f64.sqrt()).abs() < 1e-12 && (six.spread_percent().unwrap() - 20.0).abs() < 1e-9);
        assert!((six.variation_percent() - 14.142).abs() < 1e-3);
        assert_eq!(Summary::of(&[0.0; 6]).unwrap().spread_percent(), Some(0.0));
        assert_eq!(
            Summary::of(&[-1.0, 1.0, 2.0, -2.0, 3.0, -3.0]).unwrap().spread_percent(),
            None,
            "no share of nothing"
        );
    }
}
