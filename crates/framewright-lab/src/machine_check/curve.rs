//! A machine's curve of loaded latency, from measured points.

use framewright_bench::checker::LoadedPoint;

/// A point of the curve, and the measurement that it is from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct CurvePoint {
    /// Share of the node's peak, in percent.
    pub(super) percent: f64,
    /// Latency over that at rest.
    pub(super) ratio: f64,
    /// What was measured there.
    pub(super) from: LoadedPoint,
}

/// Least load of a point, in 10^9 bytes a second: a machine's file takes no bandwidth below 0.1, and rates are rounded.
const LEAST: f64 = 0.11;

/// Returns the curve of a node that gives `peak` 10^9 bytes a second and has `rest` nanoseconds at rest.
///
/// A curve ascends: a point below the one before it is noise and is left out, and so is one at nearly its share. Shares
/// beyond the peak count as the peak. Loads below [`LEAST`] are left out.
pub(super) fn curve(points: &[LoadedPoint], rest: f64, peak: f64) -> Vec<CurvePoint> {
    let mut curve: Vec<CurvePoint> = Vec::new();
    for &from in points.iter().filter(|point| point.gb_per_s >= LEAST) {
        let percent = (from.gb_per_s / peak * 1e4).round() / 100.0;
        let ratio = (from.ns / rest * 1e4).round() / 1e4;
        let (last_percent, last_ratio) = curve.last().map_or((0.0, 1.0), |last| (last.percent, last.ratio));
        let percent = percent.min(100.0);
        if percent >= last_percent + 1.0 && ratio >= last_ratio && ratio <= 100.0 {
            curve.push(CurvePoint { percent, ratio, from });
        }
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ascends_and_ends_at_the_peak() {
        let points = [(1.0, 95.0), (10.0, 110.0), (10.05, 111.0), (30.0, 105.0), (60.0, 150.0), (104.0, 300.0)];
        let points = points.map(|(gb_per_s, ns)| LoadedPoint { gb_per_s, ns });
        let found: Vec<(f64, f64)> =
            curve(&points, 100.0, 100.0).iter().map(|point| (point.percent, point.ratio)).collect();
        assert_eq!(found, [(10.0, 1.1), (60.0, 1.5), (100.0, 3.0)]);
        assert_eq!(curve(&[], 100.0, 100.0), []);
        // A slow machine at its least load: no file takes such a rate.
        assert_eq!(curve(&[LoadedPoint { gb_per_s: 0.0936, ns: 110.0 }], 100.0, 5.0), []);
    }
}
