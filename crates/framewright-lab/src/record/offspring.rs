//! The processes that a command has started and that are still its descendants.
//!
//! A shell that is asked to end leaves its pipeline running, and the pipeline would go on after the time is over. A
//! process group of its own for the command would name all of them at once, but it would take the terminal's keys away
//! from it. So they are looked up in `/proc` before any of them is asked to end: the children of a process that has
//! ended get another parent. A process is known by its number and its start time, because numbers are used again. A
//! process that made itself a daemon is no descendant any more, and is left alone.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Process {
    pid: i32,
    parent: i32,
    /// In ticks since the machine was started.
    started: u64,
    is_running: bool,
}

impl Process {
    /// Of the text of `/proc/PID/stat`; a name may contain any character, so the fields are read after its last
    /// parenthesis.
    fn parse(stat: &str) -> Option<Process> {
        let (head, tail) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        Some(Process {
            pid: head.split_whitespace().next()?.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            is_running: !matches!(*fields.first()?, "Z" | "X"),
        })
    }

    fn of(pid: &str) -> Option<Process> {
        Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it has not ended.
    pub(super) fn is_running(&self) -> bool {
        Process::of(&self.pid.to_string()).is_some_and(|now| now.started == self.started && now.is_running)
    }

    /// Sends it a signal, if it has not ended.
    pub(super) fn send(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_running()) {
            // It may have ended this instant.
            let _ = kill_process(pid, signal);
        }
    }
}

/// All that are below a process, its children first.
pub(super) fn below(pid: u32) -> Vec<Process> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let all: Vec<Process> = names.filter_map(|name| Process::of(name.to_str()?)).collect();
    descend(i32::try_from(pid).unwrap_or(0), &all)
}

fn descend(pid: i32, all: &[Process]) -> Vec<Process> {
    let mut found: Vec<Process> = all.iter().filter(|process| process.parent == pid).copied().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        // One look at many processes is no moment: a number used again meanwhile could make a circle.
        let is_new = |child: &&Process| child.parent == parent.pid && !found.contains(child);
        let children: Vec<Process> = all.iter().filter(is_new).copied().collect();
        found.extend(children);
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_anything_in_it() {
        let tail = "S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 6 7";
        let process = Process::parse(&format!("42 (a) R 1 (b c) {tail}")).unwrap();
        assert_eq!(process, Process { pid: 42, parent: 7, started: 12_345, is_running: true });
        assert!(!Process::parse(&format!("42 (a) {}", tail.replace('S', "Z"))).unwrap().is_running);
        for text in ["", "42 (a", "x (a) S 7", "42 (a) S 7 1"] {
            assert_eq!(Process::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn all_below_are_found_once() {
        let process = |pid, parent| Process { pid, parent, started: 1, is_running: true };
        let all = [process(2, 1), process(3, 1), process(4, 3), process(5, 9), process(6, 4), process(1, 6)];
        let pids = |pid| descend(pid, &all).iter().map(|process| process.pid).collect::<Vec<_>>();
        assert_eq!(pids(3), [4, 6, 1, 2, 3]);
        assert_eq!((pids(9), pids(5)), (vec![5], vec![]));
    }
}
