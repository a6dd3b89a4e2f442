//! Measures everything that a machine's file can say of this host, in one go.

use std::fs;
use std::time::Duration;

use super::host::{Host, HostCpu, HostError};
use super::reading::{Missing, Reading, Readings};
use super::sizes::Sizes;
use super::transfers::Pair;
use super::{costs, latencies, streams, transfers};
use crate::crew::allowed_cpus;
use crate::machine::{available_bytes, tsc_ghz};
use crate::stats::{mean, median, range};

/// Rounds of a measurement, and of a quick one.
pub const ROUNDS: (usize, usize) = (15, 3);

/// Partners that a transfer within a node is measured with, at most: some are nearer than others.
const PARTNERS: usize = 8;

/// CPUs that fight for a lock, or wait for one line, at most.
const CROWD: usize = 16;

/// Nanoseconds between 32 lines of the CPUs that load the memory, from the least load to the highest.
const DELAYS: [f64; 6] = [20_000.0, 6_000.0, 2_500.0, 1_000.0, 300.0, 0.0];

/// Measures this host in all that its CPUs allow.
///
/// # Errors
/// A thread cannot be kept on its CPU, or memory cannot be had.
pub fn check<'h>(host: &'h Host, is_quick: bool, progress: &mut dyn FnMut(&str, f64)) -> Result<Readings, HostError> {
    let allowed = allowed_cpus();
    let cpus: Vec<HostCpu> = host.cpus.iter().filter(|cpu| allowed.contains(&cpu.cpu)).copied().collect();
    let Some(&first) = cpus.first() else {
        return Err(HostError::Pin { cpu: 0, what: "this process may run on no CPU that is online".to_owned() });
    };
    let sizes = Sizes::of(host.caches, available_bytes() as usize, cpus.len(), is_quick);
    let rounds = if is_quick { ROUNDS.1 } else { ROUNDS.0 };
    let mut checker = Checker { host, cpus, first, sizes, rounds, is_quick, found: Readings::default() };
    let stages: [Stage<'h>; 6] = [
        ("instructions", Checker::instructions),
        ("caches and memory", Checker::levels),
        ("transfers", Checker::transfers),
        ("bandwidth", Checker::bandwidth),
        ("loaded latency", Checker::loaded),
        ("locks", Checker::crowds),
    ];
    checker.circumstances();
    for (number, (what, stage)) in stages.iter().enumerate() {
        progress(what, number as f64 / stages.len() as f64);
        stage(&mut checker)?;
    }
    Ok(checker.found)
}

/// A part of the work, and its name.
type Stage<'h> = (&'static str, fn(&mut Checker<'h>) -> Result<(), HostError>);

/// A host, and what was found so far.
struct Checker<'h> {
    host: &'h Host,
    /// The CPUs that this process may run on.
    cpus: Vec<HostCpu>,
    first: HostCpu,
    sizes: Sizes,
    rounds: usize,
    is_quick: bool,
    found: Readings,
}

