//! Mechanisms as a user would write them.

use framewright::Mechanisms;
use framewright::mechanisms::PRESETS;

/// Returns the switches of a list of mechanisms that differ from `preset`.
pub(crate) fn unlike<'s>(switches: &'s str, preset: &Mechanisms) -> Vec<&'s str> {
    let preset = preset.to_string();
    switches.split(',').zip(preset.split(',')).filter(|(ours, theirs)| ours != theirs).map(|(ours, _)| ours).collect()
}

/// Returns the shortest list that [`Mechanisms::parse`] reads as `mechanisms`.
///
/// That is the nearest preset, and the switches that differ from it.
pub fn label(mechanisms: &Mechanisms) -> String {
    let switches = mechanisms.to_string();
    let from = |(name, preset): &(&'static str, Mechanisms)| [vec![*name], unlike(&switches, preset)].concat();
    let nearest = PRESETS.iter().map(from).min_by_key(Vec::len);
    nearest.map_or(switches.clone(), |list| list.join(","))
}
