//! The trace of a command that replays one.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use framewright_trace::replay::ReplayOptions;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::reading::Reading;

/// The trace that is replayed if none is named, in the project's folder.
const SHIPPED: &str = "data/traces/linux-6.1-thpfioscale-1g.fwt";

/// A trace, and how it is read.
#[derive(Args)]
pub(crate) struct TraceArgs {
    /// The trace: a directory with trace.txt and files of /proc, or a text or compact file [default: the project's
    /// own].
    trace: Option<PathBuf>,
    /// Memory that the tables for a recorded machine may take, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    max_memory: u64,
    #[command(flatten)]
    reading: Reading,
}

impl TraceArgs {
    /// Where it is.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        let path = self.trace.clone().unwrap_or_else(shipped);
        if self.trace.is_none() && !path.exists() {
            bail!("the project's own trace is not at {}; name a trace", path.display());
        }
        Ok(path)
    }

    pub(crate) fn options(&self) -> ReplayOptions {
        ReplayOptions { text: self.reading.options(), memory_limit: self.max_memory << 20 }
    }
}

/// Runs what reads a trace `passes` times, and shows on a terminal how far it is.
pub(crate) fn with_progress<T, E>(
    passes: usize,
    run: impl FnOnce(&mut dyn FnMut(usize, u64)) -> Result<T, E>,
) -> anyhow::Result<Result<T, E>> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} {human_pos} events").context("progress bar")?);
    let mut pass = usize::MAX;
    let result = run(&mut |now, records| {
        if now != pass {
            pass = now;
            bar.reset();
            bar.set_message(format!("pass {} of {passes}:", now + 1));
        }
        bar.set_position(records);
    });
    bar.finish_and_clear();
    Ok(result)
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
