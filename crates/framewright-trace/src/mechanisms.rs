//! Mechanisms as a user would write them.

use framewright::Mechanisms;
use framewright::mechanisms::PRESETS;

/// Returns the shortest list that [`Mechanisms::parse`] reads as `mechanisms`.
///
/// That is the nearest preset, and the switches that differ from it.
pub fn label(mechanisms: &Mechanisms) -> String {
    let switches = mechanisms.to_string();
    let from = |(name, preset): &(&str, Mechanisms)| {
        let preset = preset.to_string();
        let unlike = switches.split(',').zip(preset.split(',')).filter(|(ours, theirs)| ours != theirs);
        unlike.fold(vec![(*name).to_owned()], |mut list, (ours, _)| {
            list.push(ours.to_owned());
            list
        })
    };
    let nearest = PRESETS.iter().map(from).min_by_key(Vec::len);
    nearest.map_or(switches.clone(), |list| list.join(","))
}
