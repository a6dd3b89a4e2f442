//! `framewright replay`: what would have happened under our mechanisms.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use framewright::Mechanisms;
use framewright_lab::replay::{Column, ReplayError, ReplayOptions, Report, Table, replay};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Format, Reading, mechanisms, print};

/// The trace that is replayed if none is named, in the project's folder.
const SHIPPED: &str = "data/traces/linux-6.1-thpfioscale-1g.fwt";

/// Replay a kernel's trace: what Linux did beside what we do with the same requests.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright replay
      the recorded trace that comes with the project
  framewright replay trace-dir --mechanisms baseline --mechanisms fallback=claim-steal
      two sets of mechanisms side by side
  framewright replay trace.txt.gz --format json")]
pub(crate) struct Replay {
    /// The trace: a directory with trace.txt and files of /proc, or a text or compact file [default: the project's own].
    trace: Option<PathBuf>,
    /// Presets and switches to replay under, as `baseline,fallback=claim-steal`, or a TOML file; repeat for more columns.
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    mechanisms: Vec<String>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Memory that the tables for a recorded machine may take, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    max_memory: u64,
    #[command(flatten)]
    reading: Reading,
}

impl Replay {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let shipped = shipped();
        let path = self.trace.as_deref().unwrap_or(&shipped);
        if self.trace.is_none() && !path.exists() {
            bail!("the project's own trace is not at {}; name a trace", path.display());
        }
        let mechanisms = self.mechanisms()?;
        let passes = mechanisms.len() + 1;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{spinner} {msg} {human_pos} events").context("progress bar")?);
        let mut pass = usize::MAX;
        let options = ReplayOptions { text: self.reading.options(), memory_limit: self.max_memory << 20 };
        let report = replay(path, &options, &mechanisms, &mut |now, records| {
            if now != pass {
                pass = now;
                bar.reset();
                bar.set_message(format!("pass {} of {passes}:", now + 1));
            }
            bar.set_position(records);
        });
        bar.finish_and_clear();
        let report = report.map_err(|error| match error {
            ReplayError::TooLarge { .. } => anyhow!("{error}; --max-memory sets it"),
            error => error.into(),
        })?;
        print(&self.render(&report)?)?;
        self.verdict(&report)
    }

    fn mechanisms(&self) -> anyhow::Result<Vec<Mechanisms>> {
        if self.mechanisms.is_empty() {
            return Ok(vec![Mechanisms::DEFAULT]);
        }
        self.mechanisms.iter().map(|text| mechanisms::parse(text)).collect()
    }

    fn render(&self, report: &Report) -> anyhow::Result<String> {
        Ok(match self.format {
            Format::Text => Table(report).to_string(),
            Format::Json => serde_json::to_string_pretty(report)? + "\n",
        })
    }

    /// A replay that lost memory or refused a free is a failure, whatever else it shows.
    fn verdict(&self, report: &Report) -> anyhow::Result<()> {
        for Column { mechanisms, frees_refused, pages_conserved, .. } in &report.columns {
            if *frees_refused != 0 {
                bail!("{frees_refused} frees were refused under {mechanisms}");
            }
            if !pages_conserved {
                bail!("pages were lost under {mechanisms}");
            }
        }
        Ok(())
    }
}

/// Where the project's own trace is: below the current folder, or else where the project was built.
fn shipped() -> PathBuf {
    let here = Path::new(SHIPPED);
    if here.exists() {
        return here.to_owned();
    }
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(2).unwrap_or(crate_dir).join(SHIPPED)
}
