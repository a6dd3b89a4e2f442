//! Plots as coordinates: where lines, points and labels go. How they look is up to the page's template and style sheet.
//!
//! A plot is small and keeps its proportions, so that its labels stay as large as the text around it on a telephone
//! too; wide pages put several beside each other. Both axes begin at zero: a curve that looks flat is flat.

use std::fmt::Write as _;

use serde::Serialize;

use framewright_table::figures;

/// Size of a plot, in the units of its coordinates: about a pixel each.
const SIZE: (f64, f64) = (380.0, 250.0);
/// Room around the area of the curves: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (52.0, 12.0, 14.0, 42.0);
/// Labels of the horizontal axis are this far apart at least.
const APART: f64 = 26.0;
/// Looks that the style sheet has for curves.
const LOOKS: usize = 7;

/// The vertical axis of a plot.
pub(crate) struct Axis {
    /// Unit of the values, such as `of CPU time`.
    unit: String,
    /// How a value is written beside the axis.
    write: fn(f64) -> String,
    /// How it is written beside a point.
    exact: fn(f64) -> String,
    /// The least that the axis ends at.
    least_end: f64,
    /// Whether it goes up by powers of ten, from 1; what is less stands at its foot.
    is_logarithmic: bool,
}

/// The horizontal axis of a plot.
pub(crate) struct Over {
    /// Label below the axis.
    name: &'static str,
    /// Name of the axis in a title: curves *by* this.
    by: &'static str,
    /// How a point is introduced.
    point: fn(f64) -> String,
}

impl Over {
    /// Numbers of CPUs.
    pub(crate) const CPUS: Self = Self { name: "CPUs", by: "number of CPUs", point: cpus };
    /// Thresholds, by their number of bits.
    pub(crate) const BITS: Self = Self {
        name: "threshold, power of two",
        by: "threshold",
        point: |bits| format!("threshold about {}", bits.exp2()),
    };
    /// Batches of pages, by their number of bits.
    pub(crate) const PAGES: Self =
        Self { name: "pages, power of two", by: "batch", point: |bits| format!("{} pages", bits.exp2()) };
    /// Rounds of a run.
    pub(crate) const ROUNDS: Self = Self { name: "round", by: "round", point: |round| format!("round {round}") };
    /// Seconds of virtual time.
    pub(crate) const SECONDS: Self =
        Self { name: "seconds", by: "time", point: |seconds| format!("after {seconds} s") };
    /// Orders of blocks.
    pub(crate) const ORDERS: Self = Self { name: "order", by: "order", point: |order| format!("order {order}") };
}

fn cpus(number: f64) -> String {
    if number == 1.0 { "1 CPU".to_owned() } else { format!("{number} CPUs") }
}

impl Axis {
    /// Returns an axis of rates per second.
    pub(crate) fn rate(of: &str) -> Self {
        Self::count(&format!("{of} per second"))
    }

    /// Up to a hundred.
    pub(crate) fn percent(of: &str) -> Self {
        let write = |value| format!("{value:.0}");
        Self { write, exact: figures::percent, least_end: 100.0, ..Self::count(&format!("% {of}")) }
    }

    /// How many, which may be few or very many, by powers of ten.
    pub(crate) fn powers(of: &str) -> Self {
        Self { is_logarithmic: true, exact: |count| format!("{count:.0}"), ..Self::count(of) }
    }

    /// A plain number.
    pub(crate) fn count(of: &str) -> Self {
        Self { unit: of.to_owned(), write: tick, exact: figures::grouped, least_end: 0.0, is_logarithmic: false }
    }
}

/// A curve's values.
pub(crate) struct Series {
    /// Name of the curve.
    pub(crate) name: String,
    /// CPUs and value, by ascending CPUs.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A plot in coordinates.
#[derive(Serialize)]
pub(crate) struct Plot {
    title: String,
    by: &'static str,
    over: &'static str,
    unit: String,
    description: String,
    size: (f64, f64),
    /// Left, top, right and bottom of the area of the curves.
    area: (f64, f64, f64, f64),
    horizontal: Vec<Mark>,
    vertical: Vec<Mark>,
    curves: Vec<Curve>,
    /// End of the line from the origin through the first point.
    ideal: Option<(f64, f64)>,
}

/// A label of an axis.
#[derive(Serialize)]
struct Mark {
    at: f64,
    label: String,
}

#[derive(Serialize)]
struct Curve {
    name: String,
    look: usize,
    path: String,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    x: f64,
    y: f64,
    label: String,
}

impl Plot {
    /// Of curves over numbers of CPUs.
    pub(crate) fn new(title: &str, axis: &Axis, series: &[Series]) -> Self {
        Self::over(title, axis, &Over::CPUS, series)
    }

