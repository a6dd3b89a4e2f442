//! The shape of this machine: sockets, nodes, cores, threads and caches, as Linux shows them in `/sys`.
//!
//! A file of a machine describes equal parts: each socket has as many nodes, each node as many cores, each core as many
//! threads. A machine that is not like that is refused. Reading takes a folder, so that tests read trees of other
//! machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Serialize;
use thiserror::Error;

/// Where Linux describes the machine.
pub const SYSFS: &str = "/sys/devices/system";

/// Most CPUs that a list in a file may name.
const MOST_CPUS: usize = 1 << 13;

/// Why a machine cannot be measured.
#[derive(Clone, PartialEq, Eq, Error, Debug)]
pub enum HostError {
    /// A file that describes the machine is missing or cannot be read.
    #[error("cannot read {path}: {what}; the machine's shape is read from /sys, which Linux has")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's reason.
        what: String,
    },
    /// A file says something else than it should.
    #[error("{path} says {text:?}, which is no {wanted}")]
    Malformed {
        /// The file.
        path: String,
        /// Its text.
        text: String,
        /// What it should say.
        wanted: &'static str,
    },
    /// The parts of the machine are not equal.
    #[error("{part} differ in their numbers of {of}: {counts}; a machine's file has equal parts")]
    Uneven {
        /// The parts.
        part: &'static str,
        /// What they have.
        of: &'static str,
        /// How many each has.
        counts: String,
    },
    /// A cache that every machine of the simulator has is not shown.
    #[error("{path} shows no cache of level {level}")]
    NoCache {
        /// The folder of caches.
        path: String,
        /// The level.
        level: u32,
    },
    /// A thread cannot be kept on a CPU.
    #[error("cannot keep a thread on CPU {cpu}: {what}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// The system's reason.
        what: String,
    },
    /// Memory for a measurement cannot be had.
    #[error("cannot map {mib} MiB: {what}")]
    Memory {
        /// Size of the memory.
        mib: usize,
        /// The system's reason.
        what: String,
    },
}

/// A CPU and the parts that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct HostCpu {
    /// Its number.
    pub cpu: usize,
    /// Its socket.
    pub socket: usize,
    /// Its memory node.
    pub node: usize,
    /// Its core, unique in the socket.
    pub core: usize,
}

/// Bytes of the caches, and how many last-level caches a node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Caches {
    /// First level, data.
    pub l1: usize,
    /// Second level.
    pub l2: usize,
    /// One cache of the last level; that of the second where there is no third.
    pub llc: usize,
    /// Last-level caches of a node.
    pub llc_of_node: usize,
}

/// A machine's shape.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Host {
    /// All CPUs that are online, by number.
    pub cpus: Vec<HostCpu>,
    /// Sockets.
    pub sockets: usize,
    /// Memory nodes of a socket.
    pub nodes: usize,
    /// Cores of a socket.
    pub cores: usize,
    /// Threads of a core.
    pub threads: usize,
    /// The caches of the first CPU.
    pub caches: Caches,
}

impl Host {
    /// Reads the machine that a folder describes, as [`SYSFS`] does this one.
    ///
    /// # Errors
    /// A file is missing or malformed, or the parts of the machine are not equal.
    pub fn read(sysfs: &Path) -> Result<Host, HostError> {
        let online = cpu_list(&sysfs.join("cpu/online"))?;
        let nodes = nodes(sysfs)?;
        let mut cpus = Vec::new();
        for cpu in online {
            let topology = sysfs.join(format!("cpu/cpu{cpu}/topology"));
            let [socket, core] = ["physical_package_id", "core_id"].map(|name| number(&topology.join(name)));
            let node = nodes.get(&cpu).copied().unwrap_or(0);
            cpus.push(HostCpu { cpu, socket: socket?, node, core: core? });
        }
        let sockets = cpus.iter().map(|cpu| cpu.socket).collect::<BTreeSet<_>>().len();
        let nodes = equal("sockets", "nodes", cpus.iter().map(|cpu| (cpu.socket, cpu.node)))?;
        let cores = equal("sockets", "cores", cpus.iter().map(|cpu| (cpu.socket, cpu.core)))?;
        let threads = equal("cores", "threads", cpus.iter().map(|cpu| ((cpu.socket, cpu.core), cpu.cpu)))?;
        equal("nodes", "cores", cpus.iter().map(|cpu| (cpu.node, (cpu.socket, cpu.core))))?;
        let caches = caches(sysfs, &cpus)?;
        Ok(Host { cpus, sockets, nodes, cores, threads, caches })
    }
}

