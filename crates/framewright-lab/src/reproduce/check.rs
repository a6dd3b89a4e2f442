//! What had to hold, and whether it did.

use std::fmt;

use serde::Serialize;

use super::variation::Band;
use framewright_table::figures::change_percent;

/// One thing that had to hold.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it did; none if that could not be seen.
    pub passed: Option<bool>,
    /// The numbers, or why nothing could be seen.
    pub detail: String,
}

impl Check {
    /// Something that was seen to hold, or not to.
    pub fn seen(name: &str, passed: bool, detail: impl Into<String>) -> Self {
        Self { name: name.to_owned(), passed: Some(passed), detail: detail.into() }
    }

    /// Something that could not be seen, and why.
    pub fn unseen(name: &str, why: impl Into<String>) -> Self {
        Self { name: name.to_owned(), passed: None, detail: why.into() }
    }

    /// Leaves the judgement to a full run if the check does not hold: a quick one is too short for it.
    #[must_use]
    pub fn in_a_quick_run(self) -> Self {
        match self.passed {
            Some(false) => Self::unseen(&self.name, format!("not judged in a quick run: {}", self.detail)),
            _ => self,
        }
    }

    /// The verdict in a word.
    pub fn word(&self) -> &'static str {
        match self.passed {
            Some(true) => "holds",
            Some(false) => "FAILS",
            None => "unseen",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8}{}: {}", self.word(), self.name, self.detail)
    }
}

/// How a figure of ours stands to the published one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Near enough, and no band speaks against it.
    Near,
    /// Near enough, but the band does not hold the published one.
    NearOutside,
    /// Not near, but the band holds the published one.
    InBand,
    /// Neither.
    Off,
}

impl Standing {
    /// Of `ours` to `theirs`, where it may be `points` off.
    pub fn of(theirs: f64, ours: f64, points: f64, band: Option<Band>) -> Self {
        match Self::near((ours - theirs).abs() <= points, theirs, band) {
            Self::Off if band.is_some_and(|band| band.holds(theirs)) => Self::InBand,
            standing => standing,
        }
    }

    /// Of a figure that is near enough or not, where a band excuses nothing and may speak against it.
    pub(crate) fn near(is_near: bool, theirs: f64, band: Option<Band>) -> Self {
        match band.is_none_or(|band| band.holds(theirs)) {
            _ if !is_near => Self::Off,
            true => Self::Near,
            false => Self::NearOutside,
        }
    }

    /// Near, or off.
    pub(crate) fn of_bool(is_near: bool) -> Self {
        if is_near { Self::Near } else { Self::Off }
    }

    /// As a character after the figure, and as the style sheet of pages calls it.
    pub fn marks(standing: Option<Self>) -> [&'static str; 2] {
        match standing {
            Some(Self::Near) => [" ", "holds"],
            Some(Self::NearOutside) => ["^", "unseen"],
            Some(Self::InBand) => ["~", "unseen"],
            Some(Self::Off) => ["!", "fails"],
            None => [" ", ""],
        }
    }
}

/// A difference in points.
pub fn points(by: f64) -> String {
    // A negative zero is no finding.
    if by.abs() < 0.05 { "±0.0".to_owned() } else { format!("{by:+.1}") }
}

/// A check of several figures, which names those that are off if some are.
pub fn seen(name: &str, all: impl Iterator<Item = (Standing, String)>) -> Check {
    let (off, fine): (Vec<_>, Vec<_>) = all.partition(|(standing, _)| *standing == Standing::Off);
    let named = if off.is_empty() { &fine } else { &off };
    let words: Vec<&str> = named.iter().map(|(_, words)| words.as_str()).collect();
    Check::seen(name, off.is_empty(), words.join(", "))
}

/// A check that rows come in the published order: of any two whose published figures are `tie` percent apart or more,
/// the one with the larger has the larger of ours. `rows` are names and figures, theirs and ours.
pub fn order(name: &str, tie: f64, rows: &[(&str, [f64; 2])]) -> Check {
    let wrong = disordered(rows, |less, more| change_percent(less, more) >= tie);
    let detail = if wrong.is_empty() { format!("every pair {tie} % apart or more") } else { wrong.join("; ") };
    Check::seen(name, wrong.is_empty(), detail)
}

/// Pairs of rows whose published figures, the less and the more, are told `apart`, but not so ours.
pub(crate) fn disordered(rows: &[(&str, [f64; 2])], apart: impl Fn(f64, f64) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, one) in rows.iter().enumerate() {
        for other in &rows[number + 1..] {
            let [less, more] = if one.1[0] < other.1[0] { [one, other] } else { [other, one] };
            if apart(less.1[0], more.1[0]) && more.1[1] <= less.1[1] {
                wrong.push(format!("{} is not above {}", more.0, less.0));
            }
        }
    }
    wrong
}

/// Whether everything was seen to hold.
pub fn all_hold(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.passed == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_seen_does_not_hold() {
        let (held, open) = (Check::seen("a", true, "1"), Check::unseen("b", "no run"));
        assert!(all_hold(&[]) && all_hold(&[held.clone(), held.clone()]));
        assert!(!all_hold(&[held.clone(), open.clone()]) && !all_hold(&[Check::seen("c", false, "")]));
        assert_eq!((held.to_string(), open.word()), ("holds   a: 1".to_owned(), "unseen"));
        assert_eq!([held.clone(), open.clone()].map(Check::in_a_quick_run), [held, open]);
        let short = Check::seen("c", false, "2 of 3").in_a_quick_run();
        assert_eq!(short.to_string(), "unseen  c: not judged in a quick run: 2 of 3");
    }

    /// A standing is never kinder than the band.
    #[test]
    fn a_near_figure_outside_the_band_is_told_apart() {
        let band = Some(Band([12.0, 19.3]));
        let table = [
            (23.5, 14.3, band, Standing::NearOutside),
            (23.5, 14.3, None, Standing::Near),
            (19.0, 14.3, band, Standing::Near),
            (19.0, 8.0, band, Standing::InBand),
            (23.5, 8.0, band, Standing::Off),
        ];
        for (theirs, ours, band, wanted) in table {
            let standing = Standing::of(theirs, ours, 10.0, band);
            assert_eq!(standing, wanted, "{ours} to {theirs}");
            let is_near = (ours - theirs).abs() <= 10.0;
            let strict = if wanted == Standing::InBand { Standing::Off } else { wanted };
            assert_eq!(Standing::near(is_near, theirs, band), strict, "{ours} to {theirs}");
        }
        assert_ne!(Standing::marks(Some(Standing::NearOutside)), Standing::marks(Some(Standing::Near)));
    }

    #[test]
    fn what_is_out_of_order_is_named() {
        let rows = [("32", [799.0, 700.0]), ("64", [640.0, 710.0]), ("125", [537.0, 540.0])];
        assert_eq!(order("a", 1.0, &rows).to_string(), "FAILS   a: 32 is not above 64");
        let tied = order("a", 1.0, &[("20000", [394.0, 396.0]), ("30000", [395.0, 395.0])]);
        assert_eq!(tied.to_string(), "holds   a: every pair 1 % apart or more");
    }
}
