//! Whether this machine can be recorded, and how to mend it where it cannot.
//!
//! [`Findings`] holds the facts as plain data, so that a test can describe any machine; [`Findings::gather`] looks at
//! this one. [`examine`] turns them into [`DoctorCheck`]s, in the order in which they are best mended: without root,
//! the later ones cannot be examined at all.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use framewright_table::ranges;
use serde::Serialize;

use super::tracefs::{self, EVENTS, Wanted};

/// The facts about a machine. A fact that cannot be seen is `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Version of the kernel.
    pub kernel: String,
    /// Number of CPUs that are online: each has a buffer, whether we may run on it or not.
    pub cpus: usize,
    /// Memory, in KiB.
    pub memory_kib: u64,
    /// The effective user.
    pub uid: u32,
    /// Whether the process may administer the system (`CAP_SYS_ADMIN`).
    pub may_administer: bool,
    /// Where tracefs is mounted.
    pub tracefs: Option<PathBuf>,
    /// Whether instances can be made in it.
    pub instances: bool,
    /// Whether it has a clock that all CPUs share.
    pub mono_clock: bool,
    /// Whether each of [`EVENTS`] is there.
    pub events: Option<Vec<bool>>,
    /// Why there is no probe for page moves; empty if there is one.
    pub no_probe: &'static str,
    /// Files of the state that can be read.
    pub readable: Vec<&'static str>,
    /// How the kernel is locked down, if it says so.
    pub lockdown: Option<String>,
    /// `kernel.perf_event_paranoid`, which limits the users of perf.
    pub perf: Option<String>,
    /// When huge pages are used.
    pub huge_pages: Option<String>,
    /// Instances of recorders that are no more.
    pub left_over: Vec<PathBuf>,
    /// Their probes.
    pub left_probes: Vec<String>,
}

/// The files that the state at the start comes from, and what is lost without each; nothing if it cannot do without.
const STATE: [(&str, &str); 4] = [
    ("/proc/zoneinfo", ""),
    ("/proc/buddyinfo", "the start cannot be checked"),
    ("/proc/pagetypeinfo", "types of pageblocks are not known"),
    ("/proc/kpageflags", "what is in use at the start is guessed"),
];

/// Advice for a kernel that hides its events from all users.
const TRACING: &str = "needs a kernel with CONFIG_TRACING=y that is not locked down";
/// Advice for a kernel that hides something from ordinary users.
const ROOT_ALONE: &str = "is for root alone: run the command with sudo";
/// Advice for root that may not administer the system.
const CONTAINER: &str = "run it on the host, or in a container that is --privileged";

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
    /// As it should be.
    Ok,
    /// Not there; recording works, but tells less.
    Without,
    /// Not there, and recording does not work.
    Missing,
    /// Not a matter of good or bad.
    Info,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DoctorCheck {
    /// The subject.
    pub name: String,
    /// How it came out.
    pub verdict: CheckVerdict,
    /// The finding.
    pub found: String,
    /// The remedy; empty if none is needed.
    pub remedy: String,
}

impl Findings {
    /// Looks at this machine.
    pub fn gather() -> Findings {
        let text = |path: &str| fs::read_to_string(path).ok();
        let line = |path: &str| text(path).map(|text| text.trim().to_owned());
        let status = text("/proc/self/status").unwrap_or_default();
        let status = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let capabilities = status("CapEff:").and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(0);
        let memory = text("/proc/meminfo").unwrap_or_default();
        let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
        let tracefs = tracefs::find(&text("/proc/mounts").unwrap_or_default());
        let inside = tracefs.as_deref().filter(|path| fs::read_dir(path.join("events")).is_ok());
        let has = |path: &Path, event: &Wanted| path.join("events").join(event.name).exists();
        Findings {
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            cpus: line("/sys/devices/system/cpu/online")
                .and_then(|list| counted(&list))
                .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into)),
            memory_kib: memory.and_then(|memory| memory.parse().ok()).unwrap_or(0),
            uid: rustix::process::geteuid().as_raw(),
            may_administer: capabilities >> 21 & 1 == 1,
            instances: inside.is_some_and(|path| path.join("instances").is_dir()),
            mono_clock: inside
                .and_then(|path| fs::read_to_string(path.join("trace_clock")).ok())
                .is_some_and(|clocks| clocks.split_whitespace().any(|clock| clock.trim_matches(['[', ']']) == "mono")),
            events: inside.map(|path| EVENTS.iter().map(|event| has(path, event)).collect()),
            no_probe: inside.map_or("", |path| tracefs::probe(path).err().unwrap_or("")),
            readable: STATE.iter().map(|(path, _)| *path).filter(|path| can_read(path)).collect(),
            lockdown: line("/sys/kernel/security/lockdown"),
            perf: line("/proc/sys/kernel/perf_event_paranoid"),
            huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled"),
            left_over: inside.map(tracefs::left_over).unwrap_or_default(),
            left_probes: inside.map(tracefs::left_over_probes).unwrap_or_default(),
            tracefs,
        }
    }

    /// Returns what a command begins with that root alone may run; nothing if this is root.
    fn sudo(&self) -> &'static str {
        if self.uid == 0 { "" } else { "sudo " }
    }

    /// Returns the advice on something that the kernel shows to those alone who may administer the system.
    fn hidden(&self) -> &'static str {
        if self.uid == 0 { CONTAINER } else { ROOT_ALONE }
    }
}

