//! Which runs of a workload on a simulated machine are meant: the arguments that `framewright sim`, `framewright proc`
//! and `framewright sweep` share.

use anyhow::{anyhow, bail};
use clap::Args;
use framewright::Mechanisms;
use framewright::watermark::PcpSize;
use framewright_sim::machine::{self, Spec};
use framewright_sim::run::Schedule;
use framewright_sim::workload::{Job, SpecError, Workload};

use super::output::quoted;
use framewright_lab::mechanisms;

/// The length and the order of a run on the simulated machine's clocks, and the memory that it is set up over.
#[derive(Clone, Args)]
pub(super) struct JobArgs {
    /// Virtual time that is measured [default: the workload's].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Virtual time before that [default: the workload's].
    #[arg(long, value_name = "SECONDS", value_parser = warm_up)]
    pub(super) warm_up: Option<f64>,
    /// Which CPU runs next: `time`, the one with the least clock; `random` or random:N, by lot, switching in one of N
    /// accesses.
    #[arg(long, value_name = "WHICH", default_value = "time")]
    schedule: Schedule,
    /// Size of each CPU's lists in frames: `batch`, and `high`, six times as much if left out [default: 63:378, or
    /// what the allocator computes for a kernel with a depot].
    #[arg(long, value_name = "BATCH[:HIGH]", value_parser = lists)]
    lists: Option<PcpSize>,
    /// Memory of each node, as 512MiB or 8GiB [default: a quarter more than the workload needs].
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,
}

impl JobArgs {
    /// Whether anything but the schedule was given.
    fn are_meant(&self) -> bool {
        let JobArgs { seconds, warm_up, lists, memory, schedule: _ } = self;
        [seconds.is_some(), warm_up.is_some(), lists.is_some(), memory.is_some()].contains(&true)
    }

    fn brings_memory(&self) -> bool {
        self.lists.is_some() || self.memory.is_some()
    }

    /// Returns the options that give the same again; of the default, none.
    pub(super) fn words(&self) -> Vec<String> {
        let options = [("--seconds", self.seconds), ("--warm-up", self.warm_up)];
        let lengths = options.into_iter().filter_map(|(option, length)| Some(format!("{option} {}", length?)));
        let schedule = (self.schedule != Schedule::Time).then(|| format!("--schedule {}", self.schedule.spelled()));
        let lists = self.lists.map(|PcpSize { batch, high }| format!("--lists {batch}:{high}"));
        let memory = self.memory.map(|frames| format!("--memory {}MiB", frames >> MIB_FRAMES));
        lengths.chain(schedule).chain(lists).chain(memory).collect()
    }
}

/// Machine, workload, and what is varied.
#[derive(Args)]
pub(super) struct RunArgs {
    /// Machine: a name, generic:SOCKETSxCORESxTHREADS, or a TOML file of your own [default: skylake-2x28; of mlc, all].
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(super) machine: Option<String>,
    /// What the CPUs do, as `page-fault1` or `page-fault1:lru=smp`; or mlc, which checks the machine's latencies
    /// [default: page-fault1].
    #[arg(long, value_name = "NAME[:OPTIONS]")]
    pub(super) workload: Option<String>,
    /// Preset and switches, as `baseline,fallback=claim-steal`, or a TOML file; sim takes several [default: default].
    #[arg(long, short, value_name = "LIST|FILE.toml")]
    pub(super) mechanisms: Vec<String>,
    /// Number of CPUs; sim takes several, separated by commas [default: all of the machine].
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u16).range(1..=machine::MOST_CPUS as i64))]
    pub(super) cpus: Vec<u16>,
    /// Seed of all that is random.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) job: JobArgs,
}

/// The default machine.
pub(super) const MACHINE: &str = "skylake-2x28";
/// The default workload.
const WORKLOAD: &str = "page-fault1";

impl RunArgs {
    fn machine_name(&self) -> &str {
        self.machine.as_deref().unwrap_or(MACHINE)
    }

    /// The workload as it was written.
    pub(super) fn workload_name(&self) -> &str {
        self.workload.as_deref().unwrap_or(WORKLOAD)
    }

    /// Whether anything was said of a run.
    pub(super) fn are_meant(&self) -> bool {
        let RunArgs { machine, workload, mechanisms, cpus, job, seed: _ } = self;
        let said = [machine.is_some(), workload.is_some(), job.are_meant()];
        said.contains(&true) || !mechanisms.is_empty() || !cpus.is_empty()
    }

    pub(super) fn machine(&self) -> anyhow::Result<Spec> {
        Ok(machine::load(self.machine_name())?)
    }

