//! The recorded workload: a command, or the machine for a while; and how either ends.
//!
//! Ctrl-C and Ctrl-\ at a terminal reach the command as well as this program, so the command may end by itself. If it
//! has not after a moment, the signal did not reach it, and this program passes it on. SIGTERM and SIGHUP are passed on
//! at once. A signal that this program was started to ignore, as by `nohup`, stays ignored. The recording is kept
//! however it ended.
//!
//! When the time is over, recording stops ([`Workload::wait`]). Then the command is ended with all processes that it
//! started, by SIGKILL if need be ([`Workload::end`]).

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::identity::Identity;
use super::offspring::{self, Process};

/// How often is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long a command has to end by itself when it was interrupted.
const GRACE: Duration = Duration::from_millis(500);
/// How long a command has to end by SIGTERM when the time is over: most service managers give 5 to 90 s, and here
/// nothing is waited for but its end.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The signals that ask a program to end, noted instead of obeyed.
pub struct Interrupts {
    last: Arc<AtomicUsize>,
    handlers: Vec<SigId>,
}

impl Interrupts {
    /// From now on they are noted, but for those that are ignored.
    ///
    /// # Errors
    /// The system refused.
    pub fn note() -> io::Result<Interrupts> {
        let last = Arc::new(AtomicUsize::new(0));
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut handlers = Vec::new();
        for signal in noted(&status) {
            handlers.push(signal_hook::flag::register_usize(signal, last.clone(), signal as usize)?);
        }
        Ok(Interrupts { last, handlers })
    }

    /// The last one, if there was one since this was asked.
    fn take(&self) -> Option<Signal> {
        match self.last.swap(0, Ordering::Relaxed) as i32 {
            SIGHUP => Some(Signal::HUP),
            SIGINT => Some(Signal::INT),
            SIGQUIT => Some(Signal::QUIT),
            SIGTERM => Some(Signal::TERM),
            _ => None,
        }
    }
}

/// The signals to note: all that a process with this `/proc/PID/status` does not ignore.
fn noted(status: &str) -> Vec<i32> {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter();
    all.filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.handlers.drain(..).for_each(|handler| {
            signal_hook::low_level::unregister(handler);
        });
    }
}

/// How it came to an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The command ended by itself.
    Command(ExitStatus),
    /// The time was over. The command was ended, if there was one.
    Time,
    /// The user interrupted it, and the command ended so if there was one.
    Interrupted(Option<ExitStatus>),
    /// Pages could not be read or written any more. The command was ended, if there was one.
    Failed,
}

impl End {
    /// The exit code of the command; 0 if there was none, or the time was over; 2 if the recording ended it because it
    /// failed. A signal is a code above 128, as shells have it.
    pub fn code(self) -> u8 {
        let code = |status: ExitStatus| {
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)).try_into().unwrap_or(u8::MAX)
        };
        match self {
            End::Command(status) | End::Interrupted(Some(status)) => code(status),
            End::Time | End::Interrupted(None) => 0,
            End::Failed => 2,
        }
    }
}

/// A command that runs, or nothing.
pub struct Workload(Option<Child>);