    /// Of curves over something else.
    pub(crate) fn over(title: &str, axis: &Axis, over: &Over, series: &[Series]) -> Self {
        let area = (MARGIN.0, MARGIN.1, SIZE.0 - MARGIN.2, SIZE.1 - MARGIN.3);
        let values = || series.iter().flat_map(|series| &series.points).copied().filter(|point| point.1.is_finite());
        let most_cpus = values().fold(1.0, |most, (cpus, _)| cpus.max(most));
        let most = values().fold(axis.least_end, |most, (_, value)| value.max(most));
        let (end, steps) = if axis.is_logarithmic { power_end(most) } else { nice_end(most) };
        let x = |cpus: f64| tenth(area.0 + (area.2 - area.0) * cpus / most_cpus);
        let share = |value: f64| if axis.is_logarithmic { value.max(1.0).log10() / steps as f64 } else { value / end };
        let y = |value: f64| tenth(area.3 - (area.3 - area.1) * share(value));
        let curve = |(i, series): (usize, &Series)| {
            let finite = series.points.iter().filter(|point| point.1.is_finite());
            let points = finite.map(|&(cpus, value)| Point {
                x: x(cpus),
                y: y(value),
                label: format!("{}: {} {}", (over.point)(cpus), (axis.exact)(value), axis.unit),
            });
            Curve::new(&series.name, i % LOOKS, points.collect())
        };
        let mark = |step: usize| {
            let linear = end * step as f64 / steps as f64;
            let value = if axis.is_logarithmic { 10f64.powi(step as i32) } else { linear };
            let foot = if axis.is_logarithmic && step == 0 { "≤ " } else { "" };
            Mark { at: y(value), label: format!("{foot}{}", (axis.write)(value)) }
        };
        let mut cpus: Vec<f64> = values().map(|point| point.0).collect();
        cpus.sort_by(f64::total_cmp);
        cpus.dedup();
        Self {
            title: title.to_owned(),
            by: over.by,
            over: over.name,
            unit: axis.unit.clone(),
            description: description(axis, over, series),
            size: SIZE,
            area,
            horizontal: sparse(cpus.into_iter().map(|cpus| Mark { at: x(cpus), label: cpus.to_string() }).collect()),
            vertical: (0..=steps).map(mark).collect(),
            curves: series.iter().enumerate().map(curve).collect(),
            ideal: None,
        }
    }

    /// With the line that the first curve would follow if more CPUs did as well as its first point's, up to the area's
    /// edge.
    pub(crate) fn with_ideal(mut self) -> Self {
        let (left, top, right, bottom) = self.area;
        let first = self.curves.first().and_then(|curve| curve.points.first());
        self.ideal = first.filter(|point| point.x > left && point.y < bottom).map(|point| {
            let slope = (bottom - point.y) / (point.x - left);
            let x = (left + (bottom - top) / slope).min(right);
            (tenth(x), tenth(bottom - (x - left) * slope))
        });
        self
    }
}

impl Curve {
    fn new(name: &str, look: usize, points: Vec<Point>) -> Self {
        let mut path = String::new();
        for (i, point) in points.iter().enumerate() {
            let command = if i == 0 { 'M' } else { 'L' };
            // Writing to a string cannot fail.
            let _ = write!(path, "{command}{} {}", point.x, point.y);
        }
        Self { name: name.to_owned(), look, path, points }
    }
}

/// The plot in words, for readers who cannot see it.
fn description(axis: &Axis, over: &Over, series: &[Series]) -> String {
    let mut text = String::new();
    for series in series {
        let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else { continue };
        let value = |value: f64| (axis.exact)(value);
        let _ = write!(text, "{}: {} {} at {}", series.name, value(first.1), axis.unit, (over.point)(first.0));
        if first.0 != last.0 {
            let _ = write!(text, ", {} at {}", value(last.1), last.0);
        }
        text.push_str(". ");
    }
    text.trim_end().to_owned()
}

/// A number beside an axis.
fn tick(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, " G"),
        value if value >= 1e6 => (value / 1e6, " M"),
        value if value >= 1e4 => (value / 1e3, " k"),
        value => (value, ""),
    };
    // Ticks are round: more digits than these are noise of the division.
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned() + unit
}

