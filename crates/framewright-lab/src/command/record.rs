//! `framewright record`: this machine's own kernel, as a trace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use framewright_lab::record::identity::Identity;
use framewright_lab::record::workload::End;
use framewright_lab::record::{Options, RecordError, Recording, Step, TRACE, record};
use framewright_trace::record::Kind;
use framewright_trace::replay::counted;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::ended::Ended;
use super::output::{note, quoted};

/// Record what this machine's kernel is asked for page frames: while a command runs, for some time, or until Ctrl-C.
///
/// Needs root (sudo) and tracefs; `framewright doctor` says what is missing. The whole machine is recorded, not the
/// command alone. The command runs as the user that called sudo. The exit code is the command's; 0 if --duration ended
/// it, 2 if nothing could be recorded or the disk was full before the end.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright record -- make -j8
      what the machine's page allocator had to do during a build, in the folder `recording`
  framewright record -o idle --duration 60
      a minute of whatever goes on; framewright replay idle and framewright explain idle take it from there

docs/record.md says what is recorded, and what it costs.")]
pub(crate) struct Record {
    /// The folder to make [default: recording, or recording-2 and so on if that is there].
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Seconds to record at most; a command that still runs then is ended by SIGTERM, 5 s later by SIGKILL, and the
    /// exit code is 0.
    #[arg(long, value_name = "S", value_parser = seconds)]
    duration: Option<Duration>,
    /// Memory for the events of each CPU until they are read, in KiB [default: 16384, less on small machines].
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(64..=4 << 20))]
    buffer_kib: Option<u64>,
    /// Record as well how the allocator goes about it: traffic between zones and per-CPU lists, which no replay needs.
    #[arg(long)]
    inner: bool,
    /// Run the command as root, though a user called sudo.
    #[arg(long, requires = "command")]
    as_root: bool,
    /// The command to run, with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Memory for the events of each CPU, in KiB: two thirds of a second of the most that a CPU has been seen to ask for.
const BUFFER_KIB: u64 = 16 << 10;

impl Record {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let folder = self.output.clone().unwrap_or_else(free_folder);
        let identity = if self.as_root || self.command.is_empty() { None } else { caller()? };
        let options = Options {
            folder: folder.clone(),
            command: self.command.clone(),
            identity,
            duration: self.duration,
            buffer_kib: self.buffer_kib.unwrap_or_else(affordable),
            inner: self.inner,
        };
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").context("progress bar")?);
        let result = record(&options, &mut |step| bar.set_message(told(step)));
        bar.finish_and_clear();
        let recording = result.map_err(|error| match &error {
            RecordError::File { .. } => anyhow!("{error}; framewright doctor looks at all that a recording needs"),
            _ => error.into(),
        })?;
        // The command has standard output for itself; our messages go to the error stream.
        note(&summary(&recording, &self.command, &folder));
        match recording.end.code() {
            0 => Ok(()),
            code => Err(Ended(code).into()),
        }
    }
}

/// The user that called `sudo`, if one did; then the user is told about it.
fn caller() -> anyhow::Result<Option<Identity>> {
    let caller = Identity::of_caller().context("cannot find the user that called sudo; --as-root needs none")?;
    if let Some(caller) = &caller {
        note(&format!("the command runs as {}, who called sudo; --as-root runs it as root", caller.name()));
    }
    Ok(caller)
}

/// How far a recording is, for a terminal.
fn told(step: Step) -> String {
    match step {
        Step::State => "reading the state of memory".to_owned(),
        Step::Running(events, 0) => format!("recording: {} events", HumanCount(events)),
        Step::Running(events, lost) => format!("recording: {} events, {} LOST", HumanCount(events), HumanCount(lost)),
        Step::Writing(events) => format!("writing: {} events", HumanCount(events)),
    }
}