/// The number of numbers in a list as `0-3,8`.
fn counted(list: &str) -> Option<usize> {
    let all = ranges::<u32>(list).filter(|all| all.iter().all(|range| !range.is_empty()))?;
    (!all.is_empty()).then(|| all.into_iter().map(Iterator::count).sum())
}

/// Whether the first bytes of a file can be read; that it can be opened says little in `/proc`.
fn can_read(path: &str) -> bool {
    use std::io::Read;
    fs::File::open(path).and_then(|mut file| file.read(&mut [0; 8])).is_ok_and(|bytes| bytes != 0)
}

/// Whether recording would work.
pub fn would_work(checks: &[DoctorCheck]) -> bool {
    checks.iter().all(|check| check.verdict != CheckVerdict::Missing)
}

/// The checks of a machine.
pub fn examine(found: &Findings) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    let mut add = |name: &str, verdict, found: String, remedy: &str| {
        let remedy = if verdict == CheckVerdict::Ok { "" } else { remedy };
        checks.push(DoctorCheck { name: name.to_owned(), verdict, found, remedy: remedy.to_owned() });
    };
    let or_missing = |ok| if ok { CheckVerdict::Ok } else { CheckVerdict::Missing };
    let memory = format!("{}.{} GiB", found.memory_kib >> 20, (found.memory_kib >> 10 & 1023) * 10 / 1024);
    add("machine", CheckVerdict::Info, format!("Linux {}, {} CPUs, {memory}", found.kernel, found.cpus), "");
    let root = match (found.uid, found.may_administer) {
        (0, true) => "yes".to_owned(),
        (0, false) => "user 0, but without CAP_SYS_ADMIN, as in a container".to_owned(),
        (uid, true) => format!("user {uid} with CAP_SYS_ADMIN"),
        (uid, false) => format!("no: user {uid}"),
    };
    let remedy = if found.uid == 0 { CONTAINER } else { "run the command with sudo" };
    add("root", or_missing(found.may_administer), root, remedy);
    let place = found.tracefs.as_ref().map_or("not mounted".to_owned(), |path| path.display().to_string());
    let remedy = format!("{}mount -t tracefs nodev /sys/kernel/tracing", found.sudo());
    add("tracefs", or_missing(found.tracefs.is_some()), place, &remedy);
    if let (Some(_), Some(events)) = (&found.tracefs, &found.events) {
        add("own instance", or_missing(found.instances), there(found.instances), TRACING);
        let remedy = "needs Linux 3.17 or later";
        add("clock mono", or_missing(found.mono_clock), there(found.mono_clock), remedy);
        for (event, &is_there) in EVENTS.iter().zip(events) {
            let (verdict, told) = judged(is_there, "there", "not in this kernel", event.without);
            add(&event.name.replace('/', ":"), verdict, told, "needs a kernel with CONFIG_EVENT_TRACING=y");
        }
        let (verdict, told) = judged(found.no_probe.is_empty(), "there", found.no_probe, "page moves are not recorded");
        add("kprobes", verdict, told, "needs x86-64 and a kernel with CONFIG_KPROBE_EVENTS=y");
    } else if found.tracefs.is_some() {
        // A kernel that is locked down shows an empty folder.
        let remedy = if found.may_administer { TRACING } else { found.hidden() };
        add("events", CheckVerdict::Missing, "cannot be seen".to_owned(), remedy);
    }
    state(found, &mut add);
    settings(found, &mut add);
    checks
}