/// The least round number that is no less than `most`, and into how many steps an axis that ends there falls.
fn nice_end(most: f64) -> (f64, usize) {
    if most <= 0.0 || !most.is_finite() {
        return (1.0, 2);
    }
    let unit = 10f64.powf(most.log10().floor());
    let ends =
        [(1.0, 5), (1.2, 4), (1.5, 3), (2.0, 4), (2.5, 5), (3.0, 3), (4.0, 4), (5.0, 5), (6.0, 3), (8.0, 4), (10.0, 5)];
    let fits = ends.into_iter().find(|(end, _)| end * unit >= most * (1.0 - 1e-9)).unwrap_or((10.0, 5));
    (fits.0 * unit, fits.1)
}

/// The least power of ten that is no less than `most`, and the power that it is.
fn power_end(most: f64) -> (f64, usize) {
    let powers = if most > 10.0 && most.is_finite() { (most * (1.0 - 1e-9)).log10().ceil() } else { 1.0 };
    (10f64.powf(powers), powers as usize)
}

/// Marks that do not touch: the last always, of the others those with room before the next.
fn sparse(marks: Vec<Mark>) -> Vec<Mark> {
    let mut kept: Vec<Mark> = Vec::new();
    for mark in marks.into_iter().rev() {
        if kept.last().is_none_or(|next| next.at - mark.at >= APART) {
            kept.push(mark);
        }
    }
    kept.reverse();
    kept
}

/// Coordinates need no more.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [9_184_000.0, 77.0, 100.0, 1.01, 0.0, 30_488.0].map(nice_end);
        assert_eq!(ends, [(1e7, 5), (80.0, 4), (100.0, 5), (1.2, 4), (1.0, 2), (40_000.0, 4)]);
        assert_eq!([0.0, 2e6, 7.5e6, 4e4, 0.2, 800.0].map(tick), ["0", "2 M", "7.5 M", "40 k", "0.2", "800"]);
    }

    #[test]
    fn labels_do_not_touch_and_the_last_is_there() {
        let marks = [1.0, 2.0, 4.0, 8.0, 500.0, 1024.0].map(|at| Mark { at, label: at.to_string() });
        let labels: Vec<_> = sparse(marks.into()).into_iter().map(|mark| mark.label).collect();
        assert_eq!(labels, ["8", "500", "1024"]);
    }

    #[test]
    fn every_point_lies_in_the_area() {
        let points = vec![(1.0, 3.0), (56.0, f64::NAN), (112.0, 200.0)];
        let plot = Plot::new("a", &Axis::rate("b"), &[Series { name: "c".to_owned(), points }]).with_ideal();
        let (left, top, right, bottom) = plot.area;
        assert_eq!(plot.curves[0].points.len(), 2);
        assert!(plot.curves[0].points.iter().all(|p| p.x >= left && p.x <= right && p.y >= top && p.y <= bottom));
        let (x, y) = plot.ideal.unwrap();
        assert!(x <= right && y >= top);
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart() {
        assert_eq!([1_895_199.0, 10.0, 1000.0, 0.0].map(|most| power_end(most).1), [7, 1, 3, 1]);
        let points = [0.0, 1.0, 10.0, 100.0].map(|value| (value, value)).to_vec();
        let plot = Plot::over("a", &Axis::powers("b"), &Over::ORDERS, &[Series { name: "c".to_owned(), points }]);
        let heights: Vec<f64> = plot.curves[0].points.iter().map(|point| point.y).collect();
        assert!(heights[0] == heights[1] && (2.0 * heights[2] - heights[1] - heights[3]).abs() < 0.2, "{heights:?}");
        assert_eq!(plot.curves[0].points[2].label, "order 10: 10 b");
        let marks: Vec<&str> = plot.vertical.iter().map(|mark| mark.label.as_str()).collect();
        assert_eq!(marks, ["≤ 1", "10", "100"]);
    }

    #[test]
    fn nothing_makes_a_plot_too() {
        let plot = Plot::new("a", &Axis::count("b"), &[]).with_ideal();
        assert!(plot.ideal.is_none() && plot.horizontal.is_empty());
    }
}
