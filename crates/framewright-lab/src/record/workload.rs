//! What is recorded: a command, or the machine for a while; and how both come to their end.
//!
//! Ctrl-C at a terminal reaches the command as well as us, so it is left to the command to end; if it has not after a
//! moment, it was not told, and is told by us. The recording is kept however it ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};

/// How often is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long a command has to end by itself when it was interrupted.
const GRACE: Duration = Duration::from_millis(500);

/// SIGINT and SIGTERM, noted instead of obeyed.
pub struct Interrupts {
    last: Arc<AtomicUsize>,
    handlers: Vec<SigId>,
}

impl Interrupts {
    /// From now on they are noted.
    ///
    /// # Errors
    /// The system refused.
    pub fn note() -> io::Result<Interrupts> {
        let last = Arc::new(AtomicUsize::new(0));
        let mut handlers = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            handlers.push(signal_hook::flag::register_usize(signal, last.clone(), signal as usize)?);
        }
        Ok(Interrupts { last, handlers })
    }

    /// The last one, if there was one since this was asked.
    fn take(&self) -> Option<Signal> {
        match self.last.swap(0, Ordering::Relaxed) as i32 {
            SIGINT => Some(Signal::INT),
            SIGTERM => Some(Signal::TERM),
            _ => None,
        }
    }

    /// Whether there was one.
    pub fn any(&self) -> bool {
        self.last.load(Ordering::Relaxed) != 0
    }
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
    /// Pages could not be read or written any more.
    Failed,
}

impl End {
    /// The exit code of the command; 0 if there was none. A signal is a code above 128, as shells have it.
    pub fn code(self) -> u8 {
        let code = |status: ExitStatus| {
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)).try_into().unwrap_or(u8::MAX)
        };
        match self {
            End::Command(status) | End::Interrupted(Some(status)) => code(status),
            End::Time | End::Interrupted(None) | End::Failed => 0,
        }
    }
}

/// Starts a command.
///
/// # Errors
/// It cannot be started.
pub fn start(command: &[String]) -> io::Result<Option<Child>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    Command::new(program).args(arguments).spawn().map(Some)
}

/// Waits until the command ends, the time is over or somebody interrupts; `look` is called meanwhile, and ends it by
/// false.
///
/// # Errors
/// The command cannot be waited for.
pub fn wait(
    child: Option<Child>,
    duration: Option<Duration>,
    interrupts: &Interrupts,
    look: &mut dyn FnMut() -> bool,
) -> io::Result<End> {
    let mut child = child;
    let begin = Instant::now();
    loop {
        let going_on = look();
        if let Some(status) = child.as_mut().map(Child::try_wait).transpose()?.flatten() {
            return Ok(interrupts.take().map_or(End::Command(status), |_| End::Interrupted(Some(status))));
        }
        if let Some(signal) = interrupts.take() {
            let status = child.as_mut().map(|child| interrupted(child, signal, interrupts, look)).transpose()?;
            return Ok(End::Interrupted(status));
        }
        let over = duration.is_some_and(|duration| begin.elapsed() >= duration);
        if over || !going_on {
            if let Some(child) = &mut child {
                interrupted(child, Signal::TERM, interrupts, &mut || true)?;
            }
            return Ok(if going_on { End::Time } else { End::Failed });
        }
        thread::sleep(LOOK);
    }
}

/// Waits until a command that was interrupted has ended. Each further signal is handed on at once.
fn interrupted(
    child: &mut Child,
    signal: Signal,
    interrupts: &Interrupts,
    look: &mut dyn FnMut() -> bool,
) -> io::Result<ExitStatus> {
    let begin = Instant::now();
    // SIGTERM comes to us alone.
    let mut told = signal == Signal::TERM;
    if told {
        send(child, signal);
    }
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if !told && begin.elapsed() > GRACE {
            told = true;
            send(child, signal);
        }
        if let Some(signal) = interrupts.take() {
            send(child, signal);
        }
        look();
        thread::sleep(LOOK);
    }
}

fn send(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended this instant.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, duration: Option<Duration>) -> End {
        let interrupts = Interrupts { last: Arc::default(), handlers: Vec::new() };
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        wait(start(&command).unwrap(), duration, &interrupts, &mut || true).unwrap()
    }

    #[test]
    fn commands_end_as_they_do() {
        assert!(matches!(run("true", None), End::Command(_)));
        assert_eq!((run("true", None).code(), run("false", None).code()), (0, 1));
        assert_eq!(run("sleep 1000", Some(Duration::ZERO)), End::Time);
        assert_eq!(run("", Some(Duration::ZERO)).code(), 0);
        assert!(start(&["no-such-program".to_owned()]).is_err());
    }

    #[test]
    fn interrupts_end_the_command_and_keep_its_code() {
        // A shell has what it starts in the background ignore SIGINT, and so would the command.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        for (signal, code) in [(SIGINT, 130), (SIGTERM, 143)] {
            if ignored >> (signal - 1) & 1 != 0 {
                eprintln!("SKIPPED: signal {signal}, which whoever started this test has it ignore");
                continue;
            }
            let interrupts = Interrupts { last: Arc::default(), handlers: Vec::new() };
            let child = start(&["sleep".to_owned(), "1000".to_owned()]).unwrap();
            interrupts.last.store(signal as usize, Ordering::Relaxed);
            let end = wait(child, None, &interrupts, &mut || true).unwrap();
            assert!(matches!(end, End::Interrupted(Some(_))));
            assert_eq!(end.code(), code);
        }
        let interrupts = Interrupts { last: Arc::new(AtomicUsize::new(SIGINT as usize)), handlers: Vec::new() };
        assert_eq!(wait(None, None, &interrupts, &mut || true).unwrap(), End::Interrupted(None));
        assert_eq!(wait(None, None, &interrupts, &mut || false).unwrap(), End::Failed);
    }
}