impl Checker<'_> {
    fn add(&mut self, path: &str, what: &str, unit: &'static str, rounds: &[f64]) {
        if let (Some(value), Some((low, high))) = (median(rounds), range(rounds)) {
            let (path, what) = (path.to_owned(), what.to_owned());
            self.found.rows.push(Reading { path, what, unit, value, low, high, rounds: rounds.len() });
        }
    }

    fn lacks(&mut self, what: &str, why: &str) {
        self.found.missing.push(Missing { what: what.to_owned(), why: why.to_owned() });
    }

    /// Returns a CPU of each core for which a condition holds, without the first CPU's core.
    fn others(&self, is: impl Fn(&HostCpu) -> bool) -> Vec<usize> {
        let mut cores = vec![(self.first.socket, self.first.core)];
        let mut found = Vec::new();
        for cpu in self.cpus.iter().filter(|cpu| is(cpu)) {
            if !cores.contains(&(cpu.socket, cpu.core)) {
                cores.push((cpu.socket, cpu.core));
                found.push(cpu.cpu);
            }
        }
        found
    }

    /// Returns CPUs of other cores that are so far away.
    fn at(&self, near: Near) -> Vec<usize> {
        let HostCpu { socket, node, .. } = self.first;
        self.others(|cpu| match near {
            Near::Node => cpu.node == node,
            Near::Die => cpu.socket == socket && cpu.node != node,
            Near::Far => cpu.socket != socket,
        })
    }

    /// Notes what makes numbers less certain.
    fn circumstances(&mut self) {
        let has = |path: &str, word: &str| fs::read_to_string(path).is_ok_and(|text| text.contains(word));
        if has("/proc/cpuinfo", " hypervisor") {
            self.found
                .notes
                .push("This is a virtual machine: its host may move CPUs, and shares caches and memory.".to_owned());
        }
        if has("/sys/kernel/mm/transparent_hugepage/enabled", "[never]") {
            self.found
                .notes
                .push("The kernel gives no pages of 2 MiB: latencies include walks of page tables.".to_owned());
        }
        if self.cpus.len() < self.host.cpus.len() {
            let (allowed, all) = (self.cpus.len(), self.host.cpus.len());
            self.found
                .notes
                .push(format!("This process may run on {allowed} of {all} CPUs; the others were not measured."));
        }
    }

    fn instructions(&mut self) -> Result<(), HostError> {
        let (cpu, rounds) = (self.first.cpu, self.rounds);
        match tsc_ghz() {
            Some(ghz) => self.add("topology.clock", "time-stamp counter against the clock", "ghz", &[ghz]),
            None => self.lacks("clock", "this processor has no time-stamp counter"),
        }
        self.add("costs.rmw", "atomic addition to an owned word", "ns", &costs::rmw(cpu, rounds)?);
        self.add("costs.fence", "full fence", "ns", &costs::full_fence(cpu, rounds)?);
        self.add("costs.pause", "pause of a spinning loop", "ns", &costs::pause(cpu, rounds)?);
        self.add("stores.issue", "store to an owned line", "ns", &costs::store(cpu, rounds)?);
        Ok(())
    }

    fn levels(&mut self) -> Result<(), HostError> {
        let [l1, l2, llc, dram] = latencies::levels(self.first.cpu, self.sizes, self.rounds)?;
        let walk = |bytes: usize| match bytes {
            0..0x10_0000 => format!("walk through {} KiB", bytes >> 10),
            _ => format!("walk through {} MiB", bytes >> 20),
        };
        self.add("latency.l1", &format!("first-level cache: {}", walk(self.sizes.l1)), "ns", &l1);
        self.add("latency.l2", &format!("second-level cache: {}", walk(self.sizes.l2)), "ns", &l2);
        self.add("latency.llc", &format!("last-level cache: {}", walk(self.sizes.llc)), "ns", &llc);
        self.add("latency.dram", &format!("memory, own node: {}", walk(self.sizes.dram)), "ns", &dram);
        for (is, path, what) in [
            (Near::Die, "latency.die_dram", "memory, other node of the socket"),
            (Near::Far, "latency.far_dram", "memory, other socket"),
        ] {
            if let Some(home) = self.at(is).first().copied() {
                let rounds = latencies::memory_of(self.first.cpu, home, self.sizes.dram, self.rounds)?;
                self.add(path, &format!("{what}: {}", walk(self.sizes.dram)), "ns", &rounds);
            }
        }
        Ok(())
    }

    fn transfers(&mut self) -> Result<(), HostError> {
        let HostCpu { cpu: reader, socket, core, .. } = self.first;
        let is_sibling = |cpu: &&HostCpu| (cpu.socket, cpu.core) == (socket, core) && cpu.cpu != reader;
        if let Some(owner) = self.cpus.iter().find(is_sibling).map(|cpu| cpu.cpu) {
            let rounds = transfers::modified(Pair { reader, owner, home: reader }, self.rounds)?;
            self.add("", "modified line of the same core's other thread", "ns", &rounds);
        }
        self.between(Near::Node, ["latency.hit", "latency.hitm", ""], "another core of the node")?;
        let die = ["latency.die_hit", "latency.die_hitm_home_there", "latency.die_hitm_home_here"];
        self.between(Near::Die, die, "another node of the socket")?;
        let far = ["latency.far_hit", "latency.far_hitm_home_there", "latency.far_hitm_home_here"];
        self.between(Near::Far, far, "another socket")?;
        if self.cpus.len() == 1 {
            self.lacks("transfers of lines, wake-ups, locks", "this process may run on one CPU only");
        } else if self.at(Near::Node).is_empty() {
            self.lacks("transfers within a node", "this process may run on one core of the node only");
        }
        match (self.host.sockets, self.at(Near::Far).is_empty()) {
            (1, _) => {
                self.lacks("transfers and memory between sockets", "there is one socket, and the file needs none")
            }
            (_, true) => self.lacks("transfers and memory between sockets", "this process may run on one socket only"),
            _ => {}
        }
        Ok(())
    }

    /// Measures clean and modified lines of CPUs that are so far away.
    ///
    /// The last path is of lines whose home is the reader's node.
    fn between(&mut self, near: Near, [clean, modified, here]: [&str; 3], whose: &str) -> Result<(), HostError> {
        let all = self.at(near);
        let most = if self.is_quick || near != Near::Node { 2 } else { PARTNERS };
        let partners: Vec<usize> = all.iter().step_by(all.len().div_ceil(most).max(1)).copied().collect();
        let reader = self.first.cpu;
        let evicted = ((2 * self.host.caches.llc).min(self.sizes.dram), 4 * self.host.caches.l2);
        let (mut of_clean, mut of_there, mut of_here) = (Vec::new(), Vec::new(), Vec::new());
        for owner in partners {
            of_clean.push(transfers::clean(Pair { reader, owner, home: owner }, self.rounds, evicted)?);
            of_there.push(transfers::modified(Pair { reader, owner, home: owner }, self.rounds)?);
            if !here.is_empty() {
                of_here.push(transfers::modified(Pair { reader, owner, home: reader }, self.rounds)?);
            }
        }
        let mean_of = |partners: &[Vec<f64>]| -> Vec<f64> {
            let of_round =
                |round| partners.iter().filter_map(|rounds| rounds.get(round).copied()).collect::<Vec<f64>>();
            (0..self.rounds).filter_map(|round| mean(&of_round(round))).collect()
        };
        let rows = [mean_of(&of_clean), mean_of(&of_there), mean_of(&of_here)];
        self.add(clean, &format!("clean line of {whose}"), "ns", &rows[0]);
        let home = if here.is_empty() { "" } else { ", home at the writer" };
        self.add(modified, &format!("modified line of {whose}{home}"), "ns", &rows[1]);
        self.add(here, &format!("modified line of {whose}, home at the reader"), "ns", &rows[2]);
        Ok(())
    }

    fn bandwidth(&mut self) -> Result<(), HostError> {
        let (first, bytes) = (self.first.cpu, self.sizes.stream);
        let alone = streams::zeroing(&[first], bytes, self.rounds)?;
        self.add("memory.zero_line_alone", "zeroing a line, one core", "ns", &alone);
        let cores: Vec<usize> = [vec![first], self.at(Near::Node)].concat();
        let together = streams::zeroing(&cores, bytes, self.rounds)?;
        self.add("memory.zero_line", &format!("zeroing a line, {} cores of a node", cores.len()), "ns", &together);
        let time = Duration::from_millis(if self.is_quick { 50 } else { 200 });
        let all: Vec<usize> = self.cpus.iter().map(|cpu| cpu.cpu).collect();
        let rates = streams::reading(&all, bytes, time, self.rounds)?;
        self.add("mlc.peak", &format!("reads, {} CPUs", all.len()), "gb_per_s", &rates);
        let mut nodes: Vec<usize> = self.cpus.iter().map(|cpu| cpu.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let line: Vec<f64> = rates.iter().map(|rate| 64.0 * nodes.len() as f64 / rate).collect();
        self.add("memory.read_line", "reading a line, all CPUs of a node", "ns", &line);
        Ok(())
    }

    fn loaded(&mut self) -> Result<(), HostError> {
        let others = self.at(Near::Node);
        if others.is_empty() {
            self.lacks("latency under load", "there is no other core to make the load");
            return Ok(());
        }
        let cpus = [vec![self.first.cpu], others].concat();
        let (bytes, steps) = ((self.sizes.dram, self.sizes.stream), if self.is_quick { 50_000 } else { 400_000 });
        let pause = self.found.value("costs.pause").unwrap_or(1.0).max(0.1);
        for delay in DELAYS {
            let point = streams::loaded(&cpus, bytes, (delay / pause) as u32, steps)?;
            self.found.loaded.push(point);
        }
        self.found.loaded.sort_by(|a, b| a.gb_per_s.total_cmp(&b.gb_per_s));
        Ok(())
    }

    fn crowds(&mut self) -> Result<(), HostError> {
        let mut cores = [vec![self.first.cpu], self.at(Near::Node)].concat();
        cores.truncate(CROWD);
        if cores.len() >= 4 {
            let rounds = transfers::burst(&cores, self.rounds)?;
            self.add(
                "occupancy.read",
                &format!("each further one of {} readers of a line", cores.len() - 1),
                "ns",
                &rounds,
            );
        } else {
            self.lacks("readers of one line in a burst", "fewer than four cores of a node may be used");
        }
        if let [one, other, ..] = cores[..] {
            let what = format!("ticket lock from one of {} cores to the next", cores.len());
            self.add(
                "",
                "ticket lock from one of 2 cores to the next",
                "ns",
                &transfers::handover(&[one, other], self.rounds)?,
            );
            if cores.len() > 2 {
                self.add("", &what, "ns", &transfers::handover(&cores, self.rounds)?);
            }
            self.add(
                "costs.wake",
                "from a wake-up until the woken thread runs",
                "ns",
                &transfers::wake([one, other], self.rounds)?,
            );
        }
        Ok(())
    }
}

/// How far a CPU is from the first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Near {
    /// On its node.
    Node,
    /// On another node of its socket.
    Die,
    /// On another socket.
    Far,
}
