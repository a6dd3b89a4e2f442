//! The trace of a command that replays one.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use framewright_trace::Place;
use framewright_trace::replay::ReplayOptions;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::reading::Reading;

/// The trace that is replayed if none is named. It is built in, so that the command works wherever it is installed.
const SHIPPED: Place<'static> = Place::BuiltIn {
    name: "data/traces/linux-6.1-thpfioscale-1g.fwt",
    bytes: include_bytes!("../../data/traces/linux-6.1-thpfioscale-1g.fwt"),
};

/// A trace, and how it is read.
#[derive(Args)]
pub(crate) struct TraceArgs {
    /// The trace: a directory with trace.txt and files of /proc, or a text or compact file [default: the project's
    /// own, which is built in].
    trace: Option<PathBuf>,
    /// Memory that the tables for a recorded machine may take, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    max_memory: u64,
    #[command(flatten)]
    reading: Reading,
}

impl TraceArgs {
    /// Where it is.
    pub(crate) fn place(&self) -> Place<'_> {
        self.trace.as_ref().map_or(SHIPPED, Place::from)
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
