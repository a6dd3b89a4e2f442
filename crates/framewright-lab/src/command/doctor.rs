//! `framewright doctor`: whether this machine can be recorded, and how to mend it.

use clap::Args;
use framewright_lab::record::doctor::{DoctorCheck, Findings, Report, examine};

use super::ended::Violated;
use super::output::{Format, print_as};

/// Tell whether this machine can be recorded, and what to do where it cannot.
///
/// The exit code is 0 if `framewright record` would work, and 1 if not.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright doctor
      what is there, what is missing, and the command that would help
  framewright doctor --format json
      the same for programs; most of it can only be seen by root

docs/record.md says what each line means.")]
pub(crate) struct Doctor {
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Doctor {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let checks: Vec<DoctorCheck> = examine(&Findings::gather());
        let report = Report::new(checks);
        print_as(self.format, &report, &report)?;
        if report.would_work { Ok(()) } else { Err(Violated.into()) }
    }
}
