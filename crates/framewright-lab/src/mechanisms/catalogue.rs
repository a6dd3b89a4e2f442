//! All switches and presets with their descriptions, for a user who has to choose.

use std::fmt;

use anyhow::bail;
use framewright::Mechanisms;
use framewright::mechanisms::{About, PRESETS};
use framewright_table::wrapped;
use serde::Serialize;

/// Columns of a line.
const WIDTH: usize = 100;

/// Version of the JSON form.
pub const SCHEMA: u32 = 1;

/// Each preset, with the kernel or the purpose that it stands for.
const ORIGINS: &[(&str, &str)] = &[
    ("default", "what we believe best"),
    ("baseline", "Linux before the published mechanisms, nearest to 6.1, with a simple lock"),
    ("patch1", "Linux 4.19, which the zone lock series of 2018 was measured against"),
    ("patch7", "the zone lock series with concurrent merging under locks on ranges"),
    ("patch8", "the series with lists that many CPUs change at once, each list at one stroke"),
    ("patch9", "the same, where what a batch frees is merged before the lock is taken"),
    ("no_merge", "the series' other way: single pages are not merged when they are freed"),
    ("no_merge+cluster_alloc", "the same, and allocated in runs that lie together"),
    ("tuned-pcp", "patch1 with per-CPU lists that grow and shrink, as since Linux 6.7"),
    ("owned-pageblocks", "patch1 where CPUs own pageblocks, as in the RFC of 2026"),
    ("numa-base", "Linux 4.13, which the NUMA statistics series of 2017 was measured against"),
    ("numa-patch1", "its first patch: NUMA counters come apart from the zone's"),
    ("numa-patch2", "its second: 16 bits, so that a CPU tells the zone hardly ever"),
    ("numa-patch3", "its third: readers add what CPUs have not told"),
    ("irqsafe", "numa-base with per-CPU lists that interrupts do not use, as in Linux 4.11-rc"),
    ("numa-off", "numa-patch1 without NUMA statistics"),
    ("claim-steal", "baseline with the fallback of Linux since 6.15"),
    ("mixing", "baseline that never keeps mobilities apart by using a lower zone"),
    ("vanilla-4.20", "Linux 4.20, which the fragmentation avoidance series of 2018 was measured against"),
    ("linux-6.1", "Linux 6.1, with what works in the background there"),
    ("lowzone", "the fragmentation avoidance series' first patch: a lower zone before mixing"),
    ("boost", "its first four: watermarks rise when mobilities were mixed"),
    ("stall", "all five: movable requests wait for reclaim before they mix"),
    ("boost-as-mailed", "boost as it was mailed, where the first patch's flag was lost"),
    ("stall-as-mailed", "stall as it was mailed"),
];

/// A choice of a switch.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct SwitchChoice {
    /// Its name.
    pub name: String,
    /// Its description.
    pub about: String,
    /// Whether it is the default's.
    pub is_default: bool,
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Its description.
    pub about: String,
    /// Its choices, the baseline's first; none where it is a number.
    pub choices: Vec<SwitchChoice>,
    /// Its possible values, where it is a number.
    pub number: Vec<String>,
    /// The default's choice.
    pub default: String,
}

/// A set of choices that has a name.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// Its description.
    pub about: String,
    /// Its choices that differ from the baseline's, as `switch=choice`.
    pub unlike_baseline: Vec<String>,
}

/// Presets and switches, all or those that were asked for.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Catalogue {
    /// Version of this form.
    pub schema: u32,
    /// Sets of choices with a name.
    pub presets: Vec<Preset>,
    /// Switches.
    pub switches: Vec<Switch>,
}

impl Catalogue {
    /// The entries with one of these names; all entries if there are no names.
    ///
    /// # Errors
    /// The name that neither a preset nor a switch has.
    pub fn of(names: &[String]) -> anyhow::Result<Self> {
        let is_known = |name: &String| {
            Mechanisms::SWITCHES.contains(&name.as_str()) || PRESETS.iter().any(|(preset, _)| preset == name)
        };
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            bail!("{name} is neither a switch nor a preset; framewright mechanisms lists them all");
        }
        let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        let presets = PRESETS.iter().filter(|(name, _)| wanted(name)).map(preset).collect();
        let switches = Mechanisms::ABOUT.iter().filter(|about| wanted(about.switch)).map(switch).collect();
        Ok(Self { schema: SCHEMA, presets, switches })
    }
}

