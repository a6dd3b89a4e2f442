//! Runs a guest, reads its console, and says whether the run was sound.
//!
//! The idea: a guest says in lines how it went (linux/guest/init). Nothing else counts as success:
//!
//! | line | meaning |
//! |---|---|
//! | `result NAME VALUE UNIT` | a measured quantity |
//! | `failed REASON` | a check did not hold |
//! | `done` | the task ended |
//! | a line with one of [`BAD`] | the kernel complains |
//!
//! After a bad line the guest runs on for [`GRACE`], so that its report is in the log. Then it is killed. It is killed
//! at the end of the time limit and when the user interrupts the command, too. A run that ends without `done` has failed.
//!
//! Cost: a thread that reads lines. Rejected: the exit status of the machine, which is 0 after many panics.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::unregister;

use crate::process::{shown, spinner, tail};

/// What the kernel writes when something is wrong.
pub const BAD: &[&str] = &[
    "Kernel panic",
    "BUG:",
    "kernel BUG at",
    "Oops:",
    "general protection fault",
    "Bad page",
    "WARNING:",
    "KASAN",
    "INFO: possible",
    "INFO: rcu",
    "INFO: task",
    "list_add corruption",
    "list_del corruption",
    "page allocation failure",
    "invalid opcode",
    "Attempted to kill init",
    // Then the run would measure Linux's own allocator under the preset's name.
    "framewright: off:",
];

/// Complaints of stock kernels: a bad text, and what one of the next lines then has.
///
/// User-Mode Linux of 6.1 walks the map of a new process without a lock, which the checks of RCU report.
pub const EXCUSED: &[(&str, &str)] = &[("WARNING: suspicious RCU usage", "lib/maple_tree.c:")];

/// How soon after a bad line its excuse follows.
const EXCUSE_LINES: u32 = 4;

/// Time that a guest has after a bad line, so that the whole report is written.
pub const GRACE: Duration = Duration::from_secs(2);

/// How often the user's interrupt is looked at: soon enough for a person.
const LOOK: Duration = Duration::from_millis(200);

/// A measured quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What was measured.
    pub name: String,
    /// The number.
    pub value: f64,
    /// The number's unit.
    pub unit: String,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The kernel complained.
    #[error("the kernel says: {0}")]
    Kernel(String),
    /// A check of the guest did not hold.
    #[error("the guest says: {0}")]
    Guest(String),
    /// The time limit was over.
    #[error("no end after {0} s")]
    Late(u64),
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
    /// The machine ended before the guest was done.
    #[error("the machine ended before the guest said `done`")]
    Ended,
}

/// A run that was not sound.
#[derive(Debug, thiserror::Error)]
#[error("{title}: {fault}; the end of {log}:\n{end}", log = log.display())]
pub struct Unsound {
    /// The run's title.
    pub title: String,
    /// What was wrong.
    pub fault: Fault,
    /// The console's log.
    pub log: PathBuf,
    /// The log's last lines.
    pub end: String,
}

/// What the lines of a console say so far.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Measured quantities, in order.
    pub results: Vec<Measured>,
    /// The first fault.
    pub fault: Option<Fault>,
    /// Whether the guest said `done`.
    pub is_done: bool,
    /// Texts that are allowed in otherwise bad lines.
    allowed: Vec<String>,
    /// A bad line that the next lines may excuse, their number, and the text that excuses it.
    waiting: Option<(String, u32, &'static str)>,
}

impl Verdict {
    /// A verdict on no lines; lines with one of `allowed` are not bad.
    pub fn new(allowed: &[String]) -> Verdict {
        Verdict { allowed: allowed.to_vec(), ..Verdict::default() }
    }

    /// Takes a line into account.
    pub fn read(&mut self, line: &str) {
        let line = line.trim_end();
        match self.waiting.take() {
            Some((_, _, excuse)) if line.contains(excuse) => return,
            Some((bad, 0, _)) => self.complain(&bad),
            Some((bad, lines, excuse)) => self.waiting = Some((bad, lines - 1, excuse)),
            None => {}
        }
        if let Some(result) = line.strip_prefix("result ").and_then(measured) {
            self.results.push(result);
        } else if let Some(reason) = line.strip_prefix("failed ") {
            self.fault.get_or_insert_with(|| Fault::Guest(reason.to_owned()));
        } else if line == "done" {
            self.is_done = true;
        } else if BAD.iter().any(|bad| line.contains(bad)) && !self.allowed.iter().any(|text| line.contains(text)) {
            match EXCUSED.iter().find(|(bad, _)| line.contains(bad)) {
                Some((_, excuse)) => self.waiting = Some((line.to_owned(), EXCUSE_LINES, excuse)),
                None => self.complain(line),
            }
        }
    }

