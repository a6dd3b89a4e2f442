//! A watchdog outside of the process: ends a run in which no thread has made a turn for a time, and says why.
//!
//! The parent starts this program again as its child, and reads the child's memory through `/proc/PID/mem`. So it sees
//! counters and locks as they are, also when the child is stopped or every thread of it waits.
//!
//! | step | from where |
//! |---|---|
//! | turns of each worker | a static table, whose address the child tells at the start |
//! | locks that are held, and lists that a CPU has or claims | the words that `Allocator::fields` names, told with each arena |
//! | state and place of each thread in the kernel | `/proc/PID/task` |
//! | stack of each thread | a signal, whose handler writes it to the parent; none if the process is stopped |
//!
//! The holder of a lock is the thread whose stack is inside of a section: a lock has no room for a name.
//!
//! The handler allocates, which no handler should. Nothing is lost by it: the process is about to be killed, and the
//! parent waits for each stack for a bounded time.
//!
//! Rejected: a watching thread in the process, which a stopped process stops too; and a debugger, which few machines
//! have.
#![allow(dead_code, reason = "every program uses its own part")]

use std::backtrace::Backtrace;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use framewright::Allocator;
use framewright_rt::Native;

/// No turn of this length is one that was planned.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// What the child has in its environment.
const WATCHED: &str = "FRAMEWRIGHT_WATCHED";
/// Counters of turns; workers beyond share them.
const COUNTERS: usize = 64;
/// How often the parent looks, and how long it waits for a stack.
const LOOK: Duration = Duration::from_millis(200);
const STACK: Duration = Duration::from_secs(2);

static TURNS: [AtomicU64; COUNTERS] = [const { AtomicU64::new(0) }; COUNTERS];
/// The parent's end, in the child.
static PARENT: OnceLock<UnixStream> = OnceLock::new();

/// Counts a turn of a worker, or of what drives them all.
pub(crate) fn beat(worker: Option<usize>) {
    TURNS[worker.map_or(COUNTERS - 1, |worker| worker % (COUNTERS - 1))].fetch_add(1, Relaxed);
}

/// Whether this process is a child that is watched. The first call tells the parent where the counters are.
pub(crate) fn is_watched() -> bool {
    if std::env::var_os(WATCHED).is_none() {
        return false;
    }
    PARENT.get_or_init(|| {
        let parent = io::stdin().as_fd().try_clone_to_owned().expect("the standard input is open");
        let handler: extern "C" fn(i32) = tell_stack;
        // SAFETY: the handler uses what any thread may use. It may deadlock, and the parent kills this process anyway.
        unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
        UnixStream::from(parent)
    });
    tell(&format!("turns {} 8 turns\n", TURNS.as_ptr().addr()));
    true
}

/// Tells the parent where the locks of an allocator are; those of one before are forgotten.
pub(crate) fn show(pages: &Allocator<'_, Native>) {
    if PARENT.get().is_none() {
        return;
    }
    let mut all = "arena 0 0 arena\n".to_owned();
    pages.fields(&mut |field| {
        let name = field.name.to_string();
        // `lock.next` and the like; no word of a pageblock.
        let is_lock = name.starts_with("lock.") || matches!(&*name, "busy" | "claim");
        if is_lock && field.count == 1 {
            let _ = writeln!(all, "word {} {} {}: {name}", field.address, field.size, field.record);
        }
    });
    tell(&all);
}

fn tell(text: &str) {
    let _ = PARENT.get().map(|mut parent| parent.write_all(text.as_bytes()));
}

extern "C" fn tell_stack(_: i32) {
    let stack = Backtrace::force_capture().to_string();
    let lines = stack.lines().filter(|line| !line.trim_start().starts_with("at "));
    tell(&lines.fold(String::new(), |all, line| all + "stack 0 0 " + line + "\n"));
    tell("end 0 0 end\n");
}

/// A word of the child's memory.
struct Place {
    address: u64,
    size: usize,
    name: String,
}

/// The child, as the parent sees it.
struct Watched {
    child: Child,
    told: BufReader<UnixStream>,
    /// Half a line.
    rest: Vec<u8>,
    turns: Option<u64>,
    words: Vec<Place>,
    stack: String,
    is_told: bool,
}

/// Runs a program and watches it.
///
/// # Errors
/// The program cannot be started, or made no turn for `limit`: then the text says all that is known.
pub(crate) fn watch(mut program: Command, limit: Duration) -> Result<ExitStatus, String> {
    let (child, told) = start(&mut program).map_err(|error| format!("cannot start {program:?}: {error}"))?;
    // It has another copy of the child's end.
    drop(program);
    let words = Vec::new();
    let mut watched =
        Watched { child, told, rest: Vec::new(), turns: None, words, stack: String::new(), is_told: false };
    let (mut last, mut since) = (None, Instant::now());
    loop {
        watched.hear();
        match watched.child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => return Err(format!("cannot wait for the child: {error}")),
        }
        let turns = watched.turns().map(|turns| turns.iter().sum::<u64>());
        if turns != last {
            (last, since) = (turns, Instant::now());
        } else if since.elapsed() >= limit {
            let told = watched.describe(limit);
            let _ = watched.child.kill();
            let _ = watched.child.wait();
            return Err(told);
        }
    }
}

fn start(program: &mut Command) -> io::Result<(Child, BufReader<UnixStream>)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(LOOK))?;
    let child = program.env(WATCHED, "1").stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
    Ok((child, BufReader::new(ours)))
}