/// The choices of `mechanisms`, as `switch=choice`, in the order of [`Mechanisms::SWITCHES`].
fn chosen(mechanisms: &Mechanisms) -> Vec<String> {
    mechanisms.to_string().split(',').map(str::to_owned).collect()
}

fn preset((name, mechanisms): &(&str, Mechanisms)) -> Preset {
    let origin = ORIGINS.iter().find(|(preset, _)| preset == name);
    let baseline = chosen(&Mechanisms::BASELINE);
    let unlike = chosen(mechanisms).into_iter().zip(baseline).filter(|(ours, theirs)| ours != theirs);
    Preset {
        name: (*name).to_owned(),
        about: origin.map_or("", |(_, about)| about).to_owned(),
        unlike_baseline: unlike.map(|(ours, _)| ours).collect(),
    }
}

fn switch(about: &About) -> Switch {
    let default = chosen(&Mechanisms::DEFAULT).into_iter().find_map(|choice| {
        let choice = choice.strip_prefix(about.switch)?.strip_prefix('=')?;
        Some(choice.to_owned())
    });
    let default = default.unwrap_or_default();
    let choice = |&(name, about): &(&str, &str)| SwitchChoice {
        name: name.to_owned(),
        about: plain(about),
        is_default: name == default,
    };
    let number = if about.choices.is_empty() { Mechanisms::choices(about.switch) } else { &[] };
    Switch {
        name: about.switch.to_owned(),
        about: plain(about.text),
        choices: about.choices.iter().map(choice).collect(),
        number: number.iter().map(|&what| what.to_owned()).collect(),
        default,
    }
}

/// A sentence without the marks of Markdown.
fn plain(markdown: &str) -> String {
    markdown.trim().replace("[`", "").replace("`]", "").replace('`', "")
}

impl fmt::Display for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.presets.is_empty() {
            writeln!(f, "Presets, and what each chooses other than baseline\n")?;
        }
        for Preset { name, about, unlike_baseline } in &self.presets {
            write!(f, "{}", wrapped(&format!("  {name}: {about}"), ' ', WIDTH, 6))?;
            if !unlike_baseline.is_empty() {
                write!(f, "{}", wrapped(&format!("      {}", unlike_baseline.join(", ")), ' ', WIDTH, 6))?;
            }
        }
        if !self.switches.is_empty() {
            let gap = if self.presets.is_empty() { "" } else { "\n" };
            writeln!(f, "{gap}Switches; the first choice is baseline's, * the default's")?;
        }
        for Switch { name, about, choices, number, default } in &self.switches {
            writeln!(f)?;
            write!(f, "{}", wrapped(&format!("  {name}: {about}"), ' ', WIDTH, 6))?;
            for SwitchChoice { name, about, is_default } in choices {
                let mark = if *is_default { '*' } else { '-' };
                write!(f, "{}", wrapped(&format!("    {mark} {name}: {about}"), ' ', WIDTH, 10))?;
            }
            if !number.is_empty() {
                write!(
                    f,
                    "{}",
                    wrapped(&format!("    * {default}; it may be {}", number.join(" or ")), ' ', WIDTH, 10)
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_explained_once_in_order() {
        let names = |all: &[(&'static str, &str)]| all.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(names(ORIGINS), PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn every_switch_is_explained_with_all_its_choices() {
        let all = Catalogue::of(&[]).unwrap();
        assert_eq!(all.switches.iter().map(|switch| switch.name.as_str()).collect::<Vec<_>>(), Mechanisms::SWITCHES);
        for Switch { name, about, choices, number, .. } in &all.switches {
            let names: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
            assert!(!about.is_empty() && choices.iter().all(|choice| !choice.about.is_empty()), "{name}");
            if number.is_empty() {
                assert_eq!(names, Mechanisms::choices(name));
                assert_eq!(choices.iter().filter(|choice| choice.is_default).count(), 1, "{name}");
            }
        }
    }
}