impl Workload {
    /// Starts a command, as another user if one is given.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &[String], identity: Option<&Identity>) -> io::Result<Workload> {
        let Some((program, arguments)) = command.split_first() else { return Ok(Workload(None)) };
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(Workload(Some(match identity {
            Some(identity) => identity.start(command)?,
            None => command.spawn()?,
        })))
    }

    /// Waits until the command ends, the time is over or a signal arrives; `look` is called meanwhile, and ends it by
    /// false. If the time is over or `look` ended it, the command still runs.
    ///
    /// # Errors
    /// The command cannot be waited for.
    pub fn wait(
        &mut self,
        duration: Option<Duration>,
        interrupts: &Interrupts,
        look: &mut dyn FnMut() -> bool,
    ) -> io::Result<End> {
        let begin = Instant::now();
        let mut is_interrupted = false;
        // A signal that the command may have received without us, and its time.
        let mut untold: Option<(Signal, Instant)> = None;
        loop {
            let goes_on = look();
            if let Some(status) = self.status()? {
                is_interrupted |= interrupts.take().is_some();
                return Ok(if is_interrupted { End::Interrupted(Some(status)) } else { End::Command(status) });
            }
            if let Some(signal) = interrupts.take() {
                if self.0.is_none() {
                    return Ok(End::Interrupted(None));
                }
                let is_from_terminal = matches!(signal, Signal::INT | Signal::QUIT);
                if is_from_terminal && !is_interrupted {
                    untold = Some((signal, Instant::now()));
                } else {
                    // A second signal is passed on at once.
                    self.send(signal);
                }
                is_interrupted = true;
            }
            if let Some((signal, _)) = untold.take_if(|(_, since)| since.elapsed() > GRACE) {
                self.send(signal);
            }
            if duration.is_some_and(|duration| begin.elapsed() >= duration) {
                return Ok(End::Time);
            }
            if !goes_on {
                return Ok(End::Failed);
            }
            thread::sleep(LOOK);
        }
    }

    /// Ends a command that still runs, and what it started: by SIGTERM, and by SIGKILL if not all have ended after
    /// `patience` or a signal arrives. Returns whether SIGKILL was needed.
    ///
    /// # Errors
    /// The command cannot be waited for.
    pub fn end(
        &mut self,
        patience: Duration,
        interrupts: &Interrupts,
        look: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        let Some(pid) = self.0.as_ref().map(Child::id) else { return Ok(false) };
        if self.status()?.is_some() {
            return Ok(false);
        }
        let below = offspring::below(pid);
        let send = |signal| below.iter().for_each(|process| process.send(signal));
        self.send(Signal::TERM);
        send(Signal::TERM);
        let begin = Instant::now();
        let mut is_killed = false;
        while self.status()?.is_none() || below.iter().any(Process::is_running) {
            look();
            if !is_killed && (begin.elapsed() >= patience || interrupts.take().is_some()) {
                is_killed = true;
                self.send(Signal::KILL);
                send(Signal::KILL);
            }
            thread::sleep(LOOK);
        }
        Ok(is_killed)
    }

    /// How the command ended, if there is one and it has.
    fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        Ok(self.0.as_mut().map(Child::try_wait).transpose()?.flatten())
    }

    fn send(&self, signal: Signal) {
        let pid = self.0.as_ref().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?));
        if let Some(pid) = pid {
            // It may have ended this instant.
            let _ = kill_process(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody() -> Interrupts {
        Interrupts { last: Arc::default(), handlers: Vec::new() }
    }

    fn start(command: &[&str]) -> Workload {
        Workload::start(&command.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), None).unwrap()
    }

    fn run(command: &[&str], duration: Option<Duration>) -> End {
        let mut workload = start(command);
        let end = workload.wait(duration, &nobody(), &mut || true).unwrap();
        workload.end(PATIENCE, &nobody(), &mut || true).unwrap();
        assert!(workload.0.is_none() || workload.status().unwrap().is_some());
        end
    }

    #[test]
    fn commands_end_as_they_do() {
        assert!(matches!(run(&["true"], None), End::Command(_)));
        assert_eq!((run(&["true"], None).code(), run(&["false"], None).code()), (0, 1));
        assert_eq!(run(&["sleep", "1000"], Some(Duration::ZERO)), End::Time);
        assert_eq!(run(&[], Some(Duration::ZERO)).code(), 0);
        assert!(Workload::start(&["no-such-program".to_owned()], None).is_err());
    }

    #[test]
    fn interrupts_end_the_command_and_keep_its_code() {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (signal, code) in [(SIGHUP, 129), (SIGINT, 130), (SIGQUIT, 131), (SIGTERM, 143)] {
            // A shell has what it starts in the background ignore SIGINT, and so would the command.
            if !noted(&status).contains(&signal) {
                eprintln!("SKIPPED: signal {signal}, which whoever started this test has it ignore");
                continue;
            }
            let interrupts = nobody();
            let mut workload = start(&["sleep", "1000"]);
            interrupts.last.store(signal as usize, Ordering::Relaxed);
            let end = workload.wait(None, &interrupts, &mut || true).unwrap();
            assert!(matches!(end, End::Interrupted(Some(_))));
            assert_eq!(end.code(), code);
        }
        let interrupts = nobody();
        interrupts.last.store(SIGINT as usize, Ordering::Relaxed);
        assert_eq!(start(&[]).wait(None, &interrupts, &mut || true).unwrap(), End::Interrupted(None));
        assert_eq!(start(&[]).wait(None, &interrupts, &mut || false).unwrap(), End::Failed);
    }

    /// A command that hears nothing is killed, and everybody is looked after until then.
    #[test]
    fn the_deaf_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let is_deaf = folder.path().join("deaf");
        let script = format!("trap '' HUP INT QUIT TERM; touch {}; while :; do sleep 0.1; done", is_deaf.display());
        let mut workload = start(&["sh", "-c", &script]);
        let end = workload.wait(None, &nobody(), &mut || !is_deaf.exists()).unwrap();
        assert_eq!(end, End::Failed);
        let mut looks = 0;
        let killed = workload.end(Duration::ZERO, &nobody(), &mut || {
            looks += 1;
            true
        });
        assert!(killed.unwrap() && workload.status().unwrap().is_some() && looks > 0);
        assert!(!start(&["true"]).end(PATIENCE, &nobody(), &mut || true).is_ok_and(|killed| killed));
    }

    /// A shell does not end what it waits for.
    #[test]
    fn all_that_a_command_started_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let deaf = format!("trap '' TERM; touch {}; while :; do sleep 0.1; done", two.display());
        let script = format!("(touch {}; sleep 1000) | sh -c \"{deaf}\"; true", one.display());
        for patience in [Duration::ZERO, Duration::from_millis(100)] {
            let mut workload = start(&["sh", "-c", &script]);
            workload.wait(None, &nobody(), &mut || !(one.exists() && two.exists())).unwrap();
            let below = offspring::below(workload.0.as_ref().unwrap().id());
            assert!(below.len() >= 3, "{below:?}");
            assert!(workload.end(patience, &nobody(), &mut || true).unwrap());
            assert!(!below.iter().any(Process::is_running), "{below:?}");
            [&one, &two].iter().for_each(|file| fs::remove_file(file).unwrap());
        }
    }

    #[test]
    fn what_is_ignored_is_not_noted() {
        let all = vec![SIGHUP, SIGINT, SIGQUIT, SIGTERM];
        let table = [
            ("", all.clone()),
            ("SigBlk:\tffff\nSigIgn:\t0000000000000000\n", all),
            // The signals that nohup ignores, and those that a shell ignores for background jobs.
            ("SigIgn:\t0000000000000001\n", vec![SIGINT, SIGQUIT, SIGTERM]),
            ("SigIgn:\t0000000000001006\nSigCgt:\tffff\n", vec![SIGHUP, SIGTERM]),
        ];
        for (status, signals) in table {
            assert_eq!(noted(status), signals, "{status}");
        }
    }
}