impl Watched {
    /// Takes what the child tells, for one look at most.
    fn hear(&mut self) {
        let begin = Instant::now();
        while begin.elapsed() < LOOK {
            match self.told.read_until(b'\n', &mut self.rest) {
                // It has ended, which is seen next.
                Ok(0) => return std::thread::sleep(LOOK / 10),
                Ok(_) => {
                    let line = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
                    self.take(line.trim_end_matches('\n'));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, line: &str) {
        let mut parts = line.splitn(4, ' ');
        let kind = parts.next().unwrap_or_default();
        let mut number = || parts.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let (address, size) = (number(), number() as usize);
        let name = parts.next().unwrap_or_default().to_owned();
        match kind {
            "turns" => self.turns = Some(address),
            "arena" => self.words.clear(),
            "word" => self.words.push(Place { address, size, name }),
            "stack" => self.stack += &format!("    {name}\n"),
            "end" => self.is_told = true,
            _ => {}
        }
    }

    fn read(&self, address: u64, size: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        let memory = File::open(format!("/proc/{}/mem", self.child.id())).ok()?;
        memory.read_exact_at(bytes.get_mut(..size)?, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn turns(&self) -> Option<Vec<u64>> {
        let start = self.turns?;
        (0..COUNTERS as u64).map(|index| self.read(start + 8 * index, 8)).collect()
    }

    /// Says all that is known of a child that stands still.
    fn describe(&mut self, limit: Duration) -> String {
        let mut told = format!("stalled: no turn for {} s\nturns: {:?}\n", limit.as_secs(), self.turns());
        told += &self.locks();
        let pid = self.child.id();
        let mut tasks: Vec<u32> = fs::read_dir(format!("/proc/{pid}/task"))
            .map(|all| all.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect())
            .unwrap_or_default();
        tasks.sort_unstable();
        for task in tasks {
            let file = |name| fs::read_to_string(format!("/proc/{pid}/task/{task}/{name}")).unwrap_or_default();
            let stat = file("stat");
            let state = stat.rsplit_once(") ").map_or("?", |(_, rest)| &rest[..1]);
            let (name, place, call) = (file("comm"), file("wchan"), file("syscall"));
            let _ = writeln!(told, "thread {task} {}: state {state}, in {place}, call {}", name.trim(), call.trim());
            file("stack").lines().for_each(|line| _ = writeln!(told, "    kernel {line}"));
            told += &self.stack_of(pid, task);
        }
        told
    }

    /// Names the locks that are held and the lists that are in use.
    fn locks(&self) -> String {
        let value = |place: &Place| self.read(place.address, place.size);
        let mut told = String::new();
        for place in &self.words {
            let now = value(place);
            let free = match place.name.strip_suffix("next") {
                // A ticket lock is free if the next ticket is served.
                Some(lock) => {
                    let serving = self.words.iter().find(|other| other.name == format!("{lock}serving"));
                    serving.and_then(value)
                }
                None if place.name.ends_with("serving") => now,
                // A queued lock: as many turns served as drawn, and no reader.
                None if place.name.ends_with("turns") => now.filter(|turns| is_free(*turns)),
                None => Some(0),
            };
            if now != free {
                let is = |value: Option<u64>| value.map_or("unreadable".to_owned(), |value| format!("{value:#x}"));
                let _ = writeln!(told, "held: {} is {}, and free would be {}", place.name, is(now), is(free));
            }
        }
        if told.is_empty() { format!("none of {} locks is held\n", self.words.len()) } else { told }
    }

    fn stack_of(&mut self, pid: u32, task: u32) -> String {
        (self.stack, self.is_told) = (String::new(), false);
        // SAFETY: sends a signal to a thread of the child, which has not been waited for.
        unsafe { libc::syscall(libc::SYS_tgkill, pid, task, libc::SIGUSR2) };
        let begin = Instant::now();
        while !self.is_told && begin.elapsed() < STACK {
            self.hear();
        }
        let end = if self.is_told { "" } else { "    no stack: the thread is stopped, or blocks the signal\n" };
        std::mem::take(&mut self.stack) + end
    }
}

/// Whether a word of `queued_lock.rs` is that of a free lock: the upper quarters are equal, the lower half is 0.
fn is_free(turns: u64) -> bool {
    turns >> 48 == turns >> 32 & 0xffff && turns as u32 == 0
}

/// Does the work of a test in a process of its own, which is ended if no turn is made in it.
///
/// Tests have a thread each, with their name. If all tests share the main thread, the work is done there, unwatched.
pub(crate) fn guarded(work: impl FnOnce()) {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name != "main" && !is_watched() => {
            let ended = again(Some(name)).map_err(|error| error.to_string()).and_then(|test| watch(test, LIMIT));
            let status = ended.unwrap_or_else(|told| panic!("{told}"));
            assert!(status.success(), "{name} ended with {status}");
        }
        _ => work(),
    }
}

/// This program, to be started once more with the same arguments; with `test`, a program of tests with this one alone.
pub(crate) fn again(test: Option<&str>) -> io::Result<Command> {
    let mut program = Command::new(std::env::current_exe()?);
    match test {
        Some(name) => program.args([name, "--exact", "--nocapture"]).stdout(Stdio::null()),
        None => program.args(std::env::args_os().skip(1)),
    };
    Ok(program)
}