    /// Ends the console: a bad line that still waits for an excuse has none.
    pub fn end(&mut self) {
        if let Some((bad, _, _)) = self.waiting.take() {
            self.complain(&bad);
        }
    }

    /// Notes that the kernel complains, unless there is a fault already.
    fn complain(&mut self, line: &str) {
        self.fault.get_or_insert_with(|| Fault::Kernel(line.to_owned()));
    }
}

/// The quantity in `NAME VALUE UNIT`.
fn measured(line: &str) -> Option<Measured> {
    let mut words = line.split_whitespace();
    let (name, value, unit) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    Some(Measured { name: name.to_owned(), value, unit: unit.to_owned() })
}

/// How a guest is run.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// What the terminal shows meanwhile.
    pub title: &'a str,
    /// Where the console goes.
    pub log: PathBuf,
    /// When the guest is killed.
    pub limit: Duration,
    /// Texts that are allowed in otherwise bad lines.
    pub allowed: &'a [String],
    /// Whether the console is shown, too.
    pub echo: bool,
}

impl Run<'_> {
    /// Boots the machine and returns what it measured.
    ///
    /// # Errors
    ///
    /// The machine cannot be started, or the run was not sound: then the console's end and its log are in the error.
    pub fn run(&self, command: &mut Command) -> Result<Vec<Measured>> {
        let verdict = self.verdict(command)?;
        let fault = match (verdict.fault, verdict.is_done) {
            (Some(fault), _) => fault,
            (None, false) => Fault::Ended,
            (None, true) => return Ok(verdict.results),
        };
        let (title, log, end) = (self.title.to_owned(), self.log.clone(), tail(&self.log)?);
        Err(Unsound { title, fault, log, end }.into())
    }

    /// Runs the machine to its end, or kills it.
    fn verdict(&self, command: &mut Command) -> Result<Verdict> {
        let mut log = File::create(&self.log).with_context(|| format!("cannot write {}", self.log.display()))?;
        writeln!(log, "$ {}", shown(command))?;
        let errors = log.try_clone()?;
        // The machine may consist of several processes, which form a group. Its input stays open and empty.
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", shown(command)))?;
        let input = child.stdin.take();
        let (sender, lines) = mpsc::channel();
        let output = child.stdout.take();
        let reader = thread::spawn(move || {
            for line in BufReader::new(output?).split(b'\n') {
                sender.send(String::from_utf8_lossy(&line.ok()?).into_owned()).ok()?;
            }
            Some(())
        });
        let interrupted = Arc::new(AtomicBool::new(false));
        let signals = [SIGINT, SIGTERM].map(|signal| flag::register(signal, Arc::clone(&interrupted)));
        let bar = spinner(self.title);
        let mut verdict = Verdict::new(self.allowed);
        let mut until = Instant::now() + self.limit;
        let mut outcome = loop {
            match lines.recv_timeout(until.saturating_duration_since(Instant::now()).min(LOOK)) {
                Ok(line) => {
                    writeln!(log, "{}", line.trim_end_matches('\r'))?;
                    if self.echo {
                        bar.suspend(|| println!("{}", line.trim_end_matches('\r')));
                    }
                    bar.set_message(line.trim().to_owned());
                    let was_sound = verdict.fault.is_none();
                    verdict.read(&line);
                    if was_sound && matches!(verdict.fault, Some(Fault::Kernel(_))) {
                        until = until.min(Instant::now() + GRACE);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break verdict,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupted.load(Ordering::Relaxed) {
                verdict.fault = Some(Fault::Interrupted);
                break verdict;
            }
            if Instant::now() >= until {
                verdict.fault.get_or_insert(Fault::Late(self.limit.as_secs()));
                break verdict;
            }
        };
        for signal in signals.into_iter().flatten() {
            unregister(signal);
        }
        outcome.end();
        drop(input);
        end(&mut child)?;
        let _ = reader.join();
        bar.finish_and_clear();
        Ok(outcome)
    }
}

/// Kills the machine's group of processes, if it still runs, and waits for its first process.
fn end(child: &mut Child) -> Result<()> {
    // A machine that has closed its output ends by itself, soon.
    for _ in 0..20 {
        if child.try_wait()?.is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // There is nothing left to kill if the machine has ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    Ok(())
}

/// A path for the log of a run in `directory`, which does not exist yet.
///
/// # Errors
///
/// The directory cannot be made.
pub fn new_log(directory: &Path, name: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let number = (1_u32..).find(|number| !directory.join(format!("{name}-{number}.log")).exists());
    Ok(directory.join(format!("{name}-{}.log", number.unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str, allowed: &[String]) -> Verdict {
        let mut verdict = Verdict::new(allowed);
        text.lines().for_each(|line| verdict.read(line));
        verdict.end();
        verdict
    }

    #[test]
    fn every_bad_line_is_found() {
        for bad in BAD {
            let text = format!("[    0.1] up\n[    0.5] {bad} at somewhere\nresult a 1 s\ndone\n");
            let fault = verdict(&text, &[]).fault;
            assert_eq!(fault, Some(Fault::Kernel(format!("[    0.5] {bad} at somewhere"))), "{bad}");
            assert_eq!(verdict(&text, &["somewhere".to_owned()]).fault, None, "{bad}");
        }
        assert_eq!(verdict("failed oom: x\ndone", &[]).fault, Some(Fault::Guest("oom: x".to_owned())));
    }

    #[test]
    fn a_known_complaint_is_excused_by_what_follows() {
        let bad = "[1] WARNING: suspicious RCU usage";
        let fault = |text: &str| verdict(text, &[]).fault;
        assert_eq!(fault(&format!("{bad}\nx\n[1] lib/maple_tree.c:860 suspicious\ndone")), None);
        let unexcused = Some(Fault::Kernel(bad.to_owned()));
        assert_eq!(fault(&format!("{bad}\nx\n[1] mm/page_alloc.c:8 suspicious\ndone")), unexcused);
        assert_eq!(fault(&format!("{bad}\n1\n2\n3\n4\n5\n[1] lib/maple_tree.c:860\n")), unexcused);
        assert_eq!(fault(&format!("{bad}\nBUG: x\nlib/maple_tree.c:8")), Some(Fault::Kernel("BUG: x".to_owned())));
    }

    #[test]
    fn sound_lines_have_no_fault() {
        let text = "Kernel command line: panic=-1\nOut of memory: Killed process 67\r\n\
            result a 1.5 s\r\nresult b x s\r\ndone\r\n";
        let verdict = verdict(text, &[]);
        assert_eq!(verdict.fault, None);
        assert!(verdict.is_done);
        let wanted = Measured { name: "a".to_owned(), value: 1.5, unit: "s".to_owned() };
        assert_eq!(verdict.results, [wanted]);
    }

    fn run(script: &str, limit: Duration) -> Result<Vec<Measured>> {
        let directory = tempfile::tempdir()?;
        let log = new_log(directory.path(), "test")?;
        let run = Run { title: "a shell", log, limit, allowed: &[], echo: false };
        run.run(Command::new("sh").arg("-c").arg(script))
    }

    #[test]
    fn runs_end() {
        let long = Duration::from_secs(60);
        assert_eq!(run("echo result a 1 s; echo done", long).expect("a result").len(), 1);
        let fault = |script: &str, limit: Duration| {
            let error = run(script, limit).expect_err(script);
            error.downcast_ref::<Unsound>().map(|unsound| unsound.fault.clone())
        };
        assert_eq!(fault("echo up", long), Some(Fault::Ended));
        assert_eq!(fault("echo up; sleep 60 & sleep 60", Duration::from_millis(100)), Some(Fault::Late(0)));
        assert_eq!(fault("echo BUG: x; sleep 60; echo done", long), Some(Fault::Kernel("BUG: x".to_owned())));
        let shown = format!("{:#}", run("echo first; echo BUG: x", long).expect_err("a bug"));
        assert!(shown.starts_with("a shell: the kernel says: BUG: x; the end of /"), "{shown}");
        assert!(shown.ends_with("    first\n    BUG: x"), "{shown}");
    }
}
