//! How far results move when one of the machine's numbers is a tenth smaller or larger.
//!
//! All numbers both ways, in runs long enough to be believed, would take the better part of an hour. So there are two
//! rounds: in the first each number is made a tenth larger in short runs, which shows what matters; in the second the
//! few that matter most are varied both ways. What the others do is bounded by what the first round saw of them, and
//! its largest is told.
//!
//! Runs of a variation are shorter than those of the table. A band is therefore the table's result, moved by the
//! differences that the shorter runs show among themselves.

use framewright_sim::machine::Spec;
use framewright_sim::workload::Passes;
use serde::Serialize;

pub(crate) use crate::sim::sweep::FACTORS;

/// A run's length: passes before the window, and in it.
pub(super) const fn passes(warm_up: f64, window: f64) -> Passes {
    Passes { warm_up, window }
}

/// A run's length in words, where a pass is `what`.
pub(super) fn in_words(Passes { warm_up, window }: Passes, what: &str) -> String {
    format!("{window} {what} measured, {warm_up} before")
}

/// How long runs with a number changed are.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Varying {
    /// Those that show which numbers matter.
    pub screen: Passes,
    /// Those that bands are from.
    pub band: Passes,
}

impl Varying {
    /// Those of a round.
    pub fn of(self, round: Round) -> Passes {
        match round {
            Round::Screen => self.screen,
            Round::Band => self.band,
        }
    }

    /// The lengths of both rounds in words, where a pass is `what`.
    pub(super) fn in_words(self, what: &str) -> [String; 2] {
        [self.screen, self.band].map(|length| in_words(length, what))
    }
}

/// The least and the most that a result becomes.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
#[serde(transparent)]
pub struct Band(pub [f64; 2]);

impl Band {
    /// Of a result that is `base`, from its differences under variation.
    pub fn of(base: f64, differences: impl IntoIterator<Item = f64>) -> Self {
        let finite = differences.into_iter().filter(|difference| difference.is_finite());
        let (least, most) = finite.fold((0.0_f64, 0.0_f64), |(least, most), by| (least.min(by), most.max(by)));
        Self([base + least, base + most])
    }

    /// As the band of a share in percent, which has limits.
    #[must_use]
    pub(crate) fn of_a_share(self) -> Self {
        Self(self.0.map(|value| value.clamp(0.0, 100.0)))
    }

    /// Whether `value` lies in it.
    pub fn holds(&self, value: f64) -> bool {
        (self.0[0]..=self.0[1]).contains(&value)
    }
}

/// Numbers of the machine that were varied, and their effects.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Varied {
    /// How many of the machine's numbers were made a tenth larger.
    pub screened: usize,
    /// Those that were then varied both ways, the one that moves a result most first, and by how many points it did.
    pub chosen: Vec<Reach>,
    /// Points by which the strongest of the others moved a result.
    pub rest: f64,
}

/// How far a number of the machine reaches.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Reach {
    /// Its path in the machine's file.
    pub parameter: String,
    /// Points by which it moved a result in the first round.
    pub points: f64,
}

/// The `most` numbers that move results most, from all with their reach; of equals those that come first.
pub fn choose(mut reaches: Vec<Reach>, most: usize) -> Varied {
    let screened = reaches.len();
    reaches.sort_by(|a, b| b.points.total_cmp(&a.points));
    let rest = reaches.split_off(most.min(screened));
    Varied { screened, chosen: reaches, rest: rest.first().map_or(0.0, |reach| reach.points) }
}

/// The two rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// Which numbers matter.
    Screen,
    /// How much.
    Band,
}

/// Numbers of the machine that are varied.
pub fn parameters(machine: &Spec) -> Vec<&str> {
    machine.parameters().filter(|parameter| parameter.scales()).map(|parameter| parameter.path.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_holds_the_result_itself() {
        assert_eq!(Band::of(30.0, [1.0, 2.5, f64::NAN]), Band([30.0, 32.5]));
        assert_eq!(Band::of(5.0, [-7.0, 1.0]).of_a_share(), Band([0.0, 6.0]));
        assert_eq!(Band::of(-1.0, []), Band([-1.0, -1.0]));
        assert!(Band([1.0, 2.0]).holds(1.0) && !Band([1.0, 2.0]).holds(2.1));
    }

    #[test]
    fn the_strongest_are_chosen() {
        let reaches = [("a", 0.1), ("b", 3.0), ("c", 0.1), ("d", 1.0)];
        let reach = |(parameter, points): (&str, f64)| Reach { parameter: parameter.to_owned(), points };
        let varied = choose(reaches.map(reach).to_vec(), 2);
        assert_eq!(varied.chosen, [("b", 3.0), ("d", 1.0)].map(reach));
        assert_eq!((varied.screened, varied.rest), (4, 0.1));
        assert_eq!(choose(reaches.map(reach).to_vec(), 9).rest, 0.0);
    }
}