/// Returns how many different members each part has, which must be as many for all parts.
fn equal<P: Ord, M: Ord>(
    part: &'static str,
    of: &'static str,
    pairs: impl Iterator<Item = (P, M)>,
) -> Result<usize, HostError> {
    let mut members: BTreeMap<P, BTreeSet<M>> = BTreeMap::new();
    for (part, member) in pairs {
        members.entry(part).or_default().insert(member);
    }
    let counts: BTreeSet<usize> = members.values().map(BTreeSet::len).collect();
    match counts.first() {
        Some(&count) if counts.len() == 1 => Ok(count),
        _ => {
            let counts = members.values().map(|members| members.len().to_string()).collect::<Vec<_>>().join(", ");
            Err(HostError::Uneven { part, of, counts })
        }
    }
}

/// Returns the node of each CPU; none where the kernel shows no nodes.
fn nodes(sysfs: &Path) -> Result<BTreeMap<usize, usize>, HostError> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(sysfs.join("node")) else { return Ok(found) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(node) = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok()) else { continue };
        found.extend(cpu_list(&entry.path().join("cpulist"))?.into_iter().map(|cpu| (cpu, node)));
    }
    Ok(found)
}

/// Returns the caches of the first CPU that hold data.
fn caches(sysfs: &Path, cpus: &[HostCpu]) -> Result<Caches, HostError> {
    let first = cpus.first().map_or(0, |cpu| cpu.cpu);
    let folder = sysfs.join(format!("cpu/cpu{first}/cache"));
    let mut levels: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for index in 0.. {
        let cache = folder.join(format!("index{index}"));
        if !cache.is_dir() {
            break;
        }
        if text(&cache.join("type"))? != "Instruction" {
            let shared = cpu_list(&cache.join("shared_cpu_list"))?.len().max(1);
            levels.insert(number(&cache.join("level"))?, (size(&cache.join("size"))?, shared));
        }
    }
    let missing = |level| HostError::NoCache { path: folder.display().to_string(), level };
    let (l1, _) = *levels.get(&1).ok_or_else(|| missing(1))?;
    let (l2, shared) = *levels.get(&2).ok_or_else(|| missing(2))?;
    let (llc, shared) = levels.get(&3).copied().unwrap_or((l2, shared));
    let node = cpus.first().map_or(0, |cpu| cpu.node);
    let of_node = cpus.iter().filter(|cpu| cpu.node == node).count();
    Ok(Caches { l1, l2, llc, llc_of_node: of_node.div_ceil(shared).max(1) })
}

fn text(path: &Path) -> Result<String, HostError> {
    let unreadable = |what: String| HostError::Unreadable { path: path.display().to_string(), what };
    Ok(fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?.trim().to_owned())
}

/// Returns the error of a file that does not say what it should.
fn malformed(path: &Path, text: &str, wanted: &'static str) -> HostError {
    let text = text.chars().take(60).collect();
    HostError::Malformed { path: path.display().to_string(), text, wanted }
}

fn number(path: &Path) -> Result<usize, HostError> {
    let text = text(path)?;
    // A part that has no number, as of some virtual machines, is -1.
    if text == "-1" { Ok(0) } else { text.parse().map_err(|_| malformed(path, &text, "number")) }
}

/// Returns the bytes of a size such as `512K`.
fn size(path: &Path) -> Result<usize, HostError> {
    let text = text(path)?;
    let (digits, shift) = match text.strip_suffix('K') {
        Some(digits) => (digits, 10),
        None => text.strip_suffix('M').map_or((text.as_str(), 0), |digits| (digits, 20)),
    };
    let bytes = digits.parse().ok().filter(|count| (1..1 << 32).contains(count)).map(|count: usize| count << shift);
    bytes.ok_or_else(|| malformed(path, &text, "size of a cache"))
}

/// Returns the CPUs of a list such as `0-3,8`.
fn cpu_list(path: &Path) -> Result<Vec<usize>, HostError> {
    let text = text(path)?;
    parse_cpus(&text).ok_or_else(|| malformed(path, &text, "list of CPUs"))
}

fn parse_cpus(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        let cases: [(&str, Option<&[usize]>); 8] = [
            ("0-3,8", Some(&[0, 1, 2, 3, 8])),
            ("5", Some(&[5])),
            ("", Some(&[])),
            ("3-1", None),
            ("0-99999999", None),
            ("a", None),
            ("1-", None),
            ("-1", None),
        ];
        for (text, cpus) in cases {
            assert_eq!(parse_cpus(text).as_deref(), cpus, "{text:?}");
        }
    }
}
