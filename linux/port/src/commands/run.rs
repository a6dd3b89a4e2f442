//! `linux/run run`: runs a workload under several presets and compares them.
//!
//! The idea: each round boots each preset once, so that a slow spell of the host meets all of them. The preset `stock`
//! is a kernel without our edits; `off` is the edited kernel without Framewright; any other name goes to the kernel as
//! `framewright=NAME`.
//!
//! Cost: presets times rounds boots. Rejected: all rounds of a preset in one boot, where each finds the memory of the
//! one before.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use framewright::mechanisms::PRESETS;

use super::options::KernelOptions;
use crate::build::Kernel;
use crate::console::{Measured, Run, new_log};
use crate::guest;
use crate::machine::Machine;
use crate::report::Report;
use crate::workload::{Lengths, Workload};

/// Run a workload under several presets; print a table of medians.
#[derive(Args, Debug)]
pub(super) struct RunWorkload {
    /// What the guest runs
    #[arg(value_enum)]
    workload: Workload,
    #[command(flatten)]
    kernel: KernelOptions,
    #[command(flatten)]
    machine: Machine,
    /// Presets: `stock` is a kernel without edits, `off` the edited one without Framewright, `all` stands for both and
    /// every preset of the allocator; a change goes after a `+`
    #[arg(long, value_delimiter = ',', default_value = "stock,baseline,linux-6.1,default", value_name = "NAMES")]
    presets: Vec<String>,
    /// How often each preset is booted
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: u32,
    #[command(flatten)]
    lengths: Lengths,
    /// Write every result to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Show the guest's console
    #[arg(long)]
    console: bool,
    /// Text of a line that is allowed although it looks bad; may be repeated
    #[arg(long, value_name = "TEXT")]
    allow: Vec<String>,
    /// Further parameters of the kernel
    #[arg(last = true)]
    parameters: Vec<String>,
}

/// Returns a preset with its changes as the kernel reads them: after commas, which separate presets here.
///
/// A `+` that no change follows belongs to a preset's name.
fn for_kernel(preset: &str) -> String {
    let join = |text: String, part: &str| format!("{text}{}{part}", if part.contains('=') { ',' } else { '+' });
    let mut parts = preset.split('+');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, join)
}

/// Returns the presets, with `all` replaced by those that there are.
fn all_presets(given: Vec<String>) -> Vec<String> {
    let all = || ["stock", "off"].into_iter().chain(PRESETS.iter().map(|(name, _)| *name)).map(str::to_owned);
    let expand = |name: String| if name == "all" { all().collect() } else { vec![name] };
    given.into_iter().flat_map(expand).collect()
}

impl RunWorkload {
    /// Runs the workload and prints the table.
    ///
    /// # Errors
    ///
    /// A kernel cannot be built or started, or a run was not sound.
    pub(super) fn run(mut self) -> Result<()> {
        self.presets = all_presets(self.presets);
        self.workload.fit(self.kernel.arch, &mut self.machine)?;
        let kernels = self.presets.iter().map(|preset| self.kernel.build(preset == "stock"));
        let kernels = kernels.collect::<Result<Vec<_>>>()?;
        let work = self.kernel.work.directory()?;
        let contents = self.workload.contents(self.lengths, &self.machine)?;
        let archive = guest::archive(&work.join("guest"), &contents)?;
        let report = self.rounds(&kernels, &archive);
        fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))?;
        let report = report?;
        match report.is_empty() {
            true => println!("every run was sound; nothing was measured"),
            false => println!("{}", report.table().trim_end()),
        }
        if let Some(path) = &self.csv {
            report.csv(File::create(path).with_context(|| format!("cannot write {}", path.display()))?)?;
        }
        Ok(())
    }

    /// All rounds of all presets.
    fn rounds(&self, kernels: &[Kernel], archive: &Path) -> Result<Report> {
        let mut report = Report::new(&self.presets);
        for round in 1..=self.rounds {
            for (index, (preset, kernel)) in self.presets.iter().zip(kernels).enumerate() {
                report.add(index, round, self.once(preset, round, kernel, archive)?);
            }
        }
        Ok(report)
    }

    /// One boot of one preset.
    fn once(&self, preset: &str, round: u32, kernel: &Kernel, archive: &Path) -> Result<Vec<Measured>> {
        let work = self.kernel.work.directory()?;
        let name: String = preset.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect();
        let log = new_log(&work.join("logs"), &format!("{:?}-{name}", self.workload).to_lowercase())?;
        let disk = log.with_extension("disk");
        self.machine.disk(&disk)?;
        let mut parameters = self.parameters.clone();
        parameters.extend(self.workload.parameters().iter().map(|text| text.to_string()));
        if !["stock", "off"].contains(&preset) {
            parameters.push(format!("framewright={}", for_kernel(preset)));
        }
        let mut command = self.machine.command(self.kernel.arch, &kernel.image, archive, &disk, &parameters)?;
        let title = format!("round {round}, {preset}");
        let mut allowed = self.allow.clone();
        allowed.extend(self.workload.allowed().iter().map(|text| text.to_string()));
        let (limit, allowed, echo) = (self.workload.limit(self.lengths), allowed.as_slice(), self.console);
        let outcome = Run { title: &title, log, limit, allowed, echo }.run(&mut command);
        fs::remove_file(&disk).with_context(|| format!("cannot remove {}", disk.display()))?;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::Mechanisms;

    #[test]
    fn changes_follow_commas_and_names_stay_whole() {
        assert_eq!(for_kernel("default"), "default");
        assert_eq!(for_kernel("default+depot=off+refill=cluster"), "default,depot=off,refill=cluster");
        assert_eq!(for_kernel("no_merge+cluster_alloc+refill=blocks"), "no_merge+cluster_alloc,refill=blocks");
    }

    #[test]
    fn the_kernel_knows_every_preset() {
        for preset in all_presets(vec!["all".to_owned()]).iter().skip(2) {
            assert!(Mechanisms::parse(&for_kernel(preset)).is_ok(), "{preset}");
        }
    }
}
