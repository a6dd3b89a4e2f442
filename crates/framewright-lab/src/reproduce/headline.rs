//! The few figures of an experiment that one looks at first: theirs, ours, how ours stand, and what our own mechanisms
//! come to.

use serde::Serialize;

use super::check::{Check, points};
use super::variation::Band;

/// The figures.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub struct Headline {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// Quantity of the figures.
    pub what: String,
    /// The figures; the last is of our own mechanisms, for which none was published.
    pub rows: Vec<HeadlineRow>,
    /// Effect of our own mechanisms: the first kernel's figure, and theirs.
    pub gain: Gain,
    /// Why, and at what price, in a sentence.
    pub ours: String,
    /// Checks of a full run that fail.
    pub fails: Vec<Check>,
    /// Checks that do not hold in a quick run, and that a full one alone judges.
    pub not_judged: Vec<Check>,
}

/// Effect of our own mechanisms.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub struct Gain {
    /// Quantity of the two figures.
    pub what: String,
    /// With the first kernel's mechanisms, and with ours, in words.
    pub from_to: [String; 2],
}

/// A figure.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct HeadlineRow {
    /// Quantity of the figure.
    pub name: String,
    /// Its unit; `%` is a change.
    pub unit: &'static str,
    /// Published figure, if there is one.
    pub published: Option<f64>,
    /// Figure of our run.
    pub ours: f64,
    /// Where ours may lie; none if that was not recorded.
    pub band: Option<Band>,
    /// How ours stands.
    pub verdict: Verdict,
}

/// How a figure of ours stands.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A number was fitted so that it comes out: no evidence.
    Fitted,
    /// A number was fitted so that it comes out, and it does not.
    FittedMissed,
    /// As near to theirs as the experiment asks, and the band, if there is one, holds theirs.
    AsPublished,
    /// As near to theirs as the experiment asks, but the band does not hold theirs.
    NearOutside,
    /// Not so near, but the band holds theirs.
    InBand,
    /// Neither, but it is less or more as theirs is.
    SameWay,
    /// None of these.
    Differs,
    /// Our own mechanisms: there is nothing to hold it against but what it was.
    Default,
    /// Our figure is outside the recorded band.
    LeftBand,
}

impl Verdict {
    /// In words, and as the style sheet of pages calls it.
    fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Fitted => ("fitted", "assumed"),
            Self::FittedMissed => ("fitted, missed", "unseen"),
            Self::AsPublished => ("as published", "holds"),
            Self::NearOutside => ("near, outside band", "unseen"),
            Self::InBand => ("in band", "unseen"),
            Self::SameWay => ("same way", "unseen"),
            Self::Differs => ("differs", "unseen"),
            Self::Default => ("our default", "own"),
            Self::LeftBand => ("LEFT ITS BAND", "fails"),
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        self.told().0
    }

    /// As the style sheet of pages calls it.
    pub fn class(self) -> &'static str {
        self.told().1
    }
}

impl HeadlineRow {
    /// Returns a row of a published figure and ours, whether it is fitted, and whether ours is near enough.
    pub fn new(name: &str, unit: &'static str, [published, ours]: [f64; 2], fitted: bool, near: bool) -> Self {
        let verdict = match (fitted, near) {
            (true, true) => Verdict::Fitted,
            (true, false) => Verdict::FittedMissed,
            (false, true) => Verdict::AsPublished,
            (false, false) if unit == "%" && published * ours > 0.0 => Verdict::SameWay,
            (false, false) => Verdict::Differs,
        };
        Self { name: name.to_owned(), unit, published: Some(published), ours, band: None, verdict }
    }

    /// Adds the band, which makes the verdict no kinder than it is.
    #[must_use]
    pub fn banded(mut self, band: Band) -> Self {
        let holds = self.published.is_some_and(|theirs| band.holds(theirs));
        self.verdict = match self.verdict {
            Verdict::AsPublished if !holds => Verdict::NearOutside,
            Verdict::SameWay | Verdict::Differs if holds => Verdict::InBand,
            verdict => verdict,
        };
        Self { band: Some(band), ..self }
    }

    /// Of our own mechanisms.
    pub fn of_default(name: &str, unit: &'static str, ours: f64) -> Self {
        Self { name: name.to_owned(), unit, published: None, ours, band: None, verdict: Verdict::Default }
    }

    /// A figure with its sign, if it is a change, and unit; a dash if there is none.
    pub fn told(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".to_owned() };
        if self.unit == "%" { format!("{} %", points(value)) } else { format!("{value:.1} {}", self.unit) }
    }
}

impl Headline {
    /// Adds a figure: see [`HeadlineRow::new`].
    pub(super) fn row(&mut self, name: &str, unit: &'static str, both: [f64; 2], fitted: bool, near: bool) {
        self.rows.push(HeadlineRow::new(name, unit, both, fitted, near));
    }

    /// Adds to the last figure the band that its run has of its own, if it has one.
    pub(super) fn within(&mut self, band: Option<Band>) {
        if let (Some(row), Some(band)) = (self.rows.last_mut(), band) {
            *row = row.clone().banded(band);
        }
    }

    /// Adds a figure of our own mechanisms.
    pub(super) fn row_of_default(&mut self, name: &str, unit: &'static str, ours: f64) {
        self.rows.push(HeadlineRow::of_default(name, unit, ours));
    }

    /// Says what the figures are of, what our own mechanisms change, and why, and at what price.
    pub(super) fn tell(&mut self, what: String, (of, from_to): (&str, [String; 2]), ours: String) {
        (self.what, self.gain, self.ours) = (what, Gain { what: of.to_owned(), from_to }, ours);
    }

    /// Adds the checks that do not hold: a quick run is too short to call them failures.
    #[must_use]
    pub fn with(mut self, checks: &[Check], quick: bool) -> Self {
        let missed = checks.iter().filter(|check| check.passed == Some(false)).cloned().collect();
        *(if quick { &mut self.not_judged } else { &mut self.fails }) = missed;
        self
    }

    /// Whether no figure has left its band.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.verdict != Verdict::LeftBand)
    }
}