    /// The workload; `page_fault1`, as will-it-scale writes it, is `page-fault1`. `more` are names that the command has
    /// besides.
    pub(super) fn workload(&self, more: &[&str]) -> anyhow::Result<Workload> {
        let text = self.workload_name();
        let (name, options) = text.split_at(text.find(':').unwrap_or(text.len()));
        let workload = (name.replace('_', "-") + options).parse().map_err(|error| match error {
            SpecError::Name { names, .. } => {
                anyhow!("{name}: there is no such workload; there are {}", [&names, more].concat().join(", "))
            }
            error => error.into(),
        })?;
        if matches!(workload, Workload::Ops(_)) && self.job.brings_memory() {
            bail!("a list of operations has memory and lists of its own; leave out --memory and --lists");
        }
        Ok(workload)
    }

    /// One run.
    pub(super) fn job(&self, workload: &Workload, mechanisms: Mechanisms, cpus: usize) -> Job {
        let usual = Job::new(workload.clone(), mechanisms, cpus);
        Job {
            seed: self.seed,
            schedule: self.job.schedule,
            window: self.job.seconds.map_or(usual.window, picoseconds),
            warm_up: self.job.warm_up.map_or(usual.warm_up, picoseconds),
            lists: self.job.lists.or(usual.lists),
            memory: self.job.memory.or(usual.memory),
            ..usual
        }
    }

    /// The command that repeats these runs, whatever the defaults are.
    pub(super) fn command(&self, sets: &[Mechanisms], cpus: &[usize]) -> String {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let mut words = vec!["framewright sim --machine".to_owned(), quoted(self.machine_name())];
        words.extend(["--workload".to_owned(), quoted(self.workload_name())]);
        for set in sets {
            words.extend(["--mechanisms".to_owned(), mechanisms::label(set)]);
        }
        words.push(format!("--cpus {} --seed {}", cpus.join(","), self.seed));
        words.extend(self.job.words());
        words.join(" ")
    }

    pub(super) fn mechanisms(&self) -> anyhow::Result<Vec<Mechanisms>> {
        if self.mechanisms.is_empty() {
            return Ok(vec![Mechanisms::DEFAULT]);
        }
        let mut sets: Vec<Mechanisms> = Vec::new();
        for text in &self.mechanisms {
            let set = mechanisms::parse(text)?;
            if sets.contains(&set) {
                bail!("{text}: these mechanisms are named twice; leave one out");
            }
            sets.push(set);
        }
        Ok(sets)
    }

    pub(super) fn cpus(&self, machine: &Spec) -> anyhow::Result<Vec<usize>> {
        let has = machine.model().topology.cpus();
        let mut cpus: Vec<usize> = self.cpus.iter().map(|&cpus| usize::from(cpus)).collect();
        if cpus.is_empty() {
            cpus.push(has);
        }
        cpus.sort_unstable();
        cpus.dedup();
        match cpus.last() {
            Some(most) if *most > has => {
                bail!("{most} CPUs are too many: machine {} has {has}; sim --list names others", machine.name)
            }
            _ => Ok(cpus),
        }
    }
}

fn picoseconds(seconds: f64) -> u64 {
    (seconds * 1e12).round() as u64
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (1e-9..=3600.0).contains(&seconds) => Ok(seconds),
        Ok(_) => Err("has to be a nanosecond at least and an hour at most".to_owned()),
        Err(_) => Err("is no number of seconds".to_owned()),
    }
}

/// Binary logarithm of the frames of a mebibyte.
const MIB_FRAMES: u32 = 8;
/// Largest memory of a node, in mebibytes: 1 TiB, which 64 nodes can have.
const MOST_MIB: u64 = 1 << 20;

/// Reads the size of a CPU's lists.
fn lists(text: &str) -> Result<PcpSize, String> {
    let (batch, high) = text.split_once(':').map_or((text, None), |(batch, high)| (batch, Some(high)));
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let size = number(batch).and_then(|batch| {
        let high = high.map_or(batch.checked_mul(6), number)?;
        Some(PcpSize { batch, high })
    });
    match size {
        Some(size) if size == size.clamped() && size.batch <= size.high => Ok(size),
        Some(_) => Err("a batch has 1 to 4096 frames, and a high as many or more, up to 16777216".to_owned()),
        None => Err("is no size of lists, as 63 or 31:186".to_owned()),
    }
}

/// Reads the memory of a node, in frames of 4 KiB.
fn memory(text: &str) -> Result<u64, String> {
    let units = [("GiB", 1 << 10), ("MiB", 1)];
    let read = |(unit, mebibytes): (&str, u64)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(mebibytes);
    match units.into_iter().find_map(read) {
        Some(mebibytes @ 4..=MOST_MIB) => Ok(mebibytes << MIB_FRAMES),
        Some(_) => Err("a node has 4 MiB of memory at least and 1024 GiB at most".to_owned()),
        None => Err("is no size of memory, as 512MiB or 8GiB".to_owned()),
    }
}

fn warm_up(text: &str) -> Result<f64, String> {
    if text == "0" { Ok(0.0) } else { seconds(text) }
}