/// The files of the state.
fn state(found: &Findings, add: &mut impl FnMut(&str, CheckVerdict, String, &str)) {
    for (path, without) in STATE {
        let (verdict, told) = judged(found.readable.contains(&path), "readable", "not readable", without);
        let remedy = match path {
            _ if !found.may_administer => found.hidden(),
            "/proc/kpageflags" => "needs a kernel with CONFIG_PROC_PAGE_MONITOR=y",
            _ => "is /proc mounted?",
        };
        add(path, verdict, told, remedy);
    }
}

/// Facts that are neither good nor bad, and leftovers of others.
fn settings(found: &Findings, add: &mut impl FnMut(&str, CheckVerdict, String, &str)) {
    let known =
        [("lockdown", &found.lockdown), ("perf_event_paranoid", &found.perf), ("huge pages", &found.huge_pages)];
    for (name, value) in known {
        if let Some(value) = value {
            add(name, CheckVerdict::Info, value.clone(), "");
        }
    }
    for path in &found.left_over {
        let remedy = format!("{}rmdir {}", found.sudo(), path.display());
        add("left over", CheckVerdict::Without, "a recorder died and left its instance behind".to_owned(), &remedy);
    }
    let place = found.tracefs.as_deref().unwrap_or(Path::new("")).join(tracefs::PROBES);
    for event in &found.left_probes {
        let remedy = format!("echo -:{event} | {}tee -a {}", found.sudo(), place.display());
        add("left over", CheckVerdict::Without, "a recorder died and left its probe behind".to_owned(), &remedy);
    }
}

fn there(is_there: bool) -> String {
    if is_there { "there" } else { "not there" }.to_owned()
}

/// The verdict on something, and how it is: `there`, or `why` it is not and what a recording is then without, if it can
/// be without it.
fn judged(is_there: bool, there: &str, why: &str, without: &str) -> (CheckVerdict, String) {
    match (is_there, without) {
        (true, _) => (CheckVerdict::Ok, there.to_owned()),
        (false, "") => (CheckVerdict::Missing, why.to_owned()),
        (false, _) => (CheckVerdict::Without, format!("{why}: {without}")),
    }
}

/// All checks, and what follows from them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Version of the JSON form; raised when a field changes its meaning.
    pub schema_version: u32,
    /// Whether recording would work.
    pub would_work: bool,
    /// The subject.
    pub checks: Vec<DoctorCheck>,
}

impl Report {
    /// The conclusion from these checks.
    pub fn new(checks: Vec<DoctorCheck>) -> Report {
        Report { schema_version: 1, would_work: would_work(&checks), checks }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for DoctorCheck { name, verdict, found, remedy } in &self.checks {
            let verdict = match verdict {
                CheckVerdict::Ok => "ok",
                CheckVerdict::Without => "without",
                CheckVerdict::Missing => "MISSING",
                CheckVerdict::Info => "",
            };
            writeln!(f, "{verdict:<8} {name:<26} {found}")?;
            if !remedy.is_empty() {
                writeln!(f, "{:<8} -> {remedy}", "")?;
            }
        }
        let lacking = |verdict| self.checks.iter().filter(|check| check.verdict == verdict).count();
        match (lacking(CheckVerdict::Missing), lacking(CheckVerdict::Without)) {
            (0, 0) => writeln!(f, "\nframewright record works here, with everything that it can tell."),
            (0, _) => writeln!(f, "\nframewright record works here; what it cannot tell is said above."),
            _ => {
                writeln!(f, "\nframewright record does not work here: mend what is MISSING, beginning with the first.")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        let table = [("0", Some(1)), ("0-111", Some(112)), ("0-3,8,10-11", Some(7)), ("", None), ("3-1", None)];
        for (list, count) in table {
            assert_eq!(counted(list), count, "{list}");
        }
    }
}
