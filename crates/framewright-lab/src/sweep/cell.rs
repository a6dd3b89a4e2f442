//! One run of a sweep: all that its result depends on, as data.
//!
//! A cell names nothing that could mean something else on another host. It has a machine and a list of operations with
//! a digest of their content, mechanisms with all switches, and lengths in picoseconds. Its hash is the digest of the
//! line
//!
//! ```text
//! framewright-sweep-cell/1 VERSION {"machine":…,"model":…,…,"window_ps":…}
//! ```
//!
//! where the version is that of the simulator's and the allocator's sources (`framewright_sim::VERSION`) and the rest
//! is the cell's JSON as plans and results have it. Any change of either gives another hash.

use anyhow::{Context, anyhow, bail};
use framewright::Mechanisms;
use framewright::watermark::PcpSize;
use framewright_sim::workload::{Job, Workload};
use framewright_table::figures::counted;
use serde::{Deserialize, Serialize};

use super::digest::Digest;
use crate::mechanisms;

/// Version of a cell's form, and of what its hash is made from.
const SCHEMA: &str = "framewright-sweep-cell/1";

/// One run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Name of the machine.
    pub machine: String,
    /// Digest of its file, as the program writes it.
    pub model: Digest,
    /// The workload with its options.
    pub workload: String,
    /// Of a workload that is a list of operations, the digest of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Digest>,
    /// Short name of the mechanisms.
    pub mechanisms: String,
    /// All their switches.
    pub switches: String,
    /// CPUs that take part.
    pub cpus: usize,
    /// Seed of all that is random.
    pub seed: u64,
    /// How the next CPU is chosen: `time`, or `random:` and in how many accesses one switches.
    pub schedule: String,
    /// Virtual time before the measured window, in picoseconds.
    pub warm_up_ps: u64,
    /// The measured window, in picoseconds; 0 for the workload's usual number of rounds, after one to warm up.
    pub window_ps: u64,
    /// Size of each CPU's lists, where a run chose its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lists: Option<ListSize>,
    /// Frames of each node, where a run chose them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_frames: Option<u64>,
}

/// Size of a CPU's lists, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ListSize {
    /// Frames that one refill or drain moves.
    pub batch: u32,
    /// Frames on the lists at which a batch is freed.
    pub high: u32,
}

impl Cell {
    /// Of a run on a machine, by name and content. Settings that [`Job::new`] chooses and that a cell has no field for
    /// must be as it chose them.
    pub fn of(machine: &str, model: &Digest, job: &Job) -> Cell {
        let list = match &job.workload {
            Workload::Ops(ops) => Some(Digest::of(&ops.text())),
            _ => None,
        };
        let usual = Job::new(job.workload.clone(), job.mechanisms, job.cpus);
        let lists = job.lists.filter(|_| job.lists != usual.lists);
        Cell {
            machine: machine.to_owned(),
            model: model.clone(),
            workload: job.workload.to_string(),
            list,
            mechanisms: mechanisms::label(&job.mechanisms),
            switches: job.mechanisms.to_string(),
            cpus: job.cpus,
            seed: job.seed,
            schedule: job.schedule.spelled(),
            warm_up_ps: job.warm_up,
            window_ps: job.window,
            lists: lists.map(|PcpSize { batch, high }| ListSize { batch, high }),
            memory_frames: job.memory,
        }
    }

    /// By what it is known, run by a program of this version.
    ///
    /// # Errors
    /// None that a cell could cause.
    pub fn hash(&self, version: &str) -> anyhow::Result<Digest> {
        Ok(Digest::of(&format!("{SCHEMA} {version} {}", serde_json::to_string(self)?)))
    }

    /// The run, of a workload that was read from the cell's text or from its list.
    ///
    /// # Errors
    /// The first statement of the cell that this version would not write.
    pub fn job(&self, workload: Workload) -> anyhow::Result<Job> {
        let switches = Mechanisms::parse(&self.switches);
        let mechanisms = switches.map_err(|(part, _)| anyhow!("{part:?} is no switch of this version"))?;
        if let Some(reason) = mechanisms.conflict() {
            bail!("the switches are in conflict: {reason}");
        }
        let schedule = self.schedule.parse().with_context(|| format!("schedule {:?}", self.schedule))?;
        let (seed, warm_up, window) = (self.seed, self.warm_up_ps, self.window_ps);
        let usual = Job::new(workload, mechanisms, self.cpus);
        let lists = self.lists.map(|ListSize { batch, high }| PcpSize { batch, high });
        if lists.is_some_and(|lists| lists != lists.clamped()) {
            bail!("no lists have this size: {:?}", self.lists);
        }
        let (lists, memory) = (lists.or(usual.lists), self.memory_frames.or(usual.memory));
        Ok(Job { seed, schedule, warm_up, window, lists, memory, ..usual })
    }

    /// In a few words, for people.
    pub fn described(&self) -> String {
        let Cell { machine, workload, mechanisms, cpus, seed, .. } = self;
        let cpus = counted(*cpus, "CPU");
        let lists = self.lists.map(|ListSize { batch, high }| format!(", lists {batch}:{high}")).unwrap_or_default();
        let memory = self.memory_frames.map(|frames| format!(", {frames} frames a node")).unwrap_or_default();
        format!("{workload} on {machine}, {cpus}, {mechanisms}, seed {seed}{lists}{memory}")
    }
}
