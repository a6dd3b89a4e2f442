//! One test in a process of its own, with limits.
//!
//! The limit is of processor time, which does not depend on what else the machine does. A test that waits for ever uses
//! none, so a much larger limit of real time ends it too. A mutant that takes memory without end is ended by its size.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::copy::{Program, Result};

/// Ticks of `/proc/PID/stat` a second: Linux has shown 100 on every architecture since 2.6.
const TICKS: f64 = 100.0;

/// Pages of 4 KiB that a test may have in memory: 4 GiB.
const MOST_PAGES: u64 = 1 << 20;

/// Least limit in seconds: a machine's hiccup must not count as a kill.
const LEAST_LIMIT: f64 = 3.0;

/// What came of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    TimedOut,
}

/// Returns the command that runs a program with these arguments.
///
/// The kernel ends it after about `limit` processor seconds, even if this tool is gone by then.
pub(crate) fn command(program: &Program, arguments: &[&str], limit: f64) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -t $0; exec \"$@\"", &format!("{:.0}", limit.ceil() + 2.0)])
        .arg(&program.path)
        .args(arguments)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("INSTA_UPDATE", "no")
        .env("PROPTEST_RNG_SEED", "1")
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .env("FRAMEWRIGHT_SHRINK", "0")
        .env("RUST_BACKTRACE", "0")
        .env_remove("MUTANT")
        .env_remove("MUTANTS_REACHED")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command
}

/// Returns the processor seconds after which a test hangs that usually takes `usual`.
pub(crate) fn limit(usual: f64) -> f64 {
    LEAST_LIMIT.max(10.0 * usual)
}

/// Runs one test for at most `limit` processor seconds; `variable` is set.
///
/// Returns the outcome and about how many processor seconds it took.
pub(crate) fn run(program: &Program, test: &str, variable: (&str, &str), limit: f64) -> Result<(Outcome, f64)> {
    let begin = Instant::now();
    let mut child = command(program, &["--exact", test, "--test-threads=1"], limit)
        .env(variable.0, variable.1)
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}", program.path.display()))?;
    let mut pause = Duration::from_millis(1);
    let mut used = 0.0;
    loop {
        if let Some(status) = child.try_wait()? {
            // Whatever it started and left.
            end_group(&child);
            let outcome = match status.signal() {
                // By `command`'s limit, between two looks.
                Some(number) if number == Signal::KILL.as_raw() => Outcome::TimedOut,
                _ if status.success() => Outcome::Passed,
                _ => Outcome::Failed,
            };
            // After the last look it ran for a pause at most. What its children used does not show, but that it waited.
            let real = begin.elapsed().as_secs_f64();
            return Ok((outcome, real.min(used + pause.as_secs_f64()).max(real / 4.0)));
        }
        let real = begin.elapsed().as_secs_f64();
        let (seconds, pages) = usage(&child);
        used = seconds;
        if used > limit || real > 10.0 * limit || pages > MOST_PAGES {
            end_group(&child);
            child.kill()?;
            child.wait()?;
            return Ok((Outcome::TimedOut, used));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn end_group(child: &Child) {
    // It may be gone.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Returns the processor seconds that a process has used, and the pages that it has in memory.
fn usage(child: &Child) -> (f64, u64) {
    let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The name, in parentheses, may have blanks.
    let fields: Vec<u64> =
        text.rsplit(')').next().unwrap_or_default().split(' ').map(|n| n.parse().unwrap_or(0)).collect();
    let field = |number: usize| fields.get(number - 2).copied().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    let seconds = (field(14) + field(15)) as f64 / TICKS;
    (seconds, field(24))
}