/// Describes the recording, and the next commands for it.
fn summary(recording: &Recording, command: &[String], folder: &Path) -> String {
    let Recording { quality, end, elapsed, bytes, no_moves, warnings } = recording;
    let command = command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let end = match end {
        End::Command(_) | End::Interrupted(Some(_)) => format!(", ended with code {}", end.code()),
        End::Time if !command.is_empty() => ", ended because the time was over".to_owned(),
        End::Time | End::Interrupted(None) => String::new(),
        End::Failed => ", cut short".to_owned(),
    };
    let what = if command.is_empty() { "the machine".to_owned() } else { format!("`{command}`") };
    let mut text = format!("\nRecorded {:.1} s of {what}{end}\n", elapsed.as_secs_f64());
    for (name, &count) in Kind::NAMES.iter().zip(&quality.by_kind).filter(|&(_, &count)| count != 0) {
        text += &format!("  {:>13} {name}\n", HumanCount(count).to_string());
    }
    text += &format!("  {:>13} events in all\n", HumanCount(quality.records()).to_string());
    text += &match (quality.lost_events, quality.lost_reports) {
        (0, 0) => format!("  {:>13} lost\n", "none"),
        (lost, gaps) => format!(
            "  {:>13} LOST, in {}: a larger --buffer-kib keeps more\n",
            if lost == 0 { "some".to_owned() } else { HumanCount(lost).to_string() },
            counted(gaps, "gap")
        ),
    };
    if quality.malformed_lines != 0 {
        text += &format!("  {:>13} page moves could not be read\n", HumanCount(quality.malformed_lines).to_string());
    }
    if !no_moves.is_empty() {
        text += &format!("  page moves were not recorded: {no_moves}\n");
    }
    for warning in warnings {
        text += &format!("  WARNING: {warning}\n");
    }
    text += &format!("  {}: {:.1} MiB\n", folder.join(TRACE).display(), *bytes as f64 / f64::from(1 << 20));
    let folder = quoted(&folder.display().to_string());
    text + &format!("\nNext:\n  framewright replay {folder}\n  framewright explain {folder}\n")
}

/// The first of `recording`, `recording-2`, ... that is not there.
fn free_folder() -> PathBuf {
    let numbered = (2_u64..).map(|number| PathBuf::from(format!("recording-{number}")));
    let mut names = std::iter::once(PathBuf::from("recording")).chain(numbered);
    names.find(|name| name.symlink_metadata().is_err()).unwrap_or_default()
}

/// As much memory for events as is usual, but at most a 64th of the machine's for all CPUs together.
fn affordable() -> u64 {
    let found = framewright_lab::record::doctor::Findings::gather();
    (found.memory_kib / 64 / found.cpus.max(1) as u64).clamp(256, BUFFER_KIB)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "is no number of seconds above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use framewright_trace::record::Quality;

    use super::*;

    /// A recording of this machine has other numbers each time, and needs root.
    #[test]
    fn what_was_recorded_is_told() {
        let make = ["make".to_owned(), "CFLAGS=-O2 -g".to_owned()];
        let code = |code: i32| ExitStatus::from_raw(code << 8);
        let full = RecordError::Full("my recording".to_owned());
        let mut told = String::new();
        for (end, command, lost, no_moves) in [
            (End::Command(code(0)), &make[..], (0, 0), ""),
            (End::Command(code(7)), &make, (12_345, 2), "this kernel has no kprobes"),
            (End::Interrupted(Some(code(130))), &make, (0, 1), ""),
            (End::Time, &make, (0, 0), ""),
            (End::Time, &[], (0, 0), ""),
            (End::Interrupted(None), &[], (0, 0), ""),
            (End::Failed, &make, (0, 0), ""),
            (End::Failed, &[], (0, 0), ""),
        ] {
            let mut by_kind = [0; Kind::COUNT];
            (by_kind[0], by_kind[1]) = (1_275_750, 636_447);
            let quality = Quality { by_kind, lost_events: lost.0, lost_reports: lost.1, ..Quality::default() };
            let (elapsed, no_moves) = (Duration::from_millis(61_250), no_moves.to_owned());
            let warnings = if end == End::Failed { vec![format!("the trace ends early: {full}")] } else { Vec::new() };
            let recording = Recording { quality, end, elapsed, bytes: 5 << 20, no_moves, warnings };
            told += &summary(&recording, command, Path::new("my recording"));
            told += &format!("[{}]\n", end.code());
        }
        insta::assert_snapshot!(told);
    }
}
