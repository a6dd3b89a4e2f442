//! Runs other programs, and turns their failures into errors that name the program.
//!
//! The idea: short programs are run whole, and their standard error is part of the error. Long ones write to a log file
//! while a line on the terminal shows that they go on; if they fail, the error has the log's last lines and its path.
//!
//! Cost: a thread's pipe. Rejected: inheriting the terminal, where thousands of lines hide the one that matters.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

/// Lines of a log that an error shows.
pub const TAIL: usize = 40;

/// Runs a program and returns its standard output.
///
/// # Errors
///
/// The program cannot be started, or fails: then its standard error is in the error.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program whose output goes to a log; `title` and the last line are shown meanwhile.
///
/// Returns the lines that contain `WARNING` or `warning:`.
///
/// # Errors
///
/// The program cannot be started, the log cannot be written, or the program fails.
pub fn logged(command: &mut Command, title: &str, log: &Path) -> Result<Vec<String>> {
    let shown = shown(command);
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write the log {}", log.display()))?;
    writeln!(file, "$ {shown}")?;
    let errors = file.try_clone()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let bar = spinner(title);
    let mut lines = 0_u64;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            writeln!(file, "{line}")?;
            lines += 1;
            bar.set_message(format!("{lines} steps, {}", line.trim()));
        }
    }
    let status = child.wait()?;
    bar.finish_and_clear();
    if !status.success() {
        bail!("{shown}: {status}; the end of {}:\n{}", log.display(), tail(log)?);
    }
    let text = std::fs::read(log)?;
    let text = String::from_utf8_lossy(&text);
    let warns = |line: &&str| line.contains("WARNING") || line.contains("warning:");
    Ok(text.lines().filter(warns).map(str::to_owned).collect())
}

/// A line on the terminal that turns while something goes on; nothing where there is no terminal.
pub fn spinner(title: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar.set_prefix(title.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The last lines of a log.
///
/// # Errors
///
/// The log cannot be read.
pub fn tail(log: &Path) -> Result<String> {
    let file = File::open(log).with_context(|| format!("cannot read the log {}", log.display()))?;
    let mut last = VecDeque::new();
    for line in BufReader::new(file).split(b'\n') {
        if last.len() == TAIL {
            last.pop_front();
        }
        last.push_back(format!("    {}", String::from_utf8_lossy(&line?)));
    }
    Ok(Vec::from(last).join("\n"))
}

/// A command as a shell would take it, for messages.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| {
        let word = word.to_string_lossy();
        if word.contains([' ', ';', '&', '*']) { format!("'{word}'") } else { word.into_owned() }
    });
    quoted.collect::<Vec<_>>().join(" ")
}
