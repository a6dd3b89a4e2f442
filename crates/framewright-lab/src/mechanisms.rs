//! Mechanisms as users name them: a list on the command line, or a file.

pub mod catalogue;

use std::fs::File;
use std::io::Read;

use anyhow::{Context, anyhow, bail};
use framewright::Mechanisms;
use framewright::mechanisms::{PRESETS, UnknownSwitch};
pub use framewright_trace::mechanisms::label;

/// How large a file with mechanisms may be, in bytes.
const TOML_LIMIT: u64 = 1 << 16;

/// Reads a list of presets and switches, or a TOML file with a `preset` and switches as keys.
///
/// # Errors
/// The file cannot be read, or the name that does not exist, with those that do.
pub fn parse(text: &str) -> anyhow::Result<Mechanisms> {
    if !text.ends_with(".toml") {
        return parse_list(text);
    }
    let mut content = String::new();
    let file = File::open(text).with_context(|| format!("cannot read {text}"))?;
    file.take(TOML_LIMIT + 1).read_to_string(&mut content).with_context(|| format!("cannot read {text}"))?;
    if content.len() as u64 > TOML_LIMIT {
        bail!("{text} is larger than {TOML_LIMIT} bytes; name a file with a preset and switches alone");
    }
    let table: toml::Table = content.parse().with_context(|| format!("{text} is no TOML"))?;
    let mut list = "baseline".to_owned();
    if let Some(preset) = table.get("preset") {
        list = preset
            .as_str()
            .ok_or_else(|| anyhow!("{text}: preset is no name; write preset = \"baseline\", or another"))?
            .to_owned();
    }
    for (switch, choice) in table.iter().filter(|(key, _)| *key != "preset") {
        let choice =
            choice.as_str().ok_or_else(|| anyhow!("{text}: {switch} is no name; write {switch} = \"CHOICE\""))?;
        list.push_str(&format!(",{switch}={choice}"));
    }
    parse_list(&list).with_context(|| text.to_owned())
}

fn parse_list(text: &str) -> anyhow::Result<Mechanisms> {
    if text.split(',').any(|part| part.trim().is_empty()) {
        bail!(
            "{text:?} names no preset and no switch between its commas; `framewright mechanisms` lists all that there are"
        );
    }
    let mechanisms = Mechanisms::parse(text).map_err(|(part, error)| match error {
        UnknownSwitch::Switch => {
            anyhow!("{part}: there is no such switch; there are {}", Mechanisms::SWITCHES.join(", "))
        }
        UnknownSwitch::Choice(choices) => anyhow!("{part}: the choices are {}", choices.join(", ")),
        UnknownSwitch::Form => {
            let presets: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
            anyhow!("{part} is no preset ({}) and no switch=choice", presets.join(", "))
        }
    })?;
    match mechanisms.conflict() {
        Some(reason) => bail!("{text}: {reason}"),
        None => Ok(mechanisms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_set_of_mechanisms() {
        for text in ["", "baseline,,", ",default", " "] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("names no preset and no switch"), "{text:?}: {error}");
        }
    }

    #[test]
    fn labels_are_short_and_parse_back() {
        for text in ["default", "baseline", "mixing", "claim-steal,numa-stat=off"] {
            let mechanisms = parse(text).unwrap();
            assert_eq!(label(&mechanisms), text);
            assert_eq!(parse(&label(&mechanisms)).unwrap(), mechanisms);
        }
        assert_eq!(label(&parse("mixing,nofragment=first-pass").unwrap()), "baseline");
    }
}
