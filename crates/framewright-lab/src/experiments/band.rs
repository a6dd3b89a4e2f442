//! Where the figures of a quick run may lie.
//!
//! A quick run has no bands of its own, they would take an hour. So they were recorded once, and are data of the
//! project (`data/reproduced/quick.toml`): the least and the most that each figure becomes with several seeds, and with
//! each of the machine's fitted numbers a tenth smaller and larger. A figure that lies outside now means that the
//! allocator or the model has changed what comes out by more than chance or a tenth of such a number does; then either
//! the change is wrong, or the bands are recorded again (`framewright reproduce all --quick --bands FILE`) and
//! the change says so.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::reproduce::headline::{Headline, Verdict};
use crate::reproduce::variation::Band;

/// The recorded file.
const RECORDED: &str = include_str!("../../data/reproduced/quick.toml");
/// Head of the file.
const HEAD: &str = "\
# The least and the most of each figure that a quick run shows first, in its unit, by experiment and row: with several
# seeds from 1 on, and with seed 1 and each number of the machine that is fitted to the table a tenth smaller and larger.
# Recorded by: framewright reproduce all --quick --bands data/reproduced/quick.toml

";

/// Bands by experiment and row.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct Bands(BTreeMap<String, BTreeMap<String, [f64; 2]>>);

impl Bands {
    /// Those that are data of the project.
    ///
    /// # Errors
    /// The file is not as it should be, which is a mistake in this crate.
    pub fn built_in() -> anyhow::Result<Self> {
        toml::from_str(RECORDED).context("data/reproduced/quick.toml")
    }

    /// The band of a row; none if nothing was recorded of it.
    pub fn of(&self, experiment: &str, row: &str) -> Option<Band> {
        self.0.get(experiment)?.get(row).copied().map(Band)
    }

    /// A headline with its rows' bands; of runs whose seed was not recorded, nothing is said to have left one.
    pub fn within(&self, mut headline: Headline, was_recorded: bool) -> Headline {
        for row in &mut headline.rows {
            let Some(band) = self.of(headline.experiment, &row.name) else { continue };
            *row = row.clone().banded(band);
            if was_recorded && !band.holds(row.ours) {
                row.verdict = Verdict::LeftBand;
            }
        }
        headline
    }

    /// Figures that have no band, and bands that have no figure.
    pub(crate) fn unmatched(&self, headline: &Headline) -> Vec<String> {
        let recorded = self.0.get(headline.experiment);
        let names = || headline.rows.iter().map(|row| &row.name);
        let bare = names().filter(|name| !recorded.is_some_and(|rows| rows.contains_key(*name)));
        let idle = recorded.into_iter().flat_map(BTreeMap::keys).filter(|name| names().all(|other| other != *name));
        bare.chain(idle).cloned().collect()
    }

    /// Widens the bands of an experiment's rows so that they hold these figures, to the tenth.
    pub fn widen(&mut self, headline: &Headline) {
        let rows = self.0.entry(headline.experiment.to_owned()).or_default();
        for row in &headline.rows {
            let [least, most] = [(row.ours * 10.0).floor() / 10.0, (row.ours * 10.0).ceil() / 10.0];
            let band = rows.entry(row.name.clone()).or_insert([least, most]);
            *band = [band[0].min(least), band[1].max(most)];
        }
    }

    /// As a file.
    ///
    /// # Errors
    /// None that a user could cause.
    pub fn to_file(&self) -> anyhow::Result<String> {
        Ok(HEAD.to_owned() + &toml::to_string(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::headline::{Gain, HeadlineRow};

    #[test]
    fn a_band_holds_what_it_was_widened_for() {
        let headline = |ours| Headline {
            experiment: "zone-lock",
            what: String::new(),
            rows: vec![HeadlineRow::new("patch7", "%", [-73.3, ours], false, true)],
            gain: Gain::default(),
            ours: String::new(),
            fails: Vec::new(),
            not_judged: Vec::new(),
        };
        let mut bands = Bands::default();
        [-72.31, -70.0, -72.0].map(headline).iter().for_each(|headline| bands.widen(headline));
        assert_eq!(bands.of("zone-lock", "patch7"), Some(Band([-72.4, -70.0])));
        assert_eq!(bands.of("zone-lock", "patch8"), None);
        assert!(bands.unmatched(&headline(-72.0)).is_empty());
        let other = Headline { rows: vec![HeadlineRow::of_default("default", "%", 1.0)], ..headline(-72.0) };
        assert_eq!(bands.unmatched(&other), ["default", "patch7"]);
        let file = bands.to_file().unwrap();
        assert_eq!(toml::from_str::<Bands>(&file).unwrap(), bands);
    }

    #[test]
    fn the_recorded_file_can_be_read() {
        let bands = Bands::built_in().unwrap();
        assert!(bands.0.values().flatten().all(|(_, [least, most])| least <= most));
    }
}
